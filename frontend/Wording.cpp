// Words in messages: quoting what the user wrote, lists, and the nearest known word.
#include "frontend/Diagnostics.h"

namespace echelon::frontend {

std::string escaped(std::string_view text) {
  constexpr size_t longest = 80;
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (out.size() >= longest)
      return out + "…";
    std::string_view own = text.substr(i, runtime::characterAt(text, i).bytes);
    out += printable(own);
    i += own.size();
  }
  return out;
}

std::string listed(const std::vector<std::string> &words, const char *last) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i)
      out += i + 1 == words.size() ? std::string(" ") + last + " " : ", ";
    out += words[i];
  }
  return out;
}

std::string didYouMean(std::string_view word, const std::vector<std::string> &known) {
  std::string n = nearest(word, known);
  return n.empty() ? "" : "; did you mean '" + n + "'?";
}

} // namespace echelon::frontend
