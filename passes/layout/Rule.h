// The list rule (docs: "Layout is one idea"), one operation at a time and without a pass.
#pragma once
#include "ir/dist/State.h"

namespace echelon::layout {

using dist::Entry;
using dist::Hold;
using dist::MeshAttr;
using dist::StateAttr;
using ech::Tensor;

/// What the rule says of one operation.
struct Decision {
  llvm::SmallVector<StateAttr> operands; ///< in which state each comes in
  llvm::SmallVector<StateAttr> results;
  llvm::SmallVector<int> inside;               ///< mesh axes over which the operation communicates inside
  llvm::SmallVector<mlir::StringAttr> divided; ///< a mesh axis each: the axis it is divided along, or null
};

/// Over each mesh axis the operation is divided along the first listed axis of its space that it can be divided along;
/// pending operands pass where the operation lets them. `now`: the operands' states, null for free ones. `cut`: of an
/// operation of the update on values with a parameter's axes, the state that `store` makes, which ends every list; null
/// elsewhere.
Decision decide(mlir::Operation *op, llvm::ArrayRef<StateAttr> now, MeshAttr mesh, StateAttr cut = {});

/// Whether an operation that is marked for it (StaysPending.h) is linear in what is pending over a mesh axis, beside
/// whole operands: then what it makes is pending.
bool staysLinear(mlir::Operation *op, llvm::ArrayRef<bool> isSum, llvm::StringRef meshAxis);

/// The mesh axes, of these, over which the rule divides attention along its queries and keys and values go round: both
/// axes are split over it, and nothing that comes before them in its list divides the operation.
llvm::SmallVector<int> ringsOf(mlir::Operation *attention, mlir::ArrayAttr over, MeshAttr mesh);

/// Whether keys and values of an attention go round over mesh axis m; then how it takes or gives a value there.
bool goesRound(mlir::Operation *op, int m, MeshAttr mesh);
Entry entryInRing(mlir::Operation *attention, mlir::Value v, int m, MeshAttr mesh);

/// Whether the operation only reorders storage: a relabel without groups.
bool isReorder(mlir::Operation *op);

/// What `state` becomes when groups of names become others, mesh axis by mesh axis; null where the pieces are not
/// pieces in the new names. `from` and `to` are the types without and with the new names.
llvm::SmallVector<std::optional<Entry>> renameState(StateAttr state, Tensor from, Tensor to, mlir::ArrayAttr oldNames,
                                                    mlir::ArrayAttr newNames, MeshAttr mesh);

/// One message, or local step, of a conversion.
struct Step {
  llvm::StringRef kind; ///< "slice", "reduce_scatter", "all_to_all", "all_reduce", "all_gather", "exchange"
  llvm::SmallVector<int> over;
  StateAttr to;
};
/// The steps from one state to another: slices, reduce-scatters, all-to-alls, one joint all-reduce, one joint
/// all-gather, each as soon as the ranks that take part hold what it needs; an exchange where none can go on.
llvm::SmallVector<Step> stepsOf(Tensor type, StateAttr from, StateAttr to, MeshAttr mesh);

/// Whether the ranks that differ only over `group` hold together what each of them needs of `to`. Sums aside.
bool holds(Tensor type, StateAttr from, StateAttr to, llvm::ArrayRef<int> group, MeshAttr mesh);

/// Whether every value below `root` is laid out and every operation takes and leaves states that the table of the rule
/// allows: divided along one axis over each mesh axis, or passing a sum, or on cuts. Tells what is not.
mlir::LogicalResult checkStates(mlir::Operation *root, MeshAttr mesh);

} // namespace echelon::layout
