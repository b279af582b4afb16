#include "runtime/program/Inputs.h"
#include "runtime/launch/Fail.h"

#include <algorithm>

namespace echelon::runtime {

std::vector<InputShape> inputShapes(const Program &program) {
  std::vector<InputShape> shapes(program.inputs.size());
  for (const Input &input : program.inputs) {
    InputShape shape = {input.name, {}, input.type, input.below};
    for (size_t i = 0; i < input.axes.size(); ++i)
      if (input.axes[i] != program.batchAxis)
        shape.dims.push_back(input.sizes[i]);
    shapes.at(size_t(input.output)) = shape;
  }
  return shapes;
}

InputLoader::InputLoader(Rank &r) : rank(r) {
  const Program &program = r.program();
  for (const Input &input : program.inputs) {
    places.emplace_back();
    for (const InputPlace &wanted : input.places) {
      const Layout &layout = wanted.layout;
      if (!layout.flatCuts.empty() || layout.axes.size() != input.axes.size())
        fail("internal error: input " + input.name + " has a layout that inputs cannot have; please report this");
      const Piece piece = pieceOf(layout, program.mesh, r.coordinates());
      const size_t axes = layout.axes.size();
      Place place = {&wanted, input.output, 0, 1, 0, piece.count, {}};
      // Strides in storage, and in a sample (declared order, batch left out); extents without padding.
      std::vector<int64_t> local(axes, 1), sample(axes, 1), extent(axes);
      for (size_t i = axes; i-- > 0;) {
        if (i + 1 < axes)
          local[i] = local[i + 1] * piece.size[i + 1];
        extent[i] = std::clamp<int64_t>(layout.axes[i].size - piece.offset[i], 0, piece.size[i]);
        for (size_t j = input.axes.size(); j-- > 0 && input.axes[j] != layout.axes[i].name;)
          if (input.axes[j] != program.batchAxis)
            sample[i] *= input.sizes[j];
        if (layout.axes[i].name == program.batchAxis) {
          place.firstSample = piece.offset[i];
          place.samples = extent[i];
          place.batchStride = local[i];
        }
      }
      std::vector<size_t> order; // storage axes but the batch, slowest first
      for (size_t i = 0; i < axes; ++i)
        if (layout.axes[i].name != program.batchAxis)
          order.push_back(i);
      int64_t rows = 1;
      for (size_t k = 0; k + 1 < order.size(); ++k)
        rows *= extent[order[k]];
      if (!order.empty() && extent[order.back()] == 0)
        rows = 0;
      for (int64_t row = 0; row < rows; ++row) {
        SampleRun run = {0, 1, 0, 1, 1};
        if (!order.empty()) {
          const size_t last = order.back();
          run = {0, local[last], piece.offset[last] * sample[last], sample[last], extent[last]};
        }
        int64_t rest = row;
        for (size_t k = order.size() > 1 ? order.size() - 1 : 0; k-- > 0;) {
          const size_t i = order[k];
          const int64_t at = rest % extent[i];
          run.local += at * local[i];
          run.sample += (piece.offset[i] + at) * sample[i];
          rest /= extent[i];
        }
        SampleRun *before = place.runs.empty() ? nullptr : &place.runs.back();
        if (before && run.localStride == 1 && run.sampleStride == 1 && run.local == before->local + before->count &&
            run.sample == before->sample + before->count)
          before->count += run.count;
        else
          place.runs.push_back(run);
      }
      places.back().push_back(place);
    }
  }
}

namespace {

template <class T, class Runs> void scatter(T *to, const double *from, const Runs &runs) {
  for (const auto &run : runs)
    for (int64_t i = 0; i < run.count; ++i)
      to[run.local + i * run.localStride] = T(from[run.sample + i * run.sampleStride]);
}

} // namespace

void readSample(const DataStream &stream, Reading reading, int64_t index, int output, std::vector<double> &values) {
  if (reading == Reading::Plain)
    stream.readPlain(Part::Training, index, output, values);
  else
    stream.read(reading == Reading::Training ? Part::Training : Part::HeldOut, index, output, values);
}

void InputLoader::store(const Place &place, int64_t micro, int64_t sample, const std::vector<double> &from) {
  const int64_t at = micro * place.microStride + (sample - place.firstSample) * place.batchStride;
  const int64_t offset = place.place->offset;
  switch (place.place->type) {
  case ElementType::Float32:
    return scatter(rank.input<float>(offset) + at, from.data(), place.runs);
  case ElementType::Float64:
    return scatter(rank.input<double>(offset) + at, from.data(), place.runs);
  case ElementType::Int32:
    return scatter(rank.input<int32_t>(offset) + at, from.data(), place.runs);
  case ElementType::UInt8:
    return scatter(rank.input<uint8_t>(offset) + at, from.data(), place.runs);
  }
}

void InputLoader::load(const DataStream &stream, Reading reading, int64_t first, int64_t valid) {
  const Program &program = rank.program();
  const int64_t perMicro = program.batch / program.microBatches;
  for (const std::vector<Place> &wanted : places)
    for (int64_t micro = 0; micro < program.microBatches; ++micro)
      for (int64_t sample = 0; sample < perMicro; ++sample) {
        bool have = false; // read once, for all places that hold it
        for (const Place &place : wanted) {
          if (sample < place.firstSample || sample >= place.firstSample + place.samples)
            continue;
          if (!have) {
            const int64_t inBatch = std::min(micro * perMicro + sample, valid - 1);
            readSample(stream, reading, first + inBatch, place.output, values);
            have = true;
          }
          store(place, micro, sample, values);
        }
      }
}

} // namespace echelon::runtime
