// The algorithms over messages, one file a collective, and the parts that several of them share.
//
// Terms: p places; a *part* is the piece of the buffer that belongs to one place; a *round* is a set of messages that
// are under way together. n is the bytes of the whole buffer: count, or p x count where there is a row per place.
#pragma once

#include "runtime/collectives/Collectives.h"
#include "runtime/collectives/Schedule.h"

namespace echelon::runtime {

/// How a buffer is cut into one part per place; in elements.
struct Parts {
  std::vector<int64_t> begins; // places + 1 of them

  /// Rows of `count`.
  static Parts rows(int places, int64_t count);
  /// `count` elements, as even as they go.
  static Parts even(int places, int64_t count);

  int64_t begin(int part) const { return begins[part]; }
  int64_t count(int part) const { return begins[part + 1] - begins[part]; }
  int64_t count(int first, int end) const { return begins[end] - begins[first]; } // parts [first, end)
  int64_t total() const { return begins.back(); }
};

/// The places of a butterfly: a core of 2^k of them, and `extra` that are folded into it. Of the places below 2 extra
/// the odd ones are folded into the even ones before them; what stays is numbered 0, 1, … (members), so that each
/// member stands for one or two neighbouring places and their parts.
struct Core {
  int size = 1, extra;

  explicit Core(int places) {
    while (size * 2 <= places)
      size *= 2;
    extra = places - size;
  }
  bool isFolded(int place) const { return place < 2 * extra && place % 2; }
  bool standsForTwo(int place) const { return place < 2 * extra && place % 2 == 0; }
  int memberOf(int place) const { return place < 2 * extra ? place / 2 : place - extra; }
  /// The member's own place, which is also the first place, and part, that it stands for; of `size`: the end.
  int placeOf(int member) const { return member < extra ? 2 * member : member + extra; }
};

/// Parts in the order of a binomial tree below `root`: places counted from it.
struct TreeOrder {
  const Parts &parts;
  int places, root;

  int placeOf(int relative) const { return (relative + root) % places; }
  int64_t count(int first, int end) const { // parts of the relative places [first, end)
    int64_t sum = 0;
    for (int r = first; r < end; ++r)
      sum += parts.count(placeOf(r));
    return sum;
  }
};

// Each writes its rounds into the schedule; false: this collective has no such algorithm.
bool planAllReduce(Schedule &s, Algorithm algorithm);
bool planRoundedSum(Schedule &s, Algorithm algorithm); // all_reduce, reduce_scatter
bool planReduceScatter(Schedule &s, Algorithm algorithm);
bool planAllGather(Schedule &s, Algorithm algorithm);
bool planAllToAll(Schedule &s, Algorithm algorithm);
bool planBroadcast(Schedule &s, Algorithm algorithm);
bool planReduce(Schedule &s, Algorithm algorithm);
bool planScatter(Schedule &s, Algorithm algorithm);
bool planGather(Schedule &s, Algorithm algorithm);
bool planBarrier(Schedule &s, Algorithm algorithm);

// ---- shared parts; `buffer` holds all parts ----

/// Place i ends with part i of the sum in its buffer; the other parts are spoilt.
void ringReduceScatter(Schedule &s, char *buffer, const Parts &parts);
void butterflyReduceScatter(Schedule &s, char *buffer, const Parts &parts);
/// Place i starts with part i in its buffer and ends with all.
void ringAllGather(Schedule &s, char *buffer, const Parts &parts);
void butterflyAllGather(Schedule &s, char *buffer, const Parts &parts);

/// A binomial tree below `root`. The sum of all `buffer`s ends in the root's; those of the others are spoilt.
void treeReduce(Schedule &s, char *buffer, int64_t count, int root);
void treeBroadcast(Schedule &s, char *buffer, int64_t count, int root);
/// `buffer` holds all parts, in order of the place, at the root; place i ends, or starts, with its own in `own`.
void treeScatter(Schedule &s, const char *buffer, char *own, const Parts &parts, int root);
void treeGather(Schedule &s, char *buffer, const char *own, const Parts &parts, int root);

} // namespace echelon::runtime
