#include "runtime/data/DataSource.h"
#include "runtime/data/Shuffle.h"
#include "runtime/data/Sources.h"
#include "runtime/data/Transforms.h"

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

std::string Bounds::textOfLabels(const std::string &where) const {
  // A lone number far above the axis is no class that the axis lacks.
  const bool above = low >= 0 && !several && high < 1 << 20 && (high == 255 || high >= 10 * input.below);
  if (input.below == 0 || !((low < 0 && high < input.below) || above))
    return text(where);
  const std::string &name = input.name;
  const std::string axis = input.belowAxis.empty() ? "class" : input.belowAxis;
  const std::string below = std::to_string(input.below), mark = std::to_string(above ? high : input.below);
  const std::string places = std::to_string((above ? high : input.below) + 1);
  return text(where) + "; if " + std::to_string(first) + " marks what counts nothing, " +
         (above ? "" : "save " + mark + " there, ") + "declare axis mark = " + places + " and " + name +
         " as int below mark, and write loss sum(where(" + name + " < " + below + ", cross_entropy(logits, min(" +
         name + ", " + std::to_string(input.below - 1) + "), over = " + axis + "), 0)) / sum(where(" + name + " < " +
         below + ", 1, 0)); or save any " + axis +
         " there and fill a further input weight with 0 there, 1 elsewhere: loss " +
         "sum(weight * cross_entropy(logits, " + name + ", over = " + axis + ")) / sum(weight)";
}

namespace {

/// Whether a source gives what the inputs take.
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
  return true;
}

std::unique_ptr<DataSource> openSource(const OpenRequest &request, Transforms &transforms, DataError &error) {
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
      const bool fine = source && checkOutputs(request, *source, error) &&
                        transforms.resolve(request.spec, request.inputs, source->outputs(), error);
      return fine ? std::move(source) : nullptr;
    }
  error.text = "data source " + request.spec.kind + " is not built";
  return nullptr;
}

} // namespace

DataStream::DataStream(std::unique_ptr<DataSource> from, std::unique_ptr<const Transforms> with, uint64_t runSeed)
    : source(std::move(from)), transforms(std::move(with)), seed(runSeed) {}
DataStream::~DataStream() = default;

void DataStream::read(Part part, int64_t index, int output, std::vector<double> &values) const {
  const int64_t size = source->size(part);
  const bool training = part == Part::Training;
  const int64_t sample = training && size != kUnlimited ? shuffledSample(seed, index, size) : index;
  fetch(part, sample, output, values);
  transforms->apply(seed, index, training, output, values);
}

void DataStream::readPlain(Part part, int64_t sample, int output, std::vector<double> &values) const {
  fetch(part, sample, output, values);
  transforms->apply(seed, sample, false, output, values);
}

void DataStream::fetch(Part part, int64_t sample, int output, std::vector<double> &values) const {
  values.resize(size_t(countOf(outputs()[size_t(output)].dims)));
  source->read(part, sample, output, values.data());
}

std::unique_ptr<DataStream> openData(const DataSpec &spec, const std::vector<InputShape> &inputs, uint64_t seed,
                                     const std::string &folder, DataError &error) {
  error = DataError();
  auto transforms = std::make_unique<Transforms>();
  std::unique_ptr<DataSource> source = openSource({spec, inputs, seed, folder, true}, *transforms, error);
  return source ? std::make_unique<DataStream>(std::move(source), std::move(transforms), seed) : nullptr;
}

DataDescription describe(const DataSpec &spec, const std::vector<InputShape> &inputs, const std::string &folder) {
  DataDescription result;
  Transforms transforms;
  const std::unique_ptr<DataSource> source = openSource({spec, inputs, 0, folder, false}, transforms, result.error);
  if (!source)
    return result;
  result.outputs = source->outputs();
  result.columns = source->columns();
  result.transforms = transforms.resolved();
  result.trainSize = source->size(Part::Training);
  result.heldOutSize = source->size(Part::HeldOut);
  return result;
}

} // namespace echelon::runtime
