// How kernels share rows and columns: who works on one, packs of 16 bytes, rows held in registers. Sums are added up in
// double, in an order that depends on sizes alone: they repeat bit for bit. Memory bounds these kernels, and the
// devices meant add doubles at half the rate of floats.
#pragma once
#include "runtime/cuda/Pack.h"

#include <initializer_list>
#include <limits>

namespace echelon::cuda {

/// What sums of T are added up in.
template <typename T> using Total = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

//===-- packs ----------------------------------------------------------------------------------------------------===//

/// Whether rows of n elements of T, one after the other from these places on, are whole packs.
template <typename T> bool arePacks(int64_t n, std::initializer_list<const T *> rows) {
  bool whole = n % kPack<T> == 0;
  for (const T *row : rows)
    whole = whole && reinterpret_cast<uintptr_t>(row) % 16 == 0;
  return whole;
}

//===-- who shares a row -----------------------------------------------------------------------------------------===//

/// A warp, in a launch of cover_warps.
struct ByWarp {
  static constexpr int kMostThreads = kThreads;
  DEVICE explicit ByWarp(double *) {}
  DEVICE int64_t row() const { return warp_row(); }
  DEVICE int rank() const { return lane(); }
  DEVICE int size() const { return 32; }
  template <typename T> DEVICE T sum(T x) const { return warp_sum(x); }
  template <typename T> DEVICE T max(T x) const { return warp_max(x); }
};

/// A block of at most so many threads, in a launch of cover_rows. `parts` is shared memory for 32 numbers.
template <int most> struct BlockOf {
  static constexpr int kMostThreads = most;
  DEVICE explicit BlockOf(double *parts) : parts(parts) {}
  DEVICE int64_t row() const { return blockIdx.x; }
  DEVICE int rank() const { return static_cast<int>(threadIdx.x); }
  DEVICE int size() const { return static_cast<int>(blockDim.x); }
  DEVICE double sum(double x) const { return block_sum(x, parts); }
  template <typename T> DEVICE T max(T x) const { return static_cast<T>(block_max(static_cast<double>(x), parts)); }

private:
  double *parts;
};
/// With 64 registers a thread, and with 128: for rows held in registers, and exponentials.
using ByBlock = BlockOf<1024>;
using ByHalfBlock = BlockOf<512>;

/// Longer rows have a block each.
constexpr int64_t kMostOfWarp = 1024;
/// Blocks for `rows` rows of n elements, some `each` a thread, of at most `most` threads.
inline Shape cover_rows(int64_t rows, int64_t n, int64_t each, int64_t most = 1024) {
  const int64_t threads = (n + 32 * each - 1) / (32 * each) * 32;
  return cover_blocks(rows, static_cast<int>(threads < 32 ? 32 : threads > most ? most : threads));
}

/// Calls f(place, pack) for this thread's packs of a row. Some are loaded before the first is used.
template <int k, int ahead = 4, typename T, typename By, typename F>
DEVICE void over_packs(const By &by, const T *row, int64_t n, F f) {
  const int64_t step = static_cast<int64_t>(by.size()) * k;
  int64_t i = static_cast<int64_t>(by.rank()) * k;
  if constexpr (ahead > 1)
    for (; i + (ahead - 1) * step < n; i += ahead * step) {
      Pack<T, k> packs[ahead];
      UNROLL for (int a = 0; a < ahead; ++a) packs[a] = load<k>(row + i + a * step);
      UNROLL for (int a = 0; a < ahead; ++a) f(i + a * step, packs[a]);
    }
  for (; i < n; i += step)
    f(i, load<k>(row + i));
}

/// to[i] = f(i, v), v being row[i] as a number, for this thread's packs.
template <int k, typename T, typename By, typename F>
DEVICE void map_packs(const By &by, T *to, const T *row, int64_t n, F f) {
  over_packs<k>(by, row, n, [&](int64_t i, Pack<T, k> pack) {
    UNROLL for (int j = 0; j < k; ++j) pack.at[j] = static_cast<T>(f(i + j, static_cast<Wide<T>>(pack.at[j])));
    store<k>(to + i, pack);
  });
}

/// A thread's share of a row of at most kPacks * k * (threads) elements, in registers.
template <typename T, int k, int kPacks> struct HeldRow {
  Wide<T> at[kPacks][k];

  template <typename By> DEVICE void load(const By &by, const T *row, int n) {
    Pack<T, k> packs[kPacks];
    UNROLL for (int p = 0; p < kPacks; ++p) if (placeOf(by, p) < n) packs[p] = cuda::load<k>(row + placeOf(by, p));
    UNROLL for (int p = 0; p < kPacks; ++p) if (placeOf(by, p) < n) {
      UNROLL for (int j = 0; j < k; ++j) at[p][j] = static_cast<Wide<T>>(packs[p].at[j]);
    }
  }
  /// Calls f(v), v an element that it may change.
  template <typename By, typename F> DEVICE void over(const By &by, int n, F f) {
    UNROLL for (int p = 0; p < kPacks; ++p) if (placeOf(by, p) < n) { UNROLL for (int j = 0; j < k; ++j) f(at[p][j]); }
  }
  /// Calls f(v, w), w the same place of another row.
  template <typename By, typename F> DEVICE void over(const By &by, int n, HeldRow &other, F f) {
    UNROLL for (int p = 0; p < kPacks; ++p) if (placeOf(by, p) < n) {
      UNROLL for (int j = 0; j < k; ++j) f(at[p][j], other.at[p][j]);
    }
  }
  template <typename By> DEVICE void store(const By &by, T *row, int n) const {
    UNROLL for (int p = 0; p < kPacks; ++p) if (placeOf(by, p) < n) {
      Pack<T, k> pack;
      UNROLL for (int j = 0; j < k; ++j) pack.at[j] = static_cast<T>(at[p][j]);
      cuda::store<k>(row + placeOf(by, p), pack);
    }
  }

private:
  template <typename By> DEVICE static int placeOf(const By &by, int p) { return (p * by.size() + by.rank()) * k; }
};

/// Elements of a row that a thread of a warp, and of a block, holds.
template <typename T> constexpr int kHeldByLane = sizeof(Wide<T>) == 4 ? 32 : 16;
template <typename T> constexpr int kHeldByThread = sizeof(Wide<T>) == 4 ? 16 : 8;
template <typename T> constexpr int64_t kMostHeldByWarp = 32 * kHeldByLane<T>;
template <typename T> constexpr int64_t kMostHeldByBlock = ByHalfBlock::kMostThreads * kHeldByThread<T>;

//===-- columns --------------------------------------------------------------------------------------------------===//

// Of x (outer, n, inner) the columns are numbered through (outer, inner); 32 of them have a block, whose warps share
// their rows: warp w has rows w, w + warps(), …

/// Where column c begins.
DEVICE int64_t column_begin(int64_t c, int64_t n, int64_t inner) { return c / inner * n * inner + c % inner; }

/// More warps for a block where there are few columns, each with 4 rows at least.
inline int warpsForColumns(int64_t columns, int64_t n, int most) {
  int warps = 1;
  while (warps < most && warps * 8 <= n && (columns + 31) / 32 * warps < 8192)
    warps *= 2;
  return warps;
}
/// Blocks for pieces of so many columns, each of at most `most` warps.
inline Shape cover_tiles(int64_t columns, int64_t n, int64_t pieces = 1, int most = 32) {
  return cover_blocks((columns + 31) / 32 * pieces, 32 * warpsForColumns(columns, n, most));
}

/// combine over the warps of a block, lane by lane and in their order; on every thread. `parts`: shared memory for one
/// a thread.
template <typename T, typename F> DEVICE T over_warps(T x, T *parts, F combine) {
  if (warps() == 1)
    return x;
  __syncthreads(); // parts may still be read
  parts[threadIdx.x] = x;
  __syncthreads();
  x = parts[lane()];
  for (int w = 1; w < warps(); ++w)
    x = combine(x, parts[w * 32 + lane()]);
  return x;
}

/// Calls f(row, value) for this thread's rows, of `rows` rows `stride` apart. Four are loaded before the first is used.
template <typename T, typename F> DEVICE void down_column(const T *x, int64_t rows, int64_t stride, F f) {
  const int64_t step = warps();
  int64_t i = warp();
  for (; i + 3 * step < rows; i += 4 * step) {
    const T a = x[i * stride], b = x[(i + step) * stride], c = x[(i + 2 * step) * stride];
    const T d = x[(i + 3 * step) * stride];
    f(i, a);
    f(i + step, b);
    f(i + 2 * step, c);
    f(i + 3 * step, d);
  }
  for (; i < rows; i += step)
    f(i, x[i * stride]);
}

} // namespace echelon::cuda
