// The box is first made simple, as on the CPU: dimensions of size 1 go, dimensions that lie one after the other in both
// operands become one, the rest is ordered by target stride. Copies move units, no matter what they mean: of 16 bytes
// where both sides are contiguous and aligned, else as wide as they can be. A unit has a thread; where the target is
// contiguous along one dimension and the source along another one, blocks take 32 x 32 of both through shared memory.
//
// Sums over dimensions are reduce_sum's where the box is one of its; else each target place has a block, or a lane of
// one, whichever reads neighbours together.
#include "runtime/cuda/Copy.h"
#include "runtime/cuda/Reduce.h"
#include "runtime/cuda/Rows.h"
#include "runtime/launch/Fail.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

namespace echelon::cuda {

namespace {

constexpr int kMostDims = 8;

//===-- boxes ----------------------------------------------------------------------------------------------------===//

struct Dim {
  int64_t size, dst, src;
};
/// Dimensions, the slowest first, and where the first point lies beside the pointers that a kernel gets: these are the
/// lowest addresses, and strides may be negative.
struct Box {
  int rank = 0;
  Dim dims[kMostDims];
  int64_t dst = 0, src = 0;

  int64_t count() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d)
      n *= dims[d].size;
    return n;
  }
  void add(const Dim &dim) { dims[rank++] = dim; }
  void remove(int d) { std::copy(dims + d + 1, dims + rank--, dims + d); }
};

Box simplify(const int64_t *dstStrides, const int64_t *srcStrides, const int64_t *sizes, int rank) {
  Box box;
  if (rank > kMostDims)
    runtime::fail("strided copy over more than 8 dimensions");
  for (int d = 0; d < rank; ++d)
    if (sizes[d] != 1)
      box.add({sizes[d], dstStrides[d], srcStrides ? srcStrides[d] : 0});
  // A sum over a dimension (target stride 0) is best innermost where the source is contiguous along it.
  const auto weight = [](const Dim &dim) { return std::abs(dim.dst == 0 ? dim.src : dim.dst); };
  std::stable_sort(box.dims, box.dims + box.rank, [&](const Dim &a, const Dim &b) { return weight(a) > weight(b); });
  int kept = 0;
  for (int d = 0; d < box.rank; ++d) {
    const Dim dim = box.dims[d];
    Dim *outer = kept > 0 ? &box.dims[kept - 1] : nullptr;
    if (outer && outer->dst == dim.dst * dim.size && outer->src == dim.src * dim.size)
      *outer = {outer->size * dim.size, dim.dst, dim.src};
    else
      box.dims[kept++] = dim;
  }
  box.rank = kept;
  return box;
}

/// The lowest and one past the highest place that strides reach from 0.
struct Reach {
  int64_t low = 0, high = 1;
  void add(int64_t size, int64_t stride) { (stride < 0 ? low : high) += (size - 1) * stride; }
  int64_t extent() const { return high - low; }
};
Reach dstReach(const Box &box) {
  Reach reach;
  for (int d = 0; d < box.rank; ++d)
    reach.add(box.dims[d].size, box.dims[d].dst);
  return reach;
}
Reach srcReach(const Box &box) {
  Reach reach;
  for (int d = 0; d < box.rank; ++d)
    reach.add(box.dims[d].size, box.dims[d].src);
  return reach;
}

/// Where point p of the first `rank` dimensions of a box lies. Index is 32 bits wide where that is enough, since it
/// divides.
struct Offsets {
  int64_t dst, src;
};
template <typename Index> DEVICE Offsets offsets_of(const Box &box, Index p, int rank) {
  Offsets at = {box.dst, box.src};
  UNROLL for (int d = kMostDims - 1; d >= 0; --d) if (d < rank) {
    const Index size = static_cast<Index>(box.dims[d].size), here = p % size;
    p /= size;
    at.dst += static_cast<int64_t>(here) * box.dims[d].dst;
    at.src += static_cast<int64_t>(here) * box.dims[d].src;
  }
  return at;
}

//===-- copies and sums without zero strides ---------------------------------------------------------------------===//

template <bool adds, typename T> DEVICE void put(T &dst, const T &src) {
  if constexpr (adds)
    dst += src;
  else
    dst = src;
}

template <bool adds, typename Index, typename T>
__global__ void copy_units(T *dst, const T *src, Box box, int64_t count) {
  if (element() < count) {
    const Offsets at = offsets_of(box, static_cast<Index>(element()), box.rank);
    put<adds>(dst[at.dst], src[at.src]);
  }
}

constexpr int kTile = 32, kTileThreads = 256;

/// The last dimension is the target's contiguous one, the one before it the source's. Blocks: (rest, tiles of the
/// source's, tiles of the target's).
template <bool adds, typename T>
__global__ void __launch_bounds__(kTileThreads)
    transpose_tiles(T *dst, const T *src, Box box, int64_t along, int64_t across) {
  __shared__ T tile[kTile][kTile + 1];
  const Dim a = box.dims[box.rank - 2], b = box.dims[box.rank - 1];
  int64_t block = blockIdx.x;
  const int64_t b0 = block % across * kTile, a0 = block / across % along * kTile;
  block /= across * along;
  const Offsets at = offsets_of(box, block, box.rank - 2);
  for (int i = warp(); i < kTile; i += warps())
    if (a0 + lane() < a.size && b0 + i < b.size)
      tile[i][lane()] = src[at.src + (a0 + lane()) * a.src + (b0 + i) * b.src];
  __syncthreads();
  for (int i = warp(); i < kTile; i += warps())
    if (a0 + i < a.size && b0 + lane() < b.size)
      put<adds>(dst[at.dst + (a0 + i) * a.dst + (b0 + lane()) * b.dst], tile[lane()][i]);
}

/// Which dimension the source is contiguous along, where that is not the target's and tiles are worth it; else -1.
int acrossOf(const Box &box) {
  constexpr int64_t kLeast = 8;
  const Dim &inner = box.dims[box.rank - 1];
  if (box.rank < 2 || inner.dst != 1 || inner.src <= 1 || inner.size < kLeast)
    return -1;
  for (int d = box.rank - 2; d >= 0; --d)
    if (box.dims[d].src == 1 && box.dims[d].size >= kLeast)
      return d;
  return -1;
}

template <bool adds, typename T> void copyBox(const char *what, Stream stream, T *dst, const T *src, Box box) {
  const Reach to = dstReach(box), from = srcReach(box);
  const int64_t count = box.count();
  box.dst = -to.low;
  box.src = -from.low;
  const auto target = adds ? inout(dst + to.low, to.extent()) : out(dst + to.low, to.extent());
  const auto source = in(src + from.low, from.extent());
  if constexpr (sizeof(T) <= 8)
    if (const int d = acrossOf(box); d >= 0) {
      std::rotate(box.dims + d, box.dims + d + 1, box.dims + box.rank - 1);
      const auto tiles = [&](int i) { return (box.dims[i].size + kTile - 1) / kTile; };
      const int64_t along = tiles(box.rank - 2), across = tiles(box.rank - 1);
      const int64_t rest = count / (box.dims[box.rank - 2].size * box.dims[box.rank - 1].size);
      return launch(what, transpose_tiles<adds, T>, cover_blocks(rest * along * across, kTileThreads), stream, target,
                    source, box, along, across);
    }
  launch(what, count <= INT32_MAX ? copy_units<adds, uint32_t, T> : copy_units<adds, int64_t, T>, cover(count), stream,
         target, source, box, count);
}

/// Calls body(unit, units) with a value of the widest type that a box of elements of T is made of whole, and the box in
/// such units. src may be null.
template <typename T, typename Body> void inUnits(Box box, const T *dst, const T *src, Body body) {
  const auto isMadeOf = [&](int64_t bytes) {
    const int64_t k = bytes / static_cast<int64_t>(sizeof(T));
    if (k == 1 || box.rank == 0)
      return k == 1;
    const Dim &inner = box.dims[box.rank - 1];
    bool whole = inner.dst == 1 && (!src || inner.src == 1) && inner.size % k == 0;
    whole = whole && reinterpret_cast<uintptr_t>(dst) % bytes == 0 && reinterpret_cast<uintptr_t>(src) % bytes == 0;
    for (int d = 0; d < box.rank - 1; ++d)
      whole = whole && box.dims[d].dst % k == 0 && box.dims[d].src % k == 0;
    return whole;
  };
  const auto tries = [&](auto unit) {
    if constexpr (sizeof unit >= sizeof(T)) {
      if (!isMadeOf(sizeof unit))
        return false;
      if (constexpr int64_t k = sizeof unit / sizeof(T); k > 1) {
        box.dims[box.rank - 1].size /= k;
        for (int d = 0; d < box.rank - 1; ++d)
          box.dims[d].dst /= k, box.dims[d].src /= k;
      }
      body(unit, box);
      return true;
    } else {
      return false;
    }
  };
  tries(uint4{}) || tries(uint64_t{}) || tries(uint32_t{}) || tries(uint16_t{}) || tries(uint8_t{});
}

//===-- sums over dimensions -------------------------------------------------------------------------------------===//

/// `kept` and `summed` are the dimensions with and without a target stride. A lane of a block has a target place, and
/// the warps share its terms; or with byBlock a block has it.
template <bool byBlock, typename T>
__global__ void __launch_bounds__(1024)
    add_sums(T *dst, const T *src, Box kept, Box summed, int64_t places, int64_t terms) {
  __shared__ Total<T> parts[byBlock ? 32 : 1024];
  const int64_t p = byBlock ? static_cast<int64_t>(blockIdx.x) : column();
  const Offsets at = offsets_of(kept, p, kept.rank);
  const int64_t first = byBlock ? threadIdx.x : warp(), step = byBlock ? blockDim.x : warps();
  Total<T> sum = 0;
  for (int64_t i = first; i < terms && p < places; i += step)
    sum += src[at.src + offsets_of(summed, i, summed.rank).src];
  if constexpr (byBlock)
    sum = block_sum(sum, parts);
  else
    sum = column_sum(sum, parts);
  if (p < places && (byBlock ? threadIdx.x == 0 : warp() == 0))
    dst[at.dst] += static_cast<T>(sum);
}

/// Whether a box is x: (outer, n, inner) summed over its middle axis to a dense (outer, inner).
bool isReduction(const Box &box, int64_t &outer, int64_t &n, int64_t &inner) {
  outer = n = inner = 1;
  int d = box.rank - 1;
  if (d >= 0 && box.dims[d].dst == 1 && box.dims[d].src == 1)
    inner = box.dims[d--].size;
  if (d < 0 || box.dims[d].dst != 0 || box.dims[d].src != inner)
    return false;
  n = box.dims[d--].size;
  if (d >= 0 && box.dims[d].dst == inner && box.dims[d].src == n * inner)
    outer = box.dims[d--].size;
  return d < 0;
}

template <typename T> void addSums(Stream stream, T *dst, const T *src, const Box &box) {
  int64_t outer, n, inner;
  if (isReduction(box, outer, n, inner))
    return reduce_sum(stream, dst, src, outer, n, inner, true);
  const Reach to = dstReach(box), from = srcReach(box);
  Box kept, summed;
  for (int d = 0; d < box.rank; ++d)
    (box.dims[d].dst == 0 ? summed : kept).add(box.dims[d]);
  kept.dst = -to.low;
  kept.src = -from.low;
  const int64_t places = kept.count(), terms = summed.count();
  const auto target = inout(dst + to.low, to.extent());
  const auto source = in(src + from.low, from.extent());
  const auto isContiguous = [](const Box &b) {
    return std::any_of(b.dims, b.dims + b.rank, [](const Dim &d) { return std::abs(d.src) == 1; });
  };
  if (isContiguous(summed) || places < 32)
    launch("add_strided", add_sums<true, T>, cover_rows(places, terms, 8), stream, target, source, kept, summed, places,
           terms);
  else
    launch("add_strided", add_sums<false, T>, cover_tiles(places, terms), stream, target, source, kept, summed, places,
           terms);
}

/// A dimension along which target places of a box may coincide, so that threads would add to one; -1: there is none.
int overlapping(const Box &box) {
  int64_t reach = 1;
  std::array<bool, kMostDims> isSeen{};
  for (int k = 0; k < box.rank; ++k) {
    int next = -1;
    for (int d = 0; d < box.rank; ++d)
      if (!isSeen[d] && (next < 0 || std::abs(box.dims[d].dst) < std::abs(box.dims[next].dst)))
        next = d;
    isSeen[next] = true;
    const Dim &dim = box.dims[next];
    if (dim.dst == 0)
      continue;
    if (std::abs(dim.dst) < reach)
      return next;
    reach += (dim.size - 1) * std::abs(dim.dst);
  }
  return -1;
}

template <typename T> void addBox(Stream stream, T *dst, const T *src, Box box) {
  if (const int d = overlapping(box); d >= 0) { // one after the other, as on the CPU
    const Dim dim = box.dims[d];
    box.remove(d);
    for (int64_t i = 0; i < dim.size; ++i)
      addBox(stream, dst + i * dim.dst, src + i * dim.src, box);
    return;
  }
  if (std::any_of(box.dims, box.dims + box.rank, [](const Dim &d) { return d.dst == 0; }))
    addSums(stream, dst, src, box);
  else
    copyBox<true>("add_strided", stream, dst, src, box);
}

//===-- fills ----------------------------------------------------------------------------------------------------===//

template <typename Index, typename T> __global__ void fill_units(T *dst, T value, Box box, int64_t count) {
  if (element() < count)
    dst[offsets_of(box, static_cast<Index>(element()), box.rank).dst] = value;
}

template <typename T> void fillBox(const char *what, Stream stream, T *dst, const Box &box, T value) {
  inUnits<T>(box, dst, nullptr, [&](auto unit, Box units) {
    using Unit = decltype(unit);
    for (size_t i = 0; i + sizeof value <= sizeof unit; i += sizeof value)
      std::memcpy(reinterpret_cast<char *>(&unit) + i, &value, sizeof value);
    const Reach to = dstReach(units);
    const int64_t count = units.count();
    units.dst = -to.low;
    launch(what, count <= INT32_MAX ? fill_units<uint32_t, Unit> : fill_units<int64_t, Unit>, cover(count), stream,
           out(reinterpret_cast<Unit *>(dst) + to.low, to.extent()), unit, units, count);
  });
}

} // namespace

template <typename T>
void copy_strided(Stream stream, T *dst, const int64_t *dstStrides, const T *src, const int64_t *srcStrides,
                  const int64_t *sizes, int rank) {
  Box box = simplify(dstStrides, srcStrides, sizes, rank);
  if (box.count() <= 0)
    return;
  for (int d = box.rank - 1; d >= 0; --d)
    if (const Dim dim = box.dims[d]; dim.dst == 0) { // of what comes to one place, the last stays
      src += (dim.size - 1) * dim.src;
      box.remove(d);
    }
  inUnits<T>(box, dst, src, [&](auto unit, const Box &units) {
    using Unit = decltype(unit);
    copyBox<false>("copy_strided", stream, reinterpret_cast<Unit *>(dst), reinterpret_cast<const Unit *>(src), units);
  });
}

template <typename T>
void add_strided(Stream stream, T *dst, const int64_t *dstStrides, const T *src, const int64_t *srcStrides,
                 const int64_t *sizes, int rank) {
  const Box box = simplify(dstStrides, srcStrides, sizes, rank);
  if (box.count() > 0)
    addBox(stream, dst, src, box);
}

template <typename T>
void fill_strided(Stream stream, T *dst, const int64_t *strides, const int64_t *sizes, int rank, T value) {
  const Box box = simplify(strides, nullptr, sizes, rank);
  if (box.count() > 0)
    fillBox("fill_strided", stream, dst, box, value);
}

template <typename T> void fill(Stream stream, T *dst, int64_t n, T value) {
  Box box;
  box.add({n, 1, 0});
  if (n > 0)
    fillBox("fill", stream, dst, box, value);
}

#define INSTANTIATE(T)                                                                                                 \
  template void copy_strided<T>(Stream, T *, const int64_t *, const T *, const int64_t *, const int64_t *, int);       \
  template void fill<T>(Stream, T *, int64_t, T);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(int32_t)
INSTANTIATE(uint8_t)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE
#define INSTANTIATE(T) template void fill_strided<T>(Stream, T *, const int64_t *, const int64_t *, int, T);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(int32_t)
INSTANTIATE(uint8_t)
#undef INSTANTIATE
#define INSTANTIATE(T)                                                                                                 \
  template void add_strided<T>(Stream, T *, const int64_t *, const T *, const int64_t *, const int64_t *, int);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(int32_t)
#undef INSTANTIATE

} // namespace echelon::cuda
