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
    int64_t place = 0, parts = 1;
    for (int m : axis.over) {
      place = place * mesh[size_t(m)].size + coordinates[size_t(m)];
      parts *= mesh[size_t(m)].size;
    }
    const int64_t size = (axis.padded ? axis.padded : axis.size) / parts;
    piece.offset.push_back(place * size);
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

void forEachRun(const Layout &layout, const std::vector<std::string> &declared, const std::vector<MeshAxis> &mesh,
                const std::vector<int> &coordinates, const std::function<void(const Run &)> &visit) {
  const Piece piece = pieceOf(layout, mesh, coordinates);
  const std::vector<int64_t> sizes = logicalSizes(layout, declared);
  struct Extent {
    int64_t size, valid, stride; // in storage; without padding; of the logical index
  };
  std::vector<Extent> above, box; // axes that flat cuts leave alone; the others
  int64_t corner = 0;             // logical index of the box's first element
  for (size_t i = 0; i < layout.axes.size(); ++i) {
    Extent extent = {piece.size[i], std::clamp<int64_t>(layout.axes[i].size - piece.offset[i], 0, piece.size[i]), 1};
    for (size_t j = declared.size(); j-- > 0 && declared[j] != layout.axes[i].name;)
      extent.stride *= sizes[j];
    corner += piece.offset[i] * extent.stride;
    std::vector<Extent> &extents = i < layout.aboveFlat ? above : box;
    // An axis that is held whole continues the one before it, where the logical index does.
    if (!extents.empty() && extent.valid == extent.size && extents.back().stride == extent.stride * extent.size)
      extents.back() = {extents.back().size * extent.size, extents.back().valid * extent.size, extent.stride};
    else
      extents.push_back(extent);
  }
  if (box.empty())
    box.push_back({1, 1, 1});
  auto countOf = [](const std::vector<Extent> &extents) {
    return std::accumulate(extents.begin(), extents.end(), int64_t(1),
                           [](int64_t n, const Extent &extent) { return n * extent.size; });
  };
  // What is left of a slice after flat cuts; nested cuts may reach beyond the piece they cut, so each bounds the end.
  int64_t begin = 0, end = countOf(box), length = end;
  for (int m : layout.flatCuts) {
    const int64_t parts = mesh[size_t(m)].size;
    length = (length + parts - 1) / parts;
    begin += length * coordinates[size_t(m)];
    end = std::min(end, begin + length);
  }
  // Adds to `logical` where the element `at` of the first `axes` extents is; whether it is no padding.
  auto isReal = [](const std::vector<Extent> &extents, size_t axes, int64_t at, int64_t &logical) {
    bool real = true;
    for (size_t i = axes; i-- > 0;) {
      const int64_t k = at % extents[i].size;
      real &= k < extents[i].valid;
      logical += k * extents[i].stride;
      at /= extents[i].size;
    }
    return real;
  };
  const Extent row = box.back();
  for (int64_t slice = 0, slices = countOf(above); slice < slices; ++slice) {
    int64_t first = corner;
    if (!isReal(above, above.size(), slice, first))
      continue;
    for (int64_t at = begin; at < end;) {
      const int64_t from = at % row.size, to = std::min(row.size, from + end - at), stop = std::min(to, row.valid);
      int64_t logical = first;
      if (isReal(box, box.size() - 1, at / row.size, logical) && from < stop)
        visit({slice * length + at - begin, logical + from * row.stride, row.stride, stop - from});
      at += to - from;
    }
  }
}

} // namespace echelon::runtime
