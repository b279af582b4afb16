// Gathers move 16 bytes a thread where they can. A scatter is a sort and a sum of segments:
//
//   keys         of each run of elements, where it is added: a row of the table, or an offset; `outside` if nowhere
//   sort         of (key, position), a byte of the key at a time; stable, so equal keys keep the order of positions
//   add_segments a warp for each 128 columns of each run of equal keys adds its elements in that order
//
// A pass of the sort: blocks of 256 elements count their digits; a block for each digit makes of its counts a prefix
// sum over the blocks; each element goes to where its digit begins, plus the digit's elements in earlier blocks, plus
// those before it in its own. A block counts by comparing all with all, which takes no atomics.
#include "runtime/cuda/Gather.h"
#include "runtime/launch/Fail.h"

#include <algorithm>

namespace echelon::cuda {

namespace {

//===-- gathers --------------------------------------------------------------------------------------------------===//

constexpr int kMostDims = 8, kMostIndices = 4;

/// Rows in pieces of up to 16 bytes.
template <typename Piece>
__global__ void gather_row_pieces(Piece *out, const Piece *table, const int32_t *index, int64_t count, int64_t pieces,
                                  int32_t lo, int32_t hi) {
  if (element() < count * pieces) {
    const int32_t i = index[element() / pieces];
    out[element()] = i >= lo && i < hi ? table[(static_cast<int64_t>(i) - lo) * pieces + element() % pieces] : Piece{};
  }
}

/// The dimensions over which a gather's elements, or runs of them, are found, and what of its axes is not a pointer.
struct Places {
  int rank = 0;
  int64_t sizes[kMostDims], source[kMostDims];
  int axes = 0;
  int64_t strides[kMostIndices][kMostDims], axis[kMostIndices];
  int32_t lo[kMostIndices], hi[kMostIndices];
};
/// The indices: apart, because a launch says what it reads.
struct Indices {
  const int32_t *of[kMostIndices];
};

/// Where in the source element p lies; -1: nowhere.
DEVICE int64_t place_in_source(const Places &places, const Indices &indices, int64_t p) {
  int64_t source = 0, at[kMostIndices] = {};
  UNROLL for (int d = kMostDims - 1; d >= 0; --d) if (d < places.rank) {
    const int64_t here = p % places.sizes[d];
    p /= places.sizes[d];
    source += here * places.source[d];
    UNROLL for (int g = 0; g < kMostIndices; ++g) if (g < places.axes) at[g] += here * places.strides[g][d];
  }
  bool exists = true;
  UNROLL for (int g = 0; g < kMostIndices; ++g) if (g < places.axes) {
    const int32_t i = indices.of[g][at[g]];
    exists &= i >= places.lo[g] && i < places.hi[g];
    source += (static_cast<int64_t>(i) - places.lo[g]) * places.axis[g];
  }
  return exists ? source : -1;
}

template <typename T>
__global__ void gather_elements(T *out, const T *source, const int32_t *i0, const int32_t *i1, const int32_t *i2,
                                const int32_t *i3, Places places, int64_t count, int64_t run, int64_t step) {
  if (element() < count * run) {
    const int64_t from = place_in_source(places, Indices{{i0, i1, i2, i3}}, element() / run);
    out[element()] = from < 0 ? T(0) : source[from + element() % run * step];
  }
}

//===-- scatters without scratch ---------------------------------------------------------------------------------===//

/// A block a row of the table.
template <typename T>
__global__ void add_rows_found(T *table, const T *d, const int32_t *index, int64_t count, int64_t width, int32_t lo) {
  const int32_t row = static_cast<int32_t>(lo + static_cast<int64_t>(blockIdx.x));
  for (int64_t j = threadIdx.x; j < width; j += blockDim.x) {
    T sum = table[blockIdx.x * width + j];
    for (int64_t i = 0; i < count; ++i)
      if (index[i] == row)
        sum += d[i * width + j];
    table[blockIdx.x * width + j] = sum;
  }
}

/// A thread for each element of a run, one run after the other.
template <typename T>
__global__ void add_runs(T *source, const T *d, const int32_t *i0, const int32_t *i1, const int32_t *i2,
                         const int32_t *i3, Places places, int64_t count, int64_t run, int64_t step) {
  if (element() < run)
    for (int64_t p = 0; p < count; ++p) {
      const int64_t to = place_in_source(places, Indices{{i0, i1, i2, i3}}, p);
      if (to >= 0)
        source[to + element() * step] += d[p * run + element()];
    }
}

//===-- the sort -------------------------------------------------------------------------------------------------===//

constexpr int kDigits = static_cast<int>(kSortDigits); // and the elements and threads of a block

/// What lies in scratch.
struct Sort {
  int64_t count, blocks;
  uint32_t *keys, *sortedKeys;
  int32_t *positions, *sortedPositions;
  int32_t *counts; // (kDigits, blocks)
  int32_t *totals; // (kDigits)

  Sort(int64_t count, void *scratch)
      : count(count), blocks(sort_blocks(count)), keys(static_cast<uint32_t *>(scratch)), sortedKeys(keys + count),
        positions(reinterpret_cast<int32_t *>(sortedKeys + count)), sortedPositions(positions + count),
        counts(sortedPositions + count), totals(counts + kDigits * blocks) {}
};

/// Keys are 0 .. outside. Of rows: index - lo.
__global__ void make_row_keys(uint32_t *keys, int32_t *positions, const int32_t *index, int64_t count, int32_t lo,
                              int32_t hi) {
  if (element() < count) {
    const int32_t i = index[element()];
    const uint32_t rows = static_cast<uint32_t>(hi) - static_cast<uint32_t>(lo);
    keys[element()] = i >= lo && i < hi ? static_cast<uint32_t>(i) - static_cast<uint32_t>(lo) : rows;
    positions[element()] = static_cast<int32_t>(element());
  }
}
__global__ void make_place_keys(uint32_t *keys, int32_t *positions, const int32_t *i0, const int32_t *i1,
                                const int32_t *i2, const int32_t *i3, Places places, int64_t count, uint32_t outside) {
  if (element() < count) {
    const int64_t to = place_in_source(places, Indices{{i0, i1, i2, i3}}, element());
    keys[element()] = to < 0 ? outside : static_cast<uint32_t>(to);
    positions[element()] = static_cast<int32_t>(element());
  }
}

/// Thread t counts digit t.
__global__ void count_digits(int32_t *counts, const uint32_t *keys, int64_t count, int shift) {
  __shared__ uint32_t digits[kDigits];
  const uint32_t t = threadIdx.x;
  digits[t] = element() < count ? keys[element()] >> shift & (kDigits - 1) : kDigits;
  __syncthreads();
  int32_t found = 0;
  for (int i = 0; i < kDigits; ++i)
    found += digits[i] == t;
  counts[static_cast<int64_t>(t) * gridDim.x + blockIdx.x] = found;
}

/// The sum of x over the block's threads before this one; `total` becomes that over all. parts: 32 numbers.
DEVICE int32_t block_sum_before(int32_t x, int32_t *parts, int32_t &total) {
  const int warp = static_cast<int>(threadIdx.x / 32), warps = static_cast<int>(blockDim.x / 32);
  int32_t upTo = x;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int32_t other = __shfl_sync(0xffffffffu, upTo, lane() >= offset ? lane() - offset : lane());
    upTo += lane() >= offset ? other : 0;
  }
  __syncthreads(); // parts may still be read
  if (lane() == 31)
    parts[warp] = upTo;
  __syncthreads();
  int32_t earlier = 0;
  total = 0;
  for (int w = 0; w < warps; ++w) {
    earlier += w < warp ? parts[w] : 0;
    total += parts[w];
  }
  return earlier + upTo - x;
}

/// A block a digit: of its counts, the sums of those of earlier blocks.
__global__ void sum_counts(int32_t *counts, int32_t *totals, int64_t blocks) {
  __shared__ int32_t parts[32];
  int32_t before = 0;
  for (int64_t start = 0; start < blocks; start += blockDim.x) {
    const int64_t at = blockIdx.x * blocks + start + threadIdx.x;
    const bool exists = start + threadIdx.x < blocks;
    int32_t total;
    const int32_t sum = block_sum_before(exists ? counts[at] : 0, parts, total);
    if (exists)
      counts[at] = before + sum;
    before += total;
  }
  if (threadIdx.x == 0)
    totals[blockIdx.x] = before;
}

__global__ void place_sorted(uint32_t *sortedKeys, int32_t *sortedPositions, const uint32_t *keys,
                             const int32_t *positions, const int32_t *counts, const int32_t *totals, int64_t count,
                             int shift) {
  __shared__ uint32_t digits[kDigits];
  __shared__ int32_t begin[kDigits], parts[32];
  const uint32_t t = threadIdx.x;
  const bool exists = element() < count;
  const uint32_t key = exists ? keys[element()] : 0, digit = exists ? key >> shift & (kDigits - 1) : kDigits;
  digits[t] = digit;
  int32_t all;
  begin[t] = block_sum_before(totals[t], parts, all) + counts[static_cast<int64_t>(t) * gridDim.x + blockIdx.x];
  __syncthreads();
  if (exists) {
    int32_t before = 0;
    for (uint32_t i = 0; i < t; ++i)
      before += digits[i] == digit;
    const int64_t to = begin[digit] + before;
    sortedKeys[to] = key;
    sortedPositions[to] = positions[element()];
  }
}

/// Sorts what lies in keys and positions; the result lies there again.
void sortPositions(Stream stream, Sort &sort, uint32_t outside) {
  const int64_t n = sort.count, counts = kDigits * sort.blocks;
  const Shape shape = cover(n, kDigits);
  for (int shift = 0; shift < 32 && (outside >> shift) != 0; shift += 8) {
    launch("sort", count_digits, shape, stream, out(sort.counts, counts), in(sort.keys, n), n, shift);
    launch("sort", sum_counts, cover_blocks(kDigits), stream, inout(sort.counts, counts), out(sort.totals, kDigits),
           sort.blocks);
    launch("sort", place_sorted, shape, stream, out(sort.sortedKeys, n), out(sort.sortedPositions, n), in(sort.keys, n),
           in(sort.positions, n), in(sort.counts, counts), in(sort.totals, kDigits), n, shift);
    std::swap(sort.keys, sort.sortedKeys);
    std::swap(sort.positions, sort.sortedPositions);
  }
}

constexpr int64_t kColumns = 128; // of a warp

/// to[key * scale + j * step] += d[position][j], j < width, over the equal keys from each first one on.
template <typename T>
__global__ void add_segments(T *to, const T *d, const uint32_t *keys, const int32_t *positions, int64_t count,
                             uint32_t outside, int64_t scale, int64_t width, int64_t step) {
  constexpr int own = kColumns / 32;
  const int64_t tiles = (width + kColumns - 1) / kColumns, first = warp_row() / tiles;
  const uint32_t key = first < count ? keys[first] : outside;
  if (key < outside && (first == 0 || keys[first - 1] != key)) {
    const int64_t column = warp_row() % tiles * kColumns + lane();
    int64_t low = first + 1, high = count; // the segment's end is the first place with another key
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (keys[middle] == key)
        low = middle + 1;
      else
        high = middle;
    }
    T *row = to + key * scale;
    T sum[own];
    UNROLL for (int c = 0; c < own; ++c) sum[c] = column + 32 * c < width ? row[(column + 32 * c) * step] : T(0);
    for (int64_t i = first; i < low; ++i) {
      const T *from = d + positions[i] * width;
      UNROLL for (int c = 0; c < own; ++c) sum[c] += column + 32 * c < width ? from[column + 32 * c] : T(0);
    }
    UNROLL for (int c = 0; c < own; ++c) if (column + 32 * c < width) row[(column + 32 * c) * step] = sum[c];
  }
}

template <typename T>
void addSegments(Stream stream, T *to, int64_t extent, const T *d, const Sort &sort, uint32_t outside, int64_t scale,
                 int64_t width, int64_t step) {
  const int64_t tiles = (width + kColumns - 1) / kColumns;
  launch("scatter_add", add_segments<T>, cover_warps(sort.count * tiles), stream, inout(to, extent),
         in(d, sort.count * width), in(sort.keys, sort.count), in(sort.positions, sort.count), sort.count, outside,
         scale, width, step);
}

//===-- what programs call ---------------------------------------------------------------------------------------===//

/// A gather's runs: `run` elements of the result side by side, in the source `step` apart, found by the same indices.
struct Runs {
  Places places;
  Indices indices = {};
  int64_t indexExtents[kMostIndices] = {};
  int64_t count = 1; // elements of the result
  int64_t run = 1, step = 0;
  int64_t sourceExtent = 1; // 0 where nothing of the source is here

  Runs(std::initializer_list<GatherDim> dims, std::initializer_list<GatherIndex> axes) {
    if (dims.size() > kMostDims || axes.size() > kMostIndices)
      runtime::fail("gather over more than 8 dimensions, or more than 4 axes");
    for (const GatherDim &dim : dims) {
      places.sizes[places.rank] = dim.size;
      places.source[places.rank++] = dim.source;
      count *= dim.size;
      sourceExtent += (dim.size - 1) * dim.source;
    }
    bool isHere = true;
    for (const GatherIndex &g : axes) {
      const int at = places.axes++;
      indices.of[at] = g.index;
      indexExtents[at] = 1;
      for (int d = 0; d < places.rank; ++d) {
        places.strides[at][d] = g.strides[d];
        indexExtents[at] += (places.sizes[d] - 1) * g.strides[d];
      }
      places.axis[at] = g.axis;
      places.lo[at] = g.lo;
      places.hi[at] = g.hi;
      sourceExtent += (static_cast<int64_t>(g.hi) - g.lo - 1) * g.axis;
      isHere &= g.hi > g.lo;
    }
    if (!isHere)
      sourceExtent = 0;
    takeRun();
  }

  int64_t runs() const { return run > 0 ? count / run : 0; }

private:
  /// The last dimensions that no index varies along make a run where the source holds them in equal steps.
  void takeRun() {
    for (; places.rank > 0 && lastIsShared(); --places.rank) {
      const int64_t size = places.sizes[places.rank - 1], source = places.source[places.rank - 1];
      if (size == 1)
        continue;
      if (run == 1 ? source == 0 : source != run * step)
        return;
      if (run == 1)
        step = source;
      run *= size;
    }
  }
  bool lastIsShared() const {
    for (int g = 0; g < places.axes; ++g)
      if (places.sizes[places.rank - 1] != 1 && places.strides[g][places.rank - 1] != 0)
        return false;
    return true;
  }
};

/// Calls body(pieces of a row, type of a piece).
template <typename T, typename Body> void withPieces(const void *x, const void *y, int64_t width, Body body) {
  const int64_t bytes = width * static_cast<int64_t>(sizeof(T));
  const uint64_t places =
      reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y) | static_cast<uint64_t>(bytes);
  if (places % 16 == 0)
    body(bytes / 16, uint4{});
  else
    body(width, T{});
}

constexpr int64_t kFewIndices = 64; // up to here a sort is not worth its launches

} // namespace

int64_t scatter_scratch(std::initializer_list<GatherDim> dims, std::initializer_list<GatherIndex> indices) {
  return scatter_scratch(Runs(dims, indices).runs());
}

template <typename T>
void gather_rows(Stream stream, T *out, const T *table, const int32_t *index, int64_t count, int64_t width, int32_t lo,
                 int32_t hi) {
  if (count * width <= 0)
    return;
  withPieces<T>(out, table, width, [&](int64_t pieces, auto piece) {
    using Piece = decltype(piece);
    const int64_t rows = std::max<int64_t>(0, static_cast<int64_t>(hi) - lo);
    launch("gather_rows", gather_row_pieces<Piece>, cover(count * pieces), stream,
           cuda::out(reinterpret_cast<Piece *>(out), count * pieces),
           in(reinterpret_cast<const Piece *>(table), rows * pieces), in(index, count), count, pieces, lo, hi);
  });
}

template <typename T>
void scatter_add_rows(Stream stream, T *table, const T *d, const int32_t *index, int64_t count, int64_t width,
                      int32_t lo, int32_t hi, void *scratch) {
  const int64_t rows = static_cast<int64_t>(hi) - lo;
  if (count <= 0 || width <= 0 || rows <= 0)
    return;
  if (!scratch || count <= kFewIndices) {
    launch("scatter_add_rows", add_rows_found<T>, cover_blocks(rows, width <= 64 ? 64 : kThreads), stream,
           inout(table, rows * width), in(d, count * width), in(index, count), count, width, lo);
    return;
  }
  Sort sort(count, scratch);
  launch("scatter_add_rows", make_row_keys, cover(count), stream, out(sort.keys, count), out(sort.positions, count),
         in(index, count), count, lo, hi);
  sortPositions(stream, sort, static_cast<uint32_t>(rows));
  addSegments(stream, table, rows * width, d, sort, static_cast<uint32_t>(rows), width, width, 1);
}

template <typename T>
void gather(Stream stream, T *out, const T *source, std::initializer_list<GatherDim> dims,
            std::initializer_list<GatherIndex> indices) {
  const Runs runs(dims, indices);
  if (runs.count <= 0)
    return;
  const auto index = [&](int g) { return in(runs.indices.of[g], runs.indexExtents[g]); };
  launch("gather", gather_elements<T>, cover(runs.count), stream, cuda::out(out, runs.count),
         in(source, runs.sourceExtent), index(0), index(1), index(2), index(3), runs.places, runs.runs(), runs.run,
         runs.step);
}

template <typename T>
void scatter_add(Stream stream, T *source, const T *d, std::initializer_list<GatherDim> dims,
                 std::initializer_list<GatherIndex> indices, void *scratch) {
  const Runs runs(dims, indices);
  if (runs.count <= 0 || runs.sourceExtent <= 0)
    return;
  const int64_t count = runs.runs();
  const auto index = [&](int g) { return in(runs.indices.of[g], runs.indexExtents[g]); };
  if (!scratch || count <= 1) {
    launch("scatter_add", add_runs<T>, cover(runs.run), stream, inout(source, runs.sourceExtent), in(d, runs.count),
           index(0), index(1), index(2), index(3), runs.places, count, runs.run, runs.step);
    return;
  }
  if (count > INT32_MAX || runs.sourceExtent > UINT32_MAX)
    runtime::fail("scatter of more than 2^31 - 1 runs, or into more than 2^32 - 1 elements");
  Sort sort(count, scratch);
  const uint32_t outside = static_cast<uint32_t>(runs.sourceExtent);
  launch("scatter_add", make_place_keys, cover(count), stream, out(sort.keys, count), out(sort.positions, count),
         index(0), index(1), index(2), index(3), runs.places, count, outside);
  sortPositions(stream, sort, outside);
  addSegments(stream, source, runs.sourceExtent, d, sort, outside, 1, runs.run, runs.step);
}

#define INSTANTIATE(T)                                                                                                 \
  template void scatter_add_rows<T>(Stream, T *, const T *, const int32_t *, int64_t, int64_t, int32_t, int32_t,       \
                                    void *);                                                                           \
  template void scatter_add<T>(Stream, T *, const T *, std::initializer_list<GatherDim>,                               \
                               std::initializer_list<GatherIndex>, void *);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE
#define INSTANTIATE(T)                                                                                                 \
  template void gather_rows<T>(Stream, T *, const T *, const int32_t *, int64_t, int64_t, int32_t, int32_t);           \
  template void gather<T>(Stream, T *, const T *, std::initializer_list<GatherDim>, std::initializer_list<GatherIndex>);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(int32_t)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE

} // namespace echelon::cuda
