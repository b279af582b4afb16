// Blocks sum parts of x into the scratch, and one block sums these; of few elements one block sums all.
#include "runtime/cuda/Finite.h"
#include "runtime/cuda/Rows.h"

#include <algorithm>

namespace echelon::cuda {

namespace {

/// Block b: the squares of elements b * length to (b + 1) * length, times the weight, into or onto sums[b].
template <typename T, int k>
__global__ void __launch_bounds__(1024)
    sum_squares(double *sums, const T *x, int64_t n, int64_t length, double weight, bool adds) {
  __shared__ double parts[32];
  const ByBlock by(parts);
  const int64_t begin = by.row() * length;
  double sum = 0;
  over_packs<k>(by, x + begin, min(length, n - begin), [&](int64_t, const Pack<T, k> &pack) {
    UNROLL for (int j = 0; j < k; ++j) {
      const double v = static_cast<Wide<T>>(pack.at[j]);
      sum += v * v;
    }
  });
  sum = by.sum(sum) * weight;
  if (by.rank() == 0)
    sums[by.row()] = adds ? sums[by.row()] + sum : sum;
}

__global__ void __launch_bounds__(1024)
    add_parts(double *to, const double *sums, int64_t count, double weight, bool adds) {
  __shared__ double parts[32];
  const double sum = block_sum(threadIdx.x < count ? sums[threadIdx.x] : 0.0, parts) * weight;
  if (threadIdx.x == 0)
    *to = adds ? *to + sum : sum;
}

constexpr int64_t kFew = 1 << 15; // elements for one block

template <typename T>
void run(Stream stream, double *sum, const T *x, int64_t n, double weight, bool adds, double *scratch) {
  const int64_t blocks = n <= kFew ? 1 : std::min(kSquaresScratch, n / 4096);
  const int64_t length = ((n + blocks - 1) / blocks + 15) / 16 * 16; // whole packs
  // A last part that is no whole pack is read element by element, and so are all.
  const auto kernel = arePacks<T>(n, {x}) ? sum_squares<T, kPack<T>> : sum_squares<T, 1>;
  const auto to = adds ? inout(sum, 1) : out(sum, 1);
  if (blocks == 1)
    return launch("sum of squares", kernel, cover_rows(1, n, 16), stream, to, in(x, n), n, length, weight, adds);
  const int64_t used = (n + length - 1) / length;
  launch("sum of squares", kernel, cover_blocks(used), stream, out(scratch, used), in(x, n), n, length, 1.0, false);
  launch("sum of squares", add_parts, cover_blocks(1, 1024), stream, to, in(scratch, used), used, weight, adds);
}

} // namespace

template <typename T> void sum_of_squares(Stream stream, double *sum, const T *x, int64_t n, double *scratch) {
  run(stream, sum, x, n, 1, false, scratch);
}
template <typename T>
void add_squares(Stream stream, double *sum, const T *x, int64_t n, double weight, double *scratch) {
  if (n > 0)
    run(stream, sum, x, n, weight, true, scratch);
}

#define INSTANTIATE(T)                                                                                                 \
  template void sum_of_squares<T>(Stream, double *, const T *, int64_t, double *);                                     \
  template void add_squares<T>(Stream, double *, const T *, int64_t, double, double *);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE

} // namespace echelon::cuda
