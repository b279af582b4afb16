#include "runtime/cuda/Copy.h"
#include "runtime/cuda/RingAttention.h"
#include "runtime/ring/Hops.h"

#include <limits>

namespace echelon::cuda {
namespace {

using namespace runtime::hops;

/// One buffer's way (Hops.h), by the streams of the group.
template <typename T> class Way {
public:
  Way(Rank &rank, const Group &group, const char *label) : rank(&rank), group(&group), label(label) {}
  void start(const T *from, T *to, int64_t count) {
    moved = rank->collectives().start(*group, Shift{runtime::ElementTypeOf<T>::value, from, to, count, label});
  }
  void wait() { moved.wait(); }
  void clear(T *x, int64_t count) { fill(static_cast<Stream>(*rank), x, count, T(0)); }
  void add(T *to, const T *from, int64_t count) {
    add_strided(static_cast<Stream>(*rank), to, {1}, from, {1}, {count});
  }

private:
  Rank *rank;
  const Group *group;
  const char *label;
  Ticket moved;
};

template <typename T>
void clear(Stream stream, T *x, const HeadStrides &s, const AttentionShape &shape, int64_t rows, int64_t width,
           int64_t last = 1) {
  const int64_t steps[] = {s.batch, s.group, s.head, s.row, last};
  int64_t sizes[] = {shape.batch, shape.group, shape.head, rows, width};
  for (int k = 0; k < 5; ++k)
    sizes[k] = steps[k] == 0 ? 1 : sizes[k];
  fill_strided(stream, x, steps, sizes, 5, T(0));
}

} // namespace

template <typename T>
void ring_attention(Rank &r, const Group &group, T *out, T *maximum, T *sum, T *keys, T *values, const T *q, const T *k,
                    const T *v, const Ring &ring, const AttentionShape &shape, const AttentionStrides &strides,
                    const char *label, const uint8_t *mask, const T *bias) {
  const Stream stream = r;
  const int64_t rows = shape.batch * shape.group * shape.head * shape.seq;
  clear(stream, out, strides.out, shape, shape.seq, shape.value);
  fill(stream, maximum, rows, -std::numeric_limits<T>::infinity());
  fill(stream, sum, rows, T(0));
  Visitors<T, Way<T>> keysHere({r, group, label}, k, keys, ring.keyCount),
      valuesHere({r, group, label}, v, values, ring.valueCount);
  overHops(group.size(), keysHere, valuesHere, [&](int hop) {
    overPairs(ring, shape, ownerIn(hop, group), [&](const Pair &pair) {
      const int64_t statistics = pair.ofStatistics();
      attention(stream, out + pair.ofQueries(strides.out), maximum + statistics, sum + statistics,
                q + pair.ofQueries(strides.q), keysHere.at(hop) + pair.ofKeys(strides.k),
                valuesHere.at(hop) + pair.ofKeys(strides.v), pair.shape, strides,
                moved(mask, pair.ofScores(shape.mask)), moved(bias, pair.ofScores(shape.bias)));
    });
  });
}

template <typename T>
void ring_attention_grad(Rank &r, const Group &group, T *dq, T *dk, T *dv, T *dbias, T *keys, T *values, T *dkeys,
                         T *dvalues, const T *dout, const T *out, const T *maximum, const T *sum, const T *q,
                         const T *k, const T *v, const Ring &ring, const AttentionShape &shape,
                         const AttentionStrides &strides, const AttentionStrides &grads, const char *label,
                         const uint8_t *mask, const T *bias) {
  const Stream stream = r;
  clear(stream, dq, grads.q, shape, shape.seq, shape.key);
  const ScoreStrides &b = shape.bias;
  if (dbias)
    clear(stream, dbias, {b.batch, b.group, b.head, b.seq}, shape, shape.seq, allKeys(shape, group), b.past);
  T *scratch = r.scratch<T>(attention_grad_scratch(shape, grads)); // of all queries and keys: enough for each pair
  Visitors<T, Way<T>> keysHere({r, group, label}, k, keys, ring.keyCount),
      valuesHere({r, group, label}, v, values, ring.valueCount);
  Shares<T, Way<T>> dkShares({r, group, label}, dk, dkeys, ring.keyCount),
      dvShares({r, group, label}, dv, dvalues, ring.valueCount);
  overHops(group.size(), keysHere, valuesHere, [&](int hop) {
    T *dkHere = dkShares.begin(hop), *dvHere = dvShares.begin(hop);
    overPairs(ring, shape, ownerIn(hop, group), [&](const Pair &pair) {
      const int64_t statistics = pair.ofStatistics();
      attention_grad(stream, dq + pair.ofQueries(grads.q), dkHere + pair.ofKeys(grads.k), dvHere + pair.ofKeys(grads.v),
                     moved(dbias, pair.ofScores(shape.bias)), dout + pair.ofQueries(grads.out),
                     out + pair.ofQueries(strides.out), maximum + statistics, sum + statistics,
                     q + pair.ofQueries(strides.q), keysHere.at(hop) + pair.ofKeys(strides.k),
                     valuesHere.at(hop) + pair.ofKeys(strides.v), pair.shape, strides, grads,
                     moved(mask, pair.ofScores(shape.mask)), moved(bias, pair.ofScores(shape.bias)), scratch);
    });
    dkShares.handOn(hop);
    dvShares.handOn(hop);
  });
  dkShares.wait();
  dvShares.wait();
}

#define INSTANTIATE(T)                                                                                                 \
  template void ring_attention<T>(Rank &, const Group &, T *, T *, T *, T *, T *, const T *, const T *, const T *,     \
                                  const Ring &, const AttentionShape &, const AttentionStrides &, const char *,        \
                                  const uint8_t *, const T *);                                                         \
  template void ring_attention_grad<T>(Rank &, const Group &, T *, T *, T *, T *, T *, T *, T *, T *, const T *,       \
                                       const T *, const T *, const T *, const T *, const T *, const T *, const Ring &, \
                                       const AttentionShape &, const AttentionStrides &, const AttentionStrides &,     \
                                       const char *, const uint8_t *, const T *);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::cuda
