#include "runtime/ring/RingAttention.h"

#include "runtime/collectives/Ticket.h"
#include "runtime/kernels/Copy.h"
#include "runtime/ring/Hops.h"

#include <limits>

namespace echelon::runtime {
namespace {

using namespace hops;

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
  Way(const Route &route) : route(route) {}
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
  void clear(T *x, int64_t count) { fill(x, count, T(0)); }
  void add(T *to, const T *from, int64_t count) { add_strided(to, {1}, from, {1}, {count}); }

private:
  Route route;
  Ticket sent, received;
};

/// Calls visit with each pair of runs (overPairs) of each sample.
template <typename Visit> void overSamples(const Ring &ring, const AttentionShape &shape, int64_t owner, Visit visit) {
  overPairs(ring, shape, owner, [&](Pair pair) {
    pair.shape.batch = 1;
    for (; pair.sample < shape.batch; ++pair.sample)
      visit(pair);
  });
}

template <typename T>
void clear(T *x, const HeadStrides &s, const AttentionShape &shape, int64_t rows, int64_t width, int64_t last = 1) {
  const int64_t steps[] = {s.batch, s.group, s.head, s.row, last};
  const int64_t sizes[] = {shape.batch, shape.group, shape.head, rows, width};
  fill_strided(x, steps, sizes, 5, T(0));
}

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
  Visitors<T, Way<T>> keysHere(route, k, keys, ring.keyCount), valuesHere(route, v, values, ring.valueCount);
  overHops(group.size(), keysHere, valuesHere, [&](int hop) {
    overSamples(ring, shape, ownerIn(hop, group), [&](const Pair &pair) {
      const int64_t statistics = pair.ofStatistics();
      attention(out + pair.ofQueries(strides.out), maximum + statistics, sum + statistics,
                q + pair.ofQueries(strides.q), keysHere.at(hop) + pair.ofKeys(strides.k),
                valuesHere.at(hop) + pair.ofKeys(strides.v), pair.shape, strides,
                moved(mask, pair.ofScores(shape.mask)), moved(bias, pair.ofScores(shape.bias)));
      t.progress();
    });
  });
}

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
  Visitors<T, Way<T>> keysHere(route, k, keys, ring.keyCount), valuesHere(route, v, values, ring.valueCount);
  Shares<T, Way<T>> dkShares(home, dk, dkeys, ring.keyCount), dvShares(home, dv, dvalues, ring.valueCount);
  overHops(group.size(), keysHere, valuesHere, [&](int hop) {
    T *dkHere = dkShares.begin(hop), *dvHere = dvShares.begin(hop);
    overSamples(ring, shape, ownerIn(hop, group), [&](const Pair &pair) {
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
  });
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
