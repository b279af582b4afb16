// Strided copies. The box is first made simple: dimensions of size 1 go, dimensions that lie one after the other in
// both operands become one, the rest is ordered by target stride. Then rows are copied whole where both sides are
// contiguous, two dimensions are transposed in register blocks where each side is contiguous along another one, and
// anything else is a strided loop.
#include "runtime/kernels/Copy.h"
#include "runtime/kernels/cpu/TransposeBlock.h"
#include "runtime/launch/Fail.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace echelon::runtime {
namespace {

using detail::Stores;

struct Dim {
  int64_t size, dst, src;
};
struct Box {
  Dim dims[8];
  int rank = 0;
  bool empty = false;
};

Box simplify(const int64_t *dstStrides, const int64_t *srcStrides, const int64_t *sizes, int rank) {
  Box box;
  if (rank > 8)
    fail("strided copy over more than 8 dimensions");
  for (int d = 0; d < rank; ++d) {
    box.empty |= sizes[d] == 0;
    if (sizes[d] != 1)
      box.dims[box.rank++] = {sizes[d], dstStrides[d], srcStrides ? srcStrides[d] : 0};
  }
  // A sum over a dimension (target stride 0) is best innermost where the source is contiguous along it.
  auto weight = [](const Dim &dim) { return dim.dst == 0 ? std::abs(dim.src) : std::abs(dim.dst); };
  std::stable_sort(box.dims, box.dims + box.rank, [&](const Dim &x, const Dim &y) { return weight(x) > weight(y); });
  int kept = 0;
  for (int d = 0; d < box.rank; ++d) {
    Dim dim = box.dims[d];
    if (kept > 0 && box.dims[kept - 1].dst == dim.dst * dim.size && box.dims[kept - 1].src == dim.src * dim.size)
      box.dims[kept - 1] = {box.dims[kept - 1].size * dim.size, dim.dst, dim.src};
    else
      box.dims[kept++] = dim;
  }
  box.rank = kept;
  return box;
}

template <bool add, typename T> inline void put(T &dst, T src) { dst = add ? dst + src : src; }

template <bool add, typename T>
void row(T *dst, int64_t dstStride, const T *src, int64_t srcStride, int64_t n, const Stores &stores) {
  if (dstStride == 1 && srcStride == 1) {
    if constexpr (!add) {
      stores.write(dst, n, [=](auto at, int64_t i) { return at.load(src + i); });
    } else {
      for (int64_t i = 0; i < n; ++i)
        dst[i] += src[i];
    }
  } else if (add && dstStride == 0) {
    T sum = 0;
    for (int64_t i = 0; i < n; ++i)
      sum += src[i * srcStride];
    *dst += sum;
  } else if (dstStride == 1) {
    for (int64_t i = 0; i < n; ++i)
      put<add>(dst[i], src[i * srcStride]);
  } else {
    for (int64_t i = 0; i < n; ++i)
      put<add>(dst[i * dstStride], src[i * srcStride]);
  }
}

/// Where the columns of a target lie in its source: `inner` (a multiple of 8, or all) of them `step` apart, and groups
/// of so many `outer` apart.
struct Columns {
  int64_t count, inner, step, outer;
  int64_t place(int64_t j) const { return j / inner * outer + j % inner * step; }
};

/// Rows 0 to `rows` and columns `from` to `to` of a transpose into a block, whose rows are dstRow apart. Eight rows of
/// the source at a time are read as far as the block goes, and what lies `ahead` elements further on is asked for, into
/// the L2 cache (0: nothing).
template <typename T>
void transposeInto(T *dst, int64_t dstRow, const T *src, const Columns &columns, int64_t rows, int64_t from, int64_t to,
                   int64_t ahead) {
  int64_t j = from;
  for (; j + 8 <= to; j += 8) {
    const T *at = src + columns.place(j);
    for (int64_t r = 0; ahead && r < 8; ++r)
      __builtin_prefetch(at + r * columns.step + ahead, 0, 2);
    int64_t i = 0;
    for (; i + 8 <= rows; i += 8)
      detail::transpose_block<false>(dst + i * dstRow + j - from, dstRow, at + i, columns.step);
    for (; i < rows; ++i)
      for (int64_t c = 0; c < 8; ++c)
        dst[i * dstRow + j - from + c] = at[c * columns.step + i];
  }
  for (; j < to; ++j)
    for (int64_t i = 0; i < rows; ++i)
      dst[i * dstRow + j - from] = src[columns.place(j) + i];
}

/// Whether transposePast is for these. Where rows of the target are a multiple of 1 KiB apart it is slower than blocks:
/// the lines seem to meet few of memory's channels.
template <typename T>
bool goesLineByLine(const T *dst, int64_t dstRow, const Columns &columns, int64_t rows, const Stores &stores) {
  constexpr int64_t line = 64 / sizeof(T);
  return sizeof(T) == 4 && stores.go_past() && dstRow % line == 0 && dstRow % (16 * line) != 0 && rows % 8 == 0 &&
         columns.count % line == 0 && columns.inner % line == 0 && reinterpret_cast<uintptr_t>(dst) % 64 == 0;
}

/// dst: (rows, columns), rows dstRow apart; src: (columns, rows); past the cache, without a buffer. Of the source, 16
/// rows are read side by side, which the processor foresees; of the target, whole lines are written at far places,
/// which nobody waits for.
template <typename T> void transposePast(T *dst, int64_t dstRow, const T *src, const Columns &columns, int64_t rows) {
  constexpr int64_t line = 64 / sizeof(T), ahead = 2 * line;
  for (int64_t j = 0; j < columns.count; j += line) {
    const T *from = src + columns.place(j);
    for (int64_t i = 0; i < rows; i += 8) {
      for (int64_t r = 0; r < 8; ++r) // half of the lines here, half with the next eight rows
        __builtin_prefetch(from + (r + i % line) * columns.step + i + ahead);
      detail::Vector<T> left[8], right[8];
      detail::columns_of_block(left, from + i, columns.step);
      detail::columns_of_block(right, from + 8 * columns.step + i, columns.step);
      for (int64_t r = 0; r < 8; ++r) {
        detail::stream<T>(dst + (i + r) * dstRow + j, left[r]);
        detail::stream<T>(dst + (i + r) * dstRow + j + 8, right[r]);
      }
    }
  }
}

/// dst: (rows, columns), rows dstRow apart; src: (columns, rows). Blocks go through a buffer: of the
/// source, lines are read whole; of the target, 16 lines in a row are written at once.
template <bool add, typename T>
void transpose(T *dst, int64_t dstRow, const T *src, const Columns &columns, int64_t rows, const Stores &stores) {
  if constexpr (!add && sizeof(T) == 4)
    if (goesLineByLine(dst, dstRow, columns, rows, stores))
      return transposePast(dst, dstRow, src, columns, rows);
  constexpr int64_t tall = 64 / sizeof(T), wide = 256, apart = wide + 8;
  alignas(64) T block[tall * apart];
  for (int64_t j = 0; j < columns.count; j += wide)
    for (int64_t i0 = 0; i0 < rows; i0 += tall) {
      const int64_t high = std::min(tall, rows - i0), end = std::min(columns.count, j + wide);
      transposeInto(block, apart, src + i0, columns, high, j, end, i0 + tall < rows ? tall : 0);
      for (int64_t i = 0; i < high; ++i)
        row<add>(dst + (i0 + i) * dstRow + j, 1, block + i * apart, 1, end - j, stores);
    }
}

/// `rows.size` rows of a box. Where they are pieces of a page of the source, those some pages' lines on are asked for.
template <bool add, typename T> void overRows(T *dst, const T *src, Dim rows, Dim inner, const Stores &stores) {
  constexpr int64_t near = 4096 / sizeof(T), line = 64 / sizeof(T);
  const bool inPieces =
      stores.go_past() && inner.dst == 1 && inner.src == 1 && inner.size <= near && rows.src > inner.size;
  const int64_t ahead = inPieces ? near / inner.size : 0;
  for (int64_t r = 0; r < rows.size; ++r) {
    const T *from = src + r * rows.src;
    for (int64_t i = 0; i < inner.size && r + ahead < rows.size && inPieces; i += line)
      __builtin_prefetch(from + ahead * rows.src + i, 0, 2);
    row<add>(dst + r * rows.dst, inner.dst, from, inner.src, inner.size, stores);
  }
}

/// The same where both have all of dst's few columns side by side: images from planes of colours.
template <int cols, typename T> void interleave(T *dst, const T *src, int64_t srcRow, int64_t rows) {
#pragma GCC ivdep
  for (int64_t i = 0; i < rows; ++i)
    for (int c = 0; c < cols; ++c)
      dst[i * cols + c] = src[c * srcRow + i];
}
template <typename T>
bool interleaveFew(T *dst, int64_t dstRow, const T *src, int64_t srcRow, int64_t rows, int64_t cols) {
  if (cols != dstRow || cols > 4)
    return false;
  if (cols == 2)
    interleave<2>(dst, src, srcRow, rows);
  else if (cols == 3)
    interleave<3>(dst, src, srcRow, rows);
  else
    interleave<4>(dst, src, srcRow, rows);
  return true;
}

/// Calls body(dst, src) at every point of the first `rank` dimensions.
template <typename T, typename Body> void overPoints(T *dst, const T *src, const Dim *dims, int rank, Body body) {
  int64_t at[8] = {};
  for (;;) {
    body(dst, src);
    int d = rank - 1;
    for (; d >= 0; --d) {
      dst += dims[d].dst, src += dims[d].src;
      if (++at[d] < dims[d].size)
        break;
      dst -= dims[d].dst * dims[d].size, src -= dims[d].src * dims[d].size;
      at[d] = 0;
    }
    if (d < 0)
      return;
  }
}

template <bool add, typename T>
void run(T *dst, const int64_t *dstStrides, const T *src, const int64_t *srcStrides, const int64_t *sizes, int rank) {
  Box box = simplify(dstStrides, srcStrides, sizes, rank);
  if (box.empty)
    return;
  int64_t written = add ? 0 : sizeof(T);
  for (int d = 0; d < box.rank; ++d)
    written *= box.dims[d].size;
  const Stores stores(written);
  if (box.rank == 0)
    return row<add>(dst, 1, src, 1, 1, stores);
  Dim inner = box.dims[box.rank - 1];
  int across = box.rank - 2; // the dimension along which the source is contiguous
  while (across >= 0 && (box.dims[across].src != 1 || box.dims[across].dst == 0))
    --across;
  if (inner.dst == 1 && inner.src > 1 && across >= 0) {
    Dim other = box.dims[across];
    std::rotate(box.dims + across, box.dims + across + 1, box.dims + box.rank - 1);
    int rest = box.rank - 2;
    Columns columns{inner.size, inner.size, inner.src, 0};
    if (rest > 0 && box.dims[rest - 1].dst == inner.size &&
        inner.size % 8 == 0) { // the target goes on with its columns
      columns.outer = box.dims[--rest].src;
      columns.count *= box.dims[rest].size;
    }
    return overPoints(dst, src, box.dims, rest, [&](T *d, const T *s) {
      if (add || !interleaveFew(d, other.dst, s, inner.src, other.size, columns.count))
        transpose<add>(d, other.dst, s, columns, other.size, stores);
    });
  }
  if (box.rank == 1)
    return row<add>(dst, inner.dst, src, inner.src, inner.size, stores);
  const Dim rows = box.dims[box.rank - 2];
  overPoints(dst, src, box.dims, box.rank - 2, [&](T *d, const T *s) { overRows<add>(d, s, rows, inner, stores); });
}

} // namespace

template <typename T>
void copy_strided(T *dst, const int64_t *dstStrides, const T *src, const int64_t *srcStrides, const int64_t *sizes,
                  int rank) {
  run<false>(dst, dstStrides, src, srcStrides, sizes, rank);
}

template <typename T>
void add_strided(T *dst, const int64_t *dstStrides, const T *src, const int64_t *srcStrides, const int64_t *sizes,
                 int rank) {
  run<true>(dst, dstStrides, src, srcStrides, sizes, rank);
}

template <typename T> void fill_strided(T *dst, const int64_t *strides, const int64_t *sizes, int rank, T value) {
  run<false>(dst, strides, &value, nullptr, sizes, rank);
}

template <typename T> void fill(T *dst, int64_t n, T value) { std::fill_n(dst, n, value); }

namespace reference {
template <typename T>
void copy_strided(T *dst, const int64_t *dstStrides, const T *src, const int64_t *srcStrides, const int64_t *sizes,
                  int rank, bool add) {
  if (rank == 0) {
    *dst = add ? *dst + *src : *src;
    return;
  }
  for (int64_t i = 0; i < *sizes; ++i)
    copy_strided(dst + i * *dstStrides, dstStrides + 1, src + i * *srcStrides, srcStrides + 1, sizes + 1, rank - 1,
                 add);
}
} // namespace reference

#define INSTANTIATE(T)                                                                                                 \
  template void copy_strided<T>(T *, const int64_t *, const T *, const int64_t *, const int64_t *, int);               \
  template void fill_strided<T>(T *, const int64_t *, const int64_t *, int, T);                                        \
  template void fill<T>(T *, int64_t, T);                                                                              \
  template void reference::copy_strided<T>(T *, const int64_t *, const T *, const int64_t *, const int64_t *, int,     \
                                           bool);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(int32_t)
INSTANTIATE(uint8_t)
#undef INSTANTIATE
// Copied as their bits.
#define INSTANTIATE(T)                                                                                                 \
  template <>                                                                                                          \
  void copy_strided<T>(T * dst, const int64_t *dstStrides, const T *src, const int64_t *srcStrides,                    \
                       const int64_t *sizes, int rank) {                                                               \
    run<false>(reinterpret_cast<uint16_t *>(dst), dstStrides, reinterpret_cast<const uint16_t *>(src), srcStrides,     \
               sizes, rank);                                                                                           \
  }                                                                                                                    \
  template void fill<T>(T *, int64_t, T);
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE
#define INSTANTIATE(T)                                                                                                 \
  template void add_strided<T>(T *, const int64_t *, const T *, const int64_t *, const int64_t *, int);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(int32_t)
#undef INSTANTIATE

} // namespace echelon::runtime
