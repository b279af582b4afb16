#include "runtime/program/Layout.h"

#include <algorithm>

namespace echelon::runtime {

const char *nameOf(ElementType type) {
  switch (type) {
  case ElementType::Float32:
    return "float";
  case ElementType::Float64:
    return "double";
  case ElementType::Int32:
    return "int";
  case ElementType::UInt8:
    return "bool";
  }
  return "?";
}

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
  const size_t rank = layout.axes.size();
  const std::vector<int64_t> sizes = logicalSizes(layout, declared);
  // stride[i]: how far the logical index moves along storage axis i; valid[i]: held extent without padding
  std::vector<int64_t> stride(rank), valid(rank);
  for (size_t i = 0; i < rank; ++i) {
    valid[i] = std::clamp<int64_t>(layout.axes[i].size - piece.offset[i], 0, piece.size[i]);
    stride[i] = 1;
    for (size_t j = declared.size(); j-- > 0 && declared[j] != layout.axes[i].name;)
      stride[i] *= sizes[j];
  }
  int64_t box = 1;
  for (int64_t size : piece.size)
    box *= size;
  // What is left of the box after flat cuts; nested cuts may reach beyond the piece they cut, so each bounds the end.
  int64_t begin = 0, end = box, length = box;
  for (int m : layout.flatCuts) {
    const int64_t parts = mesh[size_t(m)].size;
    length = (length + parts - 1) / parts;
    begin += length * coordinates[size_t(m)];
    end = std::min(end, begin + length);
  }
  const int64_t row = rank ? piece.size[rank - 1] : 1;
  const int64_t validRow = rank ? valid[rank - 1] : 1;
  const int64_t rowStride = rank ? stride[rank - 1] : 1;
  for (int64_t at = begin; at < end;) {
    const int64_t r = at / row, first = at % row, last = std::min(row, first + end - at);
    int64_t logical = rank ? piece.offset[rank - 1] * rowStride : 0;
    bool real = true;
    int64_t rest = r;
    for (size_t i = rank ? rank - 1 : 0; i-- > 0;) {
      const int64_t k = rest % piece.size[i];
      real &= k < valid[i];
      logical += (piece.offset[i] + k) * stride[i];
      rest /= piece.size[i];
    }
    const int64_t stop = std::min(last, validRow);
    if (real && first < stop)
      visit({at - begin, logical + first * rowStride, rowStride, stop - first});
    at += last - first;
  }
}

} // namespace echelon::runtime
