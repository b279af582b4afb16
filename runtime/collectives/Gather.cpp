// gather: the root gets everyone's row.
//
//   algorithm    rounds      bytes sent per rank
//   ring         p - 1       its row and those of all places after it: n (p - 1) / p into the root
//   butterfly    log2 p      the same as tree: doubling is a binomial tree here
//   tree         log2 p      all it has collected, once: n (p - 1) / p into the root
//   one_to_all   1           n / p
//   direct       one pass    each row is read and written once: no messages

#include "runtime/collectives/Plans.h"

namespace echelon::runtime {

// treeScatter backwards.
void treeGather(Schedule &s, char *buffer, const char *own, const Parts &parts, int root) {
  const int p = s.places(), me = s.place(), relative = (me - root + p) % p;
  const size_t bytes = s.elementBytes();
  const TreeOrder order = {parts, p, root};
  int highest = 1;
  while (highest < p && !(relative & highest))
    highest *= 2;
  const int end = std::min(p, relative + highest);
  char *held = s.scratch(order.count(relative, end));
  s.copy(held, own, parts.count(me));
  s.nextRound();
  for (int bit = 1; bit < highest && relative + bit < p; bit *= 2) {
    s.receive(order.placeOf(relative + bit), held + order.count(relative, relative + bit) * bytes,
              order.count(relative + bit, std::min(p, relative + 2 * bit)));
    s.nextRound();
  }
  if (relative != 0)
    s.send(order.placeOf(relative - highest), held, order.count(relative, end));
  else
    for (int r = 0; r < p; ++r)
      s.copy(buffer + parts.begin(order.placeOf(r)) * bytes, held + order.count(0, r) * bytes,
             parts.count(order.placeOf(r)));
  s.nextRound();
}

bool planGather(Schedule &s, Algorithm algorithm) {
  const int p = s.places(), me = s.place(), root = s.call.root;
  const int64_t count = s.call.count, rowBytes = count * s.elementBytes();
  switch (algorithm) {
  case Algorithm::ring: {
    // The chain begins at the place after the root. A place sends its own row, then those that come from behind.
    const int behind = (me - root + p - 1) % p; // rows that come by here
    char *passing[2] = {s.scratch(count), s.scratch(count)};
    if (me == root)
      s.copy(s.out() + me * rowBytes, s.in(), count);
    for (int round = 0; round <= behind; ++round) {
      if (me != root)
        s.send((me + 1) % p, round == 0 ? s.in() : passing[(round - 1) % 2], count);
      if (round < behind)
        s.receive((me + p - 1) % p, me == root ? s.out() + (root + p - 1 - round) % p * rowBytes : passing[round % 2],
                  count);
      s.nextRound();
    }
    return true;
  }
  case Algorithm::butterfly:
  case Algorithm::tree:
    treeGather(s, s.out(), s.in(), Parts::rows(p, count), root);
    return true;
  case Algorithm::one_to_all:
    if (me == root) {
      for (int from = 0; from < p; ++from)
        if (from != root)
          s.receive(from, s.out() + from * rowBytes, count);
      s.copy(s.out() + me * rowBytes, s.in(), count);
    } else {
      s.send(root, s.in(), count);
    }
    return true;
  default:
    return false;
  }
}

} // namespace echelon::runtime
