// npy arrays: one file an input, samples along the first axis.
#include "runtime/data/NpyArray.h"

#include <cmath>
#include <limits>

namespace echelon::runtime {

namespace {

/// The place of the first number that is not finite in the input, or -1.
template <class T> int64_t firstBroken(const uint8_t *bytes, int64_t count, const InputShape &input) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes + i * int64_t(sizeof(T)), sizeof(T));
    if (!std::isfinite(value) || isBeyond(input, value))
      return i;
  }
  return -1;
}

bool allFinite(const std::string &path, const NpyArray &array, const InputShape &input, DataError &error) {
  const uint8_t *bytes = array.file.data() + array.start;
  const int64_t at = array.width == 4 ? firstBroken<float>(bytes, array.count(), input)
                                      : firstBroken<double>(bytes, array.count(), input);
  if (at < 0)
    return true;
  const int64_t samples = array.shape[0], sample = array.fortran ? at % samples : at / (array.count() / samples);
  const bool beyond = std::isfinite(array.at(at));
  error.text = "\"" + path + "\" has " +
               (std::isnan(array.at(at)) ? "nan"
                : beyond                 ? "a number beyond what fp32 holds, 3.4e38,"
                                         : "inf") +
               " in sample " + std::to_string(sample) + " (counted from 0); " +
               (beyond ? "rescale the array, or train under precision fp64" : "replace it, or leave the sample out");
  return false;
}

class NpySource : public DataSource {
public:
  std::vector<NpyArray> arrays;

  int64_t size(Part part) const override { return part == Part::Training ? arrays[0].shape[0] : 0; }
  void read(Part, int64_t sample, int output, double *values) const override {
    const NpyArray &array = arrays[size_t(output)];
    const int64_t samples = array.shape[0], count = array.count() / samples;
    if (!array.fortran) {
      for (int64_t i = 0; i < count; ++i)
        values[i] = array.at(sample * count + i);
      return;
    }
    for (int64_t i = 0; i < count; ++i) { // first axis fastest
      int64_t at = sample, rest = i, block = array.count();
      for (size_t d = array.shape.size(); d-- > 1;) {
        block /= array.shape[d];
        at += rest % array.shape[d] * block;
        rest /= array.shape[d];
      }
      values[i] = array.at(at);
    }
  }
  void addOutput(const NpyArray &array) {
    outputShapes.push_back({{array.shape.begin() + 1, array.shape.end()},
                            array.kind == 'f'   ? ElementType::Float32
                            : array.kind == 'b' ? ElementType::UInt8
                                                : ElementType::Int32});
    arrays.push_back(array);
  }
};

} // namespace

std::unique_ptr<DataSource> openNpy(const OpenRequest &request, DataError &error) {
  auto source = std::make_unique<NpySource>();
  for (size_t i = 0; i < request.spec.paths.size(); ++i) {
    const std::string path = resolvePath(request.spec.paths[i], request.folder);
    NpyArray array;
    if (!(error.text = readFile(path, array.file)).empty() || !(error.text = parseNpy(path, array)).empty())
      return nullptr;
    if (i && array.shape[0] != source->arrays[0].shape[0]) {
      error.text = "\"" + path + "\" has " + std::to_string(array.shape[0]) + " samples, the file before it " +
                   std::to_string(source->arrays[0].shape[0]) + "; each sample has a part in every file";
      return nullptr;
    }
    source->addOutput(array);
    if (i >= request.inputs.size())
      continue;
    const InputShape &input = request.inputs[i];
    const OutputShape &output = source->outputs()[i];
    if (output.dims != input.dims) {
      error = {"\"" + path + "\" gives " + dimsText(output.dims) + " a sample, " + input.name + " is " +
                   dimsText(input.dims) + otherShape(output.dims, input),
               int(i)};
      return nullptr;
    }
    const bool real = input.type == ElementType::Float32 || input.type == ElementType::Float64;
    if (real ? output.type == ElementType::UInt8 : output.type != input.type) {
      error = {"\"" + path + "\" has values of type " + nameOf(output.type) + ", " + input.name + " is " +
                   nameOf(input.type) +
                   (input.type == ElementType::Int32 && array.kind == 'f'
                        ? "; save integers, as array.astype('int64') is"
                        : ""),
               int(i)};
      return nullptr;
    }
    if (array.kind == 'f' && !allFinite(path, array, input, error)) {
      error.input = int(i);
      return nullptr;
    }
    if (input.type == ElementType::Int32) {
      Bounds bounds(input);
      int64_t first = 0;
      for (int64_t k = 0, n = array.count(); k < n; ++k) {
        const double value = array.at(k);
        if (bounds.see(std::fabs(value) < 9e18 ? int64_t(value) : std::numeric_limits<int64_t>::max()))
          first = k;
      }
      if (!bounds.kept()) {
        error = {bounds.textOfLabels("value " + std::to_string(first) + " of \"" + path + "\""), int(i)};
        return nullptr;
      }
    }
  }
  return source;
}

} // namespace echelon::runtime
