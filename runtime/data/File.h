// The bytes of a file, unpacked where it is gzip-compressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace echelon::runtime {

/// Read-only bytes: mapped from the file, or unpacked into memory that processes forked from this one share.
class FileBytes {
public:
  const uint8_t *data() const { return bytes.get(); }
  size_t size() const { return length; }
  /// Whether they were unpacked, into memory of their own.
  bool isUnpacked() const { return unpacked; }

private:
  friend std::string readFile(const std::string &path, FileBytes &file, size_t limit, std::optional<size_t> room);
  std::shared_ptr<const uint8_t> bytes;
  size_t length = 0;
  bool unpacked = false;
};

/// Reads the first `limit` bytes (of what it unpacks to), or all. Returns an empty string, or what went wrong, with the
/// path; that is so, too, where unpacking takes more than `room` bytes: by default a tenth of what is free is for
/// others.
std::string readFile(const std::string &path, FileBytes &file, size_t limit = SIZE_MAX,
                     std::optional<size_t> room = std::nullopt);

/// Bytes of memory that unpacked files take in this process, and in those that it forked: once for all of them.
size_t unpackedBytes();

/// The path of a spec: as it is where absolute, else from `folder`.
std::string resolvePath(const std::string &path, const std::string &folder);

/// Names of the regular files of a folder (links followed), sorted; an error message where it cannot be read.
std::string listFolder(const std::string &folder, std::vector<std::string> &names);

} // namespace echelon::runtime
