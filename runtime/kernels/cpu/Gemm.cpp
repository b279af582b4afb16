// C = alpha * op(A) * op(B) + beta * C. Vectors go to gemv, which OpenBLAS's gemm does not do by itself; all else to
// the library that the caller names, or to tiles.
#include "runtime/kernels/Gemm.h"
#include "runtime/kernels/cpu/BatchedGemm.h"
#include "runtime/kernels/cpu/GemmTiled.h"
#include "runtime/kernels/cpu/Threads.h"
#include "runtime/launch/Fail.h"
#include <algorithm>
#include <cblas.h>
#include <climits>
#include <dnnl.h>
#include <string>

namespace echelon::runtime {
namespace {

CBLAS_TRANSPOSE cblasFlag(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

template <typename T> void scale(T *c, int64_t m, int64_t n, int64_t ldc, double beta) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      c[i * ldc + j] = beta == 0 ? T(0) : T(beta) * c[i * ldc + j];
}

void blasGemv(bool trans, int rows, int cols, float alpha, const float *a, int lda, const float *x, int incx,
              float beta, float *y, int incy) {
  cblas_sgemv(CblasRowMajor, cblasFlag(trans), rows, cols, alpha, a, lda, x, incx, beta, y, incy);
}
void blasGemv(bool trans, int rows, int cols, double alpha, const double *a, int lda, const double *x, int incx,
              double beta, double *y, int incy) {
  cblas_dgemv(CblasRowMajor, cblasFlag(trans), rows, cols, alpha, a, lda, x, incx, beta, y, incy);
}

void blasGemm(Form form, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb, float beta,
              float *c, int ldc, Blas library) {
  bool ta = transposes_a(form), tb = transposes_b(form);
  if (library == Blas::tiled && kTilesFit && threads() == 1)
    return gemm_tiled(c, ldc, {a, ta ? 1 : lda, ta ? lda : 1}, {b, tb ? 1 : ldb, tb ? ldb : 1}, m, n, k, alpha, beta);
  if (library == Blas::tiled)
    library = choose_without_tiles(m, n, k, ta, tb, threads(), kLongVectors);
  if (library == Blas::onednn)
    dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  else
    cblas_sgemm(CblasRowMajor, cblasFlag(ta), cblasFlag(tb), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void blasGemm(Form form, int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb,
              double beta, double *c, int ldc, Blas) {
  cblas_dgemm(CblasRowMajor, cblasFlag(transposes_a(form)), cblasFlag(transposes_b(form)), m, n, k, alpha, a, lda, b,
              ldb, beta, c, ldc);
}

} // namespace

template <typename T>
void gemm(T *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, Form form, int64_t lda, int64_t ldb,
          int64_t ldc, double alpha, double beta, Blas library) {
  if (m <= 0 || n <= 0)
    return;
  if (k <= 0)
    return scale(c, m, n, ldc, beta);
  if (std::max({m, n, k, lda, ldb, ldc}) > INT_MAX)
    fail("matrix product of " + std::to_string(m) + " x " + std::to_string(k) + " and " + std::to_string(k) + " x " +
         std::to_string(n) + ": a size or row length beyond 2^31 - 1 is not supported");
  apply_threads();
  bool ta = transposes_a(form), tb = transposes_b(form);
  // The libraries check row lengths even where there is only one row.
  lda = std::max(lda, ta ? m : k), ldb = std::max(ldb, tb ? k : n), ldc = std::max(ldc, n);
  if (n == 1)
    return blasGemv(ta, ta ? k : m, ta ? m : k, T(alpha), a, lda, b, tb ? 1 : ldb, T(beta), c, ldc);
  if (m == 1)
    return blasGemv(!tb, tb ? n : k, tb ? k : n, T(alpha), b, ldb, a, ta ? lda : 1, T(beta), c, 1);
  blasGemm(form, m, n, k, T(alpha), a, lda, b, ldb, T(beta), c, ldc, library);
}

template <typename T>
void gemm_batched(T *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, Form form, int64_t lda, int64_t ldb,
                  int64_t ldc, std::initializer_list<BatchDim> batch, double alpha, double beta, Blas library) {
  detail::forEachProduct(batch, [&](int64_t toC, int64_t toA, int64_t toB, bool first) {
    gemm(c + toC, a + toA, b + toB, m, n, k, form, lda, ldb, ldc, alpha, first ? beta : 1.0, library);
  });
}

namespace reference {
template <typename T>
void gemm(T *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, Form form, int64_t lda, int64_t ldb,
          int64_t ldc, double alpha, double beta) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += double(transposes_a(form) ? a[l * lda + i] : a[i * lda + l]) *
               double(transposes_b(form) ? b[j * ldb + l] : b[l * ldb + j]);
      c[i * ldc + j] = T(alpha * sum + (beta == 0 ? 0.0 : beta * double(c[i * ldc + j])));
    }
}
} // namespace reference

#define INSTANTIATE(T)                                                                                                 \
  template void gemm<T>(T *, const T *, const T *, int64_t, int64_t, int64_t, Form, int64_t, int64_t, int64_t, double, \
                        double, Blas);                                                                                 \
  template void gemm_batched<T>(T *, const T *, const T *, int64_t, int64_t, int64_t, Form, int64_t, int64_t, int64_t, \
                                std::initializer_list<BatchDim>, double, double, Blas);                                \
  template void reference::gemm<T>(T *, const T *, const T *, int64_t, int64_t, int64_t, Form, int64_t, int64_t,       \
                                   int64_t, double, double);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::runtime
