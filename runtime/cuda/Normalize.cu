// Moments in one pass: the sums of x - c and of (x - c)^2 in double, c being the row's or channel's first value. Then
// values far from 0 lose no digits: differences from a neighbour are exact, and where c is far from all others it is
// itself what makes the variance. The sums of pieces about the same c add up.
//
// A warp or a block has a row. Where it holds the row in registers, it reads and writes it once; else it reads it
// twice. A channel whose runs are long has a block, which walks through them; with short runs, lanes have channels.
#include "runtime/cuda/Normalize.h"
#include "runtime/cuda/Rows.h"
#include "runtime/kernels/Elementwise.h"

#include <algorithm>

namespace echelon::cuda {

namespace {

namespace math = runtime::math;

/// Of so many values the mean, and the sum of (x - mean)^2.
struct Moments {
  double count, mean, m2;
};

/// Sums over values less `about`.
struct AboutSums {
  double first, second;
  DEVICE void add(double v) {
    first += v;
    second += v * v;
  }
};
DEVICE Moments moments_about(double about, const AboutSums &sums, double count) {
  const double shift = count > 0 ? sums.first / count : 0, m2 = sums.second - sums.first * shift;
  // Rounding may take it below 0, and what is infinite may not become inf - inf.
  return {count, about + shift, m2 < 0 ? 0 : sums.second - sums.second == 0 ? m2 : sums.second};
}

/// Where the statistics of rows or channels go; what is null is not wanted.
template <typename W> struct Statistics {
  W *rstd, *mean, *variance, *meanLow;
  DEVICE W write(int64_t at, const Moments &of, double eps) const {
    const double v = of.m2 / of.count;
    const W near = static_cast<W>(of.mean), factor = static_cast<W>(1 / math::sqrt(v + eps));
    rstd[at] = factor;
    if (mean)
      mean[at] = near;
    if (variance)
      variance[at] = static_cast<W>(v);
    if (meanLow)
      meanLow[at] = static_cast<W>(of.mean - static_cast<double>(near));
    return factor;
  }
};

/// y = (x - mean) * rstd: near x, the difference from the rounded mean is exact, and what the rounding lost is
/// subtracted after it. Of RMS norm, mean is 0.
template <typename W> struct Normal {
  W near, factor, lost;
  DEVICE Normal(double mean, W factor)
      : near(static_cast<W>(mean)), factor(factor), lost(static_cast<W>(mean - static_cast<double>(near)) * factor) {}
  DEVICE W operator()(W v) const { return (v - near) * factor - lost; }
};

//===-- rows, forward --------------------------------------------------------------------------------------------===//

/// Layer norm with `centers`, else RMS norm; on every thread that shares the row. The sums are this thread's: about the
/// row's first value, or about 0.
template <bool centers, typename By, typename W>
DEVICE Normal<W> finish_row(const By &by, const AboutSums &own, double about, int64_t row, int64_t n, bool exists,
                            const Statistics<W> &to, double eps) {
  const double second = by.sum(own.second);
  if constexpr (centers) {
    const Moments of = moments_about(about, {by.sum(own.first), second}, static_cast<double>(n));
    if (exists && by.rank() == 0)
      to.write(row, of, eps);
    return Normal<W>(of.mean, static_cast<W>(1 / math::sqrt(of.m2 / of.count + eps)));
  } else {
    const W factor = static_cast<W>(1 / math::sqrt(second / static_cast<double>(n) + eps));
    if (exists && by.rank() == 0)
      to.rstd[row] = factor;
    return Normal<W>(0, factor);
  }
}

template <bool centers, typename T, int k, int kPacks, typename By>
__global__ void __launch_bounds__(By::kMostThreads)
    normalize_held(T *y, Wide<T> *rstd, Wide<T> *mean, Wide<T> *variance, Wide<T> *meanLow, const T *x, int64_t rows,
                   int64_t n, double eps) {
  __shared__ double parts[32];
  using W = Wide<T>;
  const By by(parts);
  const int64_t row = by.row();
  const int count = row < rows ? static_cast<int>(n) : 0;
  HeldRow<T, k, kPacks> held;
  held.load(by, x + row * n, count);
  const double about = centers && count > 0 ? static_cast<double>(static_cast<W>(x[row * n])) : 0;
  AboutSums own = {0, 0};
  held.over(by, count, [&](W &v) { own.add(static_cast<double>(v) - about); });
  const Statistics<W> to = {rstd, mean, variance, meanLow};
  const Normal<W> normal = finish_row<centers>(by, own, about, row, n, count > 0, to, eps);
  held.over(by, count, [&](W &v) { v = normal(v); });
  held.store(by, y + row * n, count);
}

template <bool centers, typename T, int k>
__global__ void __launch_bounds__(ByHalfBlock::kMostThreads, 1)
    normalize_rows(T *y, Wide<T> *rstd, Wide<T> *mean, Wide<T> *variance, Wide<T> *meanLow, const T *x, int64_t n,
                   double eps) {
  __shared__ double parts[32];
  using W = Wide<T>;
  const ByHalfBlock by(parts);
  const int64_t row = by.row();
  const T *from = x + row * n;
  const double about = centers ? static_cast<double>(static_cast<W>(from[0])) : 0;
  AboutSums own = {0, 0};
  over_packs<k>(by, from, n, [&](int64_t, const Pack<T, k> &pack) {
    UNROLL for (int j = 0; j < k; ++j) own.add(static_cast<double>(static_cast<W>(pack.at[j])) - about);
  });
  const Statistics<W> to = {rstd, mean, variance, meanLow};
  const Normal<W> normal = finish_row<centers>(by, own, about, row, n, true, to, eps); // all have read from[0] here
  map_packs<k>(by, y + row * n, from, n, [&](int64_t, W v) { return normal(v); });
}

/// From what ranks have combined: moments (rows, 3), or of RMS norm squares (rows).
template <bool centers, typename T, int k, typename By>
__global__ void __launch_bounds__(By::kMostThreads)
    apply_rows(T *y, T *rstd, T *mean, T *variance, T *meanLow, const T *x, const double *of, int64_t rows, int64_t n,
               double total, double eps) {
  const By by(nullptr);
  const int64_t row = by.row();
  if (row < rows) {
    const Moments moments =
        centers ? Moments{of[3 * row], of[3 * row + 1], of[3 * row + 2]} : Moments{total, 0, of[row]};
    const T factor = static_cast<T>(1 / math::sqrt(moments.m2 / moments.count + eps));
    if (by.rank() == 0) {
      if (centers)
        Statistics<T>{rstd, mean, variance, meanLow}.write(row, moments, eps);
      else
        rstd[row] = factor;
    }
    const Normal<T> normal(moments.mean, factor);
    map_packs<k>(by, y + row * n, x + row * n, n, [&](int64_t, T v) { return normal(v); });
  }
}

template <typename T, int k, typename By>
__global__ void __launch_bounds__(By::kMostThreads) square_rows(double *squares, const T *x, int64_t rows, int64_t n) {
  __shared__ double parts[32];
  const By by(parts);
  const int64_t row = by.row();
  double sum = 0;
  over_packs<k>(by, x + row * n, row < rows ? n : 0, [&](int64_t, const Pack<T, k> &pack) {
    UNROLL for (int j = 0; j < k; ++j) sum += static_cast<double>(pack.at[j]) * static_cast<double>(pack.at[j]);
  });
  sum = by.sum(sum);
  if (row < rows && by.rank() == 0)
    squares[row] = sum;
}

//===-- rows, derivatives ----------------------------------------------------------------------------------------===//

/// The sums of dy and of dy * y over a row: this thread's, then all's.
struct GradSums {
  double dy, dyY;
  template <typename W> DEVICE void add(W d, W v) {
    dy += d;
    dyY += d * v;
  }
};
template <bool centers, typename By> DEVICE GradSums over_threads(const By &by, const GradSums &own) {
  return {centers ? by.sum(own.dy) : 0, by.sum(own.dyY)};
}

/// dx at a place. Of RMS norm, the mean of dy does not enter.
template <bool centers, typename W> struct Derivative {
  W rstd, meanDy, meanDyY;
  DEVICE Derivative(W rstd, const GradSums &sums, double total)
      : rstd(rstd), meanDy(static_cast<W>(sums.dy / total)), meanDyY(static_cast<W>(sums.dyY / total)) {}
  DEVICE W operator()(W d, W v) const { return rstd * ((centers ? d - meanDy : d) - v * meanDyY); }
};

template <bool centers, typename T, int k, int kPacks, typename By>
__global__ void __launch_bounds__(By::kMostThreads)
    grad_held(T *dx, const T *dy, const T *y, const Wide<T> *rstd, int64_t rows, int64_t n) {
  __shared__ double parts[32];
  using W = Wide<T>;
  const By by(parts);
  const int64_t row = by.row();
  const int count = row < rows ? static_cast<int>(n) : 0;
  HeldRow<T, k, kPacks> d, v;
  d.load(by, dy + row * n, count);
  v.load(by, y + row * n, count);
  GradSums own = {0, 0};
  d.over(by, count, v, [&](W &dHere, W &yHere) { own.add(dHere, yHere); });
  const GradSums sums = over_threads<centers>(by, own);
  const Derivative<centers, W> derivative(count > 0 ? rstd[row] : W(0), sums, static_cast<double>(n));
  d.over(by, count, v, [&](W &dHere, W &yHere) { dHere = derivative(dHere, yHere); });
  d.store(by, dx + row * n, count);
}

/// This thread's sums of a row in memory.
template <int k, typename T, typename By>
DEVICE GradSums grad_sums_of_row(const By &by, const T *dy, const T *y, int64_t n) {
  using W = Wide<T>;
  GradSums own = {0, 0};
  over_packs<k>(by, dy, n, [&](int64_t i, const Pack<T, k> &d) {
    const Pack<T, k> v = load<k>(y + i);
    UNROLL for (int j = 0; j < k; ++j) own.add(static_cast<W>(d.at[j]), static_cast<W>(v.at[j]));
  });
  return own;
}
template <bool centers, int k, typename T, typename By>
DEVICE void put_derivative(const By &by, T *dx, const T *dy, const T *y, int64_t n,
                           const Derivative<centers, Wide<T>> &derivative) {
  using W = Wide<T>;
  over_packs<k>(by, dy, n, [&](int64_t i, Pack<T, k> d) {
    const Pack<T, k> v = load<k>(y + i);
    UNROLL for (int j = 0; j < k; ++j) d.at[j] =
        static_cast<T>(derivative(static_cast<W>(d.at[j]), static_cast<W>(v.at[j])));
    store<k>(dx + i, d);
  });
}

template <bool centers, typename T, int k>
__global__ void __launch_bounds__(ByHalfBlock::kMostThreads)
    grad_rows(T *dx, const T *dy, const T *y, const Wide<T> *rstd, int64_t n) {
  __shared__ double parts[32];
  const ByHalfBlock by(parts);
  const int64_t row = by.row();
  const GradSums sums = over_threads<centers>(by, grad_sums_of_row<k>(by, dy + row * n, y + row * n, n));
  const Derivative<centers, Wide<T>> derivative(rstd[row], sums, static_cast<double>(n));
  put_derivative<centers, k>(by, dx + row * n, dy + row * n, y + row * n, n, derivative);
}

/// sums: (rows, 2), or of RMS norm (rows).
template <bool centers, typename T, int k, typename By>
__global__ void __launch_bounds__(By::kMostThreads)
    local_grad_rows(double *sums, const T *dy, const T *y, int64_t rows, int64_t n) {
  __shared__ double parts[32];
  const By by(parts);
  const int64_t row = by.row();
  const GradSums all =
      over_threads<centers>(by, grad_sums_of_row<k>(by, dy + row * n, y + row * n, row < rows ? n : 0));
  if (row < rows && by.rank() == 0) {
    if (centers)
      sums[2 * row] = all.dy;
    sums[centers ? 2 * row + 1 : row] = all.dyY;
  }
}

template <bool centers, typename T, int k, typename By>
__global__ void __launch_bounds__(By::kMostThreads, 1)
    apply_grad_rows(T *dx, const T *dy, const T *y, const T *rstd, const double *sums, int64_t rows, int64_t n,
                    double total) {
  const By by(nullptr);
  const int64_t row = by.row();
  if (row < rows) {
    const GradSums all = centers ? GradSums{sums[2 * row], sums[2 * row + 1]} : GradSums{0, sums[row]};
    put_derivative<centers, k>(by, dx + row * n, dy + row * n, y + row * n, n,
                               Derivative<centers, T>(rstd[row], all, total));
  }
}

//===-- channels -------------------------------------------------------------------------------------------------===//

/// What becomes of a channel's moments: kept as they are, or as statistics.
template <typename T> struct ChannelResults {
  double *moments;
  Statistics<T> statistics;
  double eps;
  DEVICE void write(int64_t c, const Moments &of) const {
    if (moments) {
      moments[3 * c] = of.count;
      moments[3 * c + 1] = of.mean;
      moments[3 * c + 2] = of.m2;
    }
    if (statistics.rstd)
      statistics.write(c, of, eps);
  }
};

/// Of piece p, which has runs p * length to (p + 1) * length of `outer`, the sums go to partial[p, c, 2]; where partial
/// is null there is one piece, and the results are written.
struct Cut {
  int64_t pieces, length;
};

/// A block a channel and piece.
template <typename T, int k>
__global__ void __launch_bounds__(1024)
    channel_blocks(double *partial, double *moments, T *rstd, T *mean, T *variance, T *meanLow, const T *x,
                   int64_t outer, int64_t channels, int64_t inner, Cut cut, double eps) {
  __shared__ double parts[32];
  const int64_t c = blockIdx.x % channels, piece = blockIdx.x / channels;
  const double about = outer * inner > 0 ? static_cast<double>(x[c * inner]) : 0;
  const int64_t first = piece * cut.length, last = min(outer, first + cut.length);
  // This thread's packs are blockDim.x * k elements apart: so many runs, and so many elements of a run.
  const int64_t step = static_cast<int64_t>(blockDim.x) * k, runs = step / inner, rest = step % inner;
  int64_t run = first + threadIdx.x * k / inner, i = threadIdx.x * k % inner;
  AboutSums sums = {0, 0};
  while (run < last) {
    constexpr int kAhead = 4; // loaded before the first is used
    Pack<T, k> packs[kAhead];
    bool exists[kAhead];
    UNROLL for (int a = 0; a < kAhead; ++a) {
      exists[a] = run < last;
      if (exists[a])
        packs[a] = load<k>(x + (run * channels + c) * inner + i);
      run += runs;
      i += rest;
      if (i >= inner) {
        i -= inner;
        ++run;
      }
    }
    UNROLL for (int a = 0; a < kAhead; ++a) if (exists[a]) {
      UNROLL for (int j = 0; j < k; ++j) sums.add(static_cast<double>(packs[a].at[j]) - about);
    }
  }
  sums = {block_sum(sums.first, parts), block_sum(sums.second, parts)};
  if (threadIdx.x == 0) {
    if (partial) {
      partial[2 * blockIdx.x] = sums.first;
      partial[2 * blockIdx.x + 1] = sums.second;
    } else {
      ChannelResults<T>{moments, {rstd, mean, variance, meanLow}, eps}.write(
          c, moments_about(about, sums, static_cast<double>(outer * inner)));
    }
  }
}

constexpr int kColumnThreads = 512;

/// A lane a channel; the warps of a block share its runs. Blocks: (pieces, tiles of 32 channels).
template <typename T>
__global__ void __launch_bounds__(kColumnThreads)
    channel_columns(double *partial, double *moments, T *rstd, T *mean, T *variance, T *meanLow, const T *x,
                    int64_t outer, int64_t channels, int64_t inner, Cut cut, double eps) {
  __shared__ double parts[kColumnThreads];
  const int64_t tiles = (channels + 31) / 32, piece = blockIdx.x / tiles, c = blockIdx.x % tiles * 32 + lane();
  const bool exists = c < channels;
  const double about = exists && outer * inner > 0 ? static_cast<double>(x[c * inner]) : 0;
  const int64_t first = piece * cut.length, count = exists ? min(outer - first, cut.length) : 0;
  AboutSums sums = {0, 0};
  for (int64_t i = 0; i < inner; ++i)
    down_column(x + (first * channels + c) * inner + i, count, channels * inner,
                [&](int64_t, T v) { sums.add(static_cast<double>(v) - about); });
  const auto plus = [](double a, double b) { return a + b; };
  sums.first = over_warps(sums.first, parts, plus);
  sums.second = over_warps(sums.second, parts, plus);
  if (exists && warp() == 0) {
    if (partial) {
      partial[2 * (piece * channels + c)] = sums.first;
      partial[2 * (piece * channels + c) + 1] = sums.second;
    } else {
      ChannelResults<T>{moments, {rstd, mean, variance, meanLow}, eps}.write(
          c, moments_about(about, sums, static_cast<double>(outer * inner)));
    }
  }
}

/// The second pass: a warp a channel.
template <typename T>
__global__ void finish_channels(const double *partial, double *moments, T *rstd, T *mean, T *variance, T *meanLow,
                                const T *x, int64_t outer, int64_t channels, int64_t inner, int64_t pieces,
                                double eps) {
  const int64_t c = warp_row();
  AboutSums sums = {0, 0};
  for (int64_t p = lane(); p < pieces && c < channels; p += 32) {
    sums.first += partial[2 * (p * channels + c)];
    sums.second += partial[2 * (p * channels + c) + 1];
  }
  sums = {warp_sum(sums.first), warp_sum(sums.second)};
  if (c < channels && lane() == 0)
    ChannelResults<T>{moments, {rstd, mean, variance, meanLow}, eps}.write(
        c, moments_about(static_cast<double>(x[c * inner]), sums, static_cast<double>(outer * inner)));
}

/// Those of the union: M2 = M2a + M2b + (mean b - mean a)^2 * a b / (a + b) (Chan, Golub, LeVeque 1979).
__global__ void combine(double *moments, const double *gathered, int64_t parts, int64_t count) {
  if (element() < count) {
    Moments all = {0, 0, 0};
    for (int64_t p = 0; p < parts; ++p) {
      const double *from = gathered + 3 * (p * count + element());
      const Moments more = {from[0], from[1], from[2]};
      if (more.count == 0)
        continue;
      const double sum = all.count + more.count, delta = more.mean - all.mean;
      if (all.count == 0)
        all = more;
      else
        all = {sum, all.mean + delta * more.count / sum,
               all.m2 + more.m2 + delta * delta * all.count * more.count / sum};
    }
    moments[3 * element()] = all.count;
    moments[3 * element() + 1] = all.mean;
    moments[3 * element() + 2] = all.m2;
  }
}

template <typename T>
__global__ void finish_statistics(T *rstd, T *mean, T *variance, T *meanLow, const double *moments, int64_t channels,
                                  double eps) {
  if (element() < channels) {
    const double *of = moments + 3 * element();
    Statistics<T>{rstd, mean, variance, meanLow}.write(element(), {of[0], of[1], of[2]}, eps);
  }
}

//===-- launches -------------------------------------------------------------------------------------------------===//

template <typename W> Arg<W> wanted(W *statistic, int64_t count) { return out(statistic, statistic ? count : 0); }
template <typename T> Arg<T> target(T *to, bool isInPlace, int64_t count) {
  return isInPlace ? inout(to, count) : out(to, count);
}
/// Blocks that read rows without holding them.
Shape shapeFor(int64_t rows, int64_t n) { return n <= kMostOfWarp ? cover_warps(rows) : cover_rows(rows, n, 16); }

template <bool centers, typename T, int k>
void normalizeRows(const char *what, Stream stream, T *y, const Statistics<Wide<T>> &to, const T *x, int64_t rows,
                   int64_t n, double eps) {
  const auto run = [&](auto kernel, const Shape &shape, auto... more) {
    launch(what, kernel, shape, stream, target(y, y == x, rows * n), out(to.rstd, rows), wanted(to.mean, rows),
           wanted(to.variance, rows), wanted(to.meanLow, rows), in(x, rows * n), more..., n, eps);
  };
  if (n <= kMostHeldByWarp<T>)
    run(normalize_held<centers, T, k, kHeldByLane<T> / k, ByWarp>, cover_warps(rows), rows);
  else if (n <= kMostHeldByBlock<T>)
    run(normalize_held<centers, T, k, kHeldByThread<T> / k, ByHalfBlock>, cover_rows(rows, n, kHeldByThread<T>), rows);
  else
    run(normalize_rows<centers, T, k>, cover_blocks(rows, ByHalfBlock::kMostThreads));
}
template <bool centers, typename T>
void normalizeRows(const char *what, Stream stream, T *y, const Statistics<Wide<T>> &to, const T *x, int64_t rows,
                   int64_t n, double eps) {
  if (rows <= 0)
    return;
  if (arePacks<T>(n, {x, y}))
    normalizeRows<centers, T, kPack<T>>(what, stream, y, to, x, rows, n, eps);
  else
    normalizeRows<centers, T, 1>(what, stream, y, to, x, rows, n, eps);
}

template <bool centers, typename T>
void applyRows(const char *what, Stream stream, T *y, const Statistics<T> &to, const T *x, const double *of,
               int64_t rows, int64_t n, double total, double eps) {
  if (rows <= 0)
    return;
  constexpr int k = kPack<T>;
  const bool byWarp = n <= kMostOfWarp;
  const auto kernel = arePacks<T>(n, {x, y})
                          ? byWarp ? apply_rows<centers, T, k, ByWarp> : apply_rows<centers, T, k, ByBlock>
                      : byWarp ? apply_rows<centers, T, 1, ByWarp>
                               : apply_rows<centers, T, 1, ByBlock>;
  launch(what, kernel, shapeFor(rows, n), stream, target(y, y == x, rows * n), out(to.rstd, rows),
         wanted(to.mean, rows), wanted(to.variance, rows), wanted(to.meanLow, rows), in(x, rows * n),
         in(of, centers ? 3 * rows : rows), rows, n, total, eps);
}

template <bool centers, typename T, int k>
void gradRows(const char *what, Stream stream, T *dx, const T *dy, const T *y, const Wide<T> *rstd, int64_t rows,
              int64_t n) {
  const auto run = [&](auto kernel, const Shape &shape, auto... more) {
    launch(what, kernel, shape, stream, target(dx, dx == dy || dx == y, rows * n), in(dy, rows * n), in(y, rows * n),
           in(rstd, rows), more..., n);
  };
  if (n <= kMostHeldByWarp<T>)
    run(grad_held<centers, T, k, kHeldByLane<T> / k, ByWarp>, cover_warps(rows), rows);
  else if (n <= kMostHeldByBlock<T>)
    run(grad_held<centers, T, k, kHeldByThread<T> / k, ByHalfBlock>, cover_rows(rows, n, kHeldByThread<T>), rows);
  else
    run(grad_rows<centers, T, k>, cover_blocks(rows, ByHalfBlock::kMostThreads));
}
template <bool centers, typename T>
void gradRows(const char *what, Stream stream, T *dx, const T *dy, const T *y, const Wide<T> *rstd, int64_t rows,
              int64_t n) {
  if (rows <= 0 || n <= 0)
    return;
  if (arePacks<T>(n, {dx, dy, y}))
    gradRows<centers, T, kPack<T>>(what, stream, dx, dy, y, rstd, rows, n);
  else
    gradRows<centers, T, 1>(what, stream, dx, dy, y, rstd, rows, n);
}

template <bool centers, typename T>
void localGradRows(const char *what, Stream stream, double *sums, const T *dy, const T *y, int64_t rows, int64_t n) {
  if (rows <= 0)
    return;
  constexpr int k = kPack<T>;
  const bool byWarp = n <= kMostOfWarp;
  const auto kernel = arePacks<T>(n, {dy, y})
                          ? byWarp ? local_grad_rows<centers, T, k, ByWarp> : local_grad_rows<centers, T, k, ByBlock>
                      : byWarp ? local_grad_rows<centers, T, 1, ByWarp>
                               : local_grad_rows<centers, T, 1, ByBlock>;
  launch(what, kernel, shapeFor(rows, n), stream, out(sums, centers ? 2 * rows : rows), in(dy, rows * n),
         in(y, rows * n), rows, n);
}

template <bool centers, typename T>
void applyGradRows(const char *what, Stream stream, T *dx, const T *dy, const T *y, const T *rstd, const double *sums,
                   int64_t rows, int64_t n, int64_t total) {
  if (rows <= 0 || n <= 0)
    return;
  constexpr int k = kPack<T>;
  const bool byWarp = n <= kMostOfWarp;
  const auto kernel = arePacks<T>(n, {dx, dy, y})
                          ? byWarp ? apply_grad_rows<centers, T, k, ByWarp> : apply_grad_rows<centers, T, k, ByBlock>
                      : byWarp ? apply_grad_rows<centers, T, 1, ByWarp>
                               : apply_grad_rows<centers, T, 1, ByBlock>;
  launch(what, kernel, shapeFor(rows, n), stream, target(dx, dx == dy || dx == y, rows * n), in(dy, rows * n),
         in(y, rows * n), in(rstd, rows), in(sums, centers ? 2 * rows : rows), rows, n, static_cast<double>(total));
}

/// Into how many pieces channels are cut, no matter which device it is, so that it adds in the same order.
Cut cutOf(int64_t blocks, int64_t outer, int64_t elements, int64_t channels) {
  constexpr int64_t kEnough = 512, kLeast = 1 << 16; // blocks; elements of a piece's block
  const int64_t most = kChannelScratch / (2 * std::max<int64_t>(channels, 1));
  const int64_t pieces = std::min({kEnough / std::max<int64_t>(blocks, 1), outer, elements / kLeast, most});
  if (pieces < 2)
    return {1, outer};
  const int64_t length = (outer + pieces - 1) / pieces;
  return {(outer + length - 1) / length, length};
}

template <typename T>
void channelMoments(const char *what, Stream stream, double *moments, const Statistics<T> &to, const T *x,
                    int64_t outer, int64_t channels, int64_t inner, double eps, double *scratch) {
  constexpr int64_t kShortRun = 16;
  if (channels <= 0)
    return;
  const int64_t tiles = (channels + 31) / 32, elements = outer * inner;
  const bool hasBlocks = inner >= kShortRun || outer <= 1;
  Cut cut = {1, outer};
  if (scratch)
    cut = hasBlocks ? cutOf(channels, outer, elements, channels) : cutOf(tiles, outer, 32 * elements, channels);
  const bool isCut = cut.pieces > 1;
  double *partial = isCut ? scratch : nullptr;
  const auto from = in(x, outer * channels * inner);
  const auto results = [&](auto run, bool areWritten) {
    const int64_t count = areWritten ? channels : 0;
    run(out(moments, moments ? 3 * count : 0), wanted(to.rstd, count), wanted(to.mean, count),
        wanted(to.variance, count), wanted(to.meanLow, count));
  };
  const auto first = [&](auto kernel, const Shape &shape) {
    results(
        [&](auto... result) {
          launch(what, kernel, shape, stream, out(partial, isCut ? 2 * channels * cut.pieces : 0), result..., from,
                 outer, channels, inner, cut, eps);
        },
        !isCut);
  };
  if (hasBlocks) {
    const bool packs = arePacks<T>(inner, {x});
    first(packs ? channel_blocks<T, kPack<T>> : channel_blocks<T, 1>,
          cover_rows(channels * cut.pieces, cut.length * inner, 16));
  } else {
    first(channel_columns<T>, cover_tiles(channels, cut.length, cut.pieces, kColumnThreads / 32));
  }
  if (isCut)
    results(
        [&](auto... result) {
          launch(what, finish_channels<T>, cover_warps(channels), stream, in(partial, 2 * channels * cut.pieces),
                 result..., from, outer, channels, inner, cut.pieces, eps);
        },
        true);
}

} // namespace

template <typename T>
void normalize(Stream stream, T *y, Wide<T> *rstd, const T *x, int64_t rows, int64_t n, double eps, Wide<T> *mean,
               Wide<T> *variance, Wide<T> *mean_low) {
  normalizeRows<true, T>("normalize", stream, y, {rstd, mean, variance, mean_low}, x, rows, n, eps);
}
template <typename T>
void rms_normalize(Stream stream, T *y, Wide<T> *rstd, const T *x, int64_t rows, int64_t n, double eps) {
  normalizeRows<false, T>("rms_normalize", stream, y, {rstd, nullptr, nullptr, nullptr}, x, rows, n, eps);
}
template <typename T>
void normalize_grad(Stream stream, T *dx, const T *dy, const T *y, const Wide<T> *rstd, int64_t rows, int64_t n) {
  gradRows<true, T>("normalize_grad", stream, dx, dy, y, rstd, rows, n);
}
template <typename T>
void rms_normalize_grad(Stream stream, T *dx, const T *dy, const T *y, const Wide<T> *rstd, int64_t rows, int64_t n) {
  gradRows<false, T>("rms_normalize_grad", stream, dx, dy, y, rstd, rows, n);
}

template <typename T>
void channel_statistics(Stream stream, T *rstd, const T *x, int64_t outer, int64_t channels, int64_t inner, double eps,
                        T *mean, T *variance, T *mean_low, double *scratch) {
  channelMoments<T>("channel_statistics", stream, nullptr, {rstd, mean, variance, mean_low}, x, outer, channels, inner,
                    eps, scratch);
}
template <typename T>
void local_moments(Stream stream, double *moments, const T *x, int64_t outer, int64_t channels, int64_t inner,
                   double *scratch) {
  channelMoments<T>("local_moments", stream, moments, {nullptr, nullptr, nullptr, nullptr}, x, outer, channels, inner,
                    0, scratch);
}
void combine_moments(Stream stream, double *moments, const double *gathered, int64_t parts, int64_t count) {
  if (count > 0)
    launch("combine_moments", combine, cover(count), stream, out(moments, 3 * count), in(gathered, 3 * parts * count),
           parts, count);
}
template <typename T>
void normalize_finish(Stream stream, T *y, T *rstd, const T *x, const double *moments, int64_t rows, int64_t n,
                      double eps, T *mean, T *variance, T *mean_low) {
  applyRows<true, T>("normalize_finish", stream, y, {rstd, mean, variance, mean_low}, x, moments, rows, n, 0, eps);
}
template <typename T>
void channel_statistics_finish(Stream stream, T *rstd, const double *moments, int64_t channels, double eps, T *mean,
                               T *variance, T *mean_low) {
  if (channels > 0)
    launch("channel_statistics_finish", finish_statistics<T>, cover(channels), stream, out(rstd, channels),
           wanted(mean, channels), wanted(variance, channels), wanted(mean_low, channels), in(moments, 3 * channels),
           channels, eps);
}

template <typename T>
void normalize_grad_local(Stream stream, double *sums, const T *dy, const T *y, int64_t rows, int64_t n) {
  localGradRows<true, T>("normalize_grad_local", stream, sums, dy, y, rows, n);
}
template <typename T>
void normalize_grad_finish(Stream stream, T *dx, const T *dy, const T *y, const T *rstd, const double *sums,
                           int64_t rows, int64_t n, int64_t total) {
  applyGradRows<true, T>("normalize_grad_finish", stream, dx, dy, y, rstd, sums, rows, n, total);
}

template <typename T> void rms_local(Stream stream, double *squares, const T *x, int64_t rows, int64_t n) {
  if (rows <= 0)
    return;
  constexpr int k = kPack<T>;
  const bool byWarp = n <= kMostOfWarp;
  const auto kernel = arePacks<T>(n, {x}) ? byWarp ? square_rows<T, k, ByWarp> : square_rows<T, k, ByBlock>
                      : byWarp            ? square_rows<T, 1, ByWarp>
                                          : square_rows<T, 1, ByBlock>;
  launch("rms_local", kernel, shapeFor(rows, n), stream, out(squares, rows), in(x, rows * n), rows, n);
}
template <typename T>
void rms_finish(Stream stream, T *y, T *rstd, const T *x, const double *squares, int64_t rows, int64_t n, int64_t total,
                double eps) {
  applyRows<false, T>("rms_finish", stream, y, {rstd, nullptr, nullptr, nullptr}, x, squares, rows, n,
                      static_cast<double>(total), eps);
}
template <typename T>
void rms_grad_local(Stream stream, double *sums, const T *dy, const T *y, int64_t rows, int64_t n) {
  localGradRows<false, T>("rms_grad_local", stream, sums, dy, y, rows, n);
}
template <typename T>
void rms_grad_finish(Stream stream, T *dx, const T *dy, const T *y, const T *rstd, const double *sums, int64_t rows,
                     int64_t n, int64_t total) {
  applyGradRows<false, T>("rms_grad_finish", stream, dx, dy, y, rstd, sums, rows, n, total);
}

#define INSTANTIATE(T)                                                                                                 \
  template void normalize<T>(Stream, T *, Wide<T> *, const T *, int64_t, int64_t, double, Wide<T> *, Wide<T> *,        \
                             Wide<T> *);                                                                               \
  template void normalize_grad<T>(Stream, T *, const T *, const T *, const Wide<T> *, int64_t, int64_t);               \
  template void rms_normalize<T>(Stream, T *, Wide<T> *, const T *, int64_t, int64_t, double);                         \
  template void rms_normalize_grad<T>(Stream, T *, const T *, const T *, const Wide<T> *, int64_t, int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE
#define INSTANTIATE(T)                                                                                                 \
  template void channel_statistics<T>(Stream, T *, const T *, int64_t, int64_t, int64_t, double, T *, T *, T *,        \
                                      double *);                                                                       \
  template void local_moments<T>(Stream, double *, const T *, int64_t, int64_t, int64_t, double *);                    \
  template void normalize_finish<T>(Stream, T *, T *, const T *, const double *, int64_t, int64_t, double, T *, T *,   \
                                    T *);                                                                              \
  template void channel_statistics_finish<T>(Stream, T *, const double *, int64_t, double, T *, T *, T *);             \
  template void normalize_grad_local<T>(Stream, double *, const T *, const T *, int64_t, int64_t);                     \
  template void normalize_grad_finish<T>(Stream, T *, const T *, const T *, const T *, const double *, int64_t,        \
                                         int64_t, int64_t);                                                            \
  template void rms_local<T>(Stream, double *, const T *, int64_t, int64_t);                                           \
  template void rms_finish<T>(Stream, T *, T *, const T *, const double *, int64_t, int64_t, int64_t, double);         \
  template void rms_grad_local<T>(Stream, double *, const T *, const T *, int64_t, int64_t);                           \
  template void rms_grad_finish<T>(Stream, T *, const T *, const T *, const T *, const double *, int64_t, int64_t,     \
                                   int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::cuda
