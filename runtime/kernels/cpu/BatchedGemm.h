// The products of gemm_batched, whatever multiplies.
#pragma once
#include "runtime/kernels/Gemm.h"
#include "runtime/launch/Fail.h"

namespace echelon::runtime::detail {

/// Calls f(offset in c, in a, in b, whether it is the first product that reaches this matrix of c) for each point of
/// the batch dimensions, the last one fastest.
template <typename F> void forEachProduct(std::initializer_list<BatchDim> batch, F f) {
  if (batch.size() > 8)
    fail("batched matrix product over more than 8 batch dimensions");
  const BatchDim *dims = batch.begin();
  const int rank = static_cast<int>(batch.size());
  int64_t count = 1, at[8] = {};
  for (const BatchDim &dim : batch)
    count *= dim.size;
  for (int64_t point = 0; point < count; ++point) {
    int64_t toC = 0, toA = 0, toB = 0;
    bool first = true;
    for (int d = 0; d < rank; ++d) {
      toC += at[d] * dims[d].c, toA += at[d] * dims[d].a, toB += at[d] * dims[d].b;
      first &= dims[d].c != 0 || at[d] == 0;
    }
    f(toC, toA, toB, first);
    for (int d = rank - 1; d >= 0 && ++at[d] == dims[d].size; --d)
      at[d] = 0;
  }
}

} // namespace echelon::runtime::detail
