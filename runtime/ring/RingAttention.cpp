#include "runtime/ring/RingAttention.h"

#include "runtime/collectives/Ticket.h"
#include "runtime/kernels/Copy.h"

#include <limits>

namespace echelon::runtime {
namespace {

/// From which rank to which, and under which tag.
struct Route {
  Transport &transport;
  int next, before, tag;
  const char *label;
  Route(Transport &t, const Group &group, const char *label)
      : transport(t), next(group.ranks[size_t((group.index + 1) % group.size())]),
        before(group.ranks[size_t((group.index + group.size() - 1) % group.size())]), tag(t.nextTag(group)),
        label(label) {}
};

/// One buffer's way: it is sent to the next rank while that of the rank before is received.
template <typename T> class Way {
public:
  explicit Way(const Route &route) : route(route) {}
  void start(const T *from, T *to, int64_t count) {
    Transport &t = route.transport;
    const size_t bytes = size_t(count) * sizeof(T);
    sent = Ticket(t, t.isend(route.next, from, bytes, route.tag, route.label));
    received = Ticket(t, t.ireceive(route.before, to, bytes, route.tag, route.label));
  }
  void wait() {
    received.wait();
    sent.wait();
  }

private:
  Route route;
  Ticket sent, received;
};

/// The blocks of all ranks, one a hop: a rank's own first, then each where the last but one was.
template <typename T> class Visitors {
public:
  Visitors(const Route &route, const T *own, T *room, int64_t count) : way(route), own(own), room(room), count(count) {}
  const T *at(int hop) const { return hop == 0 ? own : room + (hop - 1) % 2 * count; }
  void startNext(int hop) { way.start(at(hop), room + hop % 2 * count, count); }
  void wait() { way.wait(); }

private:
  Way<T> way;
  const T *own;
  T *room;
  int64_t count;
};

/// A sample's run of queries and one of the keys that are here: where they begin in storage, and the shape of the
/// kernel's call.
struct Pair {
  int64_t sample, query, key, column; // column: the first key's position, in a mask or bias
  AttentionShape shape;
  int64_t ofQueries(const HeadStrides &s) const { return sample * s.batch + query * s.row; }
  int64_t ofKeys(const HeadStrides &s) const { return sample * s.batch + key * s.row; }
  int64_t ofScores(const ScoreStrides &s) const { return sample * s.batch + query * s.seq + column * s.past; }
  int64_t ofStatistics() const { return sample * shape.group * shape.head * shape.apart + query; }
};

/// Calls visit with each pair of runs of which some query may see some key. `owner`: whose keys they are.
template <typename Visit> void overPairs(const Ring &ring, const AttentionShape &shape, int64_t owner, Visit visit) {
  Pair pair{0, 0, 0, 0, shape};
  pair.shape.batch = 1;
  pair.shape.adds = true;
  pair.shape.apart = shape.seq;
  for (; pair.sample < shape.batch; ++pair.sample) {
    pair.query = 0;
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
}

template <typename T> T *moved(T *x, int64_t by) { return x ? x + by : x; }

template <typename T>
void clear(T *x, const HeadStrides &s, const AttentionShape &shape, int64_t rows, int64_t width, int64_t last = 1) {
  const int64_t steps[] = {s.batch, s.group, s.head, s.row, last};
  const int64_t sizes[] = {shape.batch, shape.group, shape.head, rows, width};
  fill_strided(x, steps, sizes, 5, T(0));
}

/// Keys of all ranks: the columns of a mask or bias.
int64_t allKeys(const AttentionShape &shape, const Group &group) { return shape.past * group.size(); }

/// Whose keys are here in a hop.
int64_t ownerIn(int hop, const Group &group) { return (group.index - hop + group.size()) % group.size(); }

} // namespace

template <typename T>
void ring_attention(Transport &t, const Group &group, T *out, T *maximum, T *sum, T *keys, T *values, const T *q,
                    const T *k, const T *v, const Ring &ring, const AttentionShape &shape,
                    const AttentionStrides &strides, const char *label, const uint8_t *mask, const T *bias) {
  const int64_t rows = shape.batch * shape.group * shape.head * shape.seq;
  clear(out, strides.out, shape, shape.seq, shape.value);
  fill(maximum, rows, -std::numeric_limits<T>::infinity());
  fill(sum, rows, T(0));
  const Route route(t, group, label);
  Visitors<T> keysHere(route, k, keys, ring.keyCount), valuesHere(route, v, values, ring.valueCount);
  for (int hop = 0; hop < group.size(); ++hop) {
    const bool isLast = hop + 1 == group.size();
    if (!isLast) {
      keysHere.startNext(hop);
      valuesHere.startNext(hop);
    }
    overPairs(ring, shape, ownerIn(hop, group), [&](const Pair &pair) {
      const int64_t statistics = pair.ofStatistics();
      attention(out + pair.ofQueries(strides.out), maximum + statistics, sum + statistics,
                q + pair.ofQueries(strides.q), keysHere.at(hop) + pair.ofKeys(strides.k),
                valuesHere.at(hop) + pair.ofKeys(strides.v), pair.shape, strides,
                moved(mask, pair.ofScores(shape.mask)), moved(bias, pair.ofScores(shape.bias)));
      t.progress();
    });
    if (!isLast) {
      keysHere.wait();
      valuesHere.wait();
    }
  }
}

namespace {
/// The shares of dk and dv of the block that is here: this rank's are made apart, and added to what has come with it.
template <typename T> class Shares {
public:
  Shares(const Route &route, T *result, T *room, int64_t count)
      : way(route), result(result), room(room), count(count) {}
  /// This rank's shares in a hop, 0 at first.
  T *begin(int hop) {
    fill(at(hop), count, T(0));
    return at(hop);
  }
  /// Adds what others have found, and hands it on: what is received last is complete, and this rank's own.
  void handOn(int hop) {
    if (hop > 0) {
      way.wait();
      add_strided(at(hop), {1}, result, {1}, {count});
    }
    way.start(at(hop), result, count);
  }
  void wait() { way.wait(); }

private:
  T *at(int hop) const { return room + hop % 2 * count; }
  Way<T> way;
  T *result, *room;
  int64_t count;
};
} // namespace

template <typename T>
void ring_attention_grad(Transport &t, const Group &group, T *dq, T *dk, T *dv, T *dbias, T *keys, T *values, T *dkeys,
                         T *dvalues, const T *dout, const T *out, const T *maximum, const T *sum, const T *q,
                         const T *k, const T *v, const Ring &ring, const AttentionShape &shape,
                         const AttentionStrides &strides, const AttentionStrides &grads, const char *label,
                         const uint8_t *mask, const T *bias) {
  clear(dq, grads.q, shape, shape.seq, shape.key);
  const ScoreStrides &b = shape.bias;
  if (dbias)
    clear(dbias, {b.batch, b.group, b.head, b.seq}, shape, shape.seq, allKeys(shape, group), b.past);
  const Route route(t, group, label), home(t, group, label);
  Visitors<T> keysHere(route, k, keys, ring.keyCount), valuesHere(route, v, values, ring.valueCount);
  Shares<T> dkShares(home, dk, dkeys, ring.keyCount), dvShares(home, dv, dvalues, ring.valueCount);
  for (int hop = 0; hop < group.size(); ++hop) {
    const bool isLast = hop + 1 == group.size();
    if (!isLast) {
      keysHere.startNext(hop);
      valuesHere.startNext(hop);
    }
    T *dkHere = dkShares.begin(hop), *dvHere = dvShares.begin(hop);
    overPairs(ring, shape, ownerIn(hop, group), [&](const Pair &pair) {
      const int64_t statistics = pair.ofStatistics();
      attention_grad(dq + pair.ofQueries(grads.q), dkHere + pair.ofKeys(grads.k), dvHere + pair.ofKeys(grads.v),
                     moved(dbias, pair.ofScores(shape.bias)), dout + pair.ofQueries(grads.out),
                     out + pair.ofQueries(strides.out), maximum + statistics, sum + statistics,
                     q + pair.ofQueries(strides.q), keysHere.at(hop) + pair.ofKeys(strides.k),
                     valuesHere.at(hop) + pair.ofKeys(strides.v), pair.shape, strides, grads,
                     moved(mask, pair.ofScores(shape.mask)), moved(bias, pair.ofScores(shape.bias)));
      t.progress();
    });
    dkShares.handOn(hop);
    dvShares.handOn(hop);
    if (!isLast) {
      keysHere.wait();
      valuesHere.wait();
    }
  }
  dkShares.wait();
  dvShares.wait();
}

#define INSTANTIATE(T)                                                                                                 \
  template void ring_attention<T>(Transport &, const Group &, T *, T *, T *, T *, T *, const T *, const T *,           \
                                  const T *, const Ring &, const AttentionShape &, const AttentionStrides &,           \
                                  const char *, const uint8_t *, const T *);                                           \
  template void ring_attention_grad<T>(Transport &, const Group &, T *, T *, T *, T *, T *, T *, T *, T *, const T *,  \
                                       const T *, const T *, const T *, const T *, const T *, const T *, const Ring &, \
                                       const AttentionShape &, const AttentionStrides &, const AttentionStrides &,     \
                                       const char *, const uint8_t *, const T *);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::runtime
