// Who multiplies which matrices: a library, or tiles of our own (GemmTiled.h). No dependency: the compiler includes
// this to print its choice into the generated program, and the runtime includes it for calls that leave the choice
// open.
#pragma once
#include <cstdint>

namespace echelon::runtime {

enum class Blas : uint8_t { openblas, onednn, tiled };

/// The faster library for C[m, n] = op(A)[m, k] * op(B)[k, n] on one thread, operands dense. oneDNN has no product in
/// double. From `bench_kernels gemm` and a scan of 1,100 shapes (Zen 3, OpenBLAS 0.3.21, oneDNN 2.6.3), where this
/// choice has 99.4 % of the better library's speed on (geometric) average, always oneDNN 97 %, always OpenBLAS 85 %:
///
///   GFLOP/s of 103                     form     m     n     k  OpenBLAS  oneDNN
///   small                              nt      64    64    32        43      58
///   MLP 784 -> 128                     nn      32   128   784        78      88
///   its dw                             tn     784   128    32        59      88
///   GPT, 128 wide                      nn    2048    64   128        78      98
///   columns of A 2048 floats apart     tn    2048   128   768        81      38   oneDNN walks A down its columns
///   columns of A 512 floats apart      tn     512   384   512        89      64
///   rows of B 1024 floats apart        nn     256  1024   768        87      73
///   the same, k small                  nn    2048  1024    32        38      63
///   large                              nn     256   768   768        93      85
constexpr Blas choose_library(int64_t m, int64_t n, int64_t k, bool transA, bool transB, int elementBytes) {
  if (elementBytes == 2) // bf16
    return Blas::onednn;
  if (elementBytes != 4)
    return Blas::openblas;
  // Where oneDNN steps through memory in large powers of two, its reads fall into few sets of the cache.
  bool sameSets = (transA && m % 512 == 0) || (!transB && n % 1024 == 0 && m >= 128);
  if (sameSets)
    return k <= 64 && n >= 512 ? Blas::onednn : Blas::openblas;
  bool large = m >= 256 && n >= 256 && k >= 512;
  return large ? Blas::openblas : Blas::onednn;
}

/// The same on one thread, with our own tiles (GemmTiled.h; in float alone), which are as fast or faster where c is not
/// narrow: over 700 shapes of 16 to 3072 this choice has 97 % of the speed of the best of all three, that of a library
/// 92 %; 98 % and 91 % where a product has more than 2e7 additions.
constexpr Blas choose_gemm(int64_t m, int64_t n, int64_t k, bool transA, bool transB, int elementBytes) {
  const bool alongRows = !transA && transB; // oneDNN takes 0.93 of the tiles' time where k < 128
  const bool wide = m >= 32 && (alongRows ? k >= 128 : k >= 64 && n >= 128);
  return elementBytes == 4 && wide ? Blas::tiled : choose_library(m, n, k, transA, transB, elementBytes);
}

/// The library where the tiles are chosen and cannot serve (in float): on more threads, or on another machine. With
/// vectors of sixteen floats, which the tiles do not use, oneDNN 2.6 has on one thread 1.03 to 1.26 times the speed of
/// OpenBLAS 0.3.21 at every shape of `bench_kernels gemm` that goes to tiles elsewhere (Zen 4).
constexpr Blas choose_without_tiles(int64_t m, int64_t n, int64_t k, bool transA, bool transB, int threads,
                                    bool longVectors) {
  return longVectors && threads == 1 ? Blas::onednn : choose_library(m, n, k, transA, transB, sizeof(float));
}

} // namespace echelon::runtime
