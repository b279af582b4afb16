// Attention of queries and keys that lie split over the ranks of a group: keys and values go round.
//
// In hop h, rank r has the keys and values of rank r - h. It merges what its queries find there with what they have
// found before (AttentionShape::adds) while the next ones are on their way. A rank sends its k and v n - 1 times. In
// the derivative the shares of dk and dv go with them, and one hop further, home: n times. So two blocks of keys and
// values are in a rank's memory, never all. Source: Liu et al. 2023, Ring Attention with Blockwise Transformers.
#pragma once
#include "runtime/kernels/Attention.h"
#include "runtime/transport/Transport.h"

#include <vector>

namespace echelon::runtime {

/// Positions in a row that a rank holds: `size` from `begin`, at coordinate c of the group from begin + c * step.
struct PositionRun {
  int64_t size, begin, step = 0;
};

/// What lies where, and how much travels.
struct Ring {
  int64_t keyCount, valueCount;           ///< elements of k and v, which are dense
  std::vector<PositionRun> queries, keys; ///< of this rank's queries; of each rank's keys, in the order of storage
};

/// As attention(), whose shape has the sizes of this rank's queries and of one rank's keys. keys: (min(n - 1, 2),
/// keyCount) and values are scratch. A mask or bias is of all keys, in the order of their positions.
template <typename T>
void ring_attention(Transport &t, const Group &group, T *out, T *maximum, T *sum, T *keys, T *values, const T *q,
                    const T *k, const T *v, const Ring &ring, const AttentionShape &shape,
                    const AttentionStrides &strides, const char *label, const uint8_t *mask = nullptr,
                    const T *bias = nullptr);

/// As attention_grad(); dk and dv are dense, as k and v are. Besides, dkeys: (2, keyCount) and dvalues are scratch.
template <typename T>
void ring_attention_grad(Transport &t, const Group &group, T *dq, T *dk, T *dv, T *dbias, T *keys, T *values, T *dkeys,
                         T *dvalues, const T *dout, const T *out, const T *maximum, const T *sum, const T *q,
                         const T *k, const T *v, const Ring &ring, const AttentionShape &shape,
                         const AttentionStrides &strides, const AttentionStrides &grads, const char *label,
                         const uint8_t *mask = nullptr, const T *bias = nullptr);

} // namespace echelon::runtime
