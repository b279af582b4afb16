// Source files and places in them. Every other part of the front end points into a SourceManager.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace echelon::frontend {

/// Identifies a file of a SourceManager; -1 is no file.
using FileId = int;

/// A spec and what it imports are at most 1 MiB of text: 600 times the longest example, and 17 bytes for each of the
/// words that it may have. What is larger is no spec but data that was given in its place.
constexpr size_t maximalFileBytes = size_t(1) << 20;

/// A stretch of source text. `line` and `column` count from 1; a column is one Unicode code point, a tab is one column.
struct SourceRange {
  FileId file = -1;
  uint32_t offset = 0; // in bytes, from the start of the file
  uint32_t length = 0; // in bytes
  uint32_t line = 0;
  uint32_t column = 0;

  bool valid() const { return file >= 0; }
  uint32_t end() const { return offset + length; }
};

/// The stretch from the start of `first` to the end of `last` (both in one file).
SourceRange join(SourceRange first, SourceRange last);

/// Owns the text of the files of one run of the compiler.
class SourceManager {
public:
  /// Adds a file whose text is known (the library, an editor's buffer, a test).
  FileId add(std::string path, std::string text);
  /// Reads a file from disk; -1 when it cannot be read, and then `why` says why.
  FileId read(const std::string &path, std::string &why);

  /// Where the file lies.
  const std::string &path(FileId file) const { return files[size_t(file)].path; }
  /// The same as diagnostics, programs and plans print it: a file's name may hold anything.
  const std::string &name(FileId file) const { return files[size_t(file)].name; }
  std::string_view text(FileId file) const { return files[size_t(file)].text; }
  std::string_view text(SourceRange range) const { return text(range.file).substr(range.offset, range.length); }
  /// The text of one line, counted from 1, without its line end.
  std::string_view line(FileId file, uint32_t line) const;
  /// Where it begins, in bytes from the start of the file.
  uint32_t lineStart(FileId file, uint32_t line) const { return files[size_t(file)].lineStarts[line - 1]; }
  /// The range of `length` bytes at `offset`, with line and column filled in.
  SourceRange range(FileId file, uint32_t offset, uint32_t length) const;
  size_t size() const { return files.size(); }

private:
  struct File {
    std::string path, name, text;
    std::vector<uint32_t> lineStarts; // byte offset of each line
  };
  std::deque<File> files; // a deque: paths and texts stay where they are
};

} // namespace echelon::frontend
