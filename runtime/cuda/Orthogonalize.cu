// A block makes the vectors of one matrix. Each thread has rows of its own and touches no other's, so that only sums
// need barriers.
#include "runtime/cuda/Orthogonalize.h"
#include "runtime/kernels/Orthogonalize.h"

namespace echelon::cuda {

namespace {

constexpr int kRowThreads = 512;

/// a . b, on every thread.
template <typename T> DEVICE double block_product(const T *a, const T *b, int64_t n, int64_t stride, double *parts) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    sum += static_cast<double>(a[i * stride]) * static_cast<double>(b[i * stride]);
  return block_sum(sum, parts);
}

template <typename T> __global__ void orthogonalize_blocks(T *y, const T *x, int64_t n, int64_t inner) {
  __shared__ double parts[32];
  y += blockIdx.x * n * inner;
  x += blockIdx.x * n * inner;
  double longest = 0;
  for (int64_t j = 0; j < inner; ++j) {
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
      y[i * inner + j] = x[i * inner + j];
    const double length = std::sqrt(block_product(y + j, y + j, n, inner, parts));
    longest = length > longest ? length : longest;
  }
  for (int64_t j = 0; j < inner; ++j) {
    for (int64_t before = 0; before < j; ++before) {
      const T along = static_cast<T>(block_product(y + j, y + before, n, inner, parts));
      for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        y[i * inner + j] -= along * y[i * inner + before];
    }
    const double left = std::sqrt(block_product(y + j, y + j, n, inner, parts));
    const T scale = static_cast<T>(left <= runtime::kLeastLeft * longest ? 0 : 1 / left);
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
      y[i * inner + j] *= scale;
  }
}

} // namespace

template <typename T> void orthogonalize(Stream stream, T *y, const T *x, int64_t outer, int64_t n, int64_t inner) {
  const int64_t count = outer * n * inner;
  if (count <= 0)
    return;
  launch("orthogonalize", orthogonalize_blocks<T>, cover_blocks(outer, kRowThreads), stream,
         y == x ? inout(y, count) : out(y, count), in(x, count), n, inner);
}

template void orthogonalize<float>(Stream, float *, const float *, int64_t, int64_t, int64_t);
template void orthogonalize<double>(Stream, double *, const double *, int64_t, int64_t, int64_t);

} // namespace echelon::cuda
