#include "frontend/Source.h"
#include "runtime/launch/Printable.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sys/stat.h>

namespace echelon::frontend {

SourceRange join(SourceRange first, SourceRange last) {
  if (!first.valid())
    return last;
  if (last.valid() && last.end() > first.offset)
    first.length = last.end() - first.offset;
  return first;
}

FileId SourceManager::add(std::string path, std::string text) {
  std::string name = runtime::printable(path);
  File file{std::move(path), std::move(name), std::move(text), {0}};
  for (size_t i = 0; i < file.text.size(); ++i)
    if (file.text[i] == '\n')
      file.lineStarts.push_back(uint32_t(i + 1));
  files.push_back(std::move(file));
  return FileId(files.size()) - 1;
}

FileId SourceManager::read(const std::string &path, std::string &why) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    why = std::strerror(errno);
    return -1;
  }
  if (S_ISDIR(status.st_mode)) {
    why = "it is a folder";
    return -1;
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    why = std::strerror(errno);
    return -1;
  }
  // One byte more than a spec may have is enough to see that it is too large; devices and pipes have no size to ask
  // for.
  std::string text(maximalFileBytes + 1, '\0');
  in.read(text.data(), std::streamsize(text.size()));
  text.resize(size_t(in.gcount()));
  text.shrink_to_fit();
  if (in.bad()) {
    why = "it cannot be read";
    return -1;
  }
  return add(path, std::move(text));
}

std::string_view SourceManager::line(FileId file, uint32_t line) const {
  const File &f = files[size_t(file)];
  if (line == 0 || line > f.lineStarts.size())
    return {};
  size_t begin = f.lineStarts[line - 1];
  size_t end = line < f.lineStarts.size() ? f.lineStarts[line] - 1 : f.text.size();
  if (end > begin && f.text[end - 1] == '\r')
    --end;
  return std::string_view(f.text).substr(begin, end - begin);
}

SourceRange SourceManager::range(FileId file, uint32_t offset, uint32_t length) const {
  const File &f = files[size_t(file)];
  auto next = std::upper_bound(f.lineStarts.begin(), f.lineStarts.end(), offset);
  uint32_t start = *std::prev(next), column = 1;
  for (uint32_t i = start; i < offset && i < f.text.size(); ++i)
    column += (f.text[i] & 0xC0) != 0x80; // a byte that begins a character
  return {file, offset, length, uint32_t(next - f.lineStarts.begin()), column};
}

} // namespace echelon::frontend
