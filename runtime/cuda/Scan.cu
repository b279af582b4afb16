// Running sums in double, as the CPU's. Where there are columns enough, a thread walks down one; else a block scans a
// column piece by piece. The k largest: k times the largest of those that come after the one found before, so that
// nothing is marked or moved.
#include "runtime/cuda/Scan.h"

namespace echelon::cuda {

namespace {

/// What running sums of T are held in.
template <typename T> using SumOf = std::conditional_t<std::is_integral_v<T>, T, double>;

/// Where column `column` of (outer, inner) begins in (outer, n, inner).
DEVICE int64_t column_begin(int64_t column, int64_t n, int64_t inner) {
  return column / inner * n * inner + column % inner;
}

/// A thread a column.
template <typename T>
__global__ void cumsum_columns(T *y, const T *x, int64_t columns, int64_t n, int64_t inner, bool reverse) {
  if (element() < columns) {
    const int64_t begin = column_begin(element(), n, inner);
    SumOf<T> sum = 0;
    for (int64_t step = 0; step < n; ++step) {
      const int64_t at = begin + (reverse ? n - 1 - step : step) * inner;
      sum += x[at];
      y[at] = static_cast<T>(sum);
    }
  }
}

/// The sum of x over this lane and those before it.
template <typename T> DEVICE T warp_prefix(T x) {
  for (int offset = 1; offset < 32; offset *= 2) {
    const T other = __shfl_sync(0xffffffffu, x, lane() >= offset ? lane() - offset : lane());
    x += lane() >= offset ? other : T(0);
  }
  return x;
}

/// A block a column.
template <typename T> __global__ void cumsum_blocks(T *y, const T *x, int64_t n, int64_t inner, bool reverse) {
  __shared__ SumOf<T> parts[32];
  const int64_t begin = column_begin(blockIdx.x, n, inner);
  const int warp = static_cast<int>(threadIdx.x / 32), warps = static_cast<int>(blockDim.x / 32);
  SumOf<T> before = 0; // all pieces until here
  for (int64_t start = 0; start < n; start += blockDim.x) {
    const int64_t step = start + threadIdx.x, at = begin + (reverse ? n - 1 - step : step) * inner;
    SumOf<T> sum = warp_prefix(step < n ? SumOf<T>(x[at]) : SumOf<T>(0));
    __syncthreads(); // parts may still be read
    if (lane() == 31)
      parts[warp] = sum;
    __syncthreads();
    const SumOf<T> upTo = warp_prefix(lane() < warps ? parts[lane()] : SumOf<T>(0));
    const SumOf<T> earlier = __shfl_sync(0xffffffffu, upTo, warp > 0 ? warp - 1 : 0);
    if (warp > 0)
      sum += earlier;
    if (step < n)
      y[at] = static_cast<T>(before + sum);
    before += __shfl_sync(0xffffffffu, upTo, warps - 1);
  }
}

/// A value and its place; -1: none.
template <typename T> struct Candidate {
  T value;
  int32_t place;
};
template <typename T> DEVICE bool comes_before(const Candidate<T> &p, const Candidate<T> &q) {
  const bool nanP = p.value != p.value, nanQ = q.value != q.value;
  if (nanP || nanQ)
    return nanP && nanQ ? p.place < q.place : nanP;
  return p.value > q.value || (p.value == q.value && p.place < q.place);
}
template <typename T> DEVICE Candidate<T> first_of(const Candidate<T> &p, const Candidate<T> &q) {
  return q.place < 0 || (p.place >= 0 && comes_before(p, q)) ? p : q;
}
template <typename T> DEVICE Candidate<T> warp_first(Candidate<T> x) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const T value = __shfl_xor_sync(0xffffffffu, x.value, offset);
    x = first_of(x, Candidate<T>{value, __shfl_xor_sync(0xffffffffu, x.place, offset)});
  }
  return x;
}

/// A block a column; of one warp where columns are short.
template <typename T> __global__ void top_k_blocks(int32_t *index, const T *x, int64_t n, int64_t inner, int64_t k) {
  __shared__ T values[32];
  __shared__ int32_t places[32];
  const int64_t begin = column_begin(blockIdx.x, n, inner), to = column_begin(blockIdx.x, k, inner);
  const int warp = static_cast<int>(threadIdx.x / 32), warps = static_cast<int>(blockDim.x / 32);
  Candidate<T> last = {T(0), -1};
  for (int64_t r = 0; r < k; ++r) {
    Candidate<T> best = {T(0), -1};
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      const Candidate<T> here = {x[begin + i * inner], static_cast<int32_t>(i)};
      if (last.place < 0 || comes_before(last, here))
        best = first_of(best, here);
    }
    best = warp_first(best);
    if (warps > 1) {
      __syncthreads(); // they may still be read
      if (lane() == 0)
        values[warp] = best.value, places[warp] = best.place;
      __syncthreads();
      const int from = lane() < warps ? lane() : 0;
      best = warp_first(Candidate<T>{values[from], places[from]});
    }
    if (threadIdx.x == 0)
      index[to + r * inner] = best.place;
    last = best;
  }
}

} // namespace

template <typename T>
void cumsum(Stream stream, T *y, const T *x, int64_t outer, int64_t n, int64_t inner, bool reverse) {
  const int64_t columns = outer * inner, count = columns * n;
  if (count <= 0)
    return;
  const bool walks = n <= 32 || (inner >= 32 && columns >= 4096);
  const Arg<T> to = y == x ? inout(y, count) : out(y, count);
  if (walks)
    launch("cumsum", cumsum_columns<T>, cover(columns), stream, to, in(x, count), columns, n, inner, reverse);
  else
    launch("cumsum", cumsum_blocks<T>,
           cover_blocks(columns, n <= 128   ? 128
                                 : n <= 256 ? 256
                                            : 512),
           stream, to, in(x, count), n, inner, reverse);
}

template <typename T>
void top_k(Stream stream, int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner, int64_t k) {
  const int64_t columns = outer * inner;
  if (columns <= 0 || k <= 0)
    return;
  launch("top_k", top_k_blocks<T>, cover_blocks(columns, n <= 512 ? 32 : 512), stream, out(index, columns * k),
         in(x, columns * n), n, inner, k);
}

#define INSTANTIATE(T)                                                                                                 \
  template void cumsum<T>(Stream, T *, const T *, int64_t, int64_t, int64_t, bool);                                    \
  template void top_k<T>(Stream, int32_t *, const T *, int64_t, int64_t, int64_t, int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(int32_t)
#undef INSTANTIATE

} // namespace echelon::cuda
