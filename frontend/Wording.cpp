// Words in messages: quoting what the user wrote, lists, and the nearest known word.
#include "frontend/Diagnostics.h"
#include <algorithm>
#include <cctype>
#include <cstdio>

namespace echelon::frontend {

std::string escaped(std::string_view text) {
  constexpr size_t longest = 80;
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (out.size() >= longest)
      return out + "…";
    unsigned char c = static_cast<unsigned char>(text[i]);
    size_t n = c < 0x80 ? 1 : c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 ? 2 : 0;
    bool whole = n && i + n <= text.size();
    for (size_t k = 1; whole && k < n; ++k)
      whole = (text[i + k] & 0xC0) == 0x80;
    bool control = c < 0x20 || c == 0x7F || (c == 0xC2 && whole && static_cast<unsigned char>(text[i + 1]) < 0xA0);
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (whole && !control)
      out += text.substr(i, n);
    else {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\x%02x", c);
      out += hex;
      n = 1;
    }
    i += n;
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

namespace {
// Insertions, deletions, replacements and swaps of neighbours that turn a into b; case differences count nothing.
size_t distance(std::string_view a, std::string_view b) {
  auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  };
  std::vector<size_t> before, last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + !same(a[i - 1], b[j - 1])});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
        now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = last;
    last = now;
  }
  return last[b.size()];
}
} // namespace

std::string nearest(std::string_view word, const std::vector<std::string> &known) {
  if (word.size() > 64)
    return "";
  size_t allowed = word.size() < 2 ? 0 : word.size() < 6 ? 1 : word.size() / 3, best = allowed + 1;
  std::string found;
  for (const std::string &k : known) {
    size_t d = k == word ? best : distance(word, k);
    if (d < best) {
      best = d;
      found = k;
    }
  }
  return found;
}

std::string didYouMean(std::string_view word, const std::vector<std::string> &known) {
  std::string n = nearest(word, known);
  return n.empty() ? "" : "; did you mean '" + n + "'?";
}

} // namespace echelon::frontend
