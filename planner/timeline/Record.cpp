#include "planner/timeline/Record.h"

namespace echelon::planner {

size_t Record::add(const Span &span) {
  isCut |= spans.size() >= kMost;
  if (isCut)
    return kNowhere;
  spans.push_back(span);
  return spans.size() - 1;
}

/// A span that stands for others comes after them, and so after all that it has a share in.
std::vector<double> Record::counts() const {
  std::vector<double> counts(spans.size());
  for (size_t i = spans.size(); i-- > 0;) {
    const Span &span = spans[i];
    counts[i] += span.isOfTurn ? 0 : 1;
    if (span.kind != Span::Kind::Again && span.kind != Span::Kind::Piece)
      continue;
    for (size_t j = span.from; j < span.to; ++j)
      counts[j] += counts[i] * double(span.times);
  }
  return counts;
}

} // namespace echelon::planner
