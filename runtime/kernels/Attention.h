// Scaled dot-product attention in blocks: the score matrix is never stored. Types: float, double.
//   out[b,g,h,i,:] = sum over j of softmax_j(scale * q[b,g,h,i,:] . k[b,g,h,j,:] + bias[b,g,h,i,j]) * v[b,g,h,j,:]
// where j runs over the keys that `causal` and the mask allow; a query without any gives 0.
// Grouped queries: k and v have stride 0 over `head`. Source: Dao et al. 2022, FlashAttention, algorithms 1 and 4.
#pragma once
#include <cstdint>

namespace echelon::runtime {

/// Elements between neighbours; the last dimension (key or value) is contiguous. `row` steps over seq, for k and v over
/// past, and is at least the last dimension's size.
struct HeadStrides {
  int64_t batch, group, head, row;
};

/// Elements between neighbours of a mask or bias over (batch, group, head, seq, past); 0 broadcasts.
struct ScoreStrides {
  int64_t batch, group, head, seq, past;
};

/// Sizes that this rank holds. A model without groups has group = 1.
struct AttentionShape {
  int64_t batch, group, head, seq, past, key, value;
  double scale;           // usually 1 / sqrt(key)
  bool causal;            // query i sees key j where j <= i + offset
  int64_t offset = 0;     // position of the first query here minus position of the first key here
  ScoreStrides mask = {}; // of the mask, where one is given
  ScoreStrides bias = {}; // of the bias, where one is given; dbias has the same
  bool adds = false; // the targets hold what other keys (of derivatives: other queries, too) have given
  int64_t apart = 0; // elements between the statistics of two (batch, group, head); 0: seq
};

struct AttentionStrides {
  HeadStrides q, k, v, out;
};

/// out: (batch, seq, group, head, value) by strides; maximum of a query's scores and sum of exp(score - maximum):
/// (batch, group, head, seq), dense, kept for the derivative (-inf and 0 where a query sees no key). mask (nonzero:
/// attend) and bias may be null. With `adds`, what they hold is merged with what these keys give: at first 0, -inf, 0.
template <typename T>
void attention(T *out, T *maximum, T *sum, const T *q, const T *k, const T *v, const AttentionShape &shape,
               const AttentionStrides &strides, const uint8_t *mask = nullptr, const T *bias = nullptr);

/// dq, dk, dv by grads.q, .k, .v and dout by grads.out; q, k, v and out by strides. What the targets held is
/// overwritten; where a target's stride is 0 over a dimension, contributions are summed over it. dbias (bias's strides,
/// likewise overwritten) may be null. With `adds` all are added to; maximum and sum are those of all keys.
template <typename T>
void attention_grad(T *dq, T *dk, T *dv, T *dbias, const T *dout, const T *out, const T *maximum, const T *sum,
                    const T *q, const T *k, const T *v, const AttentionShape &shape, const AttentionStrides &strides,
                    const AttentionStrides &grads, const uint8_t *mask = nullptr, const T *bias = nullptr);

namespace reference {
template <typename T>
void attention(T *out, T *maximum, T *sum, const T *q, const T *k, const T *v, const AttentionShape &shape,
               const AttentionStrides &strides, const uint8_t *mask, const T *bias);
} // namespace reference
} // namespace echelon::runtime
