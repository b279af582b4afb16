// An array of NumPy's own format (NumPy Enhancement Proposal 1).
#pragma once

#include "runtime/data/File.h"
#include "runtime/data/Sources.h"

#include <cstring>

namespace echelon::runtime {

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

/// Reads the header of `array.file`; an error message, or "".
std::string parseNpy(const std::string &path, NpyArray &array);

} // namespace echelon::runtime
