// reduce_scatter: place i gets row i of the sum.
//
//   algorithm    rounds                     bytes sent per rank
//   ring         p - 1                      n (p - 1) / p
//   butterfly    log2 p (+ 2 unless 2^k)    n (p - 1) / p (+ n from the folded places)
//   tree         2 log2 p                   n; the root n / 2 in each of its log2 p rounds, then its rows
//   one_to_all   2                          n; the first place n (p - 1) / p
//   direct       one pass                   reads n, writes n / p: no messages

#include "runtime/collectives/Plans.h"

namespace echelon::runtime {

// Part j starts at place j + 1 and collects one summand a round on its way to place j.
void ringReduceScatter(Schedule &s, char *buffer, const Parts &parts) {
  const int p = s.places(), me = s.place(), right = (me + 1) % p, left = (me + p - 1) % p;
  const size_t bytes = s.elementBytes();
  int64_t largest = 0;
  for (int part = 0; part < p; ++part)
    largest = std::max(largest, parts.count(part));
  char *incoming = s.scratch(largest);
  for (int round = 0; round + 1 < p; ++round) {
    const int away = (me + 2 * p - round - 1) % p, here = (me + 2 * p - round - 2) % p;
    char *sum = buffer + parts.begin(here) * bytes;
    s.send(right, buffer + parts.begin(away) * bytes, parts.count(away));
    s.receive(left, incoming, parts.count(here));
    s.reduce(sum, incoming, sum, parts.count(here));
    s.nextRound();
  }
}

// Recursive halving: in each round the members of the core that differ in one bit exchange halves and each keeps one.
// Folded places first add what they have to their neighbour's and get their part at the end.
void butterflyReduceScatter(Schedule &s, char *buffer, const Parts &parts) {
  const int me = s.place();
  const size_t bytes = s.elementBytes();
  const Core core(s.places());
  char *incoming = s.scratch(parts.total());

  if (core.isFolded(me)) {
    s.send(me - 1, buffer, parts.total());
    s.nextRound();
    s.receive(me - 1, buffer + parts.begin(me) * bytes, parts.count(me));
    s.nextRound();
    return;
  }
  if (core.standsForTwo(me)) {
    s.receive(me + 1, incoming, parts.total());
    s.reduce(buffer, buffer, incoming, parts.total());
    s.nextRound();
  }
  const int member = core.memberOf(me);
  for (int distance = core.size / 2, low = 0; distance >= 1; distance /= 2) {
    const int middle = low + distance;
    const bool isUpper = member >= middle;
    const int keep = isUpper ? middle : low, give = isUpper ? low : middle;
    const int keepPart = core.placeOf(keep), keepEnd = core.placeOf(keep + distance);
    const int givePart = core.placeOf(give), giveEnd = core.placeOf(give + distance);
    const int64_t kept = parts.count(keepPart, keepEnd);
    const int partner = core.placeOf(member ^ distance);
    char *own = buffer + parts.begin(keepPart) * bytes;
    s.send(partner, buffer + parts.begin(givePart) * bytes, parts.count(givePart, giveEnd));
    s.receive(partner, incoming, kept);
    if (isUpper)
      s.reduce(own, incoming, own, kept);
    else
      s.reduce(own, own, incoming, kept);
    s.nextRound();
    low = keep;
  }
  if (core.standsForTwo(me)) {
    s.send(me + 1, buffer + parts.begin(me + 1) * bytes, parts.count(me + 1));
    s.nextRound();
  }
}

bool planReduceScatter(Schedule &s, Algorithm algorithm) {
  const int p = s.places(), me = s.place();
  const int64_t count = s.call.count;
  const Parts parts = Parts::rows(p, count);
  if (planRoundedSum(s, algorithm))
    return true;
  char *buffer = s.scratch(p * count);
  const char *own = buffer + me * count * s.elementBytes();
  s.copyRowsIn(buffer);
  s.nextRound();
  switch (algorithm) {
  case Algorithm::ring:
    ringReduceScatter(s, buffer, parts);
    break;
  case Algorithm::butterfly:
    butterflyReduceScatter(s, buffer, parts);
    break;
  case Algorithm::tree:
    treeReduce(s, buffer, p * count, 0);
    treeScatter(s, buffer, s.out(), parts, 0);
    return true;
  case Algorithm::one_to_all:
    if (me == 0) {
      for (int from = 1; from < p; ++from) {
        char *incoming = s.scratch(p * count);
        s.receive(from, incoming, p * count);
        s.reduce(buffer, buffer, incoming, p * count);
      }
      s.nextRound();
      for (int to = 1; to < p; ++to)
        s.send(to, buffer + to * count * s.elementBytes(), count);
      s.copy(s.out(), buffer, count);
    } else {
      s.send(0, buffer, p * count);
      s.nextRound();
      s.receive(0, s.out(), count);
    }
    return true;
  default:
    return false;
  }
  s.copy(s.out(), own, count);
  return true;
}

} // namespace echelon::runtime
