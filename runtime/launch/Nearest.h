// The known word that a misspelt one may have meant. The compiler and programs both suggest; it is in a header so
// that neither has to link the other.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace echelon::runtime {

/// Insertions, deletions, replacements and swaps of neighbours that turn a into b, or `enough` where they are no fewer;
/// case differences count nothing.
inline size_t distance(std::string_view a, std::string_view b, size_t enough) {
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

/// The word nearest to `word` among `known`, or "" when none is near.
inline std::string nearest(std::string_view word, const std::vector<std::string> &known) {
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

} // namespace echelon::runtime
