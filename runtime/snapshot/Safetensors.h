// The safetensors format: eight bytes of header length (little endian), a JSON header, then the tensors without gaps.
#pragma once

#include "runtime/data/File.h"
#include "runtime/transport/Element.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace echelon::runtime {

struct TensorEntry {
  std::string name;
  ElementType type;
  std::vector<int64_t> sizes;

  size_t bytes() const;
};

/// Writes tensors one after the other, as bytes come. Errors are returned as text and end the writing.
class SafetensorsWriter {
public:
  ~SafetensorsWriter();
  std::string open(const std::string &path, const std::vector<TensorEntry> &entries);
  /// The next bytes of the tensors in the order of `entries`.
  std::string append(const std::byte *data, size_t bytes);
  /// Waits until the file is on disk, and closes it.
  std::string finish();

  size_t bytes() const { return written; }
  uint32_t checksum() const { return crc; } // CRC-32 of the whole file

private:
  std::string put(const void *data, size_t bytes);

  int descriptor = -1;
  std::string path;
  size_t written = 0, expected = 0;
  uint32_t crc = 0;
};

/// A file mapped into memory. Every offset has been checked against the file's length.
class SafetensorsFile {
public:
  struct Tensor {
    ElementType type;
    std::vector<int64_t> sizes;
    const std::byte *data;
  };
  std::string open(const std::string &path);
  const std::map<std::string, Tensor> &tensors() const { return all; }
  size_t bytes() const { return file.size(); }
  /// CRC-32 of the whole file, computed now.
  uint32_t checksum() const;

private:
  FileBytes file;
  std::map<std::string, Tensor> all;
};

/// Writes all bytes, in as many calls as it takes; false, with errno set, where that fails.
bool writeAll(int descriptor, const void *data, size_t bytes);

uint32_t crc32Of(uint32_t before, const void *data, size_t bytes);

} // namespace echelon::runtime
