// all_reduce: everyone gets the sum. An element is summed at one place and copied from there, or everywhere by the same
// tree of additions: the ranks' results are the same bits.
//
//   algorithm    rounds                       bytes sent per rank
//   ring         2 (p - 1)                    2 n (p - 1) / p
//   butterfly    2 log2 p (+ 2 unless 2^k)    2 n (p - 1) / p (+ 2 n for the folded places)
//                log2 p up to 16 KiB          n log2 p
//   tree         2 log2 p                     n up; up to n log2 p from the root down
//   one_to_all   2                            n; the first place n (p - 1)
//   direct       one pass                     reads n, writes n: no messages

#include "runtime/collectives/Plans.h"

namespace echelon::runtime {

// Recursive doubling of the whole buffer: half the rounds of halving and doubling. The places beyond the power of two
// give theirs to a neighbour first and are told the result.
static void doublingAllReduce(Schedule &s, char *buffer, int64_t count) {
  const int me = s.place();
  const Core core(s.places());
  char *incoming = s.scratch(count);
  if (core.isFolded(me)) {
    s.send(me - 1, buffer, count);
    s.nextRound();
    s.receive(me - 1, buffer, count);
    s.nextRound();
    return;
  }
  if (core.standsForTwo(me)) {
    s.receive(me + 1, incoming, count);
    s.reduce(buffer, buffer, incoming, count);
    s.nextRound();
  }
  const int member = core.memberOf(me);
  for (int distance = 1; distance < core.size; distance *= 2) {
    const int other = member ^ distance, partner = core.placeOf(other);
    s.send(partner, buffer, count);
    s.receive(partner, incoming, count);
    if (member < other) // the same order of summands on both sides
      s.reduce(buffer, buffer, incoming, count);
    else
      s.reduce(buffer, incoming, buffer, count);
    s.nextRound();
  }
  if (core.standsForTwo(me)) {
    s.send(me + 1, buffer, count);
    s.nextRound();
  }
}

bool planAllReduce(Schedule &s, Algorithm algorithm) {
  const int p = s.places(), me = s.place();
  const int64_t count = s.call.count;
  const Parts parts = Parts::even(p, count);
  if (planRoundedSum(s, algorithm))
    return true;
  char *buffer = s.out();
  s.copy(buffer, s.in(), count);
  s.nextRound();
  switch (algorithm) {
  case Algorithm::ring:
    ringReduceScatter(s, buffer, parts);
    ringAllGather(s, buffer, parts);
    return true;
  case Algorithm::butterfly:
    if (count * s.elementBytes() <= 16 << 10) {
      doublingAllReduce(s, buffer, count);
    } else {
      butterflyReduceScatter(s, buffer, parts);
      butterflyAllGather(s, buffer, parts);
    }
    return true;
  case Algorithm::tree:
    treeReduce(s, buffer, count, 0);
    treeBroadcast(s, buffer, count, 0);
    return true;
  case Algorithm::one_to_all:
    if (me == 0) {
      for (int from = 1; from < p; ++from) {
        char *incoming = s.scratch(count);
        s.receive(from, incoming, count);
        s.reduce(buffer, buffer, incoming, count);
      }
      s.nextRound();
      for (int to = 1; to < p; ++to)
        s.send(to, buffer, count);
    } else {
      s.send(0, buffer, count);
      s.nextRound();
      s.receive(0, buffer, count);
    }
    return true;
  default:
    return false;
  }
}

} // namespace echelon::runtime
