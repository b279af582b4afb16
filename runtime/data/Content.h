// What a file holds, told by its bytes: a name says little.
#pragma once

#include "runtime/data/File.h"

#include <string>

namespace echelon::runtime {

enum class Content {
  Unknown,       // numbers, mostly
  Text,          // characters of ASCII or UTF-8, JSON and web pages among them
  Utf16,         // text, too, but of two bytes a character or more
  NpyArray,      // numpy.save
  TokenShard,    // 256 numbers of 32 bits, the first of them a date, then tokens: llm.c, modded-nanogpt
  MegatronIndex, // where the documents of a .bin file beside it begin and end
  Other
};

struct FileContent {
  Content kind = Content::Unknown;
  std::string name; // for messages: "a Parquet table"; of the unknown empty

  /// Whether it is of another kind than numbers without a header, or characters, are.
  bool isBinaryForm() const { return kind != Content::Unknown && kind != Content::Text; }
};

FileContent contentOf(const FileBytes &file);

/// "; it looks like a Parquet table", or nothing.
std::string looksLike(const FileBytes &file);

/// The name that iconv has for the characters of a text that is not of single bytes: "UTF-16" or "UTF-32" where a mark
/// at its beginning says so, "UTF-16LE" or "UTF-16BE" where every second byte is 0 and the others are characters (which
/// tokens of 16 bits may be, too). Else empty.
std::string wideEncoding(const FileBytes &file);

/// The first number of a file of llm.c: a date, little endian.
constexpr uint32_t kShardOf16Bits = 20240520, kShardOf32Bits = 20240801;
constexpr size_t kShardHeader = 256 * 4;

constexpr char kMegatronMagic[] = "MMIDIDX\0"; // and the literal's own 0: nine bytes

/// Numbers lie in files as the machine has them, little endian.
template <class T> T numberAt(const FileBytes &file, size_t at) {
  T value;
  __builtin_memcpy(&value, file.data() + at, sizeof(T));
  return value;
}

} // namespace echelon::runtime
