// One file of tokens, whatever its form: found by what it holds.
#pragma once

#include "runtime/data/File.h"

#include <cstring>
#include <string>

namespace echelon::runtime {

/// Integers, one after the other, little endian.
struct TokenFile {
  enum class Form { Plain, Npy, Shard, Megatron };

  std::string path;
  FileBytes bytes;
  size_t start = 0; // of the first token
  int64_t count = 0;
  int width = 1; // bytes of a token
  bool isSigned = false;
  Form form = Form::Plain;

  const uint8_t *data() const { return bytes.data() + start; }
  int64_t at(int64_t i) const {
    const uint8_t *p = data() + i * width;
    auto as = [p](auto value) {
      std::memcpy(&value, p, sizeof(value));
      return int64_t(value);
    };
    if (isSigned)
      return width == 1 ? as(int8_t()) : width == 2 ? as(int16_t()) : width == 4 ? as(int32_t()) : as(int64_t());
    return width == 1 ? as(uint8_t()) : width == 2 ? as(uint16_t()) : width == 4 ? as(uint32_t()) : as(uint64_t());
  }
  /// "a shard of llm.c with tokens of 16 bits"
  std::string text() const;
};

/// Opens a file of `tokens`. `bits`: as the spec says, 0 where it does not; `below`: the least bound of the inputs, 0
/// where there is none. An error message, or "".
std::string openTokenFile(const std::string &path, int bits, int64_t below, TokenFile &file);
/// A file of `text`: a token a byte.
std::string openTextFile(const std::string &path, TokenFile &file);

} // namespace echelon::runtime
