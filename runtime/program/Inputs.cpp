#include "runtime/program/Inputs.h"
#include "runtime/launch/Fail.h"

#include <algorithm>
#include <utility>

namespace echelon::runtime {

std::vector<InputShape> inputShapes(const Program &program) {
  std::vector<InputShape> shapes(program.inputs.size());
  for (const Input &input : program.inputs) {
    InputShape shape = {input.name, {}, input.type, input.below};
    for (size_t i = 0; i < input.axes.size(); ++i)
      if (input.axes[i] != program.batchAxis) {
        shape.dims.push_back(input.sizes[i]);
        shape.axes.push_back(input.axes[i]);
      }
    shapes.at(size_t(input.output)) = shape;
  }
  return shapes;
}

namespace {

/// A group of a place's axes that together are a group of the input's: one row of positions under two sets of names.
struct AxisGroup {
  struct Old {
    int64_t size, stride; // in a sample; of the batch axis: 1
    bool batch;
  };
  std::vector<Old> olds; // slowest first
  bool batch = false;    // the batch axis is among them
};

struct PlaceAxis {
  size_t group;
  int64_t stride;                 // in the group's row
  int64_t local;                  // in storage
  std::vector<int64_t> positions; // of what the rank holds, in storage order, without padding
  std::vector<int64_t> places;    // of these in storage
};

/// What the axes of a place mean in the input.
struct PlaceAxes {
  std::vector<AxisGroup> groups;
  std::vector<PlaceAxis> axes; // in storage order

  PlaceAxes(const Program &program, const Input &input, const InputPlace &place, const Piece &piece);

  /// Visits what the rank holds along the axes `chosen`, in storage order: place in storage, sample, place in a sample.
  template <class F> void visit(const std::vector<size_t> &chosen, F f) const {
    int64_t count = 1;
    for (size_t i : chosen)
      count *= int64_t(axes[i].positions.size());
    std::vector<int64_t> row(groups.size());
    for (int64_t n = 0; n < count; ++n) {
      int64_t rest = n, local = 0, sample = 0, inside = 0;
      std::fill(row.begin(), row.end(), 0);
      for (size_t k = chosen.size(); k-- > 0;) {
        const PlaceAxis &axis = axes[chosen[k]];
        const auto extent = int64_t(axis.positions.size());
        const int64_t at = rest % extent;
        rest /= extent;
        local += axis.places[size_t(at)] * axis.local;
        row[axis.group] += axis.positions[size_t(at)] * axis.stride;
      }
      for (size_t g = 0; g < groups.size(); ++g)
        for (size_t o = groups[g].olds.size(); o-- > 0; row[g] /= groups[g].olds[o].size) {
          const AxisGroup::Old &old = groups[g].olds[o];
          (old.batch ? sample : inside) += row[g] % old.size * old.stride;
        }
      f(local, sample, inside);
    }
  }
};

PlaceAxes::PlaceAxes(const Program &program, const Input &input, const InputPlace &place, const Piece &piece) {
  const std::vector<AxisPiece> &pieces = place.layout.axes;
  const size_t count = input.axes.size();
  std::vector<int64_t> strides(count, 1);
  int64_t inside = 1;
  for (size_t i = count; i-- > 0;)
    if (input.axes[i] != program.batchAxis) {
      strides[i] = inside;
      inside *= input.sizes[i];
    }
  std::vector<Renamed> rows = place.renamed;
  auto isRenamed = [&](const std::string &name) {
    return std::any_of(place.renamed.begin(), place.renamed.end(),
                       [&](const Renamed &r) { return std::find(r.from.begin(), r.from.end(), name) != r.from.end(); });
  };
  for (const std::string &name : input.axes)
    if (!isRenamed(name))
      rows.push_back({{name}, {name}});

  std::vector<bool> known(pieces.size());
  axes.resize(pieces.size());
  for (const Renamed &row : rows) {
    AxisGroup group;
    for (const std::string &name : row.from)
      for (size_t i = 0; i < count; ++i)
        if (input.axes[i] == name) {
          const bool batch = name == program.batchAxis;
          group.olds.push_back({input.sizes[i], strides[i], batch});
          group.batch |= batch;
        }
    int64_t stride = 1;
    for (size_t n = row.to.size(); n-- > 0;)
      for (size_t i = 0; i < pieces.size(); ++i)
        if (pieces[i].name == row.to[n]) {
          axes[i] = {groups.size(), stride, 1, {}, {}};
          int64_t begin = 0;
          for (const Interval &run : piece.runs[i]) {
            for (int64_t at = run.begin; at < std::min(run.end, pieces[i].size); ++at) {
              axes[i].positions.push_back(at);
              axes[i].places.push_back(begin + at - run.begin);
            }
            begin += run.end - run.begin;
          }
          stride *= pieces[i].size;
          known[i] = true;
        }
    groups.push_back(group);
  }
  if (!place.layout.flatCuts.empty() || std::find(known.begin(), known.end(), false) != known.end())
    fail("internal error: input " + input.name + " has a layout that inputs cannot have; please report this");
  for (size_t i = pieces.size(); i-- > 1;)
    axes[i - 1].local = axes[i].local * piece.size[i];
}

} // namespace

void InputLoader::Place::add(size_t list, int64_t local, int64_t sample) {
  if (list >= lists.size())
    lists.resize(list + 1);
  if (!lists[list].empty()) {
    SampleRun &run = lists[list].back();
    if (run.count == 1) {
      run.localStride = local - run.local;
      run.sampleStride = sample - run.sample;
    }
    if (local == run.local + run.count * run.localStride && sample == run.sample + run.count * run.sampleStride) {
      ++run.count;
      return;
    }
  }
  lists[list].push_back({local, 1, sample, 1, 1});
}

InputLoader::InputLoader(Rank &r) : rank(r) {
  const Program &program = r.program();
  for (const Input &input : program.inputs) {
    places.emplace_back();
    for (const InputPlace &wanted : input.places) {
      const PlaceAxes axes(program, input, wanted, pieceOf(wanted.layout, program.mesh, r.coordinates()));
      Place place = {&wanted, input.output, std::vector<Place::Held>(size_t(program.miniBatch())), {}};
      // Where the batch's axes are its alone, every sample lies alike; else each has its own list.
      std::vector<size_t> ofSamples, inside;
      for (size_t i = 0; i < axes.axes.size(); ++i) {
        const AxisGroup &group = axes.groups[axes.axes[i].group];
        (group.batch && group.olds.size() == 1 ? ofSamples : inside).push_back(i);
      }
      if (ofSamples.empty()) {
        axes.visit(inside, [&](int64_t local, int64_t sample, int64_t at) {
          place.held[size_t(sample)].list = int64_t(sample);
          place.add(size_t(sample), local, at);
        });
      } else {
        axes.visit(inside, [&](int64_t local, int64_t, int64_t at) { place.add(0, local, at); });
        axes.visit(ofSamples, [&](int64_t local, int64_t sample, int64_t) {
          place.held[size_t(sample)] = {local, place.lists.empty() ? -1 : 0};
        });
      }
      places.back().push_back(std::move(place));
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

void InputLoader::store(const Place &place, int64_t sample, const std::vector<double> &from, std::byte *inputs) {
  const Place::Held &held = place.held[size_t(sample)];
  const std::vector<SampleRun> &runs = place.lists[size_t(held.list)];
  const int64_t offset = place.place->offset;
  visitElement(place.place->type, [&](auto zero) {
    scatter(reinterpret_cast<decltype(zero) *>(inputs + offset) + held.start, from.data(), runs);
  });
}

void InputLoader::load(const DataStream &stream, Reading reading, int64_t first, int64_t valid) {
  const Samples wanted = {&stream, reading, first, valid};
  const std::optional<Samples> had = std::exchange(ahead, std::nullopt);
  if (!had || !(*had == wanted))
    fill(wanted);
}

void InputLoader::loadAhead(const DataStream &stream, Reading reading, int64_t first, int64_t valid) {
  ahead = {&stream, reading, first, valid};
  fill(*ahead);
}

void InputLoader::fill(const Samples &samples) {
  std::byte *inputs = rank.inputsToFill();
  for (const std::vector<Place> &wanted : places)
    for (int64_t sample = 0; sample < rank.program().miniBatch(); ++sample) {
      bool have = false; // read once, for all places that hold it
      for (const Place &place : wanted) {
        if (place.held[size_t(sample)].list < 0)
          continue;
        if (!have)
          readSample(*samples.stream, samples.reading, samples.first + std::min(sample, samples.valid - 1),
                     place.output, values);
        have = true;
        store(place, sample, values, inputs);
      }
    }
  rank.inputsAreFilled();
}

} // namespace echelon::runtime
