// Which library multiplies which matrices. No dependency: the compiler includes this to print its choice into the
// generated program, and the runtime includes it for calls that leave the choice open.
#pragma once
#include <cstdint>

namespace echelon::runtime {

enum class Blas : uint8_t { openblas, onednn };

/// The faster library for C[m, n] = op(A)[m, k] * op(B)[k, n] on one thread, from the measurements of
/// `bench/kernels`. oneDNN has no product in double.
constexpr Blas choose_gemm(int64_t m, int64_t n, int64_t k, bool transA, bool transB, int elementBytes) {
  (void)m, (void)n, (void)k, (void)transA, (void)transB;
  if (elementBytes != 4)
    return Blas::openblas;
  return Blas::onednn;
}

} // namespace echelon::runtime
