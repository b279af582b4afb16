// scatter: place i gets row i of the root's buffer.
//
//   algorithm    rounds      bytes sent per rank
//   ring         p - 1       rows for all places further on, the furthest first: n (p - 1) / p from the root
//   butterfly    log2 p      the same as tree: halving is a binomial tree here
//   tree         log2 p      half of what it holds in each round: n (p - 1) / p from the root
//   one_to_all   1           n (p - 1) / p from the root
//   direct       one pass    each reads and writes its row: no messages

#include "runtime/collectives/Plans.h"

namespace echelon::runtime {

// A place that is 2^k from its parent holds the parts of the 2^k places from itself on (counted from the root) and
// hands the upper half on. Parts are held in that order, so every message is one piece.
void treeScatter(Schedule &s, const char *buffer, char *own, const Parts &parts, int root) {
  const int p = s.places(), me = s.place(), relative = (me - root + p) % p;
  const size_t bytes = s.elementBytes();
  const TreeOrder order = {parts, p, root};
  int bit = 1;
  while (bit < p && !(relative & bit))
    bit *= 2;
  const int end = std::min(p, relative + bit);
  char *held = s.scratch(order.count(relative, end));
  if (relative == 0) {
    for (int r = 0; r < p; ++r)
      s.copy(held + order.count(0, r) * bytes, buffer + parts.begin(order.placeOf(r)) * bytes,
             parts.count(order.placeOf(r)));
  } else {
    s.receive(order.placeOf(relative - bit), held, order.count(relative, end));
  }
  s.nextRound();
  for (bit /= 2; bit >= 1; bit /= 2)
    if (relative + bit < p) {
      s.send(order.placeOf(relative + bit), held + order.count(relative, relative + bit) * bytes,
             order.count(relative + bit, std::min(p, relative + 2 * bit)));
      s.nextRound();
    }
  s.copy(own, held, parts.count(me));
  s.nextRound();
}

bool planScatter(Schedule &s, Algorithm algorithm) {
  const int p = s.places(), me = s.place(), root = s.call.root, relative = (me - root + p) % p;
  const int64_t count = s.call.count, rowBytes = count * s.elementBytes();
  switch (algorithm) {
  case Algorithm::ring: {
    // Hands rows on as they come; the last is its own.
    char *passing[2] = {s.scratch(count), s.scratch(count)};
    const int rows = p - relative; // that come by here, its own included
    for (int round = 0; round <= rows; ++round) {
      if (relative == 0 && round < p - 1)
        s.send((me + 1) % p, s.in() + (root + p - 1 - round) % p * rowBytes, count);
      if (relative > 0 && round > 0 && round < rows)
        s.send((me + 1) % p, passing[(round - 1) % 2], count);
      if (relative > 0 && round < rows)
        s.receive((me + p - 1) % p, round == rows - 1 ? s.out() : passing[round % 2], count);
      s.nextRound();
    }
    if (relative == 0)
      s.copy(s.out(), s.in() + me * rowBytes, count);
    return true;
  }
  case Algorithm::butterfly:
  case Algorithm::tree:
    treeScatter(s, s.in(), s.out(), Parts::rows(p, count), root);
    return true;
  case Algorithm::one_to_all:
    if (me == root) {
      for (int to = 0; to < p; ++to)
        if (to != root)
          s.send(to, s.in() + to * rowBytes, count);
      s.copy(s.out(), s.in() + me * rowBytes, count);
    } else {
      s.receive(root, s.out(), count);
    }
    return true;
  default:
    return false;
  }
}

} // namespace echelon::runtime
