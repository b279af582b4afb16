// Scaled dot-product attention in tiles: the score matrix is never stored. Types: float, double; bf16 and fp16, whose
// arithmetic is in float.
//   out[b,g,h,i,:] = sum over j of softmax_j(scale * q[b,g,h,i,:] . k[b,g,h,j,:] + bias[b,g,h,i,j]) * v[b,g,h,j,:]
// where j runs over the keys that `causal` and the mask allow; a query without any gives 0. Sizes of keys and values:
// at most 256.
#pragma once
#include "runtime/cuda/Device.h"
#include "runtime/cuda/Scratch.h"
#include "runtime/kernels/Attention.h"

namespace echelon::cuda {

using runtime::AttentionShape;
using runtime::AttentionStrides;
using runtime::HeadStrides;
using runtime::ScoreStrides;

/// out: (batch, seq, group, head, value) by strides; maximum of a query's scores and sum of exp(score - maximum):
/// (batch, group, head, seq), dense, kept for the derivative (-inf and 0 where a query sees no key). mask (nonzero:
/// attend) and bias may be null.
template <typename T>
void attention(Stream stream, T *out, Wide<T> *maximum, Wide<T> *sum, const T *q, const T *k, const T *v,
               const AttentionShape &shape, const AttentionStrides &strides, const uint8_t *mask = nullptr,
               const T *bias = nullptr);

/// dq, dk, dv by grads.q, .k, .v and dout by grads.out; q, k, v and out by strides. What the targets held is
/// overwritten; where a target's stride is 0 over a dimension, contributions are summed over it. dbias (bias's strides,
/// likewise overwritten) may be null. scratch: attention_grad_scratch(shape, grads) elements.
template <typename T>
void attention_grad(Stream stream, T *dq, T *dk, T *dv, T *dbias, const T *dout, const T *out, const Wide<T> *maximum,
                    const Wide<T> *sum, const T *q, const T *k, const T *v, const AttentionShape &shape,
                    const AttentionStrides &strides, const AttentionStrides &grads, const uint8_t *mask, const T *bias,
                    Wide<T> *scratch);

} // namespace echelon::cuda
