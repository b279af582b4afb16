// barrier: nobody goes on before everyone has come. Messages of one byte.
//
//   algorithm    rounds        messages sent per rank
//   ring         2 p           2: a token goes round twice
//   butterfly    log2 p        log2 p: in round k to the place 2^k to the right (dissemination)
//   tree         2 log2 p      1 up, up to log2 p down
//   one_to_all   2             1; the first place p - 1
//   direct       one flag      none

#include "runtime/collectives/Plans.h"

namespace echelon::runtime {

bool planBarrier(Schedule &s, Algorithm algorithm) {
  const int p = s.places(), me = s.place(), right = (me + 1) % p, left = (me + p - 1) % p;
  char *token = s.scratch(1);
  switch (algorithm) {
  case Algorithm::ring:
    for (int lap = 0; lap < 2; ++lap) {
      if (me != 0) {
        s.receive(left, token, 1);
        s.nextRound();
      }
      s.send(right, token, 1);
      s.nextRound();
      if (me == 0) {
        s.receive(left, token, 1);
        s.nextRound();
      }
    }
    return true;
  case Algorithm::butterfly:
    for (int distance = 1; distance < p; distance *= 2) {
      s.send((me + distance) % p, token, 1);
      s.receive((me + p - distance) % p, token, 1);
      s.nextRound();
    }
    return true;
  case Algorithm::tree:
    treeReduce(s, token, 1, 0);
    treeBroadcast(s, token, 1, 0);
    return true;
  case Algorithm::one_to_all:
    if (me == 0) {
      char *tokens = s.scratch(p);
      for (int from = 1; from < p; ++from)
        s.receive(from, tokens + from, 1);
      s.nextRound();
      for (int to = 1; to < p; ++to)
        s.send(to, token, 1);
    } else {
      s.send(0, token, 1);
      s.nextRound();
      s.receive(0, token, 1);
    }
    return true;
  default:
    return false;
  }
}

} // namespace echelon::runtime
