// Matrix products, row-major: C = alpha * op(A) * op(B) + beta * C. Types: float, double; of bf16
// and fp16 the sums, and C, are float.
#pragma once
#include "runtime/kernels/GemmChoice.h"
#include "runtime/transport/NarrowFloat.h"
#include <cstdint>
#include <initializer_list>

namespace echelon::runtime {

/// How A and B are stored: n as (m, k) or (k, n); t transposed, as (k, m) or (n, k). The first letter is A's.
enum class Form : uint8_t { nn, nt, tn, tt };
constexpr bool transposes_a(Form form) { return form == Form::tn || form == Form::tt; }
constexpr bool transposes_b(Form form) { return form == Form::nt || form == Form::tt; }

/// c: (m, n), rows ldc apart; a: (m, k) or, transposed, (k, m), rows lda apart; b: (k, n) or (n, k), rows ldb apart.
/// With beta = 0, c is not read. k = 0 gives beta * c. `Blas::tiled` is for one thread and vectors of eight floats;
/// with more, or others, the better library takes its place.
template <typename T>
void gemm(T *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, Form form, int64_t lda, int64_t ldb,
          int64_t ldc, double alpha, double beta, Blas library);

/// The same of numbers of two bytes: exact products, summed in float. `alpha` is 1, `beta` 0 or 1.
template <typename N, typename = std::enable_if_t<isNarrow<N>>>
void gemm(float *c, const N *a, const N *b, int64_t m, int64_t n, int64_t k, Form form, int64_t lda, int64_t ldb,
          int64_t ldc, double alpha, double beta, Blas library);

/// The same with dense operands: ld is the length of the stored row.
template <typename C, typename T>
inline void gemm(C *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, Form form, Blas library,
                 double beta = 0) {
  const bool transA = transposes_a(form), transB = transposes_b(form);
  gemm(c, a, b, m, n, k, form, transA ? m : k, transB ? k : n, n, 1.0, beta, library);
}

/// The same with the library of `choose_gemm`.
template <typename T>
inline void gemm(T *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, Form form = Form::nn, double beta = 0) {
  const bool transA = transposes_a(form), transB = transposes_b(form);
  gemm(c, a, b, m, n, k, form, choose_gemm(m, n, k, transA, transB, sizeof(T)), beta);
}

/// One batch dimension: its size, and how far apart (elements) its matrices lie in c, a and b. A stride of 0 in a or b
/// repeats the operand; a stride of 0 in c sums the products over this dimension.
struct BatchDim {
  int64_t size, c, a, b;
};

/// A product for every point of the batch dimensions (at most 8), the last one fastest.
template <typename T>
void gemm_batched(T *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, Form form, int64_t lda, int64_t ldb,
                  int64_t ldc, std::initializer_list<BatchDim> batch, double alpha, double beta, Blas library);
template <typename N, typename = std::enable_if_t<isNarrow<N>>>
void gemm_batched(float *c, const N *a, const N *b, int64_t m, int64_t n, int64_t k, Form form, int64_t lda,
                  int64_t ldb, int64_t ldc, std::initializer_list<BatchDim> batch, double alpha, double beta,
                  Blas library);

namespace reference {
template <typename T>
void gemm(T *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, Form form, int64_t lda, int64_t ldb,
          int64_t ldc, double alpha, double beta);
} // namespace reference
} // namespace echelon::runtime
