// all_gather: everyone gets everyone's row.
//
//   algorithm    rounds                     bytes sent per rank
//   ring         p - 1                      n (p - 1) / p
//   butterfly    log2 p (+ 2 unless 2^k)    n (p - 1) / p (+ n to each folded place)
//   tree         2 log2 p                   its rows up the tree; then up to n log2 p from the root down
//   one_to_all   2                          n / p; the first place n (p - 1)
//   direct       one pass                   reads n, writes n: no messages
//
// Rows in runs are gathered in one piece each first, and then copied, but by the direct form.

#include "runtime/collectives/Plans.h"

namespace echelon::runtime {

// Each part travels once around the ring.
void ringAllGather(Schedule &s, char *buffer, const Parts &parts) {
  const int p = s.places(), me = s.place(), right = (me + 1) % p, left = (me + p - 1) % p;
  const size_t bytes = s.elementBytes();
  for (int round = 0; round + 1 < p; ++round) {
    const int away = (me + p - round) % p, here = (me + 2 * p - round - 1) % p;
    s.send(right, buffer + parts.begin(away) * bytes, parts.count(away));
    s.receive(left, buffer + parts.begin(here) * bytes, parts.count(here));
    s.nextRound();
  }
}

// Recursive doubling: butterflyReduceScatter backwards, without the sums.
void butterflyAllGather(Schedule &s, char *buffer, const Parts &parts) {
  const int me = s.place();
  const size_t bytes = s.elementBytes();
  const Core core(s.places());

  if (core.isFolded(me)) {
    s.send(me - 1, buffer + parts.begin(me) * bytes, parts.count(me));
    s.nextRound();
    s.receive(me - 1, buffer, parts.total());
    s.nextRound();
    return;
  }
  if (core.standsForTwo(me)) {
    s.receive(me + 1, buffer + parts.begin(me + 1) * bytes, parts.count(me + 1));
    s.nextRound();
  }
  const int member = core.memberOf(me);
  for (int distance = 1; distance < core.size; distance *= 2) {
    const int have = member / distance * distance, get = have ^ distance;
    const int partner = core.placeOf(member ^ distance);
    const int havePart = core.placeOf(have), getPart = core.placeOf(get);
    s.send(partner, buffer + parts.begin(havePart) * bytes, parts.count(havePart, core.placeOf(have + distance)));
    s.receive(partner, buffer + parts.begin(getPart) * bytes, parts.count(getPart, core.placeOf(get + distance)));
    s.nextRound();
  }
  if (core.standsForTwo(me)) {
    s.send(me + 1, buffer, parts.total());
    s.nextRound();
  }
}

// All rows, one after the other, into `out`.
static bool gatherRows(Schedule &s, char *out, Algorithm algorithm) {
  const int p = s.places(), me = s.place();
  const int64_t count = s.call.count, rowBytes = count * s.elementBytes();
  const Parts parts = Parts::rows(p, count);
  s.copy(out + me * rowBytes, s.in(), count);
  s.nextRound();
  switch (algorithm) {
  case Algorithm::ring:
    ringAllGather(s, out, parts);
    return true;
  case Algorithm::butterfly:
    butterflyAllGather(s, out, parts);
    return true;
  case Algorithm::tree:
    treeGather(s, out, out + me * rowBytes, parts, 0);
    treeBroadcast(s, out, p * count, 0);
    return true;
  case Algorithm::one_to_all:
    if (me == 0) {
      for (int from = 1; from < p; ++from)
        s.receive(from, out + from * rowBytes, count);
      s.nextRound();
      for (int to = 1; to < p; ++to)
        s.send(to, out, p * count);
    } else {
      s.send(0, out + me * rowBytes, count);
      s.nextRound();
      s.receive(0, out, p * count);
    }
    return true;
  default:
    return false;
  }
}

bool planAllGather(Schedule &s, Algorithm algorithm) {
  if (s.call.runs <= 1)
    return gatherRows(s, s.out(), algorithm);
  char *rows = s.scratch(s.places() * s.call.count);
  if (!gatherRows(s, rows, algorithm))
    return false;
  s.nextRound();
  s.copyRowsOut(rows);
  return true;
}

} // namespace echelon::runtime
