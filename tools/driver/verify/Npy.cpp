#include "tools/driver/verify/Npy.h"
#include "runtime/transport/Element.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>

namespace echelon {

template <class T> static std::vector<double> valuesOf(const std::string &bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty())
    std::memcpy(static_cast<void *>(values.data()), bytes.data(), values.size() * sizeof(T));
  std::vector<double> wide;
  for (T x : values)
    wide.push_back(static_cast<double>(x));
  return wide;
}

std::vector<double> readNpy(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  char lead[10] = {};
  if (!file.read(lead, sizeof(lead)) || std::memcmp(lead, "\x93NUMPY\x01", 7) != 0)
    return {};
  std::string header(static_cast<unsigned char>(lead[8]) | static_cast<unsigned char>(lead[9]) << 8, ' ');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const runtime::ElementNames &names : runtime::kElements)
    if (header.find("'" + std::string(names.npy) + "'") != std::string::npos)
      return runtime::visitElement(names.type, [&](auto zero) { return valuesOf<decltype(zero)>(bytes); });
  return {};
}

} // namespace echelon
