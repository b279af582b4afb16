// c goes through registers in tiles of 6 x 16: a panel of 6 rows of a by a strip of 16 columns of b. Panels and strips
// are packed, so that a tile reads both in one stream: of one operand a block at a time that stays in the L2 cache, of
// the other one panel or strip at a time in the L1 cache. While tiles run they ask for the cache lines of what is
// packed next.
#include "runtime/kernels/cpu/GemmTiled.h"
#include "runtime/kernels/cpu/Prefetch.h"
#include "runtime/kernels/cpu/TransposeBlock.h"
#include <algorithm>

namespace echelon::runtime {
namespace {

using Prefetch = detail::Prefetch<float>;
using detail::Vector;
using detail::Whole;

constexpr int64_t kLanes = detail::Lanes<float>::width;
constexpr int64_t kPanel = 6;          // rows: 6 x 2 vectors of sums, 2 of b and 1 of a are 15 of 16 registers
constexpr int64_t kStrip = 2 * kLanes; // columns
constexpr int64_t kDepth = 256;        // most of a block along k, so that a strip of b has 16 KiB; but
constexpr int64_t kWhole = 384;        // up to here k is not divided
constexpr int64_t kBlock = 264 * 256;  // most of a packed block: 264 KiB
constexpr int64_t kFewColumns = 256;   // of b, that a block holds them all
constexpr int64_t kGap = kLanes;       // floats after each packed panel: the last store reaches two of them

/// n cut into equal parts of at most `most`: their size, in multiples of `unit` (a divisor of `most`).
int64_t evenly(int64_t n, int64_t most, int64_t unit) {
  const int64_t parts = (n + most - 1) / most;
  return ((n + parts - 1) / parts + unit - 1) / unit * unit;
}

/// Rows of the panel that begins with `left` rows to go: 6, but of the last two panels nearly the same.
int64_t panelRows(int64_t left) { return left <= kPanel ? left : left < 2 * kPanel ? (left + 1) / 2 : kPanel; }

// ---- a tile ----

/// c: (rows, 16), rows ldc apart, = alpha * a * b + beta * c. a: (rows, k), `packed` with columns 6 apart; b: (k, 16),
/// packed, or if it `keeps` with rows `step` apart, which are then packed into `strip` on the way.
template <int rows, bool packed, bool keeps>
void tile(float *c, int64_t ldc, MatrixView a, const float *b, int64_t step, int64_t k, float alpha, float beta,
          float *strip) {
  Vector<float> sums[rows][2];
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {
    sums[r][0] = sums[r][1] = Vector<float>{};
    __builtin_prefetch(c + r * ldc, 1);
    __builtin_prefetch(c + r * ldc + kStrip - 1, 1);
  }
  const int64_t row = packed ? 1 : a.row, col = packed ? kPanel : a.col, down = keeps ? step : kStrip;
#pragma GCC unroll 4
  for (int64_t l = 0; l < k; ++l) {
    const Vector<float> left = Whole().load(b), right = Whole().load(b + kLanes);
    if (keeps) {
      Whole().store(strip + l * kStrip, left);
      Whole().store(strip + l * kStrip + kLanes, right);
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
      const float x = a.at[r * row];
      sums[r][0] += x * left;
      sums[r][1] += x * right;
    }
    a.at += col;
    b += down;
  }
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {
    Vector<float> left = alpha * sums[r][0], right = alpha * sums[r][1];
    if (beta != 0) {
      left += beta * Whole().load(c);
      right += beta * Whole().load(c + kLanes);
    }
    Whole().store(c, left);
    Whole().store(c + kLanes, right);
    c += ldc;
  }
}

using Tile = void (*)(float *, int64_t, MatrixView, const float *, int64_t, int64_t, float, float, float *);
/// By the number of rows.
template <bool packed, bool keeps>
constexpr Tile kTiles[] = {nullptr,
                           tile<1, packed, keeps>,
                           tile<2, packed, keeps>,
                           tile<3, packed, keeps>,
                           tile<4, packed, keeps>,
                           tile<5, packed, keeps>,
                           tile<6, packed, keeps>};

// ---- packing ----

/// b: (k, width) to `strip`: (k, 16), with zeros beyond width.
void packStrip(float *strip, MatrixView b, int64_t k, int64_t width) {
  int64_t l = 0;
  if (width == kStrip && b.col == 1)
    for (; l < k; ++l)
      for (int64_t half = 0; half < kStrip; half += kLanes)
        Whole().store(strip + l * kStrip + half, Whole().load(b.at + l * b.row + half));
  else if (width == kStrip)
    for (; l + kLanes <= k; l += kLanes)
      for (int64_t half = 0; half < kStrip; half += kLanes)
        detail::transpose_block<false>(strip + l * kStrip + half, kStrip, b.at + l + half * b.col, b.col);
  for (; l < k; ++l)
    for (int64_t j = 0; j < kStrip; ++j)
      strip[l * kStrip + j] = j < width ? b.at[l * b.row + j * b.col] : 0;
}

/// Columns `l` to `end` of `rows` rows of a to `panel`: (end, 6); `left` >= rows: of the rows from here on, those that
/// a has. Vectors are stored whole: each over the end of the one before.
void packPanel(float *panel, MatrixView a, int64_t rows, int64_t left, int64_t l, int64_t end) {
  if (a.row == 1 && left >= kLanes)
    for (; l < end; ++l)
      Whole().store(panel + l * kPanel, Whole().load(a.at + l * a.col));
  else if (a.col == 1 && left >= kLanes)
    for (; l + kLanes <= end; l += kLanes)
      detail::transpose_block<false>(panel + l * kPanel, kPanel, a.at + l, a.row);
  for (; l < end; ++l)
    for (int64_t r = 0; r < rows; ++r)
      panel[l * kPanel + r] = a.at[r * a.row + l * a.col];
}

/// a: (rows, k), of which `left` >= rows rows follow, to panels. Where a is read down its columns, some of them for all
/// panels at a time: they lie in the same cache lines.
void packPanels(float *panels, MatrixView a, int64_t rows, int64_t left, int64_t k) {
  const bool down = a.row == 1;
  const int64_t step = down ? Prefetch::kLine / 2 : k; // more at far places would drive each other out of the L1 cache
  for (int64_t l = 0; l < k; l += step) {
    const int64_t end = std::min(k, l + step), ahead = std::min(k, end + step);
    for (int64_t column = end; column < ahead; ++column)
      for (int64_t i = 0; i < rows; i += Prefetch::kLine)
        __builtin_prefetch(a.at + column * a.col + i);
    float *panel = panels;
    for (int64_t i = 0, high; i < rows; i += high, panel += kPanel * k + kGap) {
      high = panelRows(rows - i);
      for (int64_t r = i + high; !down && r < std::min(rows, i + high + kPanel); ++r)
        for (int64_t column = 0; column < k; column += Prefetch::kLine)
          __builtin_prefetch(a.at + r * a.row + column);
      packPanel(panel, {a.at + i * a.row, a.row, a.col}, high, left - i, l, end);
    }
  }
}

// ---- a product ----

struct Scratch {
  alignas(64) float block[kBlock + kBlock / kPanel / kLanes * kGap], one[kWhole * kStrip], edge[kPanel * kStrip];
};

struct Product {
  float *c;
  int64_t ldc;
  MatrixView a, b;
  int64_t m, n, k;
  float alpha, beta;
  int64_t depth; // of a block along k
  Scratch &scratch;

  MatrixView partOfA(int64_t i, int64_t l) const { return {a.at + i * a.row + l * a.col, a.row, a.col}; }
  MatrixView partOfB(int64_t l, int64_t j) const { return {b.at + l * b.row + j * b.col, b.row, b.col}; }
  /// What becomes of c when the block along k that begins at l is added.
  float betaAt(int64_t l) const { return l == 0 ? beta : 1; }

  /// The tile of c at (i, j), over `deep` of k.
  template <bool packed, bool keeps>
  void tileAt(int64_t i, int64_t rows, int64_t j, MatrixView panel, const float *strip, int64_t step, int64_t deep,
              float beta, float *kept = nullptr) const {
    const int64_t width = std::min(kStrip, n - j);
    float *to = c + i * ldc + j;
    if (width == kStrip)
      return kTiles<packed, keeps>[rows](to, ldc, panel, strip, step, deep, alpha, beta, kept);
    kTiles<packed, keeps>[rows](scratch.edge, kStrip, panel, strip, step, deep, alpha, 0, kept);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t x = 0; x < width; ++x)
        to[r * ldc + x] = scratch.edge[r * kStrip + x] + (beta == 0 ? 0 : beta * to[r * ldc + x]);
  }
  void throughBlocksOfA() const;
  void blockOfA(int64_t i0, int64_t high, int64_t l0, int64_t deep) const;
  void throughBlocksOfB() const;
};

/// c += the block of `high` rows of a at (i0, l0), packed, times its rows of b.
void Product::blockOfA(int64_t i0, int64_t high, int64_t l0, int64_t deep) const {
  const int64_t panels = (high + kPanel - 1) / kPanel;
  for (int64_t j = 0; j < n; j += kStrip) {
    const MatrixView strip = partOfB(l0, j);
    const bool plain = b.col == 1 && j + kStrip <= n; // the first tile packs it on the way
    if (!plain)
      packStrip(scratch.one, strip, deep, std::min(kStrip, n - j));
    const int64_t nextWidth = std::clamp<int64_t>(n - j - kStrip, 0, kStrip);
    const float *next = strip.at + kStrip * b.col;
    Prefetch ahead = b.col == 1 ? Prefetch(next, nextWidth ? deep : 0, b.row, kStrip, panels)
                                : Prefetch(next, nextWidth, b.col, deep, panels);
    const float *at = scratch.block;
    for (int64_t i = 0, rows; i < high; i += rows, at += kPanel * deep + kGap) {
      rows = panelRows(high - i);
      ahead.some();
      const MatrixView panel{at, 1, kPanel};
      if (plain && i == 0)
        tileAt<true, true>(i0, rows, j, panel, strip.at, strip.row, deep, betaAt(l0), scratch.one);
      else
        tileAt<true, false>(i0 + i, rows, j, panel, scratch.one, kStrip, deep, betaAt(l0));
    }
  }
}

void Product::throughBlocksOfA() const {
  const int64_t height = evenly(m, kBlock / depth / kPanel * kPanel, kPanel);
  for (int64_t l = 0; l < k; l += depth)
    for (int64_t i = 0; i < m; i += height) {
      const int64_t high = std::min(height, m - i), deep = std::min(depth, k - l);
      packPanels(scratch.block, partOfA(i, l), high, m - i, deep);
      blockOfA(i, high, l, deep);
    }
}

/// For many rows of a that lie in memory as they are, and few columns: a block holds all columns of b, and a's rows are
/// read where they lie.
void Product::throughBlocksOfB() const {
  const int64_t columns = evenly(n, n, kStrip);
  const int64_t most = std::max(depth, kBlock / columns / depth * depth); // of k, in a block
  for (int64_t from = 0; from < k; from += most) {
    const int64_t to = std::min(k, from + most);
    for (int64_t l = from; l < to; l += depth)
      for (int64_t j = 0; j < n; j += kStrip) {
        const int64_t deep = std::min(depth, to - l);
        packStrip(scratch.block + (l - from) * columns + j * deep, partOfB(l, j), deep, std::min(kStrip, n - j));
      }
    for (int64_t i = 0, rows; i < m; i += rows) {
      rows = panelRows(m - i);
      for (int64_t l = from; l < to; l += depth) {
        const int64_t deep = std::min(depth, to - l);
        Prefetch ahead(partOfA(i + rows, l).at, std::min(kPanel, m - i - rows), a.row, deep, columns / kStrip);
        for (int64_t j = 0; j < n; j += kStrip) {
          ahead.some();
          tileAt<false, false>(i, rows, j, partOfA(i, l), scratch.block + (l - from) * columns + j * deep, kStrip, deep,
                               betaAt(l));
        }
      }
    }
  }
}

} // namespace

void gemm_tiled(float *c, int64_t ldc, MatrixView a, MatrixView b, int64_t m, int64_t n, int64_t k, float alpha,
                float beta) {
  static thread_local Scratch scratch;
  const Product product{c, ldc, a, b, m, n, k, alpha, beta, evenly(k, k <= kWhole ? kWhole : kDepth, kLanes), scratch};
  if (a.col == 1 && m > n && n <= kFewColumns && kFewColumns * product.depth <= kBlock)
    product.throughBlocksOfB();
  else
    product.throughBlocksOfA();
}

} // namespace echelon::runtime
