// How wide text is on a terminal, and how wide the terminal is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace echelon::runtime {

/// Columns that a character takes: none where it goes onto the one before it, two where it is a wide one.
int columnsOf(uint32_t character);
/// Of a text that printable() has returned.
size_t columnsOf(std::string_view text);

/// The width of the terminal that `descriptor` is: what the terminal says now, else COLUMNS, else 80.
size_t terminalColumns(int descriptor);

/// The longest beginning of a text that takes at most that many columns.
std::string cutTo(size_t columns, std::string_view text);

/// A part of a line; the most important one has rank 0.
struct LinePart {
  std::string text;
  int rank = 0;
};
/// The parts in their order, as many of them as fit, the most important ones first.
std::string fitInto(size_t columns, const std::vector<LinePart> &parts);

/// The parts one after the other, in lines that are broken between parts, or between words where a part is wider than a
/// line. Lines after the first are indented by two.
std::string wrapTo(size_t columns, const std::vector<std::string> &parts);

} // namespace echelon::runtime
