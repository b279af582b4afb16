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

//===-- of many tensors ------------------------------------------------------------------------------------------===//

/// A block of kThreads threads adds up this many elements for each of them.
constexpr int kOfThread = 64;
template <typename T> using Table = Tensors<kOfThread, const T>;

/// Block b: the squares of its piece of a tensor, into sums[b].
template <typename T> __global__ void sum_squares_each(const Table<T> tensors, double *sums) {
  __shared__ double parts[32];
  const ByBlock by(parts);
  const auto [x, n, begin] = tensors.of_block();
  double sum = 0;
  auto add = [&](int64_t, const auto &pack) {
    UNROLL for (const T &element : pack.at) {
      const double v = static_cast<Wide<T>>(element);
      sum += v * v;
    }
  };
  const int64_t length = min(Table<T>::kOfBlock, n - begin);
  if (length % kPack<T> == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0)
    over_packs<kPack<T>>(by, x + begin, length, add);
  else
    over_packs<1>(by, x + begin, length, add);
  sum = by.sum(sum);
  if (by.rank() == 0)
    sums[blockIdx.x] = sum;
}

/// Where each tensor's sums begin, one past the last's, and how often each counts.
template <int most> struct Shares {
  int32_t begin[most + 1];
  double weight[most];
  int32_t count;
};

/// A warp for each tensor adds up its sums; then one thread adds these, tensor by tensor.
template <int most>
__global__ void __launch_bounds__(1024)
    add_shares(double *to, const double *sums, const Shares<most> shares, Health *health, int32_t place) {
  __shared__ double ofTensor[most];
  for (int t = warp(); t < shares.count; t += warps()) {
    double sum = 0;
    for (int i = shares.begin[t] + lane(); i < shares.begin[t + 1]; i += 32)
      sum += sums[i];
    sum = warp_sum(sum) * shares.weight[t];
    if (lane() == 0)
      ofTensor[t] = sum;
  }
  __syncthreads();
  if (threadIdx.x > 0)
    return;
  double sum = *to;
  for (int t = 0; t < shares.count; ++t) {
    sum += ofTensor[t];
    if (health->firstBroken == 0 && !(sum - sum == 0))
      health->firstBroken = place + t;
  }
  *to = sum;
}

} // namespace

template <typename T> int64_t squares_scratch(const std::vector<Squared<T>> &all) {
  int64_t blocks = 0;
  for (const Squared<T> &one : all)
    blocks += (one.n + Table<T>::kOfBlock - 1) / Table<T>::kOfBlock;
  return blocks;
}

template <typename T>
void add_squares(Stream stream, double *sum, const std::vector<Squared<T>> &all, Health *health, int32_t place,
                 double *scratch) {
  constexpr int most = Table<T>::kMost;
  for (size_t begin = 0; begin < all.size(); begin += most) {
    Table<T> table;
    Shares<most> shares{};
    for (size_t i = begin; i < std::min(begin + most, all.size()); ++i) {
      table.add({all[i].x, all[i].n});
      shares.weight[shares.count] = all[i].weight;
      shares.begin[++shares.count] = static_cast<int32_t>(table.blocks());
    }
    const int64_t blocks = table.blocks();
    if (blocks > 0)
      launch("squares of gradients", sum_squares_each<T>, cover_blocks(blocks), stream, table, out(scratch, blocks));
    launch("sum of squares", add_shares<most>, cover_blocks(1, 1024), stream, inout(sum, 1), in(scratch, blocks),
           shares, inout(health, 1), place + static_cast<int32_t>(begin));
  }
}

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
  template void add_squares<T>(Stream, double *, const T *, int64_t, double, double *);                                \
  template void add_squares<T>(Stream, double *, const std::vector<Squared<T>> &, Health *, int32_t, double *);        \
  template int64_t squares_scratch<T>(const std::vector<Squared<T>> &);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE

} // namespace echelon::cuda
