// How ConvWinograd.cpp cuts a convolution with 3 x 3 windows and steps of 1 into tiles of 2 x 2 results, each of which
// reads 4 x 4. constexpr: the compiler sizes the scratch memory by it.
#pragma once
#include "runtime/kernels/cpu/ConvFrame.h"

namespace echelon::runtime::detail {

/// Elements of a tile, and what sets their planes apart, so that the caches' sets hold lines of all of them.
constexpr int64_t kWinogradPlanes = 16, kWinogradGap = 16;

constexpr bool winogradFits(const ConvShape &shape) {
  bool fits = shape.rank == 2;
  for (int k = 0; fits && k < 2; ++k) {
    const WindowDim &w = shape.dims[k];
    fits = w.window == 3 && w.stride == 1 && w.padLow <= 2 && w.padHigh <= 2 && w.out() > 0;
  }
  return fits;
}

/// The source is what windows read: x, or dy for the derivative by x. The other is what there is one of for each
/// window: y, dx, or dy for the derivative by the weights. A group of tiles is rows of tiles of one image, or several
/// whole images.
struct WinogradShape {
  struct Dim {
    int64_t in, before, out, tiles; // of the source, zeros before it; of the other, in tiles
  };
  Dim rows = {}, columns = {};
  int64_t sources, others;             // channels
  int64_t sourceWidth, otherWidth;     // of a pixel: whole vectors
  int64_t batch, images = 1, high = 1; // images of a group, rows of tiles of each

  constexpr WinogradShape(ConvKind kind, const ConvShape &s, int64_t lanes)
      : sources(kind == ConvKind::gradData ? s.to : s.from), others(kind == ConvKind::gradData ? s.from : s.to),
        sourceWidth(roundUp(sources, lanes)), otherWidth(roundUp(others, lanes)), batch(s.batch) {
    for (int k = 0; k < 2; ++k) {
      const WindowDim &w = s.dims[k];
      Dim &d = k == 0 ? rows : columns;
      d = kind == ConvKind::gradData ? Dim{w.out(), 2 - w.padLow, w.in, 0} : Dim{w.in, w.padLow, w.out(), 0};
      d.tiles = (d.out + 1) / 2;
    }
    constexpr int64_t kTiles = 96; // of a group: few enough that all its planes stay in the second cache
    high = (kTiles + columns.tiles - 1) / columns.tiles;
    high = high < rows.tiles ? high : rows.tiles;
    images = high == rows.tiles ? kTiles / (high * columns.tiles) : 1;
    images = images < 1 ? 1 : images < batch ? images : (batch < 1 ? 1 : batch);
  }
  constexpr int64_t tiles() const { return images * high * columns.tiles; }
  /// Elements of the source of one image's part of a group.
  constexpr int64_t frameRow() const { return (2 * columns.tiles + 2) * sourceWidth; }
  constexpr int64_t frame() const { return (2 * high + 2) * frameRow(); }
  /// Of the other, of one row of tiles.
  constexpr int64_t strip() const { return 4 * columns.tiles * otherWidth; }
  constexpr int64_t sourcePlane() const { return tiles() * sourceWidth + kWinogradGap; }
  constexpr int64_t otherPlane() const { return tiles() * otherWidth + kWinogradGap; }
  constexpr int64_t weightPlane() const { return sourceWidth * otherWidth; }
  constexpr int64_t scratch() const {
    const int64_t a = frame() + strip(), b = sourcePlane() + otherPlane() + weightPlane();
    return a + kWinogradPlanes * b + 5 * kWinogradGap; // five pieces, each in whole lines
  }
};

} // namespace echelon::runtime::detail
