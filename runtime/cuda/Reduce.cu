// One kernel for rows (inner = 1: a warp or a block a row, 16 bytes a thread), one for columns (the warps of a block
// share 32 columns; of short rows, too), for each of three reductions. A reduction says what a thread keeps, how an
// element enters, and how two threads' are merged: in a fixed order, lanes by halves, warps one after the other.
//
// A sum in two passes cuts its axis into pieces: (outer, pieces, inner) sums in the scratch, which are summed.
#include "runtime/cuda/Reduce.h"
#include "runtime/cuda/Rows.h"

#include <algorithm>

namespace echelon::cuda {

namespace {

/// Sums of From, written as To.
template <typename From, typename To> struct Sum {
  using Element = From;
  using State = Total<From>;
  using Result = To;
  static DEVICE State none() { return State(0); }
  static DEVICE State add(State sum, From x, int64_t) { return sum + static_cast<State>(x); }
  static DEVICE State merge(State a, State b) { return a + b; }
  static DEVICE State exchange(State s, int offset) { return __shfl_xor_sync(0xffffffffu, s, offset); }
};

/// Whether a beats b; a NaN beats all else, equal values beat nothing.
template <bool largest, typename T> DEVICE bool beats(T a, T b) {
  return (largest ? a > b : a < b) || (a != a && b == b);
}

template <bool largest, typename T> struct Extreme {
  using Element = T;
  using State = T;
  using Result = T;
  static DEVICE State none() {
    using Limits = std::numeric_limits<T>;
    if (largest)
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  static DEVICE State add(State best, T x, int64_t) { return merge(best, x); }
  static DEVICE State merge(State a, State b) { return beats<largest>(b, a) ? b : a; }
  static DEVICE State exchange(State s, int offset) { return __shfl_xor_sync(0xffffffffu, s, offset); }
};

/// The largest and its place; -1: none.
template <typename T> struct Placed {
  T value;
  int32_t place;
};
template <typename T> struct Largest {
  using Element = T;
  using State = Placed<T>;
  using Result = T;
  static DEVICE State none() { return {T(0), -1}; }
  static DEVICE State add(State best, T x, int64_t at) {
    return best.place < 0 || beats<true>(x, best.value) ? State{x, static_cast<int32_t>(at)} : best;
  }
  static DEVICE State merge(State a, State b) {
    if (a.place < 0 || b.place < 0)
      return a.place < 0 ? b : a;
    const bool isTie = !beats<true>(a.value, b.value) && !beats<true>(b.value, a.value);
    return (isTie ? b.place < a.place : beats<true>(b.value, a.value)) ? b : a;
  }
  static DEVICE State exchange(State s, int offset) {
    const T value = __shfl_xor_sync(0xffffffffu, s.value, offset);
    return {value, __shfl_xor_sync(0xffffffffu, s.place, offset)};
  }
};

/// What becomes of a result, beside its place.
struct Ending {
  bool adds;      // to what is there
  int32_t offset; // of places
};
template <typename To, typename From> DEVICE void put(To *y, int32_t *, int64_t at, From x, Ending ending) {
  const To result = static_cast<To>(x);
  y[at] = ending.adds ? y[at] + result : result;
}
template <typename T> DEVICE void put(T *value, int32_t *index, int64_t at, Placed<T> x, Ending ending) {
  if (value)
    value[at] = x.value;
  index[at] = x.place + ending.offset;
}

template <typename R> DEVICE typename R::State over_lanes(typename R::State s) {
  for (int offset = 16; offset > 0; offset /= 2)
    s = R::merge(s, R::exchange(s, offset));
  return s;
}

/// How an axis is cut: `count` pieces of `length` elements, the last of what is left.
struct Pieces {
  int64_t count, length;
  DEVICE int64_t size(int64_t piece, int64_t n) const { return min(length, n - piece * length); }
};

/// y: (outer, pieces) of x: (outer, n); rows = outer * pieces.
template <typename R, int k, typename By>
__global__ void __launch_bounds__(By::kMostThreads)
    reduce_rows(typename R::Result *y, int32_t *index, const typename R::Element *x, int64_t rows, int64_t n,
                Pieces pieces, Ending ending) {
  using State = typename R::State;
  __shared__ State parts[32];
  const By by(nullptr);
  const int64_t row = by.row(), piece = row % pieces.count;
  const int64_t begin = row / pieces.count * n + piece * pieces.length, count = row < rows ? pieces.size(piece, n) : 0;
  State s = R::none();
  // Of a long row some hundreds at a time: the error of a sum of sums grows more slowly.
  const int64_t few = static_cast<int64_t>(by.size()) * k * 64;
  for (int64_t from = 0; from < count; from += few) {
    State part = R::none();
    over_packs<k>(by, x + begin + from, min(few, count - from), [&](int64_t i, const Pack<typename R::Element, k> &p) {
      UNROLL for (int j = 0; j < k; ++j) part = R::add(part, p.at[j], from + i + j);
    });
    s = R::merge(s, part);
  }
  s = over_lanes<R>(s);
  if (std::is_same_v<By, ByBlock>) {
    if (lane() == 0)
      parts[warp()] = s;
    __syncthreads();
    s = over_lanes<R>(lane() < warps() ? parts[lane()] : R::none());
  }
  if (row < rows && by.rank() == 0)
    put(y, index, row, s, ending);
}

/// y: (pieces, columns) of x: (outer, n, inner).
template <typename R>
__global__ void __launch_bounds__(1024)
    reduce_columns(typename R::Result *y, int32_t *index, const typename R::Element *x, int64_t columns, int64_t n,
                   int64_t inner, Pieces pieces, Ending ending) {
  using State = typename R::State;
  using T = typename R::Element;
  __shared__ State parts[1024];
  const int64_t tiles = (columns + 31) / 32, piece = blockIdx.x / tiles, c = blockIdx.x % tiles * 32 + lane();
  const int64_t first = piece * pieces.length, count = c < columns ? pieces.size(piece, n) : 0;
  const T *from = x + column_begin(c, n, inner) + first * inner;
  State s = R::none();
  const int64_t few = warps() * 64;
  for (int64_t begin = 0; begin < count; begin += few) {
    State part = R::none();
    down_column(from + begin * inner, min(few, count - begin), inner,
                [&](int64_t i, T v) { part = R::add(part, v, begin + i); });
    s = R::merge(s, part);
  }
  s = over_warps(s, parts, [](State a, State b) { return R::merge(a, b); });
  if (c < columns && warp() == 0)
    put(y, index, piece * columns + c, s, ending);
}

template <typename T>
__global__ void find_place_of_largest(int32_t *index, const T *found, int64_t parts, int64_t count) {
  if (element() < count) {
    const int64_t j = element();
    T best = found[j], at = found[count + j];
    for (int64_t p = 1; p < parts; ++p) {
      const T v = found[2 * p * count + j], place = found[(2 * p + 1) * count + j];
      const bool isTie = v == best || (v != v && best != best);
      if (beats<true>(v, best) || (isTie && place < at)) {
        best = v;
        at = place;
      }
    }
    index[j] = static_cast<int32_t>(at);
  }
}

/// Rows shorter than this have a thread each.
constexpr int64_t kShortRow = 16;

/// y, index: (outer, pieces, inner), or with inner > 1 (pieces, outer, inner); either may be null.
template <typename R>
void reduce(const char *what, Stream stream, typename R::Result *y, int32_t *index, const typename R::Element *x,
            int64_t outer, int64_t n, int64_t inner, Ending ending = {}, Pieces pieces = {1, 0}) {
  using T = typename R::Element;
  const int64_t columns = outer * inner, results = columns * pieces.count;
  if (columns <= 0)
    return;
  if (pieces.count == 1)
    pieces.length = n;
  const auto to = ending.adds ? inout(y, results) : out(y, y ? results : 0);
  const auto places = out(index, index ? results : 0);
  const auto from = in(x, columns * n);
  if (inner > 1 || n < kShortRow)
    return launch(what, reduce_columns<R>, cover_tiles(columns, pieces.length, pieces.count), stream, to, places, from,
                  columns, n, inner, pieces, ending);
  constexpr int k = kPack<T>;
  const bool packs = arePacks<T>(n, {x}) && pieces.length % k == 0;
  if (pieces.length <= kMostOfWarp)
    launch(what, packs ? reduce_rows<R, k, ByWarp> : reduce_rows<R, 1, ByWarp>, cover_warps(results), stream, to,
           places, from, results, n, pieces, ending);
  else
    launch(what, packs ? reduce_rows<R, k, ByBlock> : reduce_rows<R, 1, ByBlock>,
           cover_rows(results, pieces.length, 32), stream, to, places, from, results, n, pieces, ending);
}

/// Of a sum, where few blocks would have much to do; no matter which device it is, so that it adds in the same order.
Pieces piecesOf(int64_t columns, int64_t n, int64_t inner) {
  constexpr int64_t kEnough = 512, kMostPieces = 512, kLeast = 1 << 16; // blocks; elements of a piece's block
  const int64_t blocks = inner > 1 ? (columns + 31) / 32 : columns, each = inner > 1 ? 32 * n : n;
  int64_t count = std::min({kEnough / std::max<int64_t>(blocks, 1), kMostPieces, each / kLeast,
                            kReduceScratch / std::max<int64_t>(columns, 1)});
  if (count < 2)
    return {1, n};
  const int64_t length = ((n + count - 1) / count + 15) / 16 * 16; // whole packs
  return {(n + length - 1) / length, length};
}

} // namespace

template <typename T>
void reduce_sum(Stream stream, T *y, const T *x, int64_t outer, int64_t n, int64_t inner, bool accumulate,
                double *scratch) {
  const Pieces pieces = scratch ? piecesOf(outer * inner, n, inner) : Pieces{1, n};
  if (pieces.count == 1)
    return reduce<Sum<T, T>>("reduce_sum", stream, y, nullptr, x, outer, n, inner, {accumulate, 0});
  auto *sums = reinterpret_cast<Total<T> *>(scratch);
  reduce<Sum<T, Total<T>>>("reduce_sum", stream, sums, nullptr, x, outer, n, inner, {}, pieces);
  if (inner > 1)
    reduce<Sum<Total<T>, T>>("reduce_sum", stream, y, nullptr, sums, 1, pieces.count, outer * inner, {accumulate, 0});
  else
    reduce<Sum<Total<T>, T>>("reduce_sum", stream, y, nullptr, sums, outer, pieces.count, 1, {accumulate, 0});
}

template <typename T> void reduce_max(Stream stream, T *y, const T *x, int64_t outer, int64_t n, int64_t inner) {
  reduce<Extreme<true, T>>("reduce_max", stream, y, nullptr, x, outer, n, inner);
}
template <typename T> void reduce_min(Stream stream, T *y, const T *x, int64_t outer, int64_t n, int64_t inner) {
  reduce<Extreme<false, T>>("reduce_min", stream, y, nullptr, x, outer, n, inner);
}
template <typename T> void argmax(Stream stream, int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner) {
  reduce<Largest<T>>("argmax", stream, nullptr, index, x, outer, n, inner);
}
template <typename T>
void max_with_index(Stream stream, T *value, int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner,
                    int32_t offset) {
  reduce<Largest<T>>("max_with_index", stream, value, index, x, outer, n, inner, {false, offset});
}
template <typename T>
void place_of_largest(Stream stream, int32_t *index, const T *found, int64_t parts, int64_t count) {
  if (count > 0)
    launch("place_of_largest", find_place_of_largest<T>, cover(count), stream, out(index, count),
           in(found, 2 * parts * count), parts, count);
}

#define INSTANTIATE(T)                                                                                                 \
  template void reduce_sum<T>(Stream, T *, const T *, int64_t, int64_t, int64_t, bool, double *);                      \
  template void reduce_max<T>(Stream, T *, const T *, int64_t, int64_t, int64_t);                                      \
  template void reduce_min<T>(Stream, T *, const T *, int64_t, int64_t, int64_t);                                      \
  template void argmax<T>(Stream, int32_t *, const T *, int64_t, int64_t, int64_t);                                    \
  template void max_with_index<T>(Stream, T *, int32_t *, const T *, int64_t, int64_t, int64_t, int32_t);              \
  template void place_of_largest<T>(Stream, int32_t *, const T *, int64_t, int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(int32_t)
#undef INSTANTIATE

} // namespace echelon::cuda
