// With inner = 1 a warp or a block has a row: where it holds the row in registers, softmax reads and writes it once;
// else it reads it twice. With inner > 1 the warps of a block go down 32 columns together, twice.
#include "runtime/cuda/ExpSums.h"
#include "runtime/cuda/Softmax.h"

namespace echelon::cuda {

namespace {

namespace math = runtime::math;

/// 1 / s, and 0 for an empty sum: softmax is 0 where everything is masked.
template <typename W> DEVICE W inverse_of(W s) { return s == W(0) ? W(0) : W(1) / s; }

/// The results of logsumexp at a place. log_sum is inf where everything is masked.
template <typename W> DEVICE void put_log(W *lse, W *shift, W *log_sum, int64_t at, W m, W s) {
  const W near = shift_of(m), log = math::log(s);
  lse[at] = near + log;
  shift[at] = near;
  log_sum[at] = s == W(0) ? -log : log;
}

//===-- rows -----------------------------------------------------------------------------------------------------===//

template <typename T, int k, int kPacks, typename By>
__global__ void __launch_bounds__(By::kMostThreads) softmax_held(T *y, const T *x, int64_t rows, int64_t n) {
  __shared__ double parts[32];
  using W = Wide<T>;
  const By by(parts);
  const int64_t row = by.row();
  const int count = row < rows ? static_cast<int>(n) : 0;
  HeldRow<T, k, kPacks> held;
  held.load(by, x + row * n, count);
  W top = -std::numeric_limits<W>::infinity();
  held.over(by, count, [&](W &v) { top = v > top ? v : top; });
  const W shift = shift_of(by.max(top));
  double sum = 0;
  held.over(by, count, [&](W &v) {
    v = math::exp(v - shift);
    sum += v;
  });
  const W factor = inverse_of(static_cast<W>(by.sum(sum)));
  held.over(by, count, [&](W &v) { v *= factor; });
  held.store(by, y + row * n, count);
}

template <typename T, int k>
__global__ void __launch_bounds__(ByHalfBlock::kMostThreads) softmax_rows(T *y, const T *x, int64_t n) {
  __shared__ double parts[32];
  using W = Wide<T>;
  const ByHalfBlock by(parts);
  const int64_t begin = by.row() * n;
  const ExpSum<W> of = exp_sum_of_row<k>(by, x + begin, n);
  const W shift = shift_of(of.top), factor = inverse_of(static_cast<W>(of.sum));
  map_packs<k>(by, y + begin, x + begin, n, [&](int64_t, W v) { return math::exp(v - shift) * factor; });
}

template <typename T, int k, typename By>
__global__ void __launch_bounds__(By::kMostThreads)
    logsumexp_rows(Wide<T> *lse, Wide<T> *shift, Wide<T> *log_sum, const T *x, int64_t rows, int64_t n) {
  __shared__ double parts[32];
  const By by(parts);
  const int64_t row = by.row();
  const ExpSum<Wide<T>> of = exp_sum_of_row<k>(by, x + row * n, row < rows ? n : 0);
  if (row < rows && by.rank() == 0)
    put_log(lse, shift, log_sum, row, of.top, static_cast<Wide<T>>(of.sum));
}

template <typename T, int k, typename By>
__global__ void __launch_bounds__(By::kMostThreads)
    sum_exp_rows(T *s, const T *x, const T *m, int64_t rows, int64_t n) {
  __shared__ double parts[32];
  const By by(parts);
  const int64_t row = by.row();
  const bool exists = row < rows;
  const double sum = shifted_sum_of_row<k>(by, x + row * n, exists ? n : 0, exists ? shift_of(m[row]) : T(0));
  if (exists && by.rank() == 0)
    s[row] = static_cast<T>(sum);
}

//===-- columns --------------------------------------------------------------------------------------------------===//

constexpr int kColumnThreads = 512;

template <typename T>
__global__ void __launch_bounds__(kColumnThreads)
    softmax_columns(T *y, const T *x, int64_t columns, int64_t n, int64_t inner) {
  __shared__ Wide<T> tops[kColumnThreads];
  __shared__ double sums[kColumnThreads];
  using W = Wide<T>;
  const int64_t rows = column() < columns ? n : 0, begin = column_begin(column(), n, inner);
  const ExpSum<W> of = exp_sum_of_column(x + begin, rows, inner, tops, sums);
  const W shift = shift_of(of.top), factor = inverse_of(static_cast<W>(of.sum));
  T *to = y + begin;
  down_column(x + begin, rows, inner,
              [&](int64_t i, T v) { to[i * inner] = static_cast<T>(math::exp(static_cast<W>(v) - shift) * factor); });
}

template <typename T>
__global__ void __launch_bounds__(kColumnThreads)
    logsumexp_columns(Wide<T> *lse, Wide<T> *shift, Wide<T> *log_sum, const T *x, int64_t columns, int64_t n,
                      int64_t inner) {
  __shared__ Wide<T> tops[kColumnThreads];
  __shared__ double sums[kColumnThreads];
  const bool exists = column() < columns;
  const ExpSum<Wide<T>> of = exp_sum_of_column(x + column_begin(column(), n, inner), exists ? n : 0, inner, tops, sums);
  if (exists && warp() == 0)
    put_log(lse, shift, log_sum, column(), of.top, static_cast<Wide<T>>(of.sum));
}

template <typename T>
__global__ void __launch_bounds__(kColumnThreads)
    sum_exp_columns(T *s, const T *x, const T *m, int64_t columns, int64_t n, int64_t inner) {
  __shared__ double sums[kColumnThreads];
  const bool exists = column() < columns;
  const T shift = exists ? shift_of(m[column()]) : T(0);
  double sum = 0;
  down_column(x + column_begin(column(), n, inner), exists ? n : 0, inner,
              [&](int64_t, T v) { sum += math::exp(v - shift); });
  sum = over_warps(sum, sums, [](double a, double b) { return a + b; });
  if (exists && warp() == 0)
    s[column()] = static_cast<T>(sum);
}

//===-- elements -------------------------------------------------------------------------------------------------===//

/// Index is 32 bits wide where that is enough, since it divides.
template <typename T, typename Index>
__global__ void finish_softmax(T *y, const T *x, const T *m, const T *s, int64_t count, int64_t n, int64_t inner) {
  if (element() < count) {
    const Index at = static_cast<Index>(element()), width = static_cast<Index>(inner);
    const Index slice = at / static_cast<Index>(n * inner) * width + at % width;
    y[at] = math::exp(x[at] - shift_of(m[slice])) * inverse_of(s[slice]);
  }
}

template <typename T>
__global__ void finish_logsumexp(T *lse, T *shift, T *log_sum, const T *m, const T *s, int64_t count) {
  if (element() < count)
    put_log(lse, shift, log_sum, element(), m[element()], s[element()]);
}

//===-- launches -------------------------------------------------------------------------------------------------===//

template <typename T, int k> void softmaxOfRows(Stream stream, T *y, const T *x, int64_t rows, int64_t n) {
  const Arg<T> to = y == x ? inout(y, rows * n) : out(y, rows * n);
  const Arg<const T> from = in(x, rows * n);
  if (n <= kMostHeldByWarp<T>)
    launch("softmax", softmax_held<T, k, kHeldByLane<T> / k, ByWarp>, cover_warps(rows), stream, to, from, rows, n);
  else if (n <= kMostHeldByBlock<T>)
    launch("softmax", softmax_held<T, k, kHeldByThread<T> / k, ByHalfBlock>, cover_rows(rows, n, kHeldByThread<T>),
           stream, to, from, rows, n);
  else
    launch("softmax", softmax_rows<T, k>, cover_blocks(rows, ByHalfBlock::kMostThreads), stream, to, from, n);
}

template <typename T, int k>
void logsumexpOfRows(Stream stream, Wide<T> *lse, Wide<T> *shift, Wide<T> *log_sum, const T *x, int64_t rows,
                     int64_t n) {
  const bool byWarp = n <= kMostOfWarp;
  launch("logsumexp", byWarp ? logsumexp_rows<T, k, ByWarp> : logsumexp_rows<T, k, ByHalfBlock>,
         byWarp ? cover_warps(rows) : cover_rows(rows, n, 16, ByHalfBlock::kMostThreads), stream, out(lse, rows),
         out(shift, rows), out(log_sum, rows), in(x, rows * n), rows, n);
}

template <typename T, int k> void sumExpOfRows(Stream stream, T *s, const T *x, const T *m, int64_t rows, int64_t n) {
  const bool byWarp = n <= kMostOfWarp;
  launch("local_sum_exp", byWarp ? sum_exp_rows<T, k, ByWarp> : sum_exp_rows<T, k, ByHalfBlock>,
         byWarp ? cover_warps(rows) : cover_rows(rows, n, 16, ByHalfBlock::kMostThreads), stream, out(s, rows),
         in(x, rows * n), in(m, rows), rows, n);
}

} // namespace

template <typename T> void softmax(Stream stream, T *y, const T *x, int64_t outer, int64_t n, int64_t inner) {
  const int64_t columns = outer * inner, count = columns * n;
  if (count <= 0)
    return;
  if (inner > 1)
    launch("softmax", softmax_columns<T>, cover_tiles(columns, n, 1, kColumnThreads / 32), stream,
           y == x ? inout(y, count) : out(y, count), in(x, count), columns, n, inner);
  else if (arePacks<T>(n, {x, y}))
    softmaxOfRows<T, kExpPack<T>>(stream, y, x, outer, n);
  else
    softmaxOfRows<T, 1>(stream, y, x, outer, n);
}

template <typename T>
void logsumexp(Stream stream, Wide<T> *lse, Wide<T> *shift, Wide<T> *log_sum, const T *x, int64_t outer, int64_t n,
               int64_t inner) {
  const int64_t columns = outer * inner;
  if (columns <= 0)
    return;
  if (inner > 1)
    launch("logsumexp", logsumexp_columns<T>, cover_tiles(columns, n, 1, kColumnThreads / 32), stream,
           out(lse, columns), out(shift, columns), out(log_sum, columns), in(x, columns * n), columns, n, inner);
  else if (arePacks<T>(n, {x}))
    logsumexpOfRows<T, kExpPack<T>>(stream, lse, shift, log_sum, x, outer, n);
  else
    logsumexpOfRows<T, 1>(stream, lse, shift, log_sum, x, outer, n);
}

template <typename T>
void local_sum_exp(Stream stream, T *s, const T *x, const T *m, int64_t outer, int64_t n, int64_t inner) {
  const int64_t columns = outer * inner;
  if (columns <= 0)
    return;
  if (inner > 1)
    launch("local_sum_exp", sum_exp_columns<T>, cover_tiles(columns, n, 1, kColumnThreads / 32), stream,
           out(s, columns), in(x, columns * n), in(m, columns), columns, n, inner);
  else if (arePacks<T>(n, {x}))
    sumExpOfRows<T, kExpPack<T>>(stream, s, x, m, outer, n);
  else
    sumExpOfRows<T, 1>(stream, s, x, m, outer, n);
}

template <typename T>
void softmax_finish(Stream stream, T *y, const T *x, const T *m, const T *s, int64_t outer, int64_t n, int64_t inner) {
  const int64_t slices = outer * inner, count = slices * n;
  if (count > 0)
    launch("softmax_finish", count <= INT32_MAX ? finish_softmax<T, uint32_t> : finish_softmax<T, int64_t>,
           cover(count), stream, y == x ? inout(y, count) : out(y, count), in(x, count), in(m, slices), in(s, slices),
           count, n, inner);
}

template <typename T>
void logsumexp_finish(Stream stream, T *lse, T *shift, T *log_sum, const T *m, const T *s, int64_t count) {
  if (count > 0)
    launch("logsumexp_finish", finish_logsumexp<T>, cover(count), stream, out(lse, count), out(shift, count),
           out(log_sum, count), in(m, count), in(s, count), count);
}

#define INSTANTIATE(T)                                                                                                 \
  template void softmax<T>(Stream, T *, const T *, int64_t, int64_t, int64_t);                                         \
  template void logsumexp<T>(Stream, Wide<T> *, Wide<T> *, Wide<T> *, const T *, int64_t, int64_t, int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE
#define INSTANTIATE(T)                                                                                                 \
  template void local_sum_exp<T>(Stream, T *, const T *, const T *, int64_t, int64_t, int64_t);                        \
  template void softmax_finish<T>(Stream, T *, const T *, const T *, const T *, int64_t, int64_t, int64_t);            \
  template void logsumexp_finish<T>(Stream, T *, T *, T *, const T *, const T *, int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::cuda
