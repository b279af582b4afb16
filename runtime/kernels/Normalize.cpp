// Moments in one pass over memory: of pieces that lie in the cache the mean, then the squares about it (no
// cancellation), and the pieces combined (Chan, Golub, LeVeque 1979). Rows are the channel form with outer = 1,
// channels = rows, inner = n, so there is one implementation. Channel forms with a small inner size add up whole rows
// of (channels * inner) columns in double and fold them to channels.
#include "runtime/kernels/Normalize.h"
#include "runtime/kernels/BlockedSum.h"
#include "runtime/kernels/Elementwise.h"
#include <array>
#include <vector>

namespace echelon::runtime {
namespace {

constexpr int64_t kShortRun = 16;
constexpr int64_t kTile = 256;

constexpr int64_t kPiece = 4096; // elements, at most

/// Calls f(channel, start, count) for every stretch of memory that one channel lies in, in the order of memory, so that
/// it is read as a stream. inner >= kShortRun.
template <typename F> void perStretch(int64_t outer, int64_t channels, int64_t inner, F f) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t c = 0; c < channels; ++c) {
      int64_t start = (o * channels + c) * inner, end = start + inner;
      for (; start < end; start += kPiece)
        f(c, start, std::min(kPiece, end - start));
    }
}
bool hasStretches(int64_t outer, int64_t inner) { return inner >= kShortRun || outer == 1; }

/// sums[s * channels + c] = sum over (outer, inner) of f_s(flat position, c), in double; f gives an array of all f_s.
/// For runs too short for stretches: whole rows of (channels * inner) columns are added up.
template <int n, typename F> void sumColumns(double *sums, int64_t outer, int64_t channels, int64_t inner, F f) {
  std::fill_n(sums, n * channels, 0.0);
  int64_t columns = channels * inner;
  std::vector<int64_t> channelOf(std::min(kTile, columns));
  for (int64_t j0 = 0; j0 < columns; j0 += kTile) {
    int64_t width = std::min(kTile, columns - j0);
    double total[n][kTile] = {};
    for (int64_t j = 0; j < width; ++j)
      channelOf[j] = (j0 + j) / inner;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t j = 0; j < width; ++j) {
        auto values = f(o * columns + j0 + j, channelOf[j]);
        for (int s = 0; s < n; ++s)
          total[s][j] += values[s];
      }
    for (int s = 0; s < n; ++s)
      for (int64_t j = 0; j < width; ++j)
        sums[s * channels + channelOf[j]] += total[s][j];
  }
}

/// Calls f(flat position, c) at every element.
template <typename F> void perElement(int64_t outer, int64_t channels, int64_t inner, F f) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t c = 0; c < channels; ++c) {
      int64_t start = (o * channels + c) * inner;
#pragma GCC ivdep
      for (int64_t i = start; i < start + inner; ++i)
        f(i, c);
    }
}

/// sum (x - about)^2.
template <typename T> double squaresAbout(const T *x, int64_t n, T about) {
  const detail::Vector<T> a = detail::every(about);
  return detail::sum_of_vectors<T>(n, [=](auto at, int64_t i) {
    __builtin_prefetch(x + i + n); // the row that comes next
    detail::Vector<T> v = at.load(x + i) - a;
    return v * v;
  });
}

/// Moments of one stretch: the mean, and the sum of (x - mean)^2.
template <typename T> void stretchMoments(double &mean, double &m2, const T *x, int64_t n) {
  mean = detail::sum_of(x, n) / double(n);
  T about = static_cast<T>(mean);
  double shift = mean - double(about); // about the exact mean instead of the rounded one
  m2 = std::max(0.0, squaresAbout(x, n, about) - double(n) * shift * shift);
}

/// mean[c], m2[c] = sum of (x - mean)^2.
template <typename T>
void moments(double *mean, double *m2, const T *x, int64_t outer, int64_t channels, int64_t inner) {
  double count = static_cast<double>(outer * inner);
  if (hasStretches(outer, inner)) {
    std::fill_n(mean, channels, 0.0);
    std::fill_n(m2, channels, 0.0);
    std::vector<int64_t> seen(channels);
    perStretch(outer, channels, inner, [&](int64_t c, int64_t start, int64_t n) {
      double m, s;
      stretchMoments(m, s, x + start, n);
      double before = double(seen[c]), all = before + double(n), delta = m - mean[c];
      mean[c] += delta * double(n) / all;
      m2[c] += s + delta * delta * before * double(n) / all;
      seen[c] += n;
    });
    return;
  }
  sumColumns<1>(mean, outer, channels, inner, [=](int64_t i, int64_t) { return std::array<T, 1>{x[i]}; });
  for (int64_t c = 0; c < channels; ++c)
    mean[c] = count > 0 ? mean[c] / count : 0;
  std::vector<T> rounded(mean, mean + channels);
  const T *about = rounded.data();
  sumColumns<1>(m2, outer, channels, inner, [=](int64_t i, int64_t c) {
    T d = x[i] - about[c];
    return std::array<T, 1>{d * d};
  });
  for (int64_t c = 0; c < channels; ++c) {
    double shift = mean[c] - double(about[c]);
    m2[c] = std::max(0.0, m2[c] - count * shift * shift);
  }
}

template <typename T>
void writeStatistics(T *rstd, const double *mean, const double *variance, int64_t channels, double eps, T *meanOut,
                     T *varianceOut) {
  for (int64_t c = 0; c < channels; ++c) {
    rstd[c] = static_cast<T>(1.0 / std::sqrt(variance[c] + eps));
    if (meanOut)
      meanOut[c] = static_cast<T>(mean[c]);
    if (varianceOut)
      varianceOut[c] = static_cast<T>(variance[c]);
  }
}

template <typename T>
void finish(T *y, T *rstd, const T *x, const double *mean, const double *variance, int64_t outer, int64_t channels,
            int64_t inner, double eps, T *meanOut, T *varianceOut) {
  std::vector<T> shift(mean, mean + channels);
  writeStatistics(rstd, mean, variance, channels, eps, meanOut, varianceOut);
  const T *s = shift.data();
  perElement(outer, channels, inner, [=](int64_t i, int64_t c) { y[i] = (x[i] - s[c]) * rstd[c]; });
}

template <typename T>
void gradFinish(T *dx, const T *dy, const T *y, const T *rstd, const double *sumDy, const double *sumDyY, int64_t outer,
                int64_t channels, int64_t inner, int64_t total) {
  std::vector<T> a(channels), b(channels);
  for (int64_t c = 0; c < channels; ++c) {
    a[c] = sumDy ? static_cast<T>(sumDy[c] / total) : T(0);
    b[c] = static_cast<T>(sumDyY[c] / total);
  }
  const T *meanDy = a.data(), *meanDyY = b.data();
  perElement(outer, channels, inner,
             [=](int64_t i, int64_t c) { dx[i] = rstd[c] * (dy[i] - meanDy[c] - y[i] * meanDyY[c]); });
}

/// The sums of dy and of dy * y over a stretch, in vector lanes.
template <typename T> void stretchGradSums(double &sumDy, double &sumDyY, const T *dy, const T *y, int64_t n) {
  for (int64_t i = 0; i < n; i += detail::kSumBlock) {
    int64_t count = std::min(detail::kSumBlock, n - i);
    T a = 0, b = 0;
#pragma omp simd reduction(+ : a, b)
    for (int64_t j = i; j < i + count; ++j) {
      a += dy[j];
      b += dy[j] * y[j];
    }
    sumDy += a, sumDyY += b;
  }
}

template <typename T>
void gradSums(double *sumDy, double *sumDyY, const T *dy, const T *y, int64_t outer, int64_t channels, int64_t inner) {
  if (hasStretches(outer, inner)) {
    std::fill_n(sumDy, channels, 0.0);
    std::fill_n(sumDyY, channels, 0.0);
    return perStretch(outer, channels, inner, [=](int64_t c, int64_t start, int64_t n) {
      stretchGradSums(sumDy[c], sumDyY[c], dy + start, y + start, n);
    });
  }
  std::vector<double> sums(2 * channels);
  sumColumns<2>(sums.data(), outer, channels, inner,
                [=](int64_t i, int64_t) { return std::array<T, 2>{dy[i], dy[i] * y[i]}; });
  std::copy_n(sums.data(), channels, sumDy);
  std::copy_n(sums.data() + channels, channels, sumDyY);
}

} // namespace

//===-- per channel ----------------------------------------------------------------------------------------------===//

template <typename T>
void normalize_channels(T *y, T *rstd, const T *x, int64_t outer, int64_t channels, int64_t inner, double eps, T *mean,
                        T *variance) {
  std::vector<double> m(channels), v(channels);
  moments(m.data(), v.data(), x, outer, channels, inner);
  for (double &value : v)
    value /= static_cast<double>(outer * inner);
  finish(y, rstd, x, m.data(), v.data(), outer, channels, inner, eps, mean, variance);
}

template <typename T>
void channel_statistics(T *rstd, const T *x, int64_t outer, int64_t channels, int64_t inner, double eps, T *mean,
                        T *variance) {
  std::vector<double> m(channels), v(channels);
  moments(m.data(), v.data(), x, outer, channels, inner);
  for (double &value : v)
    value /= static_cast<double>(outer * inner);
  writeStatistics(rstd, m.data(), v.data(), channels, eps, mean, variance);
}

template <typename T>
void normalize_channels_grad(T *dx, const T *dy, const T *y, const T *rstd, int64_t outer, int64_t channels,
                             int64_t inner) {
  std::vector<double> sumDy(channels), sumDyY(channels);
  gradSums(sumDy.data(), sumDyY.data(), dy, y, outer, channels, inner);
  gradFinish(dx, dy, y, rstd, sumDy.data(), sumDyY.data(), outer, channels, inner, outer * inner);
}

template <typename T> void local_moments_channels(T *out, const T *x, int64_t outer, int64_t channels, int64_t inner) {
  std::vector<double> mean(channels), m2(channels);
  moments(mean.data(), m2.data(), x, outer, channels, inner);
  for (int64_t c = 0; c < channels; ++c) {
    out[3 * c] = static_cast<T>(outer * inner);
    out[3 * c + 1] = static_cast<T>(mean[c]);
    out[3 * c + 2] = static_cast<T>(m2[c]);
  }
}

// Chan, Golub, LeVeque 1979: the union's M2 = M2a + M2b + (mean b - mean a)^2 * a b / (a + b).
template <typename T> void combine_moments(T *out, const T *gathered, int64_t parts, int64_t count) {
  for (int64_t c = 0; c < count; ++c) {
    double n = 0, mean = 0, m2 = 0;
    for (int64_t p = 0; p < parts; ++p) {
      const T *part = gathered + 3 * (p * count + c);
      double more = part[0], delta = double(part[1]) - mean, all = n + more;
      if (more == 0)
        continue;
      mean += delta * more / all;
      m2 += double(part[2]) + delta * delta * n * more / all;
      n = all;
    }
    out[3 * c] = static_cast<T>(n);
    out[3 * c + 1] = static_cast<T>(mean);
    out[3 * c + 2] = static_cast<T>(m2);
  }
}

template <typename T>
void normalize_channels_finish(T *y, T *rstd, const T *x, const T *moments, int64_t outer, int64_t channels,
                               int64_t inner, double eps, T *mean, T *variance) {
  std::vector<double> m(channels), v(channels);
  for (int64_t c = 0; c < channels; ++c)
    m[c] = moments[3 * c + 1], v[c] = double(moments[3 * c + 2]) / double(moments[3 * c]);
  finish(y, rstd, x, m.data(), v.data(), outer, channels, inner, eps, mean, variance);
}

template <typename T>
void channel_statistics_finish(T *rstd, const T *moments, int64_t channels, double eps, T *mean, T *variance) {
  std::vector<double> m(channels), v(channels);
  for (int64_t c = 0; c < channels; ++c)
    m[c] = moments[3 * c + 1], v[c] = double(moments[3 * c + 2]) / double(moments[3 * c]);
  writeStatistics(rstd, m.data(), v.data(), channels, eps, mean, variance);
}

template <typename T>
void normalize_channels_grad_local(T *sums, const T *dy, const T *y, int64_t outer, int64_t channels, int64_t inner) {
  std::vector<double> sumDy(channels), sumDyY(channels);
  gradSums(sumDy.data(), sumDyY.data(), dy, y, outer, channels, inner);
  for (int64_t c = 0; c < channels; ++c)
    sums[2 * c] = static_cast<T>(sumDy[c]), sums[2 * c + 1] = static_cast<T>(sumDyY[c]);
}

template <typename T>
void normalize_channels_grad_finish(T *dx, const T *dy, const T *y, const T *rstd, const T *sums, int64_t outer,
                                    int64_t channels, int64_t inner, int64_t total) {
  std::vector<double> sumDy(channels), sumDyY(channels);
  for (int64_t c = 0; c < channels; ++c)
    sumDy[c] = sums[2 * c], sumDyY[c] = sums[2 * c + 1];
  gradFinish(dx, dy, y, rstd, sumDy.data(), sumDyY.data(), outer, channels, inner, total);
}

//===-- per row: all passes but the first find it in the cache ---------------------------------------------------===//

template <typename T>
void normalize(T *y, T *rstd, const T *x, int64_t rows, int64_t n, double eps, T *mean, T *variance) {
  if (n > kPiece)
    return normalize_channels(y, rstd, x, 1, rows, n, eps, mean, variance);
  for (int64_t r = 0; r < rows; ++r) {
    const T *row = x + r * n;
    T *out = y + r * n;
    double m = detail::sum_of(row, n) / double(n);
    T about = static_cast<T>(m);
    double v = squaresAbout(row, n, about) / double(n);
    v = std::max(0.0, v - (m - double(about)) * (m - double(about)));
    T factor = static_cast<T>(1.0 / std::sqrt(v + eps));
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i)
      out[i] = (row[i] - about) * factor;
    rstd[r] = factor;
    if (mean)
      mean[r] = about;
    if (variance)
      variance[r] = static_cast<T>(v);
  }
}

template <typename T> void normalize_grad(T *dx, const T *dy, const T *y, const T *rstd, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, dx += n, dy += n, y += n) {
    double sumDy = 0, sumDyY = 0;
    stretchGradSums(sumDy, sumDyY, dy, y, n);
    T meanDy = static_cast<T>(sumDy / double(n)), meanDyY = static_cast<T>(sumDyY / double(n)), factor = rstd[r];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i)
      dx[i] = factor * (dy[i] - meanDy - y[i] * meanDyY);
  }
}

template <typename T> void local_moments(T *out, const T *x, int64_t rows, int64_t n) {
  local_moments_channels(out, x, 1, rows, n);
}

template <typename T>
void normalize_finish(T *y, T *rstd, const T *x, const T *moments, int64_t rows, int64_t n, double eps, T *mean,
                      T *variance) {
  normalize_channels_finish(y, rstd, x, moments, 1, rows, n, eps, mean, variance);
}

template <typename T> void normalize_grad_local(T *sums, const T *dy, const T *y, int64_t rows, int64_t n) {
  normalize_channels_grad_local(sums, dy, y, 1, rows, n);
}

template <typename T>
void normalize_grad_finish(T *dx, const T *dy, const T *y, const T *rstd, const T *sums, int64_t rows, int64_t n,
                           int64_t total) {
  normalize_channels_grad_finish(dx, dy, y, rstd, sums, 1, rows, n, total);
}

template <typename T> void rms_local(T *squares, const T *x, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) {
    const T *row = x + r * n;
    squares[r] = static_cast<T>(squaresAbout(row, n, T(0)));
  }
}

template <typename T>
void rms_finish(T *y, T *rstd, const T *x, const T *squares, int64_t rows, int64_t n, int64_t total, double eps) {
  for (int64_t r = 0; r < rows; ++r) {
    T factor = static_cast<T>(1.0 / std::sqrt(double(squares[r]) / double(total) + eps));
    rstd[r] = factor;
#pragma GCC ivdep
    for (int64_t i = r * n; i < (r + 1) * n; ++i)
      y[i] = x[i] * factor;
  }
}

template <typename T> void rms_normalize(T *y, T *rstd, const T *x, int64_t rows, int64_t n, double eps) {
  for (int64_t r = 0; r < rows; ++r) {
    T squares;
    rms_local(&squares, x + r * n, 1, n);
    rms_finish(y + r * n, rstd + r, x + r * n, &squares, 1, n, n, eps);
  }
}

template <typename T> void rms_grad_local(T *sums, const T *dy, const T *y, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) {
    const T *d = dy + r * n, *v = y + r * n;
    sums[r] = static_cast<T>(
        detail::sum_of_vectors<T>(n, [=](auto at, int64_t i) { return at.load(d + i) * at.load(v + i); }));
  }
}

template <typename T>
void rms_grad_finish(T *dx, const T *dy, const T *y, const T *rstd, const T *sums, int64_t rows, int64_t n,
                     int64_t total) {
  for (int64_t r = 0; r < rows; ++r) {
    T mean = static_cast<T>(double(sums[r]) / double(total)), factor = rstd[r];
#pragma GCC ivdep
    for (int64_t i = r * n; i < (r + 1) * n; ++i)
      dx[i] = factor * (dy[i] - y[i] * mean);
  }
}

template <typename T> void rms_normalize_grad(T *dx, const T *dy, const T *y, const T *rstd, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) {
    T sum;
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
  template void normalize<T>(T *, T *, const T *, int64_t, int64_t, double, T *, T *);                                 \
  template void normalize_grad<T>(T *, const T *, const T *, const T *, int64_t, int64_t);                             \
  template void rms_normalize<T>(T *, T *, const T *, int64_t, int64_t, double);                                       \
  template void rms_normalize_grad<T>(T *, const T *, const T *, const T *, int64_t, int64_t);                         \
  template void normalize_channels<T>(T *, T *, const T *, int64_t, int64_t, int64_t, double, T *, T *);               \
  template void normalize_channels_grad<T>(T *, const T *, const T *, const T *, int64_t, int64_t, int64_t);           \
  template void channel_statistics<T>(T *, const T *, int64_t, int64_t, int64_t, double, T *, T *);                    \
  template void channel_statistics_finish<T>(T *, const T *, int64_t, double, T *, T *);                               \
  template void local_moments<T>(T *, const T *, int64_t, int64_t);                                                    \
  template void local_moments_channels<T>(T *, const T *, int64_t, int64_t, int64_t);                                  \
  template void combine_moments<T>(T *, const T *, int64_t, int64_t);                                                  \
  template void normalize_finish<T>(T *, T *, const T *, const T *, int64_t, int64_t, double, T *, T *);               \
  template void normalize_channels_finish<T>(T *, T *, const T *, const T *, int64_t, int64_t, int64_t, double, T *,   \
                                             T *);                                                                     \
  template void normalize_grad_local<T>(T *, const T *, const T *, int64_t, int64_t);                                  \
  template void normalize_grad_finish<T>(T *, const T *, const T *, const T *, const T *, int64_t, int64_t, int64_t);  \
  template void normalize_channels_grad_local<T>(T *, const T *, const T *, int64_t, int64_t, int64_t);                \
  template void normalize_channels_grad_finish<T>(T *, const T *, const T *, const T *, const T *, int64_t, int64_t,   \
                                                  int64_t, int64_t);                                                   \
  template void rms_local<T>(T *, const T *, int64_t, int64_t);                                                        \
  template void rms_finish<T>(T *, T *, const T *, const T *, int64_t, int64_t, int64_t, double);                      \
  template void rms_grad_local<T>(T *, const T *, const T *, int64_t, int64_t);                                        \
  template void rms_grad_finish<T>(T *, const T *, const T *, const T *, const T *, int64_t, int64_t, int64_t);        \
  template void reference::normalize<T>(T *, T *, const T *, int64_t, int64_t, int64_t, double, bool);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::runtime
