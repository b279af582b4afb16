// A warp or a block has a row, and reads it once: maximum and sum of exponentials together, then the label's logit.
// With a distribution it reads the logits twice, since what is far below the maximum counts there, too.
#include "runtime/cuda/CrossEntropy.h"
#include "runtime/cuda/ExpSums.h"

namespace echelon::cuda {

namespace {

namespace math = runtime::math;

/// x[label] - shift if the label is within the row, else 0.
template <typename T> DEVICE Wide<T> picked_of(const T *row, int64_t label, int64_t vocab, Wide<T> shift) {
  return label >= 0 && label < vocab ? static_cast<Wide<T>>(row[label]) - shift : Wide<T>(0);
}

template <typename T, int k, typename By>
__global__ void __launch_bounds__(By::kMostThreads)
    cross_entropy_rows(Wide<T> *loss, Wide<T> *shift, Wide<T> *log_sum, const T *x, const int32_t *labels, int64_t rows,
                       int64_t vocab, int64_t ld) {
  __shared__ double parts[32];
  const By by(parts);
  const int64_t row = by.row();
  const ExpSum<Wide<T>> of = exp_sum_of_row<k>(by, x + row * ld, row < rows ? vocab : 0);
  if (row < rows && by.rank() == 0) {
    const Wide<T> log = math::log(static_cast<Wide<T>>(of.sum));
    shift[row] = of.top;
    log_sum[row] = log;
    loss[row] = log - picked_of(x + row * ld, labels[row], vocab, of.top);
  }
}

template <typename T, int k, typename By>
__global__ void __launch_bounds__(By::kMostThreads)
    local_rows(T *sum, T *picked, const T *x, const T *shift, const int32_t *labels, int64_t rows, int64_t vocab,
               int32_t offset) {
  __shared__ double parts[32];
  const By by(parts);
  const int64_t row = by.row();
  const bool exists = row < rows;
  const T near = exists ? shift[row] : T(0);
  const double all = shifted_sum_of_row<k>(by, x + row * vocab, exists ? vocab : 0, near);
  if (exists && by.rank() == 0) {
    sum[row] = static_cast<T>(all);
    picked[row] = picked_of(x + row * vocab, static_cast<int64_t>(labels[row]) - offset, vocab, near);
  }
}

/// Of a row beside its distribution, from a shift; on every thread.
struct TargetSums {
  double exps, picked, mass;
};
template <int k, typename T, typename By>
DEVICE TargetSums target_sums(const By &by, const T *row, const T *target, int64_t n, Wide<T> shift) {
  using W = Wide<T>;
  TargetSums of = {0, 0, 0};
  over_packs<k, kExpAhead<T>>(by, row, n, [&](int64_t i, const Pack<T, k> &pack) {
    const Pack<T, k> weights = load<k>(target + i);
    UNROLL for (int j = 0; j < k; ++j) {
      const W v = static_cast<W>(pack.at[j]) - shift, weight = static_cast<W>(weights.at[j]);
      of.exps += math::exp(v);
      of.picked += weight == W(0) ? W(0) : weight * v; // -inf of no weight counts nothing
      of.mass += weight;
    }
  });
  return {by.sum(of.exps), by.sum(of.picked), by.sum(of.mass)};
}

template <typename T, int k, typename By>
__global__ void __launch_bounds__(By::kMostThreads)
    target_rows(Wide<T> *loss, Wide<T> *shift, Wide<T> *log_sum, Wide<T> *mass, const T *x, const T *target,
                int64_t rows, int64_t vocab) {
  __shared__ double parts[32];
  using W = Wide<T>;
  const By by(parts);
  const int64_t row = by.row(), begin = row * vocab, count = row < rows ? vocab : 0;
  W top = -std::numeric_limits<W>::infinity();
  over_packs<k>(by, x + begin, count, [&](int64_t, const Pack<T, k> &pack) {
    UNROLL for (int j = 0; j < k; ++j) {
      const W v = static_cast<W>(pack.at[j]);
      top = v > top ? v : top;
    }
  });
  top = by.max(top);
  const TargetSums of = target_sums<k>(by, x + begin, target + begin, count, top);
  if (row < rows && by.rank() == 0) {
    const W log = math::log(static_cast<W>(of.exps)), all = static_cast<W>(of.mass);
    shift[row] = top;
    log_sum[row] = log;
    mass[row] = all;
    loss[row] = all * log - static_cast<W>(of.picked);
  }
}

template <typename T, int k, typename By>
__global__ void __launch_bounds__(By::kMostThreads)
    local_target_rows(T *sum, T *picked, T *mass, const T *x, const T *shift, const T *target, int64_t rows,
                      int64_t vocab) {
  __shared__ double parts[32];
  const By by(parts);
  const int64_t row = by.row(), begin = row * vocab;
  const bool exists = row < rows;
  const TargetSums of = target_sums<k>(by, x + begin, target + begin, exists ? vocab : 0, exists ? shift[row] : T(0));
  if (exists && by.rank() == 0) {
    sum[row] = static_cast<T>(of.exps);
    picked[row] = static_cast<T>(of.picked);
    mass[row] = static_cast<T>(of.mass);
  }
}

template <typename T> __global__ void finish(T *loss, T *log_sum, const T *sum, const T *picked, int64_t rows) {
  if (element() < rows) {
    const T log = math::log(sum[element()]);
    log_sum[element()] = log;
    loss[element()] = log - picked[element()];
  }
}

template <typename T>
__global__ void finish_target(T *loss, T *log_sum, const T *sum, const T *picked, const T *mass, int64_t rows) {
  if (element() < rows) {
    const T log = math::log(sum[element()]);
    log_sum[element()] = log;
    loss[element()] = mass[element()] * log - picked[element()];
  }
}

/// For rows of `vocab` logits.
bool isForWarp(int64_t vocab) { return vocab <= kMostOfWarp; }
Shape shapeFor(int64_t rows, int64_t vocab) {
  return isForWarp(vocab) ? cover_warps(rows) : cover_rows(rows, vocab, 16, ByHalfBlock::kMostThreads);
}

} // namespace

template <typename T>
void cross_entropy(Stream stream, Wide<T> *loss, Wide<T> *shift, Wide<T> *log_sum, const T *x, const int32_t *labels,
                   int64_t rows, int64_t vocab, int64_t ld) {
  if (rows <= 0)
    return;
  constexpr int k = kExpPack<T>;
  const auto kernel = arePacks<T>(ld, {x})
                          ? isForWarp(vocab) ? cross_entropy_rows<T, k, ByWarp> : cross_entropy_rows<T, k, ByHalfBlock>
                      : isForWarp(vocab) ? cross_entropy_rows<T, 1, ByWarp>
                                         : cross_entropy_rows<T, 1, ByHalfBlock>;
  launch("cross_entropy", kernel, shapeFor(rows, vocab), stream, out(loss, rows), out(shift, rows), out(log_sum, rows),
         in(x, (rows - 1) * ld + vocab), in(labels, rows), rows, vocab, ld);
}

template <typename T>
void cross_entropy_target(Stream stream, Wide<T> *loss, Wide<T> *shift, Wide<T> *log_sum, Wide<T> *mass, const T *x,
                          const T *target, int64_t rows, int64_t vocab) {
  if (rows <= 0)
    return;
  constexpr int k = kExpPack<T>;
  const auto kernel = arePacks<T>(vocab, {x, target})
                          ? isForWarp(vocab) ? target_rows<T, k, ByWarp> : target_rows<T, k, ByHalfBlock>
                      : isForWarp(vocab) ? target_rows<T, 1, ByWarp>
                                         : target_rows<T, 1, ByHalfBlock>;
  launch("cross_entropy_target", kernel, shapeFor(rows, vocab), stream, out(loss, rows), out(shift, rows),
         out(log_sum, rows), out(mass, rows), in(x, rows * vocab), in(target, rows * vocab), rows, vocab);
}

template <typename T>
void cross_entropy_local(Stream stream, T *sum, T *picked, const T *x, const T *shift, const int32_t *labels,
                         int64_t rows, int64_t vocab, int32_t offset) {
  if (rows <= 0)
    return;
  constexpr int k = kExpPack<T>;
  const auto kernel = arePacks<T>(vocab, {x})
                          ? isForWarp(vocab) ? local_rows<T, k, ByWarp> : local_rows<T, k, ByHalfBlock>
                      : isForWarp(vocab) ? local_rows<T, 1, ByWarp>
                                         : local_rows<T, 1, ByHalfBlock>;
  launch("cross_entropy_local", kernel, shapeFor(rows, vocab), stream, out(sum, rows), out(picked, rows),
         in(x, rows * vocab), in(shift, rows), in(labels, rows), rows, vocab, offset);
}

template <typename T>
void cross_entropy_finish(Stream stream, T *loss, T *log_sum, const T *sum, const T *picked, int64_t rows) {
  if (rows > 0)
    launch("cross_entropy_finish", finish<T>, cover(rows), stream, out(loss, rows), out(log_sum, rows), in(sum, rows),
           in(picked, rows), rows);
}

template <typename T>
void cross_entropy_target_local(Stream stream, T *sum, T *picked, T *mass, const T *x, const T *shift, const T *target,
                                int64_t rows, int64_t vocab) {
  if (rows <= 0)
    return;
  constexpr int k = kExpPack<T>;
  const auto kernel = arePacks<T>(vocab, {x, target})
                          ? isForWarp(vocab) ? local_target_rows<T, k, ByWarp> : local_target_rows<T, k, ByHalfBlock>
                      : isForWarp(vocab) ? local_target_rows<T, 1, ByWarp>
                                         : local_target_rows<T, 1, ByHalfBlock>;
  launch("cross_entropy_target_local", kernel, shapeFor(rows, vocab), stream, out(sum, rows), out(picked, rows),
         out(mass, rows), in(x, rows * vocab), in(shift, rows), in(target, rows * vocab), rows, vocab);
}

template <typename T>
void cross_entropy_target_finish(Stream stream, T *loss, T *log_sum, const T *sum, const T *picked, const T *mass,
                                 int64_t rows) {
  if (rows > 0)
    launch("cross_entropy_target_finish", finish_target<T>, cover(rows), stream, out(loss, rows), out(log_sum, rows),
           in(sum, rows), in(picked, rows), in(mass, rows), rows);
}

#define INSTANTIATE(T)                                                                                                 \
  template void cross_entropy<T>(Stream, Wide<T> *, Wide<T> *, Wide<T> *, const T *, const int32_t *, int64_t,         \
                                 int64_t, int64_t);                                                                    \
  template void cross_entropy_target<T>(Stream, Wide<T> *, Wide<T> *, Wide<T> *, Wide<T> *, const T *, const T *,      \
                                        int64_t, int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE
#define INSTANTIATE(T)                                                                                                 \
  template void cross_entropy_local<T>(Stream, T *, T *, const T *, const T *, const int32_t *, int64_t, int64_t,      \
                                       int32_t);                                                                       \
  template void cross_entropy_finish<T>(Stream, T *, T *, const T *, const T *, int64_t);                              \
  template void cross_entropy_target_local<T>(Stream, T *, T *, T *, const T *, const T *, const T *, int64_t,         \
                                              int64_t);                                                                \
  template void cross_entropy_target_finish<T>(Stream, T *, T *, const T *, const T *, const T *, int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::cuda
