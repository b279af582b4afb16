#include "codegen/Text.h"

#include "runtime/launch/Printable.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace echelon;
using llvm::StringRef;

std::string codegen::quoted(StringRef text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    StringRef own = text.substr(i, runtime::characterAt(text, i).bytes);
    if (own == "\n")
      out += "\\n";
    else if (own == "\t")
      out += "\\t";
    else if (own == "\"" || own == "\\" || (own == "?" && i > 0 && text[i - 1] == '?')) // ??/ may be a trigraph
      out += "\\" + own.str();
    else if (runtime::printable(own) == own)
      out += own;
    else // three octal digits, which no digit after them can lengthen
      for (unsigned char c : own)
        out += llvm::formatv("\\{0}{1}{2}", c >> 6, c >> 3 & 7, c & 7);
    i += own.size();
  }
  return out + "\"";
}

std::string codegen::commented(StringRef text, size_t longest) {
  std::string out = text.str();
  std::replace(out.begin(), out.end(), '\t', ' ');
  out = runtime::printable(out);
  size_t end = std::min(out.size(), longest);
  while (end < out.size() && (out[end] & 0xC0) == 0x80) // inside a character
    --end;
  StringRef kept = StringRef(out).take_front(end).rtrim();
  // A backslash, or the trigraph of one, would take the next line into the comment.
  while (kept.consume_back("\\") || kept.consume_back("?"
                                                      "?/"))
    kept = kept.rtrim();
  return kept.str();
}
