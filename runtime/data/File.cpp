#include "runtime/data/File.h"
#include "runtime/launch/MachineMemory.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <libdeflate.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <zlib.h>

namespace echelon::runtime {

namespace {

std::atomic<size_t> unpackedNow{0};

/// Memory that grows, that forked processes share, and that takes no room where nothing is written.
class Unpacked {
public:
  Unpacked() : descriptor(memfd_create("unpacked", MFD_CLOEXEC)) {}
  Unpacked(const Unpacked &) = delete;
  ~Unpacked() {
    if (start)
      munmap(start, capacity);
    if (descriptor >= 0)
      close(descriptor);
  }

  bool grow(size_t bytes) {
    if (descriptor < 0 || ftruncate(descriptor, off_t(bytes)) != 0)
      return false;
    void *grown = start ? mremap(start, capacity, bytes, MREMAP_MAYMOVE)
                        : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (grown == MAP_FAILED)
      return false;
    start = static_cast<uint8_t *>(grown);
    capacity = bytes;
    return true;
  }
  uint8_t *data() const { return start; }
  size_t size() const { return capacity; }

  /// The first `length` bytes, kept as long as anyone has them.
  std::shared_ptr<const uint8_t> keep(size_t length) {
    unpackedNow += length;
    auto release = [bytes = capacity, length](const uint8_t *p) {
      munmap(const_cast<uint8_t *>(p), bytes);
      unpackedNow -= length;
    };
    return {std::exchange(start, nullptr), release};
  }

private:
  int descriptor;
  uint8_t *start = nullptr;
  size_t capacity = 0;
};

/// Whether a file begins as gzip's do (RFC 1952): the magic number, deflate, no reserved flag. Two bytes alone may also
/// be a token of 16 bits.
bool isPacked(const uint8_t *file, size_t size) {
  return size >= 18 && file[0] == 0x1f && file[1] == 0x8b && file[2] == 8 && (file[3] & 0xe0) == 0;
}

/// Inflates whole members at once into what `out` has room for: with libdeflate, which takes half of zlib's time.
/// False where that is not the whole file: it is larger than it says, or broken, which `inflateSome` can tell.
bool inflateAll(const uint8_t *packed, size_t packedSize, const Unpacked &out, size_t &length) {
  libdeflate_decompressor *inflater = libdeflate_alloc_decompressor();
  size_t consumed = 0;
  bool good = inflater;
  length = 0;
  auto isMember = [&] {
    return consumed + 2 <= packedSize && packed[consumed] == 0x1f && packed[consumed + 1] == 0x8b;
  };
  while (good && (consumed == 0 || isMember())) {
    size_t in = 0, written = 0;
    good = libdeflate_gzip_decompress_ex(inflater, packed + consumed, packedSize - consumed, out.data() + length,
                                         out.size() - length, &in, &written) == LIBDEFLATE_SUCCESS;
    consumed += in;
    length += written;
  }
  libdeflate_free_decompressor(inflater);
  return good;
}

/// Inflates one or more gzip members, up to `limit` bytes, into memory that grows as it must. An error message, or "".
std::string inflateSome(const std::string &path, const uint8_t *packed, size_t packedSize, size_t limit, Unpacked &out,
                        size_t &length) {
  z_stream stream = {};
  const std::string noMemory = "cannot unpack \"" + path + "\": out of memory";
  length = 0;
  if (inflateInit2(&stream, 15 + 16) != Z_OK)
    return noMemory;
  size_t consumed = 0;
  std::string error;
  bool ended = false;
  while (length < limit) {
    if (length == out.size() && !out.grow(std::min(limit, 2 * length))) {
      error = noMemory;
      break;
    }
    constexpr size_t kChunk = size_t(1) << 30; // zlib counts in 32 bits
    stream.next_in = const_cast<uint8_t *>(packed + consumed);
    stream.avail_in = uInt(std::min(kChunk, packedSize - consumed));
    stream.next_out = out.data() + length;
    stream.avail_out = uInt(std::min(kChunk, out.size() - length));
    const uInt in = stream.avail_in, room = stream.avail_out;
    const int state = inflate(&stream, Z_NO_FLUSH);
    consumed += in - stream.avail_in;
    length += room - stream.avail_out;
    if (state == Z_STREAM_END) {
      const bool another = packedSize - consumed >= 2 && packed[consumed] == 0x1f && packed[consumed + 1] == 0x8b;
      if (!another) {
        ended = true;
        break;
      }
      inflateReset(&stream);
      continue;
    }
    if (state != Z_OK && !(state == Z_BUF_ERROR && stream.avail_out == 0)) {
      error = "cannot unpack \"" + path + "\": ";
      error += consumed == packedSize ? "the file is cut off" : stream.msg ? stream.msg : "not gzip data";
      break;
    }
  }
  inflateEnd(&stream);
  if (error.empty() && !ended && length < limit)
    error = "cannot unpack \"" + path + "\": the file is cut off";
  return error;
}

/// The length that the file's last four bytes tell is only a first guess: it is modulo 2^32 and of the last member
/// alone.
std::string unpack(const std::string &path, const uint8_t *packed, size_t packedSize, size_t limit, size_t room,
                   std::shared_ptr<const uint8_t> &bytes, size_t &length) {
  uint32_t guess = 0;
  std::memcpy(&guess, packed + packedSize - 4, 4);
  // Deflate packs at most 1032 to 1; a larger guess is a lie that would only cost memory.
  size_t capacity = std::clamp<size_t>(guess, 1024, 1032 * packedSize + 1024);
  capacity = std::min(capacity, std::max<size_t>(std::min(limit, room), 1));
  Unpacked out;
  if (!out.grow(capacity))
    return "cannot unpack \"" + path + "\": out of memory";
  std::string error;
  if (limit != SIZE_MAX || !inflateAll(packed, packedSize, out, length))
    error = inflateSome(path, packed, packedSize, std::min(limit, room), out, length);
  if (error.empty() && length >= room) {
    char gigabytes[32];
    std::snprintf(gigabytes, sizeof(gigabytes), "%.2f GB", double(room) * 1e-9);
    error = "cannot unpack \"" + path + "\": it holds more than the " + gigabytes + " of memory that it may take here";
  }
  bytes = out.keep(length);
  return error;
}

} // namespace

size_t unpackedBytes() { return unpackedNow; }

std::string readFile(const std::string &path, FileBytes &file, size_t limit, std::optional<size_t> room) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe would wait for a writer
  if (descriptor < 0)
    return "cannot read \"" + path + "\": " + std::strerror(errno);
  struct stat info;
  std::string error;
  if (fstat(descriptor, &info) != 0)
    error = std::strerror(errno);
  else if (!S_ISREG(info.st_mode))
    error = S_ISDIR(info.st_mode) ? "it is a folder" : "it is no file";
  if (!error.empty()) {
    close(descriptor);
    return "cannot read \"" + path + "\": " + error;
  }
  const size_t size = size_t(info.st_size);
  if (size == 0) {
    close(descriptor);
    file = FileBytes();
    return "";
  }
  void *mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (mapped == MAP_FAILED)
    return "cannot read \"" + path + "\": " + std::strerror(errno);
  const uint8_t *raw = static_cast<const uint8_t *>(mapped);
  file.unpacked = isPacked(raw, size);
  if (file.unpacked) {
    error = unpack(path, raw, size, limit, room ? *room : size_t(freeBytes()) / 10 * 9, file.bytes, file.length);
    munmap(mapped, size);
    return error;
  }
  file.bytes =
      std::shared_ptr<const uint8_t>(raw, [size](const uint8_t *p) { munmap(const_cast<uint8_t *>(p), size); });
  file.length = std::min(size, limit);
  return "";
}

std::string resolvePath(const std::string &path, const std::string &folder) {
  if (folder.empty() || std::filesystem::path(path).is_absolute())
    return path;
  std::string resolved = (std::filesystem::path(folder) / path).lexically_normal().string();
  while (resolved.size() > 1 && resolved.back() == '/')
    resolved.pop_back();
  return resolved;
}

std::string listFolder(const std::string &folder, std::vector<std::string> &names) {
  names.clear();
  std::error_code failed;
  std::filesystem::directory_iterator it(folder, failed), end;
  if (failed)
    return "cannot read folder \"" + folder + "\": " + failed.message();
  for (; it != end && !failed; it.increment(failed)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored))
      names.push_back(it->path().filename().string());
  }
  if (failed)
    return "cannot read folder \"" + folder + "\": " + failed.message();
  std::sort(names.begin(), names.end());
  return "";
}

} // namespace echelon::runtime
