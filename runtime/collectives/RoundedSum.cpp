// Sums whose summands travel in two bytes: all_reduce and reduce_scatter of floats.
//
//   1. Each place rounds all that it has, its own part too: what comes out does not depend on where a part is summed.
//   2. It sends each place that one's part, rounded.
//   3. It adds the parts that it gets as floats, in order of places.
//   4. all_reduce: it sends its part of the sum to all, in floats: nothing is rounded twice.
//
//   rounds: 1, all_reduce 2; bytes sent per rank, of a buffer of n bytes of floats:
//   reduce_scatter (n / 2) (p - 1) / p, all_reduce (3 n / 2) (p - 1) / p.

#include "runtime/collectives/Plans.h"

namespace echelon::runtime {

namespace {

template <class N> void roundTo(void *target, const void *source, int64_t count) {
  auto *to = static_cast<N *>(target);
  const auto *from = static_cast<const float *>(source);
  for (int64_t i = 0; i < count; ++i)
    to[i] = N(from[i]);
}
template <class N> void widenTo(void *target, const void *source, int64_t count) {
  auto *to = static_cast<float *>(target);
  const auto *from = static_cast<const N *>(source);
  for (int64_t i = 0; i < count; ++i)
    to[i] = float(from[i]);
}
template <class N> void addTo(void *target, const void *source, int64_t count) {
  auto *to = static_cast<float *>(target);
  const auto *from = static_cast<const N *>(source);
  for (int64_t i = 0; i < count; ++i)
    to[i] += float(from[i]);
}

/// Place i's part of the sum of all `buffer`s goes to `sum`.
template <class N> void roundedReduceScatter(Schedule &s, const char *buffer, const Parts &parts, char *sum) {
  const int p = s.places(), me = s.place();
  const int64_t own = parts.count(me);
  char *rounded = s.scratchBytes(parts.total() * int64_t(sizeof(N)));
  char *incoming = s.scratchBytes(p * own * int64_t(sizeof(N)));
  s.pass(roundTo<N>, rounded, buffer, parts.total());
  s.nextRound();
  for (int other = 0; other < p; ++other)
    if (other != me) {
      s.sendBytes(other, rounded + parts.begin(other) * int64_t(sizeof(N)), parts.count(other) * int64_t(sizeof(N)));
      s.receiveBytes(other, incoming + other * own * int64_t(sizeof(N)), own * int64_t(sizeof(N)));
    }
  for (int from = 0; from < p; ++from) {
    const char *part = from == me ? rounded + parts.begin(me) * int64_t(sizeof(N))
                                  : incoming + from * own * int64_t(sizeof(N));
    s.pass(from ? addTo<N> : widenTo<N>, sum, part, own);
  }
  s.nextRound();
}

template <class N> void allReduce(Schedule &s) {
  const int p = s.places(), me = s.place();
  const Parts parts = Parts::even(p, s.call.count);
  auto partOf = [&](int place) { return s.out() + parts.begin(place) * int64_t(s.elementBytes()); };
  s.copy(s.out(), s.in(), s.call.count);
  roundedReduceScatter<N>(s, s.out(), parts, partOf(me));
  for (int other = 0; other < p; ++other)
    if (other != me) {
      s.send(other, partOf(me), parts.count(me));
      s.receive(other, partOf(other), parts.count(other));
    }
}

template <class N> void reduceScatter(Schedule &s) {
  char *buffer = s.scratch(s.places() * s.call.count);
  s.copyRowsIn(buffer);
  roundedReduceScatter<N>(s, buffer, Parts::rows(s.places(), s.call.count), s.out());
}

} // namespace

bool planRoundedSum(Schedule &s, Algorithm algorithm) {
  const bool isBf16 = algorithm == Algorithm::bf16_summands;
  if ((!isBf16 && algorithm != Algorithm::fp16_summands) || s.call.type != ElementType::Float32 || s.call.op != Sum)
    return false;
  if (s.call.kind == Collective::AllReduce)
    isBf16 ? allReduce<bf16>(s) : allReduce<fp16>(s);
  else
    isBf16 ? reduceScatter<bf16>(s) : reduceScatter<fp16>(s);
  return true;
}

} // namespace echelon::runtime
