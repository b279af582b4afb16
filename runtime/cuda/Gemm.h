// Matrix products on the device, row-major: C = alpha * op(A) * op(B) + beta * C. Types of (C; A and B): float, double;
// float of bf16 and of fp16, and these of themselves, summed in float and rounded once. By cuBLASLt; what it cannot
// take (pointers or steps of a batch that are no multiples of 16 bytes) by tiles of our own.
#pragma once
#include "runtime/cuda/Device.h"
#include "runtime/kernels/Gemm.h"

#include <cstddef>
#include <memory>

namespace echelon::cuda {

using runtime::BatchDim;
using runtime::Form;

/// How floats are multiplied: exactly, or rounded to 10 bits of mantissa first, by tensor cores.
enum class Compute : uint8_t { full, tf32 };

/// What products need beside their operands: the library's handle, memory to work in, and a plan (descriptors, chosen
/// algorithm) for each shape, made when it first comes and kept. One for all streams of a rank, for one thread.
class Blas {
public:
  /// What the library wants on Hopper; the emulated one wants none.
  static constexpr size_t kWorkspaceBytes = kIsEmulated ? 4096 : 32 << 20;

  Blas();
  ~Blas();
  Blas(const Blas &) = delete;
  Blas &operator=(const Blas &) = delete;

  /// Lends products on `stream` memory to work in; without, they choose among algorithms that need none. Each stream
  /// needs its own, aligned to 256 bytes, and before the first product: plans depend on it.
  void setWorkspace(Stream stream, void *memory, size_t bytes);

  /// How many plans there are: a step that makes none costs the host little.
  size_t planCount() const;

  struct State;
  State &state() { return *own; }

private:
  std::unique_ptr<State> own;
};

/// c: (m, n), rows ldc apart; a: (m, k) or, transposed, (k, m), rows lda apart; b: (k, n) or (n, k), rows ldb apart.
/// With beta = 0, c is not read. k = 0 gives beta * c.
template <typename C, typename T>
void gemm(Blas &blas, Stream stream, C *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, Form form,
          int64_t lda, int64_t ldb, int64_t ldc, double alpha, double beta, Compute compute = Compute::full);

/// The same with dense operands: ld is the length of the stored row.
template <typename C, typename T>
inline void gemm(Blas &blas, Stream stream, C *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k,
                 Form form = Form::nn, double beta = 0, Compute compute = Compute::full) {
  gemm(blas, stream, c, a, b, m, n, k, form, transposes_a(form) ? m : k, transposes_b(form) ? k : n, n, 1.0, beta,
       compute);
}

/// c = op(a) op(b), and to each row of the sum, in float, a bias of n elements is added before it is rounded. T: bf16,
/// fp16.
template <typename T>
void linear(Blas &blas, Stream stream, T *c, const T *a, const T *b, const T *bias, int64_t m, int64_t n, int64_t k,
            Form form, int64_t lda, int64_t ldb, int64_t ldc);

/// The same with dense operands.
template <typename T>
inline void linear(Blas &blas, Stream stream, T *c, const T *a, const T *b, const T *bias, int64_t m, int64_t n,
                   int64_t k, Form form) {
  linear(blas, stream, c, a, b, bias, m, n, k, form, transposes_a(form) ? m : k, transposes_b(form) ? k : n, n);
}

/// A product for every point of the batch dimensions (at most 8), the last one fastest; a stride of 0 in c sums over
/// its dimension. Dimensions that continue m, n or k go into the product, one goes into the library's batch, and over
/// the others calls are repeated.
template <typename C, typename T>
void gemm_batched(Blas &blas, Stream stream, C *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, Form form,
                  int64_t lda, int64_t ldb, int64_t ldc, std::initializer_list<BatchDim> batch, double alpha,
                  double beta, Compute compute = Compute::full);

} // namespace echelon::cuda
