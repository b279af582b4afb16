// Matrices as cuBLASLt describes them: column-major, in strided batches, of four types of elements.
#pragma once
#include "runtime/cuda/Device.h"

#include <cblas.h>
#include <cublasLt.h>

#include <cstdint>
#include <type_traits>
#include <vector>

namespace echelon::cuda::host {

constexpr bool isElement(cudaDataType_t type) {
  return type == CUDA_R_32F || type == CUDA_R_64F || type == CUDA_R_16BF || type == CUDA_R_16F;
}
constexpr size_t bytesOf(cudaDataType_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

/// Calls `use` with a null pointer to elements of `type`.
template <typename Use> void withType(cudaDataType_t type, const Use &use) {
  if (type == CUDA_R_64F)
    use(static_cast<double *>(nullptr));
  else if (type == CUDA_R_32F)
    use(static_cast<float *>(nullptr));
  else if (type == CUDA_R_16BF)
    use(static_cast<bf16 *>(nullptr));
  else
    use(static_cast<fp16 *>(nullptr));
}

/// Numbers are computed with as W: float, of double double. Reads a matrix (rows, cols) into one without gaps.
template <typename W>
std::vector<W> readMatrix(const void *from, cudaDataType_t type, int64_t rows, int64_t cols, int64_t ld) {
  std::vector<W> dense(static_cast<size_t>(rows * cols));
  withType(type, [&](auto *typed) {
    const auto *x = static_cast<decltype(typed)>(const_cast<void *>(from));
    for (int64_t j = 0; j < cols; ++j)
      for (int64_t i = 0; i < rows; ++i)
        dense[static_cast<size_t>(j * rows + i)] = static_cast<W>(x[j * ld + i]);
  });
  return dense;
}

/// The way back: each number is rounded once.
template <typename W>
void writeMatrix(void *to, cudaDataType_t type, const std::vector<W> &dense, int64_t rows, int64_t cols, int64_t ld) {
  withType(type, [&](auto *typed) {
    auto *x = static_cast<decltype(typed)>(to);
    for (int64_t j = 0; j < cols; ++j)
      for (int64_t i = 0; i < rows; ++i)
        x[j * ld + i] = static_cast<std::remove_reference_t<decltype(*x)>>(dense[static_cast<size_t>(j * rows + i)]);
  });
}

/// What is in a cublasLtMatrixLayout_t: `batch` matrices, `stride` elements apart. With stride 0 all are the same.
struct Layout {
  cudaDataType_t type;
  uint64_t rows, cols;
  int64_t ld;
  int32_t batch = 1;
  int64_t stride = 0;

  bool isValid() const { return isElement(type) && rows > 0 && cols > 0 && ld >= int64_t(rows) && batch > 0; }
  /// From the first element to the last.
  size_t bytes() const {
    return (static_cast<size_t>(stride) * static_cast<size_t>(batch - 1) + static_cast<size_t>(ld) * (cols - 1) +
            rows) *
           bytesOf(type);
  }
  size_t bytesBefore(int32_t b) const { return static_cast<size_t>(b * stride) * bytesOf(type); }

  template <typename W> std::vector<W> read(const void *from, int32_t b) const {
    return readMatrix<W>(static_cast<const char *>(from) + bytesBefore(b), type, int64_t(rows), int64_t(cols), ld);
  }
  template <typename W> void write(void *to, int32_t b, const std::vector<W> &dense) const {
    writeMatrix(static_cast<char *>(to) + bytesBefore(b), type, dense, int64_t(rows), int64_t(cols), ld);
  }
};

/// x = alpha * op(a) * op(b), all without gaps: x (m, n), op(a) (m, k), op(b) (k, n).
inline void multiply(float *x, const float *a, const float *b, int m, int n, int k, bool ta, bool tb, float alpha) {
  cblas_sgemm(CblasColMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n, k, alpha, a,
              ta ? k : m, b, tb ? n : k, 0, x, m);
}
inline void multiply(double *x, const double *a, const double *b, int m, int n, int k, bool ta, bool tb, double alpha) {
  cblas_dgemm(CblasColMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n, k, alpha, a,
              ta ? k : m, b, tb ? n : k, 0, x, m);
}

/// The sums of the rows of a matrix without gaps, in the order of its columns.
template <typename W> std::vector<W> sumsOfRows(const std::vector<W> &x, int64_t rows, int64_t cols) {
  std::vector<W> sums(static_cast<size_t>(rows), W(0));
  for (int64_t j = 0; j < cols; ++j)
    for (int64_t i = 0; i < rows; ++i)
      sums[static_cast<size_t>(i)] += x[static_cast<size_t>(j * rows + i)];
  return sums;
}

} // namespace echelon::cuda::host
