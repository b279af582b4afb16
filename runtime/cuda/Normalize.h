// Layer and RMS norm without gain and offset, and the statistics of batch norm, as runtime/kernels/Normalize.h. Types:
// float, double (the four norms of whole rows: bf16 and fp16, too, whose statistics are floats).
//   layer, batch: y = (x - mean) * rstd,  rstd = 1 / sqrt(variance + eps), variance biased
//   rms:          y = x * rstd,           rstd = 1 / sqrt(mean of x^2 + eps)
// Derivative: dx = rstd * (dy - mean(dy) - y * mean(dy * y)); rms: without mean(dy).
// Rows are x: (rows, n), of which n is reduced; all may work in place (y = x, dx = dy). Channels are x: (outer,
// channels, inner), of which outer and inner are reduced. Statistics are made in double.
#pragma once
#include "runtime/cuda/Device.h"

namespace echelon::cuda {

/// Numbers of scratch with which the statistics of channels may be taken in two passes.
constexpr int64_t kChannelScratch = 1 << 16;

/// rstd, and where not null mean, variance and mean_low: (rows). mean + mean_low is the mean, mean_low being what its
/// rounding lost.
template <typename T>
void normalize(Stream stream, T *y, Wide<T> *rstd, const T *x, int64_t rows, int64_t n, double eps,
               Wide<T> *mean = nullptr, Wide<T> *variance = nullptr, Wide<T> *mean_low = nullptr);
template <typename T>
void normalize_grad(Stream stream, T *dx, const T *dy, const T *y, const Wide<T> *rstd, int64_t rows, int64_t n);

template <typename T>
void rms_normalize(Stream stream, T *y, Wide<T> *rstd, const T *x, int64_t rows, int64_t n, double eps);
template <typename T>
void rms_normalize_grad(Stream stream, T *dx, const T *dy, const T *y, const Wide<T> *rstd, int64_t rows, int64_t n);

/// The statistics of channels alone: rstd, and where not null mean, variance and mean_low: (channels). x: (outer,
/// channels, inner). scratch: kChannelScratch numbers, or null: with it, few large channels are read by the whole
/// device.
template <typename T>
void channel_statistics(Stream stream, T *rstd, const T *x, int64_t outer, int64_t channels, int64_t inner, double eps,
                        T *mean = nullptr, T *variance = nullptr, T *mean_low = nullptr, double *scratch = nullptr);

// Where ranks hold pieces of what is reduced. Forward: local moments, gathered from `parts` ranks as (parts, count, 3),
// combined on every rank in rank order, finished. Backward: local sums, sum over ranks, finished; `total` is the number
// of elements reduced over all ranks. What travels is in double.

/// moments: (channels, 3) = count, mean, sum of (x - mean)^2. x: (outer, channels, inner), of rows (1, rows, n).
/// scratch: as of channel_statistics.
template <typename T>
void local_moments(Stream stream, double *moments, const T *x, int64_t outer, int64_t channels, int64_t inner,
                   double *scratch = nullptr);
/// moments: (count, 3) of the union; gathered: (parts, count, 3). Parts with count 0 do not enter.
void combine_moments(Stream stream, double *moments, const double *gathered, int64_t parts, int64_t count);
template <typename T>
void normalize_finish(Stream stream, T *y, T *rstd, const T *x, const double *moments, int64_t rows, int64_t n,
                      double eps, T *mean = nullptr, T *variance = nullptr, T *mean_low = nullptr);
template <typename T>
void channel_statistics_finish(Stream stream, T *rstd, const double *moments, int64_t channels, double eps,
                               T *mean = nullptr, T *variance = nullptr, T *mean_low = nullptr);

/// sums: (rows, 2) = sum dy, sum dy * y.
template <typename T>
void normalize_grad_local(Stream stream, double *sums, const T *dy, const T *y, int64_t rows, int64_t n);
template <typename T>
void normalize_grad_finish(Stream stream, T *dx, const T *dy, const T *y, const T *rstd, const double *sums,
                           int64_t rows, int64_t n, int64_t total);

/// squares: (rows) = sum x^2; summed over ranks.
template <typename T> void rms_local(Stream stream, double *squares, const T *x, int64_t rows, int64_t n);
template <typename T>
void rms_finish(Stream stream, T *y, T *rstd, const T *x, const double *squares, int64_t rows, int64_t n, int64_t total,
                double eps);
/// sums: (rows) = sum dy * y; summed over ranks.
template <typename T>
void rms_grad_local(Stream stream, double *sums, const T *dy, const T *y, int64_t rows, int64_t n);
template <typename T>
void rms_grad_finish(Stream stream, T *dx, const T *dy, const T *y, const T *rstd, const double *sums, int64_t rows,
                     int64_t n, int64_t total);

} // namespace echelon::cuda
