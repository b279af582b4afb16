// all_to_all: row j of place i becomes row i of place j.
//
//   algorithm    rounds      bytes sent per rank
//   ring         p - 1       n (p - 1) / p: round k exchanges with the places k to the right and to the left
//   butterfly    log2 p      (n / 2) log2 p: Bruck, each row moves on by the bits of its distance
//   tree         none: a tree would carry all rows through one place
//   one_to_all   1           n (p - 1) / p, all messages together
//   direct       one pass    reads n, writes n: no messages

#include "runtime/collectives/Plans.h"

namespace echelon::runtime {

// Row d is the one that still has to travel d places to the right (its low bits done). In the round of a bit, all rows
// with that bit go on by as many places, packed into one message.
static void bruck(Schedule &s) {
  const int p = s.places(), me = s.place();
  const int64_t count = s.call.count, rowBytes = count * s.elementBytes();
  char *rows = s.scratch(p * count);
  for (int d = 0; d < p; ++d)
    s.copy(rows + d * rowBytes, s.in() + (me + d) % p * rowBytes, count);
  s.nextRound();
  for (int bit = 1; bit < p; bit *= 2) {
    char *away = s.scratch(p * count), *here = s.scratch(p * count);
    int64_t packed = 0;
    for (int d = bit; d < p; ++d)
      if (d & bit)
        s.copy(away + packed++ * rowBytes, rows + d * rowBytes, count);
    s.nextRound();
    s.send((me + bit) % p, away, packed * count);
    s.receive((me + p - bit) % p, here, packed * count);
    packed = 0;
    for (int d = bit; d < p; ++d)
      if (d & bit)
        s.copy(rows + d * rowBytes, here + packed++ * rowBytes, count);
    s.nextRound();
  }
  for (int d = 0; d < p; ++d)
    s.copy(s.out() + (me + p - d) % p * rowBytes, rows + d * rowBytes, count);
}

bool planAllToAll(Schedule &s, Algorithm algorithm) {
  const int p = s.places(), me = s.place();
  const int64_t count = s.call.count, rowBytes = count * s.elementBytes();
  if (algorithm == Algorithm::butterfly) {
    bruck(s);
    return true;
  }
  if (algorithm != Algorithm::ring && algorithm != Algorithm::one_to_all)
    return false;
  s.copy(s.out() + me * rowBytes, s.in() + me * rowBytes, count);
  for (int distance = 1; distance < p; ++distance) {
    const int to = (me + distance) % p, from = (me + p - distance) % p;
    s.send(to, s.in() + to * rowBytes, count);
    s.receive(from, s.out() + from * rowBytes, count);
    if (algorithm == Algorithm::ring)
      s.nextRound();
  }
  return true;
}

} // namespace echelon::runtime
