// A matrix product in float on one thread, in tiles of 6 x 16 sums that stay in registers. It is here beside the
// libraries because none of them is fast at all the shapes that training has, and no rule chooses well between them: of
// 67 shapes of GPTs, operands in the cache, it has 1.00 (0.88 to 1.13) times the speed of the better of OpenBLAS 0.3.21
// and oneDNN 2.6, and 1.04 (0.93 to 1.49) times that of the one chosen (`bench_kernels gemm`). In a step, where
// operands come from memory, GPTs 128 and 384 wide take 0.94 and 0.96 of the time.
//
// Source: Goto, van de Geijn 2008, Anatomy of High-Performance Matrix Multiplication; Van Zee, van de Geijn 2015, BLIS.
#pragma once
#include <cstdint>

namespace echelon::runtime {

/// A matrix in memory: element (i, j) lies at[i * row + j * col].
struct MatrixView {
  const float *at;
  int64_t row, col;
};

/// Whether tiles are what this machine is best used with: vectors of eight floats and fused multiply-adds, no longer
/// ones.
constexpr bool kTilesFit =
#if defined(__AVX2__) && defined(__FMA__) && !defined(__AVX512F__)
    true;
#else
    false;
#endif

/// Whether this machine has vectors of sixteen floats, which the libraries then use.
constexpr bool kLongVectors =
#if defined(__AVX512F__)
    true;
#else
    false;
#endif

/// c: (m, n), rows ldc apart; a: (m, k); b: (k, n); rows or columns of a and b lie side by side (row or col is 1).
/// c = alpha * a * b + beta * c; with beta = 0, c is not read. m, n, k >= 1. Each element is summed along k in blocks
/// of the same size whatever m and n are: a part of c's rows or columns has the same bits as in the whole product.
void gemm_tiled(float *c, int64_t ldc, MatrixView a, MatrixView b, int64_t m, int64_t n, int64_t k, float alpha,
                float beta);

} // namespace echelon::runtime
