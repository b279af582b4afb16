// Moments in one pass over memory: of pieces that lie in the cache the mean, then the squares about it (no
// cancellation), and the pieces combined (Chan, Golub, LeVeque 1979). Channels with a small inner size add up whole
// rows of (channels * inner) columns in double and fold them to channels.
#include "runtime/kernels/Normalize.h"
#include "runtime/kernels/cpu/BlockedSum.h"
#include <cmath>
#include <vector>

namespace echelon::runtime {
namespace {

constexpr int64_t kShortRun = 16;
constexpr int64_t kTile = 256;   // columns
constexpr int64_t kPiece = 4096; // elements, at most

/// Of so many values the mean, and the sum of (x - mean)^2.
struct Moments {
  double count = 0, mean = 0, m2 = 0;
  /// Those of the union: M2 = M2a + M2b + (mean b - mean a)^2 * a b / (a + b).
  void add(const Moments &more) {
    if (more.count == 0)
      return;
    const double all = count + more.count, delta = more.mean - mean;
    mean += delta * more.count / all;
    m2 += more.m2 + delta * delta * count * more.count / all;
    count = all;
  }
};

/// sum (x - about)^2.
template <typename T> double squaresAbout(const T *x, int64_t n, T about) {
  const detail::Vector<T> a = detail::every(about);
  return detail::sum_of_vectors<T>(n, [=](auto at, int64_t i) {
    __builtin_prefetch(x + i + n); // the row that comes next
    detail::Vector<T> v = at.load(x + i) - a;
    return v * v;
  });
}

/// The same where T does not hold the squares.
template <typename T> [[gnu::cold, gnu::noinline]] double squaresInDouble(const T *x, int64_t n, double about) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i)
    squares += (double(x[i]) - about) * (double(x[i]) - about);
  return squares;
}

/// sum (x - about) / n.
template <typename T> double meanAbout(const T *x, int64_t n, T about) {
  const detail::Vector<T> a = detail::every(about);
  return detail::sum_of_vectors<T>(n,
                                   [=](auto at, int64_t i) {
                                     const detail::Vector<T> v = at.load(x + i) - a;
                                     if constexpr (std::is_same_v<decltype(at), detail::Part>)
                                       return detail::only<T>(detail::first_lanes<T>(at.count), v);
                                     return v;
                                   }) /
         double(n);
}

/// Where the mean is large beside the deviation. The sum has lost digits, and so has the mean; differences from a
/// number near it are exact, and their mean is what lacks. Twice: the first time, the number may be far off.
template <typename T> [[gnu::noinline]] Moments momentsFarFromZero(const T *x, int64_t n, double mean) {
  T about = static_cast<T>(mean);
  for (int turn = 0; turn < 2; ++turn)
    about = static_cast<T>(double(about) + meanAbout(x, n, about));
  const double shift = meanAbout(x, n, about);
  if (!std::isfinite(shift)) { // T does not hold the sum
    mean = 0;
    for (int64_t i = 0; i < n; ++i)
      mean += double(x[i]) / double(n);
    return {double(n), mean, squaresInDouble(x, n, mean)};
  }
  double squares = squaresAbout(x, n, about);
  if (!std::isfinite(squares))
    squares = squaresInDouble(x, n, double(about));
  return {double(n), double(about) + shift, std::max(0.0, squares - double(n) * shift * shift)};
}

template <typename T> Moments momentsOfPiece(const T *x, int64_t n) {
  const double mean = detail::sum_of(x, n) * (1.0 / double(n)); // which leaves the loop over rows
  const T about = static_cast<T>(mean);
  const double squares = squaresAbout(x, n, about);
  if (!(4 * squares >= double(n) * mean * mean && std::isfinite(squares)))
    return momentsFarFromZero(x, n, mean);
  const double shift = mean - double(about); // about the exact mean instead of the rounded one
  return {double(n), mean, std::max(0.0, squares - double(n) * shift * shift)};
}

/// Of contiguous values, n >= 1.
template <typename T> Moments momentsOf(const T *x, int64_t n) {
  Moments all = momentsOfPiece(x, std::min(kPiece, n));
  for (int64_t i = kPiece; i < n; i += kPiece)
    all.add(momentsOfPiece(x + i, std::min(kPiece, n - i)));
  return all;
}

/// sums[c] = sum over (outer, inner) of f(flat position, c), in double: whole rows of (channels * inner) columns are
/// added up.
template <typename F> void sumColumns(double *sums, int64_t outer, int64_t channels, int64_t inner, F f) {
  std::fill_n(sums, channels, 0.0);
  const int64_t columns = channels * inner;
  std::vector<int64_t> channelOf(std::min(kTile, columns));
  for (int64_t j0 = 0; j0 < columns; j0 += kTile) {
    const int64_t width = std::min(kTile, columns - j0);
    double total[kTile] = {};
    for (int64_t j = 0; j < width; ++j)
      channelOf[j] = (j0 + j) / inner;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t j = 0; j < width; ++j)
        total[j] += f(o * columns + j0 + j, channelOf[j]);
    for (int64_t j = 0; j < width; ++j)
      sums[channelOf[j]] += total[j];
  }
}

/// Of runs too short for pieces.
template <typename T>
std::vector<Moments> momentsOfColumns(const T *x, int64_t outer, int64_t channels, int64_t inner) {
  const double count = static_cast<double>(outer * inner);
  std::vector<double> mean(channels), m2(channels);
  sumColumns(mean.data(), outer, channels, inner, [=](int64_t i, int64_t) { return x[i]; });
  for (double &m : mean)
    m = count > 0 ? m / count : 0;
  const std::vector<T> rounded(mean.begin(), mean.end());
  const T *about = rounded.data();
  sumColumns(m2.data(), outer, channels, inner, [=](int64_t i, int64_t c) {
    const double d = x[i] - about[c];
    return d * d;
  });
  std::vector<Moments> all(channels);
  for (int64_t c = 0; c < channels; ++c) {
    const double shift = mean[c] - double(about[c]);
    all[c] = {count, mean[c], std::max(0.0, m2[c] - count * shift * shift)};
  }
  return all;
}

/// Of each channel. Runs are taken in the order of memory, so that it is read as a stream.
template <typename T>
std::vector<Moments> momentsOfChannels(const T *x, int64_t outer, int64_t channels, int64_t inner) {
  if (inner < kShortRun && outer > 1)
    return momentsOfColumns(x, outer, channels, inner);
  std::vector<Moments> all(channels);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t c = 0; c < channels; ++c, x += inner)
      all[c].add(momentsOf(x, inner));
  return all;
}

/// moments: (count, 3).
Moments momentsAt(const double *moments, int64_t c) { return {moments[3 * c], moments[3 * c + 1], moments[3 * c + 2]}; }
void putMoments(double *moments, int64_t c, const Moments &of) {
  moments[3 * c] = of.count;
  moments[3 * c + 1] = of.mean;
  moments[3 * c + 2] = of.m2;
}

/// Where the statistics of rows or channels go; what is null is not wanted.
template <typename T> struct Statistics {
  T *rstd, *mean, *variance, *meanLow;
  void write(int64_t c, const Moments &of, double eps) const {
    const double v = of.m2 * (1.0 / of.count);
    rstd[c] = static_cast<T>(1.0 / std::sqrt(v + eps));
    if (mean)
      mean[c] = static_cast<T>(of.mean);
    if (variance)
      variance[c] = static_cast<T>(v);
    if (meanLow)
      meanLow[c] = static_cast<T>(of.mean - double(static_cast<T>(of.mean)));
  }
};

/// y = (x - mean) * rstd over a row: near x, the difference from the rounded mean is exact, and what the rounding lost
/// is subtracted after it.
template <typename T> void normalizeRow(T *y, const T *x, int64_t n, double mean, T rstd) {
  const T near = static_cast<T>(mean), lost = static_cast<T>(mean - double(near)) * rstd;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i)
    y[i] = (x[i] - near) * rstd - lost;
}

/// The sums of dy and of dy * y over a row, in vector lanes.
struct GradSums {
  double dy = 0, dyY = 0;
};
template <typename T> GradSums gradSums(const T *dy, const T *y, int64_t n) {
  GradSums sums;
  for (int64_t i = 0; i < n; i += detail::kSumBlock) {
    const int64_t end = std::min(n, i + detail::kSumBlock);
    T a = 0, b = 0;
#pragma omp simd reduction(+ : a, b)
    for (int64_t j = i; j < end; ++j) {
      a += dy[j];
      b += dy[j] * y[j];
    }
    sums.dy += a, sums.dyY += b;
  }
  return sums;
}

/// dx of a row, of whose sums the rank's row of n is a part of `total` elements.
template <typename T>
void gradRow(T *dx, const T *dy, const T *y, int64_t n, T rstd, const GradSums &sums, int64_t total) {
  const T meanDy = static_cast<T>(sums.dy / double(total)), meanDyY = static_cast<T>(sums.dyY / double(total));
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i)
    dx[i] = rstd * (dy[i] - meanDy - y[i] * meanDyY);
}

} // namespace

//===-- per channel: the statistics ------------------------------------------------------------------------------===//

template <typename T>
void channel_statistics(T *rstd, const T *x, int64_t outer, int64_t channels, int64_t inner, double eps, T *mean,
                        T *variance, T *mean_low) {
  const std::vector<Moments> moments = momentsOfChannels(x, outer, channels, inner);
  const Statistics<T> to{rstd, mean, variance, mean_low};
  for (int64_t c = 0; c < channels; ++c)
    to.write(c, moments[c], eps);
}

template <typename T> void local_moments(double *moments, const T *x, int64_t outer, int64_t channels, int64_t inner) {
  const std::vector<Moments> all = momentsOfChannels(x, outer, channels, inner);
  for (int64_t c = 0; c < channels; ++c)
    putMoments(moments, c, all[c]);
}

void combine_moments(double *moments, const double *gathered, int64_t parts, int64_t count) {
  for (int64_t c = 0; c < count; ++c) {
    Moments all;
    for (int64_t p = 0; p < parts; ++p)
      all.add(momentsAt(gathered, p * count + c));
    putMoments(moments, c, all);
  }
}

template <typename T>
void channel_statistics_finish(T *rstd, const double *moments, int64_t channels, double eps, T *mean, T *variance,
                               T *mean_low) {
  const Statistics<T> to{rstd, mean, variance, mean_low};
  for (int64_t c = 0; c < channels; ++c)
    to.write(c, momentsAt(moments, c), eps);
}

//===-- per row: all passes but the first find it in the cache ---------------------------------------------------===//

template <typename T>
void normalize(T *y, T *rstd, const T *x, int64_t rows, int64_t n, double eps, T *mean, T *variance, T *mean_low) {
  const Statistics<T> to{rstd, mean, variance, mean_low};
  for (int64_t r = 0; r < rows; ++r) {
    const Moments of = momentsOf(x + r * n, n);
    to.write(r, of, eps);
    normalizeRow(y + r * n, x + r * n, n, of.mean, rstd[r]);
  }
}

template <typename T>
void normalize_finish(T *y, T *rstd, const T *x, const double *moments, int64_t rows, int64_t n, double eps, T *mean,
                      T *variance, T *mean_low) {
  const Statistics<T> to{rstd, mean, variance, mean_low};
  for (int64_t r = 0; r < rows; ++r) {
    const Moments of = momentsAt(moments, r);
    to.write(r, of, eps);
    normalizeRow(y + r * n, x + r * n, n, of.mean, rstd[r]);
  }
}

template <typename T> void normalize_grad(T *dx, const T *dy, const T *y, const T *rstd, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, dx += n, dy += n, y += n)
    gradRow(dx, dy, y, n, rstd[r], gradSums(dy, y, n), n);
}

template <typename T> void normalize_grad_local(double *sums, const T *dy, const T *y, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) {
    const GradSums of = gradSums(dy + r * n, y + r * n, n);
    sums[2 * r] = of.dy, sums[2 * r + 1] = of.dyY;
  }
}

template <typename T>
void normalize_grad_finish(T *dx, const T *dy, const T *y, const T *rstd, const double *sums, int64_t rows, int64_t n,
                           int64_t total) {
  for (int64_t r = 0; r < rows; ++r, dx += n, dy += n, y += n)
    gradRow(dx, dy, y, n, rstd[r], {sums[2 * r], sums[2 * r + 1]}, total);
}

template <typename T> void rms_local(double *squares, const T *x, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) {
    squares[r] = squaresAbout(x + r * n, n, T(0));
    if (!std::isfinite(squares[r]))
      squares[r] = squaresInDouble(x + r * n, n, 0);
  }
}

template <typename T>
void rms_finish(T *y, T *rstd, const T *x, const double *squares, int64_t rows, int64_t n, int64_t total, double eps) {
  for (int64_t r = 0; r < rows; ++r) {
    T factor = static_cast<T>(1.0 / std::sqrt(squares[r] / double(total) + eps));
    rstd[r] = factor;
#pragma GCC ivdep
    for (int64_t i = r * n; i < (r + 1) * n; ++i)
      y[i] = x[i] * factor;
  }
}

template <typename T> void rms_normalize(T *y, T *rstd, const T *x, int64_t rows, int64_t n, double eps) {
  for (int64_t r = 0; r < rows; ++r) {
    double squares;
    rms_local(&squares, x + r * n, 1, n);
    rms_finish(y + r * n, rstd + r, x + r * n, &squares, 1, n, n, eps);
  }
}

template <typename T> void rms_grad_local(double *sums, const T *dy, const T *y, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) {
    const T *d = dy + r * n, *v = y + r * n;
    sums[r] = detail::sum_of_vectors<T>(n, [=](auto at, int64_t i) { return at.load(d + i) * at.load(v + i); });
  }
}

template <typename T>
void rms_grad_finish(T *dx, const T *dy, const T *y, const T *rstd, const double *sums, int64_t rows, int64_t n,
                     int64_t total) {
  for (int64_t r = 0; r < rows; ++r) {
    T mean = static_cast<T>(sums[r] / double(total)), factor = rstd[r];
#pragma GCC ivdep
    for (int64_t i = r * n; i < (r + 1) * n; ++i)
      dx[i] = factor * (dy[i] - y[i] * mean);
  }
}

template <typename T> void rms_normalize_grad(T *dx, const T *dy, const T *y, const T *rstd, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) {
    double sum;
    rms_grad_local(&sum, dy + r * n, y + r * n, 1, n);
    rms_grad_finish(dx + r * n, dy + r * n, y + r * n, rstd + r, &sum, 1, n, n);
  }
}

namespace reference {
template <typename T>
void normalize(T *y, T *rstd, const T *x, int64_t outer, int64_t channels, int64_t inner, double eps, bool center) {
  for (int64_t c = 0; c < channels; ++c) {
    double mean = 0, squares = 0, count = double(outer * inner);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        mean += center ? x[(o * channels + c) * inner + i] / count : 0;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        squares += std::pow(x[(o * channels + c) * inner + i] - mean, 2) / count;
    double factor = 1 / std::sqrt(squares + eps);
    rstd[c] = static_cast<T>(factor);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        y[(o * channels + c) * inner + i] = static_cast<T>((x[(o * channels + c) * inner + i] - mean) * factor);
  }
}
} // namespace reference

#define INSTANTIATE(T)                                                                                                 \
  template void normalize<T>(T *, T *, const T *, int64_t, int64_t, double, T *, T *, T *);                            \
  template void normalize_grad<T>(T *, const T *, const T *, const T *, int64_t, int64_t);                             \
  template void rms_normalize<T>(T *, T *, const T *, int64_t, int64_t, double);                                       \
  template void rms_normalize_grad<T>(T *, const T *, const T *, const T *, int64_t, int64_t);                         \
  template void channel_statistics<T>(T *, const T *, int64_t, int64_t, int64_t, double, T *, T *, T *);               \
  template void channel_statistics_finish<T>(T *, const double *, int64_t, double, T *, T *, T *);                     \
  template void local_moments<T>(double *, const T *, int64_t, int64_t, int64_t);                                      \
  template void normalize_finish<T>(T *, T *, const T *, const double *, int64_t, int64_t, double, T *, T *, T *);     \
  template void normalize_grad_local<T>(double *, const T *, const T *, int64_t, int64_t);                             \
  template void normalize_grad_finish<T>(T *, const T *, const T *, const T *, const double *, int64_t, int64_t,       \
                                         int64_t);                                                                     \
  template void rms_local<T>(double *, const T *, int64_t, int64_t);                                                   \
  template void rms_finish<T>(T *, T *, const T *, const double *, int64_t, int64_t, int64_t, double);                 \
  template void rms_grad_local<T>(double *, const T *, const T *, int64_t, int64_t);                                   \
  template void rms_grad_finish<T>(T *, const T *, const T *, const T *, const double *, int64_t, int64_t, int64_t);   \
  template void reference::normalize<T>(T *, T *, const T *, int64_t, int64_t, int64_t, double, bool);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::runtime
