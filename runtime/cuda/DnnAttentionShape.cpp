#include "runtime/cuda/DnnAttentionShape.h"

#include <algorithm>

namespace echelon::cuda {

using runtime::AttentionShape;
using runtime::AttentionStrides;
using runtime::HeadStrides;

namespace {

constexpr int64_t kLeastRows = 64, kMostWidth = 256, kStep = 8; // 8 elements are 16 bytes

/// How many heads lie in places of their own; 0: shared in a way that the library does not know.
int64_t headsOf(const AttentionShape &shape, const HeadStrides &s) {
  const bool sharesHeads = shape.head > 1 && s.head == 0, sharesGroups = shape.group > 1 && s.group == 0;
  if (sharesGroups)
    return sharesHeads || shape.head == 1 ? 1 : 0;
  return sharesHeads ? shape.group : shape.group * shape.head;
}

/// Strides of `heads` heads (as headsOf counts them) of `rows` rows.
std::optional<DnnStrides> stridesOf(const AttentionShape &shape, const HeadStrides &s, int64_t heads, int64_t rows,
                                    int64_t width) {
  if (headsOf(shape, s) != heads || heads == 0)
    return std::nullopt;
  DnnStrides to = {s.batch, 0, s.row};
  if (heads == 1)
    to.head = s.row * rows;      // a step that is never taken
  else if (heads == shape.group) // one of each group, or the only ones
    to.head = s.group;
  else if (shape.group == 1 || s.group == shape.head * s.head)
    to.head = s.head;
  if (shape.batch == 1)
    to.batch = to.head * heads; // nor is this
  if (to.batch <= 0 || to.head <= 0 || to.row < width || to.batch % kStep || to.head % kStep || to.row % kStep)
    return std::nullopt;
  return to;
}

} // namespace

std::optional<DnnAttention> dnn_attention_of(DnnType type, const AttentionShape &shape, const AttentionStrides &strides,
                                             const AttentionStrides *grads) {
  const int64_t heads = shape.group * shape.head, keyHeads = headsOf(shape, strides.k);
  if (shape.batch <= 0 || heads <= 0 || keyHeads <= 0 || std::min(shape.seq, shape.past) < kLeastRows)
    return std::nullopt;
  for (const int64_t width : {shape.key, shape.value})
    if (width <= 0 || width > kMostWidth || width % kStep)
      return std::nullopt;

  DnnAttention of = {};
  of.type = type;
  of.batch = shape.batch, of.heads = heads, of.keyHeads = keyHeads;
  of.seq = shape.seq, of.past = shape.past, of.key = shape.key, of.value = shape.value;
  of.scale = static_cast<float>(shape.scale);
  if (shape.causal && shape.offset < shape.past - 1) {
    if (shape.offset < 0)
      return std::nullopt;
    of.past = std::min(shape.past, shape.seq + shape.offset);
    if (shape.offset == 0)
      of.sight = DnnSight::topLeft;
    else if (shape.offset == of.past - shape.seq)
      of.sight = DnnSight::bottomRight;
    else
      return std::nullopt;
  }

  const auto take = [&](DnnStrides &to, const HeadStrides &from, int64_t count, int64_t rows, int64_t width) {
    const std::optional<DnnStrides> by = stridesOf(shape, from, count, rows, width);
    if (by)
      to = *by;
    return by.has_value();
  };
  if (!take(of.q, strides.q, heads, shape.seq, shape.key) || !take(of.k, strides.k, keyHeads, shape.past, shape.key) ||
      !take(of.v, strides.v, keyHeads, shape.past, shape.value) ||
      !take(of.out, strides.out, heads, shape.seq, shape.value))
    return std::nullopt;
  if (grads &&
      (!take(of.dout, grads->out, heads, shape.seq, shape.value) ||
       !take(of.dq, grads->q, heads, shape.seq, shape.key) || !take(of.dk, grads->k, keyHeads, shape.past, shape.key) ||
       !take(of.dv, grads->v, keyHeads, shape.past, shape.value)))
    return std::nullopt;
  return of;
}

} // namespace echelon::cuda
