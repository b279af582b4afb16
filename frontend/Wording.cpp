// Words in messages: quoting what the user wrote, lists, and the nearest known word.
#include "frontend/Diagnostics.h"
#include <algorithm>
#include <cctype>

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

namespace {
// Insertions, deletions, replacements and swaps of neighbours that turn a into b, or `enough` where they are no fewer;
// case differences count nothing.
size_t distance(std::string_view a, std::string_view b, size_t enough) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) >= enough)
    return enough;
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
    std::swap(before, last); // before, last, now = last, now, (any)
    std::swap(last, now);
    now.resize(b.size() + 1);
    auto least = [](const std::vector<size_t> &row) { return *std::min_element(row.begin(), row.end()); };
    if (least(last) >= enough && least(before) >= enough)
      return enough;
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
    size_t d = k == word ? best : distance(word, k, best);
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
