// A thread makes one Philox block, four numbers, of a row of neighbouring logical indices; where a row's elements lie
// apart, one number.
#include "runtime/cuda/Random.h"
#include "runtime/launch/Fail.h"

#include <cmath>

namespace echelon::cuda {

namespace {

constexpr int kMostAxes = 8;

/// Rows of `length` elements whose logical indices are `stride` apart; where each begins.
struct Rows {
  int64_t count, length;
  uint64_t stride, first;
  uint64_t ofBatch; // what a step of the batch's offset adds to `first`
  int rank;         // of the axes over which there are rows, the last one fastest
  int64_t sizes[kMostAxes];
  uint64_t strides[kMostAxes];
};

struct Numbers {
  uint64_t key; // RandomKey::stream()
  Distribution kind;
  double a, b;
};

/// runtime::random_block.
DEVICE void random_words(uint64_t key, uint64_t step, uint64_t block, uint32_t (&word)[4]) {
  uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32);
  uint32_t c2 = static_cast<uint32_t>(step), c3 = static_cast<uint32_t>(step >> 32);
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  UNROLL for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c0, p1 = static_cast<uint64_t>(0xCD9E8D57u) * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ key0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ key1;
    c3 = static_cast<uint32_t>(p0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  word[0] = c0, word[1] = c1, word[2] = c2, word[3] = c3;
}

/// Sine and cosine of x in [0, 2 pi], to two roundings: the polynomials of fdlibm (k_sin.c, k_cos.c) about the nearest
/// multiple of pi / 2. Those of CUDA are for any x, and for that keep an array in memory.
DEVICE void sine_and_cosine(double x, double &sine, double &cosine) {
  const int quarter = static_cast<int>(x * 0.63661977236758134308 + 0.5);
  const double turns = static_cast<double>(quarter);
  const double r = std::fma(-turns, 6.123233995736766036e-17, std::fma(-turns, 1.57079632679489661923, x)), z = r * r;
  double p = 1.58969099521155010221e-10;
  p = p * z - 2.50507602534068634195e-08;
  p = p * z + 2.75573137070700676789e-06;
  p = p * z - 1.98412698298579493134e-04;
  p = p * z + 8.33333333332248946124e-03;
  const double s = r + r * z * (z * p - 1.66666666666666324348e-01);
  double q = -1.13596475577881948265e-11;
  q = q * z + 2.08757232129817482790e-09;
  q = q * z - 2.75573143513906633035e-07;
  q = q * z + 2.48015872894767294178e-05;
  q = q * z - 1.38888888888741095749e-03;
  q = q * z + 4.16666666666666019037e-02;
  const double half = 0.5 * z, w = 1.0 - half, c = w + ((1.0 - w - half) + z * z * q);
  sine = quarter & 1 ? c : s;
  sine = quarter & 2 ? -sine : sine;
  cosine = quarter & 1 ? s : c;
  cosine = (quarter + 1) & 2 ? -cosine : cosine;
}

/// Box-Muller, as the CPU's.
DEVICE void normal_pair(uint32_t w0, uint32_t w1, double &x, double &y) {
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(w0) + 0.5) * 0x1p-32));
  sine_and_cosine(6.28318530717958647692 * (static_cast<double>(w1) * 0x1p-32), y, x);
  x *= radius;
  y *= radius;
}

/// The values of logical indices 4 * block, … . fma is written out, so that no compiler decides on a rounding.
DEVICE void block_values(const Numbers &numbers, uint64_t step, uint64_t block, double (&value)[4]) {
  uint32_t word[4];
  random_words(numbers.key, step, block, word);
  if (numbers.kind == Distribution::Normal) {
    normal_pair(word[0], word[1], value[0], value[1]);
    normal_pair(word[2], word[3], value[2], value[3]);
    UNROLL for (int i = 0; i < 4; ++i) value[i] = std::fma(numbers.b, value[i], numbers.a);
  } else {
    UNROLL for (int i = 0; i < 4; ++i) {
      const double uniform = static_cast<double>(word[i] >> 8) * 0x1p-24;
      if (numbers.kind == Distribution::Keep)
        value[i] = uniform < numbers.a ? numbers.b : 0.0;
      else
        value[i] = std::fma(numbers.b - numbers.a, uniform, numbers.a);
    }
  }
}

DEVICE uint64_t row_begin(const Rows &rows, int64_t row, const int64_t *batchOffset) {
  uint64_t index = rows.first;
  if (batchOffset)
    index += static_cast<uint64_t>(*batchOffset) * rows.ofBatch;
  for (int i = rows.rank - 1; i >= 0; --i) {
    index += static_cast<uint64_t>(row % rows.sizes[i]) * rows.strides[i];
    row /= rows.sizes[i];
  }
  return index;
}

/// Of rows with stride 1: a row may begin and end within a block, so it touches up to `blocks`.
template <typename T>
__global__ void fill_rows(T *dst, const uint64_t *step, const int64_t *batchOffset, Numbers numbers, Rows rows,
                          int64_t blocks) {
  if (element() < rows.count * blocks) {
    const int64_t row = element() / blocks;
    const uint64_t first = row_begin(rows, row, batchOffset);
    const uint64_t block = (first >> 2) + static_cast<uint64_t>(element() % blocks);
    double value[4];
    block_values(numbers, step ? *step : 0, block, value);
    UNROLL for (int i = 0; i < 4; ++i) {
      const int64_t at = static_cast<int64_t>(4 * block + static_cast<uint64_t>(i) - first); // below 0: before the row
      if (at >= 0 && at < rows.length)
        dst[row * rows.length + at] = static_cast<T>(value[i]);
    }
  }
}

template <typename T>
__global__ void fill_apart(T *dst, const uint64_t *step, const int64_t *batchOffset, Numbers numbers, Rows rows) {
  if (element() < rows.count * rows.length) {
    const uint64_t index = row_begin(rows, element() / rows.length, batchOffset) +
                           static_cast<uint64_t>(element() % rows.length) * rows.stride;
    double value[4];
    block_values(numbers, step ? *step : 0, index >> 2, value);
    const double low = index & 1 ? value[1] : value[0], high = index & 1 ? value[3] : value[2];
    dst[element()] = static_cast<T>(index & 2 ? high : low);
  }
}

} // namespace

template <typename T>
void fill_random(Stream stream, T *dst, const uint64_t *step, uint64_t seed, uint64_t path, Distribution kind, double a,
                 double b, const SliceAxis *axes, int rank, const int64_t *batchOffset) {
  if (rank > kMostAxes)
    runtime::fail("random numbers over more than 8 axes");
  Rows rows = {1, 1, 1, 0, 0, 0, {}, {}};
  for (int i = 0; i < rank; ++i) {
    if (axes[i].size <= 0)
      return;
    rows.first += static_cast<uint64_t>(axes[i].offset) * static_cast<uint64_t>(axes[i].stride);
    if (axes[i].fromBatch)
      rows.ofBatch += static_cast<uint64_t>(axes[i].stride);
  }
  if (rank > 0) {
    // Trailing axes that are whole, and so contiguous in the logical index, make one row.
    int last = rank - 1;
    rows.length = axes[last].size;
    rows.stride = static_cast<uint64_t>(axes[last].stride);
    while (last > 0 && axes[last - 1].stride == axes[rank - 1].stride * rows.length)
      rows.length *= axes[--last].size;
    rows.rank = last;
    for (int i = 0; i < last; ++i) {
      rows.count *= axes[i].size;
      rows.sizes[i] = axes[i].size;
      rows.strides[i] = static_cast<uint64_t>(axes[i].stride);
    }
  }
  const Numbers numbers = {runtime::RandomKey{seed, path, 0}.stream(), kind, a, b};
  const int64_t n = rows.count * rows.length;
  const Arg<const uint64_t> stepRead = in(step, step ? 1 : 0);
  const Arg<const int64_t> offsetRead = in(batchOffset, batchOffset ? 1 : 0);
  if (rows.stride == 1) {
    const int64_t blocks = (rows.length + 6) / 4;
    launch("fill_random", fill_rows<T>, cover(rows.count * blocks), stream, out(dst, n), stepRead, offsetRead, numbers,
           rows, blocks);
  } else {
    launch("fill_random", fill_apart<T>, cover(n), stream, out(dst, n), stepRead, offsetRead, numbers, rows);
  }
}

#define INSTANTIATE(T)                                                                                                 \
  template void fill_random<T>(Stream, T *, const uint64_t *, uint64_t, uint64_t, Distribution, double, double,        \
                               const SliceAxis *, int, const int64_t *);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::cuda
