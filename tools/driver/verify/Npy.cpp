#include "tools/driver/verify/Npy.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>

namespace echelon {

template <class T> static std::vector<double> valuesOf(const std::string &bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return std::vector<double>(values.begin(), values.end());
}

std::vector<double> readNpy(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  char lead[10] = {};
  if (!file.read(lead, sizeof(lead)) || std::memcmp(lead, "\x93NUMPY\x01", 7) != 0)
    return {};
  std::string header(static_cast<unsigned char>(lead[8]) | static_cast<unsigned char>(lead[9]) << 8, ' ');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (header.find("'<f8'") != std::string::npos)
    return valuesOf<double>(bytes);
  if (header.find("'<f4'") != std::string::npos)
    return valuesOf<float>(bytes);
  if (header.find("'<i4'") != std::string::npos)
    return valuesOf<int32_t>(bytes);
  return valuesOf<uint8_t>(bytes);
}

} // namespace echelon
