// What `store` clauses cut, and how a cut meets the loops over slices.
#pragma once
#include "ir/dist/State.h"
#include "llvm/ADT/DenseSet.h"

namespace echelon::layout {

struct Stores {
  llvm::SmallVector<int> optimizer, gradients, params; ///< mesh axes, ascending
  llvm::DenseSet<mlir::StringAttr> repeated;           ///< axes of loops over slices

  /// Fails where a clause names a mesh axis that there is not; the user has been told.
  static mlir::FailureOr<Stores> read(mlir::ModuleOp module, dist::MeshAttr mesh);

  bool isEmpty() const { return optimizer.empty() && gradients.empty() && params.empty(); }
  /// How a parameter lies between its uses.
  dist::StateAttr ofParam(ech::Tensor type, dist::MeshAttr mesh) const { return cut(type, params, mesh); }
  /// How the update computes it, and how moments lie: cut over every mesh axis that stores anything.
  dist::StateAttr ofUpdate(ech::Tensor type, dist::MeshAttr mesh) const;

private:
  /// Own state, cut over the mesh axes of `over` that do not split it: along the first of its axes with more than one
  /// local position if that divides, else flat; so each part is one piece of memory, which messages take as it lies.
  /// One-element values are never cut. Where gradients or parameters are cut, which are used an iteration at a time,
  /// each slice along the axes of loops is cut by itself.
  dist::StateAttr cut(ech::Tensor type, llvm::ArrayRef<int> over, dist::MeshAttr mesh) const;
};

/// The state of a slice of a value along an axis of a loop; null where its pieces are not pieces of slices. Over the
/// mesh axis that divides the loop it is whole: it is there on the coordinate of the iteration alone, as all is in it.
dist::StateAttr stateOfSlice(ech::Tensor whole, mlir::StringAttr axis);
/// The state of a stack of values: the axis of the loop comes before theirs.
dist::StateAttr stateOfStack(dist::StateAttr each, mlir::StringAttr axis, dist::MeshAttr mesh);

/// The same with nothing cut: own over the mesh axes that `store` cuts.
dist::StateAttr withoutCuts(dist::StateAttr state);

} // namespace echelon::layout
