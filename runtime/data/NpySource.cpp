// npy arrays (NumPy Enhancement Proposal 1): one file an input, samples along the first axis.
#include "runtime/data/File.h"
#include "runtime/data/Sources.h"

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace echelon::runtime {

namespace {

struct NpyArray {
  FileBytes file;
  size_t start = 0; // of the values in the file
  char kind = 'f';  // b, i, u, f
  int width = 4;    // bytes of a value
  bool fortran = false;
  std::vector<int64_t> shape;

  int64_t count() const { return countOf(shape); }
  double at(int64_t i) const {
    const uint8_t *p = file.data() + start + i * width;
    auto as = [p](auto value) {
      std::memcpy(&value, p, sizeof(value));
      return double(value);
    };
    if (kind == 'b')
      return *p != 0;
    if (kind == 'f')
      return width == 4 ? as(float()) : as(double());
    if (kind == 'i')
      return width == 1 ? as(int8_t()) : width == 2 ? as(int16_t()) : width == 4 ? as(int32_t()) : as(int64_t());
    return width == 1 ? as(uint8_t()) : width == 2 ? as(uint16_t()) : width == 4 ? as(uint32_t()) : as(uint64_t());
  }
};

/// The value of `key` in the header, a Python dict literal: what stands after the colon.
std::string headerValue(const std::string &header, const std::string &key) {
  size_t at = header.find("'" + key + "'");
  if (at == std::string::npos || (at = header.find(':', at)) == std::string::npos)
    return "";
  while (++at < header.size() && header[at] == ' ')
    ;
  return header.substr(at);
}

std::string parse(const std::string &path, NpyArray &array) {
  const FileBytes &file = array.file;
  const std::string bad = "\"" + path + "\" is not an npy file";
  if (file.size() < 12 || std::memcmp(file.data(), "\x93NUMPY", 6) != 0)
    return bad + "; numpy.save of an array writes one";
  const int major = file.data()[6];
  const size_t lead = major == 1 ? 10 : 12;
  const size_t length = major == 1 ? size_t(file.data()[8]) | size_t(file.data()[9]) << 8
                                   : size_t(file.data()[8]) | size_t(file.data()[9]) << 8 |
                                         size_t(file.data()[10]) << 16 | size_t(file.data()[11]) << 24;
  if (length > file.size() - lead)
    return bad + ": its header is cut off";
  if (length > 0xffff) // only tables of many fields have more
    return bad + " of plain numbers";
  const std::string header(reinterpret_cast<const char *>(file.data()) + lead, length);
  array.start = lead + length;
  const std::string type = headerValue(header, "descr"), order = headerValue(header, "fortran_order"),
                    shape = headerValue(header, "shape");
  if (type.size() < 5 || type[0] != '\'' || shape.empty() || shape[0] != '(')
    return bad + " of plain numbers";
  const std::string name = type.substr(1, type.find('\'', 1) - 1);
  array.kind = name.size() > 1 ? name[1] : '?';
  array.width = std::atoi(name.c_str() + std::min<size_t>(2, name.size()));
  const bool known =
      name[0] != '>' &&
      ((array.kind == 'f' && (array.width == 4 || array.width == 8)) || (array.kind == 'b' && array.width == 1) ||
       ((array.kind == 'i' || array.kind == 'u') &&
        (array.width == 1 || array.width == 2 || array.width == 4 || array.width == 8)));
  if (!known)
    return "\"" + path + "\" has values of type " + name +
           "; float32, float64, bool and little-endian integers are read; save array.astype('" +
           (array.kind == 'f' || array.kind == 'c' ? "float32" : "int64") + "')";
  array.fortran = order.compare(0, 4, "True") == 0;
  // The file's own length bounds every size, so that products stay small.
  const int64_t held = int64_t(file.size() - array.start) / array.width;
  int64_t total = 1;
  for (const char *p = shape.c_str() + 1; *p && *p != ')';) {
    if (*p == '-')
      return bad + ": it has a negative size";
    if (!std::isdigit(static_cast<unsigned char>(*p))) {
      ++p;
      continue;
    }
    char *end;
    const unsigned long long size = std::strtoull(p, &end, 10);
    if (size == 0 && array.shape.empty())
      return "\"" + path + "\" has no samples: the first of its sizes is 0";
    if (size > uint64_t(held) || (size && total > held / int64_t(size)))
      return "\"" + path + "\" is shorter than its header says";
    array.shape.push_back(int64_t(size));
    total *= int64_t(size);
    p = end;
  }
  if (array.shape.empty())
    return "\"" + path + "\" holds a single number; samples lie along the first axis";
  return "";
}

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
    if (!(error.text = readFile(path, array.file)).empty() || !(error.text = parse(path, array)).empty())
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
        error = {bounds.text("value " + std::to_string(first) + " of \"" + path + "\""), int(i)};
        return nullptr;
      }
    }
  }
  return source;
}

} // namespace echelon::runtime
