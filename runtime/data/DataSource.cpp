#include "runtime/data/DataSource.h"
#include "runtime/data/Shuffle.h"
#include "runtime/data/Sources.h"
#include "runtime/random/Philox.h"

#include <algorithm>
#include <cmath>

namespace echelon::runtime {

std::string dimsText(const std::vector<int64_t> &dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i)
    text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

int64_t countOf(const std::vector<int64_t> &dims) {
  int64_t count = 1;
  for (int64_t d : dims)
    count *= d;
  return count;
}

bool isBeyond(const InputShape &input, double value) {
  return input.type == ElementType::Float32 && std::isfinite(value) && std::isinf(static_cast<float>(value));
}

std::string otherShape(const std::vector<int64_t> &file, const InputShape &input) {
  const std::vector<int64_t> &dims = input.dims;
  if (file.size() == dims.size() && std::is_permutation(file.begin(), file.end(), dims.begin()))
    return "; declare the input's axes in the file's order";
  if (countOf(file) == countOf(dims)) {
    std::string sizes = "-1"; // the samples
    for (int64_t d : dims)
      sizes += ", " + std::to_string(d);
    return "; as many numbers in another shape: save array.reshape(" + sizes +
           (dims.empty() ? ")" : "), or declare axes of the file's sizes");
  }
  const bool perClass = input.below > 1 && file.size() == dims.size() + 1 && file.back() == input.below &&
                        std::equal(dims.begin(), dims.end(), file.begin());
  if (perClass)
    return "; where a number for each of " + std::to_string(input.below) +
           " classes marks one of them, save array.argmax(axis=-1), or declare " + input.name +
           " with the axis of the classes, and : float";
  return "; name files and inputs in the same order, and declare axes of the file's sizes";
}

std::string Bounds::text(const std::string &where) const {
  const std::string begin = where + " is " + std::to_string(first) + ", " + input.name + " is int";
  if (input.below == 0)
    return begin + ", of 32 bits";
  const std::string all = "all lie from " + std::to_string(low) + " to " + std::to_string(high);
  return begin + " below " + std::to_string(input.below) + ", from 0 to " + std::to_string(input.below - 1) + "; " +
         (low == 1 && high == input.below ? all + ": if they count from 1, subtract 1 from each"
          : low < 0 || high >= int64_t(1) << 31
              ? all
              : "the largest is " + std::to_string(high) + ": the axis needs " + std::to_string(high + 1) + " places");
}

namespace {

std::string checkTransform(const TransformSpec &transform, const OutputShape &first, const std::string &name) {
  const std::string has = "; " + name + " has " + dimsText(first.dims);
  if (transform.kind == "flip")
    return first.dims.empty() ? "flip mirrors the last axis of a sample" + has : "";
  if (transform.kind == "crop") {
    if (first.dims.size() < 2)
      return "crop cuts along the last two axes of a sample" + has;
    return transform.args.size() == 1 && transform.args[0] >= 0 && transform.args[0] == int64_t(transform.args[0])
               ? ""
               : "crop takes pad = a whole number of pixels";
  }
  if (transform.kind == "normalize") {
    const size_t channels = transform.args.size() / 2;
    if (transform.args.size() % 2 != 0 || channels == 0)
      return "normalize takes as many means as standard deviations";
    if (first.type != ElementType::Float32 && first.type != ElementType::Float64)
      return "normalize acts on floats; " + name + " is " + nameOf(first.type);
    if (channels > 1 && (first.dims.empty() || first.dims[0] != int64_t(channels)))
      return "normalize has " + std::to_string(channels) + " channels" + has + "; one mean and one std are for all";
    for (size_t i = channels; i < 2 * channels; ++i)
      if (!(transform.args[i] > 0))
        return "normalize divides by standard deviations above 0";
    return "";
  }
  return "transform " + transform.kind + " is not built";
}

/// Whether a source gives what the inputs and the transforms take.
bool checkOutputs(const OpenRequest &request, const DataSource &source, DataError &error) {
  const std::string &kind = request.spec.kind;
  const std::vector<InputShape> &inputs = request.inputs;
  const std::vector<OutputShape> &outputs = source.outputs();
  if (!inputs.empty() && inputs.size() != outputs.size()) {
    auto counted = [](size_t n, const char *what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); };
    error.text =
        kind + " gives " + counted(outputs.size(), "value") + " a sample, for " + counted(inputs.size(), "input");
    return false;
  }
  if (source.size(Part::Training) == 0) {
    error.text = kind + ": the data has no samples to train on";
    return false;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    // Images and arrays of integers may fill float inputs; reals never fill integers.
    const bool isReal = outputs[i].type == ElementType::Float32;
    const bool wantsReal = inputs[i].type == ElementType::Float32 || inputs[i].type == ElementType::Float64;
    if (wantsReal || (!isReal && outputs[i].type == inputs[i].type))
      continue;
    error = {kind + " gives values of type " + nameOf(outputs[i].type) + ", " + inputs[i].name + " is " +
                 nameOf(inputs[i].type),
             int(i)};
    return false;
  }
  for (const TransformSpec &transform : request.spec.transforms) {
    error.text = checkTransform(transform, outputs[0], inputs.empty() ? "it" : inputs[0].name);
    if (!error.text.empty()) {
      error.input = 0;
      return false;
    }
  }
  return true;
}

std::unique_ptr<DataSource> openSource(const OpenRequest &request, DataError &error) {
  using Open = std::unique_ptr<DataSource> (*)(const OpenRequest &, DataError &);
  constexpr struct {
    const char *kind;
    Open open;
  } kSources[] = {{"text", openTokens}, {"tokens", openTokens},      {"next_token", openTokens},
                  {"mnist", openMnist}, {"cifar10", openCifar10},    {"npy", openNpy},
                  {"csv", openCsv},     {"synthetic", openSynthetic}};
  for (const auto &entry : kSources)
    if (request.spec.kind == entry.kind) {
      std::unique_ptr<DataSource> source = entry.open(request, error);
      return source && checkOutputs(request, *source, error) ? std::move(source) : nullptr;
    }
  error.text = "data source " + request.spec.kind + " is not built";
  return nullptr;
}

} // namespace

DataStream::DataStream(std::unique_ptr<DataSource> from, std::vector<TransformSpec> with, uint64_t runSeed)
    : source(std::move(from)), transforms(std::move(with)), seed(runSeed) {}

void DataStream::read(Part part, int64_t index, int output, std::vector<double> &values) const {
  const int64_t size = source->size(part);
  const bool training = part == Part::Training;
  const int64_t sample = training && size != kUnlimited ? shuffledSample(seed, index, size) : index;
  fetch(part, sample, output, values);
  if (output == 0)
    transform(index, training, values);
}

void DataStream::readPlain(Part part, int64_t sample, int output, std::vector<double> &values) const {
  fetch(part, sample, output, values);
  if (output == 0)
    transform(sample, false, values);
}

void DataStream::fetch(Part part, int64_t sample, int output, std::vector<double> &values) const {
  values.resize(size_t(countOf(outputs()[size_t(output)].dims)));
  source->read(part, sample, output, values.data());
}

void DataStream::transform(int64_t index, bool random, std::vector<double> &values) const {
  const std::vector<int64_t> &dims = outputs()[0].dims;
  for (size_t t = 0; t < transforms.size(); ++t) {
    const TransformSpec &transform = transforms[t];
    // Every transform has its own stream; a place in the training stream has its own values of it.
    const RandomKey key = {seed, path_hash("data.transform") + t, 0};
    if (transform.kind == "flip" && random) {
      if (uniform_at(key, uint64_t(index)) < 0.5)
        continue;
      for (auto row = values.begin(); row != values.end(); row += dims.back())
        std::reverse(row, row + dims.back());
    } else if (transform.kind == "crop" && random) {
      const int64_t pad = int64_t(transform.args[0]), height = dims[dims.size() - 2], width = dims.back();
      auto draw = [&](uint64_t k) {
        return int64_t(uniform_at(key, 2 * uint64_t(index) + k) * double(2 * pad + 1)) - pad;
      };
      const int64_t down = draw(0), right = draw(1);
      const std::vector<double> whole = values;
      for (size_t plane = 0; plane < whole.size(); plane += size_t(height * width))
        for (int64_t y = 0; y < height; ++y)
          for (int64_t x = 0; x < width; ++x) {
            const int64_t fromY = y + down, fromX = x + right;
            const bool inside = fromY >= 0 && fromY < height && fromX >= 0 && fromX < width;
            values[plane + size_t(y * width + x)] = inside ? whole[plane + size_t(fromY * width + fromX)] : 0;
          }
    } else if (transform.kind == "normalize") {
      const size_t channels = transform.args.size() / 2, plane = values.size() / channels;
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = (values[i] - transform.args[i / plane]) / transform.args[channels + i / plane];
    }
  }
}

std::unique_ptr<DataStream> openData(const DataSpec &spec, const std::vector<InputShape> &inputs, uint64_t seed,
                                     const std::string &folder, DataError &error) {
  error = DataError();
  std::unique_ptr<DataSource> source = openSource({spec, inputs, seed, folder, true}, error);
  return source ? std::make_unique<DataStream>(std::move(source), spec.transforms, seed) : nullptr;
}

DataDescription describe(const DataSpec &spec, const std::vector<InputShape> &inputs, const std::string &folder) {
  DataDescription result;
  const std::unique_ptr<DataSource> source = openSource({spec, inputs, 0, folder, false}, result.error);
  if (!source)
    return result;
  result.outputs = source->outputs();
  result.columns = source->columns();
  result.trainSize = source->size(Part::Training);
  result.heldOutSize = source->size(Part::HeldOut);
  return result;
}

} // namespace echelon::runtime
