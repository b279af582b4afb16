#include "runtime/program/Layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace echelon::runtime {

const char *nameOf(ElementType type) { return namesOf(type).language; }

int meshSize(const std::vector<MeshAxis> &mesh) {
  int size = 1;
  for (const MeshAxis &axis : mesh)
    size *= axis.size;
  return size;
}

std::vector<int> meshCoordinates(const std::vector<MeshAxis> &mesh, int rank) {
  std::vector<int> coordinates(mesh.size());
  for (size_t m = mesh.size(); m-- > 0;) {
    coordinates[m] = rank % mesh[m].size;
    rank /= mesh[m].size;
  }
  return coordinates;
}

Piece pieceOf(const Layout &layout, const std::vector<MeshAxis> &mesh, const std::vector<int> &coordinates) {
  Piece piece;
  int64_t slices = 1;
  for (const AxisPiece &axis : layout.axes) {
    if (piece.size.size() == layout.aboveFlat)
      slices = std::exchange(piece.count, 1);
    std::vector<Divider> dividers;
    int64_t size = axis.padded ? axis.padded : axis.size;
    for (size_t i = 0; i < axis.over.size(); ++i)
      dividers.push_back(
          {axis.over[i], mesh[size_t(axis.over[i])].size, i < axis.maps.size() ? axis.maps[i] : OwnerMap()});
    piece.runs.push_back(runsOf(size, dividers, coordinates));
    for (const Divider &divider : dividers)
      size /= divider.size;
    piece.size.push_back(size);
    piece.count *= size;
  }
  for (int m : layout.flatCuts) {
    const int64_t parts = mesh[size_t(m)].size;
    piece.count = (piece.count + parts - 1) / parts;
    piece.flatOffset += piece.count * coordinates[size_t(m)];
  }
  piece.count *= slices;
  return piece;
}

int64_t localCount(const Layout &layout, const std::vector<MeshAxis> &mesh) {
  return pieceOf(layout, mesh, std::vector<int>(mesh.size(), 0)).count;
}

int64_t logicalCount(const Layout &layout) {
  int64_t count = 1;
  for (const AxisPiece &axis : layout.axes)
    count *= axis.size;
  return count;
}

std::vector<int64_t> logicalSizes(const Layout &layout, const std::vector<std::string> &declared) {
  std::vector<int64_t> sizes;
  for (const std::string &name : declared)
    for (const AxisPiece &axis : layout.axes)
      if (axis.name == name)
        sizes.push_back(axis.size);
  return sizes;
}

bool writesPiece(const Layout &layout, const std::vector<MeshAxis> &mesh, const std::vector<int> &coordinates) {
  for (size_t m = 0; m < mesh.size(); ++m) {
    bool divides = std::count(layout.flatCuts.begin(), layout.flatCuts.end(), int(m)) > 0;
    for (const AxisPiece &axis : layout.axes)
      divides |= std::count(axis.over.begin(), axis.over.end(), int(m)) > 0;
    if (!divides && coordinates[m] != 0)
      return false;
  }
  return true;
}

namespace {
/// One axis of what a rank holds, or several that lie as one.
struct Extent {
  /// Elements local, local + 1, ... in storage are at position, position + 1, ...
  struct Stretch {
    int64_t local, position, count;
  };
  int64_t size, stride;           // in storage; of the logical index
  std::vector<Stretch> stretches; // without padding

  /// Adds to `logical` where an element is; whether it is no padding.
  bool isReal(int64_t at, int64_t &logical) const {
    for (const Stretch &stretch : stretches)
      if (at >= stretch.local && at < stretch.local + stretch.count) {
        logical += (stretch.position + at - stretch.local) * stride;
        return true;
      }
    return false;
  }
  /// Makes an axis that is held whole the faster part of this one.
  void append(int64_t count, int64_t strideOfFaster) {
    for (Stretch &stretch : stretches)
      stretch = {stretch.local * count, stretch.position * count, stretch.count * count};
    size *= count;
    stride = strideOfFaster;
  }
};

/// The same of the first of several axes, of the element `at` over all of these.
bool isReal(const std::vector<Extent> &extents, size_t axes, int64_t at, int64_t &logical) {
  bool real = true;
  for (size_t i = axes; i-- > 0; at /= extents[i].size)
    real &= extents[i].isReal(at % extents[i].size, logical);
  return real;
}

int64_t countOf(const std::vector<Extent> &extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t(1),
                         [](int64_t n, const Extent &extent) { return n * extent.size; });
}

Extent extentOf(const std::vector<Interval> &runs, int64_t logicalSize, int64_t stride) {
  Extent extent = {0, stride, {}};
  for (const Interval &run : runs) {
    if (const int64_t end = std::min(run.end, logicalSize); run.begin < end)
      extent.stretches.push_back({extent.size, run.begin, end - run.begin});
    extent.size += run.end - run.begin;
  }
  return extent;
}
} // namespace

void forEachRun(const Layout &layout, const std::vector<std::string> &declared, const std::vector<MeshAxis> &mesh,
                const std::vector<int> &coordinates, const std::function<void(const Run &)> &visit) {
  const Piece piece = pieceOf(layout, mesh, coordinates);
  const std::vector<int64_t> sizes = logicalSizes(layout, declared);
  std::vector<Extent> above, box; // axes that flat cuts leave alone; the others
  for (size_t i = 0; i < layout.axes.size(); ++i) {
    int64_t stride = 1;
    for (size_t j = declared.size(); j-- > 0 && declared[j] != layout.axes[i].name;)
      stride *= sizes[j];
    const Extent extent = extentOf(piece.runs[i], layout.axes[i].size, stride);
    std::vector<Extent> &extents = i < layout.aboveFlat ? above : box;
    // An axis that is held whole continues the one before it, where the logical index does.
    if (!extents.empty() && extent.stretches.size() == 1 && extent.stretches[0].count == extent.size &&
        extents.back().stride == stride * extent.size)
      extents.back().append(extent.size, stride);
    else
      extents.push_back(extent);
  }
  if (box.empty())
    box.push_back({1, 1, {{0, 0, 1}}});
  // What is left of a slice after flat cuts; nested cuts may reach beyond the piece they cut, so each bounds the end.
  int64_t begin = 0, end = countOf(box), length = end;
  for (int m : layout.flatCuts) {
    const int64_t parts = mesh[size_t(m)].size;
    length = (length + parts - 1) / parts;
    begin += length * coordinates[size_t(m)];
    end = std::min(end, begin + length);
  }
  const Extent row = box.back();
  for (int64_t slice = 0, slices = countOf(above); slice < slices; ++slice) {
    int64_t first = 0;
    if (!isReal(above, above.size(), slice, first))
      continue;
    for (int64_t at = begin; at < end;) {
      const int64_t from = at % row.size, to = std::min(row.size, from + end - at);
      int64_t logical = first;
      if (isReal(box, box.size() - 1, at / row.size, logical))
        for (const Extent::Stretch &stretch : row.stretches) {
          const int64_t low = std::max(from, stretch.local), high = std::min(to, stretch.local + stretch.count);
          if (low < high)
            visit({slice * length + at - begin + low - from,
                   logical + (stretch.position + low - stretch.local) * row.stride, row.stride, high - low});
        }
      at += to - from;
    }
  }
}

} // namespace echelon::runtime
