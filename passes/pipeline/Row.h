// The row of stages of a pipeline, as one: of several repeats behind each other, all their iterations.
#pragma once
#include "ir/dist/State.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace echelon::pipeline {

/// What each place of the row has, of the iterations of all repeats that a mesh axis divides.
inline dist::OwnerMap rowOf(dist::MeshAttr mesh, int m) {
  dist::OwnerMap row;
  for (auto axis : mesh.getAxes()[m].list.getAsRange<mlir::StringAttr>()) {
    const dist::OwnerMap map = mesh.mapOf(m, axis);
    if (row.sizes.empty())
      row = map;
    else
      for (auto [all, size] : llvm::zip(row.sizes, map.sizes))
        all += size;
  }
  return row.isEqual() || llvm::all_equal(row.sizes) ? dist::OwnerMap::cyclic(row.chunks) : row;
}
/// "layer"; of a chain "encoder then decoder".
inline std::string namesOfRow(dist::MeshAttr mesh, int m) {
  return llvm::join(mesh.getAxes()[m].list.getAsValueRange<mlir::StringAttr>(), " then ");
}

} // namespace echelon::pipeline
