// Layer and RMS norm without gain and offset, and the statistics of batch norm. Types: float, double.
//   layer, batch: y = (x - mean) * rstd,  rstd = 1 / sqrt(variance + eps), variance biased
//   rms:          y = x * rstd,           rstd = 1 / sqrt(mean of x^2 + eps)
// Derivative: dx = rstd * (dy - mean(dy) - y * mean(dy * y)); rms: without mean(dy).
// Rows are x: (rows, n), of which n is reduced; all may work in place (y = x, dx = dy). Channels are x: (outer,
// channels, inner), of which outer and inner are reduced: what follows from their statistics, programs compute in
// loops.
#pragma once
#include <cstdint>

namespace echelon::runtime {

// Values far from 0, or so large that their squares are not in T, take no digits: deviations are taken from a number
// near the mean, which they leave exact, and their squares are added up in double where T does not hold them. What a
// program subtracts itself is the mean in two parts, mean + mean_low, mean_low being what the rounding of mean lost.

/// rstd, and where not null mean, variance and mean_low: (rows).
template <typename T>
void normalize(T *y, T *rstd, const T *x, int64_t rows, int64_t n, double eps, T *mean = nullptr, T *variance = nullptr,
               T *mean_low = nullptr);
template <typename T> void normalize_grad(T *dx, const T *dy, const T *y, const T *rstd, int64_t rows, int64_t n);

template <typename T> void rms_normalize(T *y, T *rstd, const T *x, int64_t rows, int64_t n, double eps);
template <typename T> void rms_normalize_grad(T *dx, const T *dy, const T *y, const T *rstd, int64_t rows, int64_t n);

/// The statistics of channels alone: rstd, and where not null mean, variance and mean_low: (channels). x: (outer,
/// channels, inner).
template <typename T>
void channel_statistics(T *rstd, const T *x, int64_t outer, int64_t channels, int64_t inner, double eps,
                        T *mean = nullptr, T *variance = nullptr, T *mean_low = nullptr);

// Where ranks hold pieces of what is reduced. Forward: local moments, gathered from `parts` ranks as
// (parts, count, 3), combined on every rank in rank order, finished. Backward: local sums, sum over ranks, finished;
// `total` is the number of elements reduced over all ranks. What travels is in double.

/// moments: (channels, 3) = count, mean, sum of (x - mean)^2. x: (outer, channels, inner), of rows (1, rows, n).
template <typename T> void local_moments(double *moments, const T *x, int64_t outer, int64_t channels, int64_t inner);
/// moments: (count, 3) of the union; gathered: (parts, count, 3). Parts with count 0 do not enter.
void combine_moments(double *moments, const double *gathered, int64_t parts, int64_t count);
template <typename T>
void normalize_finish(T *y, T *rstd, const T *x, const double *moments, int64_t rows, int64_t n, double eps,
                      T *mean = nullptr, T *variance = nullptr, T *mean_low = nullptr);
template <typename T>
void channel_statistics_finish(T *rstd, const double *moments, int64_t channels, double eps, T *mean = nullptr,
                               T *variance = nullptr, T *mean_low = nullptr);

/// sums: (rows, 2) = sum dy, sum dy * y.
template <typename T> void normalize_grad_local(double *sums, const T *dy, const T *y, int64_t rows, int64_t n);
template <typename T>
void normalize_grad_finish(T *dx, const T *dy, const T *y, const T *rstd, const double *sums, int64_t rows, int64_t n,
                           int64_t total);

/// squares: (rows) = sum x^2; summed over ranks.
template <typename T> void rms_local(double *squares, const T *x, int64_t rows, int64_t n);
template <typename T>
void rms_finish(T *y, T *rstd, const T *x, const double *squares, int64_t rows, int64_t n, int64_t total, double eps);
/// sums: (rows) = sum dy * y; summed over ranks.
template <typename T> void rms_grad_local(double *sums, const T *dy, const T *y, int64_t rows, int64_t n);
template <typename T>
void rms_grad_finish(T *dx, const T *dy, const T *y, const T *rstd, const double *sums, int64_t rows, int64_t n,
                     int64_t total);

namespace reference {
/// With `center` layer norm, without it RMS norm. x: (outer, channels, inner), reduced over outer and inner.
template <typename T>
void normalize(T *y, T *rstd, const T *x, int64_t outer, int64_t channels, int64_t inner, double eps, bool center);
} // namespace reference
} // namespace echelon::runtime
