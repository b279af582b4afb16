// Convolutions with 3 x 3 windows by Winograd's products: 16 of them give the 2 x 2 results of a tile, that have 36.
//   results = A^T [(B^T source B) * (G weights G^T)] A,  summed over channels between the brackets
//   weights' derivative = G^T [sum over tiles of (B^T source B) * (A dy A^T)] G
// For each of the 16 places in a tile that sum is a matrix product, of tiles by channels. Vectors hold channels: images
// are brought from planes to pixels and back. A group of tiles passes through all steps while it is in the second
// cache.
//
// It is here since no library has it: oneDNN 2.6 only with AVX-512. Rounding is that of three more additions a factor,
// of four terms each at most; results hang on no other tile.
//
// Source: Lavin, Gray 2016, Fast Algorithms for Convolutional Neural Networks: F(2 x 2, 3 x 3).
#include "runtime/kernels/cpu/ConvWinograd.h"
#include "runtime/kernels/cpu/ConvMemory.h"
#include "runtime/kernels/cpu/Prefetch.h"
#include "runtime/kernels/cpu/TransposeBlock.h"
#include <algorithm>

namespace echelon::runtime::detail {
namespace {

template <typename T> constexpr int64_t kLanes = Lanes<T>::width;
template <typename T> inline Vector<T> load(const T *p) { return Whole().load(p); }
template <typename T> inline void store(T *p, Vector<T> v) { Whole().store(p, v); }

//===-- products -------------------------------------------------------------------------------------------------===//

constexpr int64_t kHigh = 6; // rows of a tile of sums in registers; its columns are two vectors

/// c: (m, n), rows n apart, = a * b, or with `add` += it. n is whole vectors.
template <typename T> struct Factors {
  int64_t m, n, k;
  int64_t aRow, aColumn;
  int64_t bRow, bPanel; // of b, panels of two vectors of columns; bRow = 0: packed, one after the other
};

template <typename T, int rows, int vectors, bool add>
void sums(T *c, const T *a, const T *b, int64_t bRow, const Factors<T> &f) {
  Vector<T> sum[rows][vectors] = {};
#pragma GCC unroll 4
  for (int64_t k = 0; k < f.k; ++k, a += f.aColumn, b += bRow) {
    Vector<T> right[vectors];
    for (int v = 0; v < vectors; ++v)
      right[v] = load(b + v * kLanes<T>);
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
      const T left = a[r * f.aRow];
      for (int v = 0; v < vectors; ++v)
        sum[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r, c += f.n)
    for (int v = 0; v < vectors; ++v)
      store(c + v * kLanes<T>, add ? load(c + v * kLanes<T>) + sum[r][v] : sum[r][v]);
}

/// By the number of rows.
template <typename T, int vectors, bool add>
constexpr void (*kSums[])(T *, const T *, const T *, int64_t, const Factors<T> &) = {nullptr,
                                                                                     sums<T, 1, vectors, add>,
                                                                                     sums<T, 2, vectors, add>,
                                                                                     sums<T, 3, vectors, add>,
                                                                                     sums<T, 4, vectors, add>,
                                                                                     sums<T, 5, vectors, add>,
                                                                                     sums<T, 6, vectors, add>};

template <bool add, typename T>
void product(T *c, const T *a, const T *b, const Factors<T> &f, Prefetch<T> &ahead, int64_t lines) {
  constexpr int64_t panel = 2 * kLanes<T>;
  for (int64_t j = 0; j < f.n; j += panel, b += f.bPanel) {
    const int64_t width = std::min(panel, f.n - j);
    const auto &table = width == panel ? kSums<T, 2, add> : kSums<T, 1, add>;
    for (int64_t i = 0, rows; i < f.m; i += rows) {
      const int64_t left = f.m - i;
      rows = left <= kHigh ? left : left < 2 * kHigh ? (left + 1) / 2 : kHigh;
      ahead.some(lines);
      table[rows](c + i * f.n + j, a + i * f.aRow, b, f.bRow ? f.bRow : width, f);
    }
  }
}

//===-- planes and pixels ----------------------------------------------------------------------------------------===//

/// to[i * toStep + j] = from[j * fromStep + i] for i < rows, j < columns: neighbours of each plane to pixels, or back.
template <typename T>
void transpose(T *to, int64_t toStep, const T *from, int64_t fromStep, int64_t rows, int64_t columns) {
  int64_t j = 0;
  for (; j + 8 <= columns; j += 8) {
    int64_t i = 0;
    for (; i + 8 <= rows; i += 8)
      transpose_block<false>(to + i * toStep + j, toStep, from + j * fromStep + i, fromStep);
    for (; i < rows; ++i)
      for (int l = 0; l < 8; ++l)
        to[i * toStep + j + l] = from[(j + l) * fromStep + i];
  }
  for (; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i)
      to[i * toStep + j] = from[j * fromStep + i];
}

//===-- transforms -----------------------------------------------------------------------------------------------===//

/// B^T source B of a row of tiles. frame: its four rows of pixels, between zeros.
template <typename T> void transformSource(T *to, const T *frame, const WinogradShape &s) {
  const int64_t row = s.frameRow(), pixel = s.sourceWidth, plane = s.sourcePlane();
  for (int64_t tile = 0; tile < s.columns.tiles; ++tile, frame += 2 * pixel, to += pixel)
    for (int64_t c = 0; c < pixel; c += kLanes<T>) {
      auto in = [&](int64_t i, int64_t j) { return load(frame + i * row + j * pixel + c); };
      auto across = [&](int64_t i, const Vector<T>(&v)[4]) {
        T *out = to + 4 * i * plane + c;
        store(out, v[0] - v[2]), store(out + plane, v[1] + v[2]);
        store(out + 2 * plane, v[2] - v[1]), store(out + 3 * plane, v[1] - v[3]);
      };
      Vector<T> upper[4], lower[4], v[4];
      for (int j = 0; j < 4; ++j)
        upper[j] = in(1, j), lower[j] = in(2, j);
      for (int j = 0; j < 4; ++j)
        v[j] = in(0, j) - lower[j];
      across(0, v);
      for (int j = 0; j < 4; ++j)
        v[j] = upper[j] + lower[j];
      across(1, v);
      for (int j = 0; j < 4; ++j)
        v[j] = lower[j] - upper[j];
      across(2, v);
      for (int j = 0; j < 4; ++j)
        v[j] = upper[j] - in(3, j);
      across(3, v);
    }
}

/// A dy A^T of a row of tiles, from two rows of pixels.
template <typename T> void transformOther(T *to, const T *strip, const WinogradShape &s) {
  const int64_t pixel = s.otherWidth, row = 2 * s.columns.tiles * pixel, plane = s.otherPlane();
  for (int64_t tile = 0; tile < s.columns.tiles; ++tile, strip += 2 * pixel, to += pixel)
    for (int64_t c = 0; c < pixel; c += kLanes<T>) {
      auto across = [&](int64_t i, Vector<T> a, Vector<T> b) {
        T *out = to + 4 * i * plane + c;
        store(out, a), store(out + plane, a + b), store(out + 2 * plane, a - b), store(out + 3 * plane, -b);
      };
      const Vector<T> a = load(strip + c), b = load(strip + pixel + c), d = load(strip + row + c),
                      e = load(strip + row + pixel + c);
      across(0, a, b), across(1, a + d, b + e), across(2, a - d, b - e), across(3, -d, -e);
    }
}

/// A^T products A of a row of tiles, to two rows of pixels.
template <typename T> void transformResult(T *strip, const T *from, const WinogradShape &s) {
  const int64_t pixel = s.otherWidth, row = 2 * s.columns.tiles * pixel, plane = s.otherPlane();
  for (int64_t tile = 0; tile < s.columns.tiles; ++tile, strip += 2 * pixel, from += pixel)
    for (int64_t c = 0; c < pixel; c += kLanes<T>) {
      Vector<T> upper[4], lower[4];
      for (int j = 0; j < 4; ++j) {
        auto in = [&](int64_t i) { return load(from + (4 * i + j) * plane + c); };
        const Vector<T> one = in(1), two = in(2);
        upper[j] = in(0) + one + two, lower[j] = one - two - in(3);
      }
      store(strip + c, upper[0] + upper[1] + upper[2]);
      store(strip + pixel + c, upper[1] - upper[2] - upper[3]);
      store(strip + row + c, lower[0] + lower[1] + lower[2]);
      store(strip + row + pixel + c, lower[1] - lower[2] - lower[3]);
    }
}

/// G weights G^T, packed as product() reads it: (source, other) in panels. Those of the derivative by x are turned
/// round.
template <typename T> void transformWeights(T *to, const T *w, bool back, const WinogradShape &s) {
  const int64_t perSource = back ? s.others * 9 : 9, perOther = back ? 9 : s.sources * 9, plane = s.weightPlane();
  for (int64_t j = 0; j < s.otherWidth; j += kLanes<T>) {
    const int64_t panel = j / (2 * kLanes<T>)*2 * kLanes<T>, width = std::min(2 * kLanes<T>, s.otherWidth - panel);
    for (int64_t c = 0; c < s.sources; ++c) {
      Vector<T> g[9] = {}, columns[4][3];
      for (int64_t l = 0; l < std::min(kLanes<T>, s.others - j); ++l)
        for (int e = 0; e < 9; ++e)
          g[e][l] = w[c * perSource + (j + l) * perOther + (back ? 8 - e : e)];
      for (int e = 0; e < 3; ++e) {
        const Vector<T> outer = T(0.5) * (g[e] + g[6 + e]), inner = T(0.5) * g[3 + e];
        columns[0][e] = g[e], columns[1][e] = outer + inner, columns[2][e] = outer - inner, columns[3][e] = g[6 + e];
      }
      T *out = to + panel * s.sources + c * width + j - panel;
      for (int i = 0; i < 4; ++i, out += 4 * plane) {
        const Vector<T> outer = T(0.5) * (columns[i][0] + columns[i][2]), inner = T(0.5) * columns[i][1];
        store(out, columns[i][0]), store(out + plane, outer + inner);
        store(out + 2 * plane, outer - inner), store(out + 3 * plane, columns[i][2]);
      }
    }
  }
}

/// G^T sums G, from planes (other, source).
template <typename T> void transformGradient(T *dw, const T *from, const WinogradShape &s) {
  const int64_t plane = s.weightPlane();
  for (int64_t t = 0; t < s.others; ++t)
    for (int64_t c = 0; c < s.sources; c += kLanes<T>) {
      const T *at = from + t * s.sourceWidth + c;
      Vector<T> rows[3][4], g[9];
      for (int j = 0; j < 4; ++j) {
        auto in = [&](int64_t i) { return load(at + (4 * i + j) * plane); };
        const Vector<T> outer = T(0.5) * (in(1) + in(2));
        rows[0][j] = in(0) + outer, rows[1][j] = T(0.5) * (in(1) - in(2)), rows[2][j] = outer + in(3);
      }
      for (int i = 0; i < 3; ++i) {
        const Vector<T> outer = T(0.5) * (rows[i][1] + rows[i][2]);
        g[3 * i] = rows[i][0] + outer;
        g[3 * i + 1] = T(0.5) * (rows[i][1] - rows[i][2]);
        g[3 * i + 2] = outer + rows[i][3];
      }
      for (int64_t l = 0; l < std::min(kLanes<T>, s.sources - c); ++l)
        for (int e = 0; e < 9; ++e)
          dw[(t * s.sources + c + l) * 9 + e] = g[e][l];
    }
}

//===-- groups of tiles ------------------------------------------------------------------------------------------===//

/// Images from `image` on, rows of tiles from `row` on.
struct Group {
  int64_t image, images, row, rows;
};

template <typename T> class Winograd {
  const WinogradShape s;
  T *frames, *strip, *source, *other, *weights;

  Group groupAt(int64_t image, int64_t row) const {
    return {image, std::clamp<int64_t>(s.batch - image, 0, s.images), row, std::min(s.high, s.rows.tiles - row)};
  }
  /// Calls body(group, the one after it).
  template <typename Body> void overGroups(Body body) {
    for (Group g = groupAt(0, 0), next; g.images > 0; g = next) {
      next = g.row + g.rows < s.rows.tiles ? groupAt(g.image, g.row + g.rows) : groupAt(g.image + g.images, 0);
      body(g, next);
    }
  }
  /// The group's part of the planes read.
  Prefetch<T> readBy(const Group &g, const T *from) const {
    const int64_t plane = s.rows.in * s.columns.in;
    const int64_t begin = std::max<int64_t>(0, 2 * g.row - s.rows.before);
    const int64_t end = std::min(s.rows.in, 2 * (g.row + g.rows) + 2 - s.rows.before);
    return {from + g.image * s.sources * plane + begin * s.columns.in, g.images * s.sources, plane,
            std::max<int64_t>(0, end - begin) * s.columns.in};
  }
  /// Transforms the group's source.
  void take(const T *from, const Group &g) {
    const int64_t plane = s.rows.in * s.columns.in, pixel = s.sourceWidth;
    T *to = source;
    for (int64_t i = 0; i < g.images; ++i) {
      const T *image = from + (g.image + i) * s.sources * plane;
      for (int64_t r = 0; r < 2 * g.rows + 2; ++r) {
        const int64_t at = 2 * g.row + r - s.rows.before;
        T *row = frames + r * s.frameRow();
        if (at >= 0 && at < s.rows.in)
          transpose(row + s.columns.before * pixel, pixel, image + at * s.columns.in, plane, s.columns.in, s.sources);
        else
          std::fill_n(row, s.frameRow(), T(0));
      }
      for (int64_t r = 0; r < g.rows; ++r, to += s.columns.tiles * pixel)
        transformSource(to, frames + 2 * r * s.frameRow(), s);
    }
  }
  /// Calls body(transformed tiles, row of pixels, the images' planes there) for each row of tiles.
  template <typename Pointer, typename Body> void overRows(Pointer images, const Group &g, Body body) {
    T *tiles = other;
    for (int64_t i = 0; i < g.images; ++i)
      for (int64_t r = g.row; r < g.row + g.rows; ++r, tiles += s.columns.tiles * s.otherWidth) {
        const int64_t plane = s.rows.out * s.columns.out;
        body(tiles, std::min<int64_t>(2, s.rows.out - 2 * r),
             images + (g.image + i) * s.others * plane + 2 * r * s.columns.out);
      }
  }
  int64_t tilesOf(const Group &g) const { return g.images * g.rows * s.columns.tiles; }

public:
  Winograd(const WinogradShape &shape, Memory<T> &memory)
      : s(shape), frames(memory.zeros(s.frame())), strip(memory.zeros(s.strip())),
        source(memory.take(kWinogradPlanes * s.sourcePlane())), other(memory.take(kWinogradPlanes * s.otherPlane())),
        weights(memory.take(kWinogradPlanes * s.weightPlane())) {}

  /// y from x, or with `back` dx from dy.
  void results(T *y, const T *x, const T *w, bool back) {
    transformWeights(weights, w, back, s);
    const int64_t pixel = s.otherWidth, row = s.strip() / 2, plane = s.rows.out * s.columns.out;
    overGroups([&](const Group &g, const Group &next) {
      take(x, g);
      const Factors<T> f{tilesOf(g), pixel, s.sources, s.sourceWidth, 1, 0, 2 * kLanes<T> * s.sources};
      Prefetch<T> ahead = readBy(next, x);
      const int64_t lines = ahead.lines() / (kWinogradPlanes * f.m * f.n / (kHigh * 2 * kLanes<T>)+1) + 1;
      for (int64_t e = 0; e < kWinogradPlanes; ++e)
        product<false>(other + e * s.otherPlane(), source + e * s.sourcePlane(), weights + e * s.weightPlane(), f,
                       ahead, lines);
      overRows(y, g, [&](T *tiles, int64_t rows, T *to) {
        transformResult(strip, tiles, s);
        for (int64_t r = 0; r < rows; ++r)
          transpose(to + r * s.columns.out, plane, strip + r * row, pixel, s.others, s.columns.out);
      });
    });
  }
  void gradient(T *dw, const T *x, const T *dy) {
    const int64_t pixel = s.otherWidth, row = s.strip() / 2, plane = s.rows.out * s.columns.out;
    std::fill_n(weights, kWinogradPlanes * s.weightPlane(), T(0));
    overGroups([&](const Group &g, const Group &next) {
      take(x, g);
      overRows(dy, g, [&](T *tiles, int64_t rows, const T *from) {
        for (int64_t r = 0; r < rows; ++r)
          transpose(strip + r * row, pixel, from + r * s.columns.out, plane, s.columns.out, s.others);
        if (rows < 2)
          std::fill_n(strip + row, row, T(0));
        transformOther(tiles, strip, s);
      });
      const Factors<T> f{s.others, s.sourceWidth, tilesOf(g), 1, pixel, s.sourceWidth, 2 * kLanes<T>};
      Prefetch<T> ahead = readBy(next, x);
      const int64_t lines = ahead.lines() / (kWinogradPlanes * f.m * f.n / (kHigh * 2 * kLanes<T>)+1) + 1;
      for (int64_t e = 0; e < kWinogradPlanes; ++e)
        product<true>(weights + e * s.weightPlane(), other + e * s.otherPlane(), source + e * s.sourcePlane(), f, ahead,
                      lines);
    });
    transformGradient(dw, weights, s);
  }
};

} // namespace

template <typename T>
void conv_winograd(ConvKind kind, T *src, T *weights, T *dst, const ConvShape &shape, T *scratch,
                   int64_t scratchCount) {
  Memory<T> memory(scratch, scratchCount);
  Winograd<T> winograd(WinogradShape(kind, shape, kLanes<T>), memory);
  if (kind == ConvKind::forward)
    winograd.results(dst, src, weights, false);
  else if (kind == ConvKind::gradData)
    winograd.results(src, dst, weights, true);
  else
    winograd.gradient(weights, src, dst);
}

template void conv_winograd<float>(ConvKind, float *, float *, float *, const ConvShape &, float *, int64_t);
template void conv_winograd<double>(ConvKind, double *, double *, double *, const ConvShape &, double *, int64_t);

} // namespace echelon::runtime::detail
