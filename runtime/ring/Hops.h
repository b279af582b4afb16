// How blocks of keys and values go round, on hosts and devices alike: whose are where in which hop, and which pairs of
// positions meet there.
//
// A Way moves one buffer to the next rank while that of the rank before arrives: start(from, to, count), wait(). Of
// shares of a sum it also has clear(x, count) and add(to, from, count).
#pragma once
#include "runtime/ring/RingAttention.h"

#include <utility>

namespace echelon::runtime::hops {

/// The blocks of all ranks, one a hop: a rank's own first, then each where the last but one was.
template <typename T, typename Way> class Visitors {
public:
  Visitors(Way way, const T *own, T *room, int64_t count) : way(std::move(way)), own(own), room(room), count(count) {}
  const T *at(int hop) const { return hop == 0 ? own : room + (hop - 1) % 2 * count; }
  void startNext(int hop) { way.start(at(hop), room + hop % 2 * count, count); }
  void wait() { way.wait(); }

private:
  Way way;
  const T *own;
  T *room;
  int64_t count;
};

/// The shares of dk or dv of the block that is here: this rank's are made apart, and added to what has come with it.
template <typename T, typename Way> class Shares {
public:
  Shares(Way way, T *result, T *room, int64_t count) : way(std::move(way)), result(result), room(room), count(count) {}
  /// This rank's shares in a hop, 0 at first.
  T *begin(int hop) {
    way.clear(at(hop), count);
    return at(hop);
  }
  /// Adds what others have found, and hands it on: what is received last is complete, and this rank's own.
  void handOn(int hop) {
    if (hop > 0) {
      way.wait();
      way.add(at(hop), result, count);
    }
    way.start(at(hop), result, count);
  }
  void wait() { way.wait(); }

private:
  T *at(int hop) const { return room + hop % 2 * count; }
  Way way;
  T *result, *room;
  int64_t count;
};

/// Calls body(hop) in each hop, while the blocks of the next one are on their way.
template <typename Blocks, typename Body> void overHops(int ranks, Blocks &keys, Blocks &values, Body body) {
  for (int hop = 0; hop < ranks; ++hop) {
    const bool isLast = hop + 1 == ranks;
    if (!isLast) {
      keys.startNext(hop);
      values.startNext(hop);
    }
    body(hop);
    if (!isLast) {
      keys.wait();
      values.wait();
    }
  }
}

/// A run of queries and one of the keys that are here: where they begin in storage, and the shape of the kernel's call.
struct Pair {
  int64_t sample, query, key, column; // column: the first key's position, in a mask or bias
  AttentionShape shape;
  int64_t ofQueries(const HeadStrides &s) const { return sample * s.batch + query * s.row; }
  int64_t ofKeys(const HeadStrides &s) const { return sample * s.batch + key * s.row; }
  int64_t ofScores(const ScoreStrides &s) const { return sample * s.batch + query * s.seq + column * s.past; }
  int64_t ofStatistics() const { return sample * shape.group * shape.head * shape.apart + query; }
};

/// Calls visit with each pair of runs of which some query may see some key, of all samples from the first on. `owner`:
/// whose keys they are.
template <typename Visit> void overPairs(const Ring &ring, const AttentionShape &shape, int64_t owner, Visit visit) {
  Pair pair{0, 0, 0, 0, shape};
  pair.shape.adds = true;
  pair.shape.apart = shape.seq;
  for (const PositionRun &queries : ring.queries) {
    pair.key = 0;
    for (const PositionRun &keys : ring.keys) {
      pair.column = keys.begin + owner * keys.step;
      pair.shape.seq = queries.size;
      pair.shape.past = keys.size;
      pair.shape.offset = queries.begin - pair.column;
      if (!shape.causal || pair.shape.offset + queries.size > 0)
        visit(pair);
      pair.key += keys.size;
    }
    pair.query += queries.size;
  }
}

template <typename T> T *moved(T *x, int64_t by) { return x ? x + by : x; }

/// Keys of all ranks: the columns of a mask or bias.
inline int64_t allKeys(const AttentionShape &shape, const Group &group) { return shape.past * group.size(); }

/// Whose keys are here in a hop.
inline int64_t ownerIn(int hop, const Group &group) { return (group.index - hop + group.size()) % group.size(); }

} // namespace echelon::runtime::hops
