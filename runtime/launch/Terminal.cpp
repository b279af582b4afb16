#include "runtime/launch/Terminal.h"

#include "runtime/launch/Printable.h"

#include <algorithm>
#include <cstdlib>
#include <sys/ioctl.h>
#include <utility>

namespace echelon::runtime {

namespace {
using Range = std::pair<uint32_t, uint32_t>;

// Marks of the scripts in which names of files are mostly written.
constexpr Range kMarks[] = {{0x300, 0x36F},   {0x483, 0x489},   {0x591, 0x5BD},   {0x610, 0x61A},   {0x64B, 0x65F},
                            {0x6D6, 0x6DC},   {0x900, 0x902},   {0x93C, 0x93C},   {0x941, 0x948},   {0x94D, 0x94D},
                            {0xE31, 0xE31},   {0xE34, 0xE3A},   {0xE47, 0xE4E},   {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},
                            {0x20D0, 0x20FF}, {0x302A, 0x302D}, {0x3099, 0x309A}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}};
// East Asian Width W and F (Unicode Standard Annex 11), and emoji.
constexpr Range kWide[] = {
    {0x1100, 0x115F}, {0x231A, 0x231B},   {0x2E80, 0x303E},   {0x3041, 0x33FF},   {0x3400, 0x4DBF},  {0x4E00, 0x9FFF},
    {0xA000, 0xA4CF}, {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},  {0xFF00, 0xFF60},
    {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};

template <size_t N> bool isIn(const Range (&ranges)[N], uint32_t code) {
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [&](const Range &range) { return range.first <= code && code <= range.second; });
}
} // namespace

int columnsOf(uint32_t character) { return isIn(kMarks, character) ? 0 : isIn(kWide, character) ? 2 : 1; }

size_t columnsOf(std::string_view text) {
  size_t columns = 0;
  for (size_t at = 0; at < text.size();) {
    const Character c = characterAt(text, at);
    columns += size_t(columnsOf(c.code));
    at += c.bytes;
  }
  return columns;
}

size_t terminalColumns(int descriptor) {
  winsize size = {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  const char *told = std::getenv("COLUMNS");
  const long columns = told ? std::strtol(told, nullptr, 10) : 0;
  return columns > 0 && columns < 100000 ? size_t(columns) : 80;
}

std::string cutTo(size_t columns, std::string_view text) {
  size_t end = 0, taken = 0;
  while (end < text.size()) {
    const Character c = characterAt(text, end);
    taken += size_t(columnsOf(c.code));
    if (taken > columns)
      break;
    end += c.bytes;
  }
  return std::string(text.substr(0, end));
}

std::string fitInto(size_t columns, const std::vector<LinePart> &parts) {
  std::vector<size_t> order(parts.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return parts[a].rank < parts[b].rank; });
  std::vector<bool> isTaken(parts.size());
  size_t taken = 0;
  for (size_t i : order)
    if (const size_t more = columnsOf(parts[i].text); taken + more <= columns) {
      isTaken[i] = true;
      taken += more;
    }
  std::string line;
  for (size_t i = 0; i < parts.size(); ++i)
    line += isTaken[i] ? parts[i].text : "";
  return line.empty() && !order.empty() ? cutTo(columns, parts[order[0]].text) : line;
}

std::string wrapTo(size_t columns, const std::vector<std::string> &parts) {
  constexpr size_t kIndent = 2;
  std::string text;
  size_t taken = 0;
  auto shown = [](std::string_view part) { return columnsOf(part.substr(0, part.find_last_not_of(' ') + 1)); };
  auto add = [&](std::string_view part) {
    if (taken > kIndent && taken + shown(part) > columns) {
      text.erase(text.find_last_not_of(' ') + 1);
      text += "\n" + std::string(kIndent, ' ');
      taken = kIndent;
    }
    text += part;
    taken += columnsOf(part);
  };
  for (std::string_view part : parts)
    if (kIndent + shown(part) <= columns)
      add(part);
    else
      for (size_t end; !part.empty(); part.remove_prefix(end)) { // word by word
        end = std::min(part.find(' '), part.size() - 1) + 1;
        add(part.substr(0, end));
      }
  return text;
}

} // namespace echelon::runtime
