// What may be shown on a terminal of text that comes from outside: names of files, contents of files, arguments. The
// compiler (frontend/Diagnostics.h) and programs both print through it; it is in a header so that neither has to
// link the other.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace echelon::runtime {

/// The character that begins at text[at]. `bytes` is 1 and `valid` false where there is none: not UTF-8.
struct Character {
  size_t bytes = 1;
  uint32_t code = 0;
  bool valid = false;
};

inline Character characterAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return uint32_t(static_cast<unsigned char>(text[i])); };
  const uint32_t lead = byte(at);
  if (lead < 0x80)
    return {1, lead, true};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + bytes > text.size())
    return {1, lead, false};
  uint32_t code = lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80)
      return {1, lead, false};
    code = code << 6 | (byte(at + i) & 0x3F);
  }
  const bool overlong = code < (bytes == 4 ? 0x10000u : bytes == 3 ? 0x800u : 0x80u);
  const bool none = overlong || (code >= 0xD800 && code < 0xE000) || code > 0x10FFFF;
  return none ? Character{1, lead, false} : Character{bytes, code, true};
}

/// Commands to a terminal: C0, DEL, C1.
inline bool isControl(uint32_t code) { return code < 0x20 || (code >= 0x7F && code < 0xA0); }

/// Characters that change the direction of the text after them, so that it reads other than it is.
inline bool turnsDirection(uint32_t code) {
  return (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

/// Characters that do not show, or that end a line where no line end is.
inline bool isHidden(uint32_t code) {
  return code == 0xAD || code == 0x34F || code == 0x61C || code == 0x115F || code == 0x1160 || code == 0x180E ||
         (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 || (code >= 0x2060 && code <= 0x206F) ||
         code == 0x3164 || code == 0xFEFF || code == 0xFFA0 || (code >= 0xFFF9 && code <= 0xFFFB) ||
         (code >= 0xE0000 && code <= 0xE0FFF);
}

/// What becomes of line ends.
enum class Lines {
  Escaped,  // all is one line: a name
  Indented, // kept before a line that is indented, so that nothing from outside begins a line: a message
  Kept      // text of many lines, such as the host compiler's
};

/// `text` with what is no plain character spelled out: \n, \x1b, \u202e; a byte that is not UTF-8: \xff.
inline std::string printable(std::string_view text, Lines lines = Lines::Escaped) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const Character c = characterAt(text, i);
    const bool indented = i + 1 == text.size() || text.substr(i + 1, 2) == "  ";
    char spelled[12];
    if (c.code == '\n' && (lines == Lines::Kept || (lines == Lines::Indented && indented)))
      out += '\n';
    else if (c.code == '\n')
      out += "\\n";
    else if (c.code == '\t')
      out += lines == Lines::Escaped ? "\\t" : "\t";
    else if (c.valid && !isControl(c.code) && !turnsDirection(c.code) && !isHidden(c.code))
      out += text.substr(i, c.bytes);
    else {
      const char *form = !c.valid || c.code < 0x80 ? "\\x%02x" : c.code < 0x10000 ? "\\u%04x" : "\\U%08x";
      std::snprintf(spelled, sizeof spelled, form, unsigned(c.code));
      out += spelled;
    }
    i += c.bytes;
  }
  return out;
}

} // namespace echelon::runtime
