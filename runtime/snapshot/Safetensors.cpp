#include "runtime/snapshot/Safetensors.h"
#include "runtime/snapshot/ParseJson.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

namespace echelon::runtime {

uint32_t crc32Of(uint32_t before, const void *data, size_t bytes) {
  return uint32_t(crc32_z(before, static_cast<const Bytef *>(data), bytes));
}

bool writeAll(int descriptor, const void *data, size_t bytes) {
  const char *from = static_cast<const char *>(data);
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = write(descriptor, from + done, bytes - done);
    if (n < 0 && errno != EINTR)
      return false;
    done += size_t(std::max<ssize_t>(n, 0));
  }
  return true;
}

size_t TensorEntry::bytes() const {
  size_t count = bytesOf(type);
  for (int64_t size : sizes)
    count *= size_t(size);
  return count;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (descriptor >= 0)
    close(descriptor);
}

std::string SafetensorsWriter::open(const std::string &file, const std::vector<TensorEntry> &entries) {
  path = file;
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "echelon"}};
  size_t offset = 0;
  for (const TensorEntry &entry : entries) {
    const char *type = namesOf(entry.type).safetensors;
    const size_t end = offset + entry.bytes();
    header[entry.name] = {{"dtype", type}, {"shape", entry.sizes}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' '); // tensors start at a multiple of eight bytes
  expected = offset + text.size() + 8;
  descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return "cannot write \"" + path + "\": " + std::strerror(errno);
  const uint64_t length = text.size();
  std::string error = put(&length, 8);
  return error.empty() ? put(text.data(), text.size()) : error;
}

std::string SafetensorsWriter::put(const void *data, size_t bytes) {
  crc = crc32Of(crc, data, bytes);
  if (!writeAll(descriptor, data, bytes))
    return "cannot write \"" + path + "\": " + std::strerror(errno);
  written += bytes;
  return "";
}

std::string SafetensorsWriter::append(const std::byte *data, size_t bytes) { return put(data, bytes); }

std::string SafetensorsWriter::finish() {
  std::string error;
  if (written != expected)
    error = "cannot write \"" + path + "\": its tensors are incomplete";
  else if (fsync(descriptor) != 0)
    error = "cannot write \"" + path + "\": " + std::strerror(errno);
  close(descriptor);
  descriptor = -1;
  return error;
}

std::string SafetensorsFile::open(const std::string &path) {
  const std::string bad = "\"" + path + "\" is not a safetensors file: ";
  std::string error = readFile(path, file);
  if (!error.empty())
    return error;
  uint64_t length = 0;
  if (file.size() < 8)
    return bad + "it is cut off";
  std::memcpy(&length, file.data(), 8);
  if (length > file.size() - 8)
    return bad + "its header is cut off";
  const char *text = reinterpret_cast<const char *>(file.data()) + 8;
  const auto header = parseJson<nlohmann::json>(text, length);
  if (!header.is_object())
    return bad + "its header is not JSON";
  const size_t held = file.size() - 8 - length;
  const std::byte *base = reinterpret_cast<const std::byte *>(text) + length;
  for (const auto &[name, value] : header.items()) {
    if (name == "__metadata__")
      continue;
    const auto isCount = [](const nlohmann::json &v) { return v.is_number_unsigned(); };
    if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() || !value.contains("shape") ||
        !value["shape"].is_array() || !value.contains("data_offsets") || !value["data_offsets"].is_array() ||
        value["data_offsets"].size() != 2 ||
        !std::all_of(value["data_offsets"].begin(), value["data_offsets"].end(), isCount) ||
        !std::all_of(value["shape"].begin(), value["shape"].end(), isCount))
      return bad + "tensor " + name + " is not described";
    const std::string type = value["dtype"].get<std::string>();
    const auto *known =
        std::find_if(std::begin(kElements), std::end(kElements), [&](const auto &t) { return type == t.safetensors; });
    if (known == std::end(kElements))
      return bad + "tensor " + name + " is of type " + type;
    const size_t begin = value["data_offsets"][0].get<size_t>(), end = value["data_offsets"][1].get<size_t>();
    const std::vector<int64_t> sizes = value["shape"].get<std::vector<int64_t>>();
    size_t bytes = bytesOf(known->type);
    bool fits = begin <= end && end <= held;
    for (const int64_t size : sizes)
      fits &= size >= 0 && !__builtin_mul_overflow(bytes, size_t(size), &bytes);
    if (!fits || bytes != end - begin)
      return bad + "tensor " + name + " lies outside of it";
    all[name] = {known->type, sizes, base + begin};
  }
  return "";
}

uint32_t SafetensorsFile::checksum() const { return crc32Of(0, file.data(), file.size()); }

} // namespace echelon::runtime
