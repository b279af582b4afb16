// Which calls of attention the library covers exactly, and what it is then asked for.
#pragma once
#include "runtime/cuda/Dnn.h"
#include "runtime/kernels/Attention.h"

#include <optional>

namespace echelon::cuda {

/// What the library is asked for in place of attention, or with `grads` of attention_grad, of a call without mask and
/// bias. Nothing where our own kernels are to be used:
///   - fewer than 64 queries or keys: not worth a plan;
///   - queries without any key (a negative offset), or an offset that moves the diagonal so that it ends at neither the
///     last key nor the first query;
///   - heads that are no multiples of 8, or longer than 256;
///   - strides that are no multiples of 8 or not one step from head to head, samples that share a place, keys that
///     groups share but not heads, derivatives of keys and values that are not summed as keys and values are shared.
/// Keys after the last that any query sees are left out: `past` counts those that are seen.
std::optional<DnnAttention> dnn_attention_of(DnnType type, const runtime::AttentionShape &shape,
                                             const runtime::AttentionStrides &strides,
                                             const runtime::AttentionStrides *grads = nullptr);

} // namespace echelon::cuda
