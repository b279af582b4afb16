#include "runtime/program/Layout.h"

#include <algorithm>

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
  for (const AxisPiece &axis : layout.axes) {
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
  std::vector<Extent> box;
  int64_t corner = 0, end = 1; // logical index of the box's first element; elements of the box
  for (size_t i = 0; i < layout.axes.size(); ++i) {
    Extent extent = {piece.size[i], std::clamp<int64_t>(layout.axes[i].size - piece.offset[i], 0, piece.size[i]), 1};
    for (size_t j = declared.size(); j-- > 0 && declared[j] != layout.axes[i].name;)
      extent.stride *= sizes[j];
    corner += piece.offset[i] * extent.stride;
    end *= extent.size;
    // An axis that is held whole continues the one before it, where the logical index does.
    if (!box.empty() && extent.valid == extent.size && box.back().stride == extent.stride * extent.size)
      box.back() = {box.back().size * extent.size, box.back().valid * extent.size, extent.stride};
    else
      box.push_back(extent);
  }
  if (box.empty())
    box.push_back({1, 1, 1});
  // What is left of the box after flat cuts; nested cuts may reach beyond the piece they cut, so each bounds the end.
  int64_t begin = 0, length = end;
  for (int m : layout.flatCuts) {
    const int64_t parts = mesh[size_t(m)].size;
    length = (length + parts - 1) / parts;
    begin += length * coordinates[size_t(m)];
    end = std::min(end, begin + length);
  }
  const Extent row = box.back();
  for (int64_t at = begin; at < end;) {
    const int64_t first = at % row.size, last = std::min(row.size, first + end - at);
    int64_t logical = corner, rest = at / row.size;
    bool real = true;
    for (size_t i = box.size() - 1; i-- > 0;) {
      const int64_t k = rest % box[i].size;
      real &= k < box[i].valid;
      logical += k * box[i].stride;
      rest /= box[i].size;
    }
    const int64_t stop = std::min(last, row.valid);
    if (real && first < stop)
      visit({at - begin, logical + first * row.stride, row.stride, stop - first});
    at += last - first;
  }
}

} // namespace echelon::runtime
