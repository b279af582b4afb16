// Attention whose keys and values go round the ranks of a group, as runtime/ring, on memory of the device. Types:
// float, double. A hop's blocks are sent on the group's stream while the rank's stream computes with those that are
// here.
#pragma once
#include "runtime/cuda/Attention.h"
#include "runtime/cuda/Rank.h"
#include "runtime/ring/RingAttention.h"

namespace echelon::cuda {

using runtime::Group;
using runtime::PositionRun;
using runtime::Ring;

/// As attention(), with the arguments of runtime::ring_attention.
template <typename T>
void ring_attention(Rank &r, const Group &group, T *out, T *maximum, T *sum, T *keys, T *values, const T *q, const T *k,
                    const T *v, const Ring &ring, const AttentionShape &shape, const AttentionStrides &strides,
                    const char *label, const uint8_t *mask = nullptr, const T *bias = nullptr);

/// As attention_grad(), with the arguments of runtime::ring_attention_grad.
template <typename T>
void ring_attention_grad(Rank &r, const Group &group, T *dq, T *dk, T *dv, T *dbias, T *keys, T *values, T *dkeys,
                         T *dvalues, const T *dout, const T *out, const T *maximum, const T *sum, const T *q,
                         const T *k, const T *v, const Ring &ring, const AttentionShape &shape,
                         const AttentionStrides &strides, const AttentionStrides &grads, const char *label,
                         const uint8_t *mask = nullptr, const T *bias = nullptr);

} // namespace echelon::cuda
