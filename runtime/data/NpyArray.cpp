#include "runtime/data/NpyArray.h"
#include "runtime/data/Content.h"

#include <cctype>
#include <cstdlib>

namespace echelon::runtime {

namespace {

/// The value of `key` in the header, a Python dict literal: what stands after the colon.
std::string headerValue(const std::string &header, const std::string &key) {
  size_t at = header.find("'" + key + "'");
  if (at == std::string::npos || (at = header.find(':', at)) == std::string::npos)
    return "";
  while (++at < header.size() && header[at] == ' ')
    ;
  return header.substr(at);
}

} // namespace

std::string parseNpy(const std::string &path, NpyArray &array) {
  const FileBytes &file = array.file;
  const std::string bad = "\"" + path + "\" is not an npy file";
  if (file.size() < 12 || std::memcmp(file.data(), "\x93NUMPY", 6) != 0)
    return bad + looksLike(file) + "; numpy.save of an array writes one";
  const int major = file.data()[6];
  const size_t lead = major == 1 ? 10 : 12;
  const size_t length = major == 1 ? size_t(file.data()[8]) | size_t(file.data()[9]) << 8
                                   : size_t(file.data()[8]) | size_t(file.data()[9]) << 8 |
                                         size_t(file.data()[10]) << 16 | size_t(file.data()[11]) << 24;
  if (length > file.size() - lead)
    return bad + ": its header is cut off";
  if (length > 0xffff) // only tables of many fields have more
    return bad + " of plain numbers";
  const std::string header(reinterpret_cast<const char *>(file.data()) + lead, length);
  array.start = lead + length;
  const std::string type = headerValue(header, "descr"), order = headerValue(header, "fortran_order"),
                    shape = headerValue(header, "shape");
  if (type.size() < 5 || type[0] != '\'' || shape.empty() || shape[0] != '(')
    return bad + " of plain numbers";
  const std::string name = type.substr(1, type.find('\'', 1) - 1);
  array.kind = name.size() > 1 ? name[1] : '?';
  array.width = std::atoi(name.c_str() + std::min<size_t>(2, name.size()));
  const bool known =
      name[0] != '>' &&
      ((array.kind == 'f' && (array.width == 4 || array.width == 8)) || (array.kind == 'b' && array.width == 1) ||
       ((array.kind == 'i' || array.kind == 'u') &&
        (array.width == 1 || array.width == 2 || array.width == 4 || array.width == 8)));
  if (!known)
    return "\"" + path + "\" has values of type " + name +
           "; float32, float64, bool and little-endian integers are read; save array.astype('" +
           (array.kind == 'f' || array.kind == 'c' ? "float32" : "int64") + "')";
  array.fortran = order.compare(0, 4, "True") == 0;
  // The file's own length bounds every size, so that products stay small.
  const int64_t held = int64_t(file.size() - array.start) / array.width;
  int64_t total = 1;
  for (const char *p = shape.c_str() + 1; *p && *p != ')';) {
    if (*p == '-')
      return bad + ": it has a negative size";
    if (!std::isdigit(static_cast<unsigned char>(*p))) {
      ++p;
      continue;
    }
    char *end;
    const unsigned long long size = std::strtoull(p, &end, 10);
    if (size == 0 && array.shape.empty())
      return "\"" + path + "\" has no samples: the first of its sizes is 0";
    if (size > uint64_t(held) || (size && total > held / int64_t(size)))
      return "\"" + path + "\" is shorter than its header says";
    array.shape.push_back(int64_t(size));
    total *= int64_t(size);
    p = end;
  }
  if (array.shape.empty())
    return "\"" + path + "\" holds a single number; samples lie along the first axis";
  return "";
}

} // namespace echelon::runtime
