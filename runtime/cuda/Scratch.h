// How much memory on the device kernels work in: nothing is allocated within a step. No dependency: the compiler
// includes this to plan the memory, and the kernels to divide it.
#pragma once
#include "runtime/kernels/Attention.h"
#include "runtime/kernels/ConvShape.h"

namespace echelon::cuda {

//===-- scatters -------------------------------------------------------------------------------------------------===//

/// Digits of the scatters' sort, and elements of a block of it.
constexpr int64_t kSortDigits = 256;
constexpr int64_t sort_blocks(int64_t count) { return (count + kSortDigits - 1) / kSortDigits; }

/// Bytes of scratch to scatter `count` rows: keys and positions, twice, and counts of digits.
constexpr int64_t scatter_scratch(int64_t count) { return (4 * count + kSortDigits * (sort_blocks(count) + 1)) * 4; }

//===-- convolutions ---------------------------------------------------------------------------------------------===//

/// The matrix of a convolution's windows, (inner, out) of each sample, and how many samples are done at a time.
struct ConvColumns {
  int64_t in = 1, out = 1, window = 1, inner = 0;
  int64_t each = 0;        // elements of scratch that a sample takes
  int64_t lost = 0;        // and that are lost to alignment
  bool isPointwise = true; // the matrix is x itself

  constexpr ConvColumns(const runtime::ConvShape &shape, runtime::ConvKind kind) {
    for (int k = 0; k < shape.rank; ++k) {
      const runtime::WindowDim &d = shape.dims[k];
      in *= d.in, out *= d.out(), window *= d.window;
      isPointwise = isPointwise && d.window == 1 && d.stride == 1 && d.padLow == 0 && d.padHigh == 0;
    }
    inner = shape.from * window;
    if (kind == runtime::ConvKind::gradWeights) // and its cotangents, by channels
      each = (inner + shape.to) * out, lost = 15;
    else
      each = isPointwise ? 0 : inner * out;
  }
  /// How many of a batch's samples so much scratch holds.
  constexpr int64_t samplesIn(int64_t count, int64_t batch) const {
    const int64_t most = each > 0 ? (count - lost) / each : batch;
    return most < batch ? most : batch;
  }
};

/// Elements of scratch for a convolution: enough for the matrix products to be large. It needs as much as for one
/// sample.
constexpr int64_t conv_scratch(const runtime::ConvShape &shape, runtime::ConvKind kind, int64_t most = 1 << 24) {
  const ConvColumns c(shape, kind);
  const int64_t samples = c.samplesIn(most, shape.batch);
  return samples > 0 || shape.batch <= 0 ? samples * c.each + c.lost : c.each + c.lost;
}

//===-- attention ------------------------------------------------------------------------------------------------===//

/// Whether no two elements of a target over (batch, group, head, rows) lie in one place, so that none is a sum.
constexpr bool has_own_places(const runtime::AttentionShape &shape, const runtime::HeadStrides &s, int64_t rows) {
  return (s.batch != 0 || shape.batch == 1) && (s.group != 0 || shape.group == 1) && (s.head != 0 || shape.head == 1) &&
         (s.row != 0 || rows == 1);
}

/// Where in the scratch of attention_grad what lies; sizes in elements (of double for double, else of float). Each
/// slice's share of a target that is summed over slices is kept there, dense.
struct AttentionGradScratch {
  int64_t dots = 0; // (batch, group, head, seq)
  int64_t dq = 0, dk = 0, dv = 0, end = 0;
  bool sharesQ = false, sharesK = false, sharesV = false;

  constexpr AttentionGradScratch(const runtime::AttentionShape &shape, const runtime::AttentionStrides &grads) {
    const int64_t slices = shape.batch * shape.group * shape.head;
    sharesQ = !has_own_places(shape, grads.q, shape.seq);
    sharesK = !has_own_places(shape, grads.k, shape.past);
    sharesV = !has_own_places(shape, grads.v, shape.past);
    dq = dots + slices * shape.seq;
    dk = dq + (sharesQ ? slices * shape.seq * shape.key : 0);
    dv = dk + (sharesK ? slices * shape.past * shape.key : 0);
    end = dv + (sharesV ? slices * shape.past * shape.value : 0);
  }
};

/// Elements of scratch for attention_grad: of double for double, else of float.
constexpr int64_t attention_grad_scratch(const runtime::AttentionShape &shape, const runtime::AttentionStrides &grads) {
  return AttentionGradScratch(shape, grads).end;
}

} // namespace echelon::cuda
