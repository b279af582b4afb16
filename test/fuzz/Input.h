// How a target reads the bytes of one run: choices first, then the text or the files that they are for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <stdlib.h>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace echelon::fuzz {

class Input {
public:
  Input(const uint8_t *data, size_t size) : at(data), end(data + size) {}

  /// The next byte; 0 where there is none.
  uint8_t byte() { return at < end ? *at++ : 0; }
  /// A file among several: two bytes that tell its length, then that many bytes or what is left.
  std::string part() {
    const size_t low = byte(), length = low | size_t(byte()) << 8;
    return take(length < left() ? length : left());
  }
  std::string rest() { return take(left()); }

private:
  size_t left() const { return size_t(end - at); }
  std::string take(size_t length) {
    std::string bytes(reinterpret_cast<const char *>(at), length);
    at += length;
    return bytes;
  }
  const uint8_t *at, *end;
};

/// Is there an internal error of the compiler in this text, and not because the spec itself says so?
inline bool hasInternalError(const std::string &text, const std::string &spec) {
  return text.find("E0799") != text.npos && spec.find("E0799") == spec.npos;
}

/// A folder of this process alone, under TMPDIR, which run.sh puts into memory.
class Folder {
public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "echelon-fuzz-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw std::runtime_error("cannot make a folder in " + std::filesystem::temp_directory_path().string());
    place = name;
  }
  Folder(const Folder &) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(place, ignored);
  }
  const std::string &path() const { return place; }
  void write(const std::string &name, const std::string &bytes) const {
    std::ofstream stream(place + "/" + name, std::ios::binary);
    stream << bytes;
    if (!stream.flush())
      throw std::runtime_error("cannot write " + place + "/" + name);
  }

private:
  std::string place;
};

/// Ends the run as a finding: what is true of every input is not.
inline void expect(bool holds) {
  if (!holds)
    __builtin_trap();
}

} // namespace echelon::fuzz
