// What follows from a laid-out type and the mesh: which rank holds which part, and how large it is.
#pragma once
#include "ir/dist/Dist.h"

namespace echelon::dist {

/// The module's mesh; null when there is none.
MeshAttr meshOf(mlir::Operation *op);
/// The state of a laid-out type; null before layout.
StateAttr stateOf(Tensor type);
StateAttr stateOf(mlir::Value value);
StateAttr wholeState(MeshAttr mesh);
/// Whether `store` cuts it over some mesh axis.
bool isCut(StateAttr state);
/// The mesh axis over whose coordinates the iterations of a repeat along `axis` are divided, the stages of a pipeline;
/// -1 where there is none. Inside such a repeat each value is whole over it, on the coordinate of the iteration.
int stagesOf(MeshAttr mesh, llvm::StringRef axis);
/// What `store` clauses of the module cut over a mesh axis: of "optimizer", "gradients", "params", in this order.
llvm::SmallVector<llvm::StringRef> storedOver(mlir::ModuleOp module, llvm::StringRef meshAxis);
/// Over each mesh axis split along the first listed axis of the type, else whole.
StateAttr ownState(Tensor type, MeshAttr mesh);

/// Mesh axes that split or cut `axis` in storage, slowest first: splits by the axis's place in the lists then in mesh
/// order, cuts (in mesh order) inside them. This is `over` of runtime/program/Layout.h.
llvm::SmallVector<int> over(Tensor type, llvm::StringRef axis, MeshAttr mesh);
/// Mesh axes of flat cuts, outermost first.
llvm::SmallVector<int> flatCuts(Tensor type);
/// How many leading axes flat cuts leave alone ("flat below layer"): each slice along them is cut by itself.
size_t axesAboveFlat(Tensor type);
/// Mesh axes over which the value is pending.
llvm::SmallVector<int> sums(Tensor type);

/// Number of parts that the mesh makes of an axis.
int64_t parts(Tensor type, llvm::StringRef axis, MeshAttr mesh);
/// Elements of an axis in each rank's storage, padding included.
int64_t localSize(Tensor type, llvm::StringRef axis, MeshAttr mesh);
/// Whether the blocks of an axis reach beyond its size, or are of unequal sizes.
bool isPadded(Tensor type, llvm::StringRef axis, MeshAttr mesh);
/// Size of an axis in storage over all ranks: localSize times parts.
int64_t paddedSize(Tensor type, llvm::StringRef axis, MeshAttr mesh);
/// Local sizes in storage order, before flat cuts.
llvm::SmallVector<int64_t> localShape(Tensor type, MeshAttr mesh);
/// Elements that each rank stores, flat cuts and padding included; the same on all.
int64_t localCount(Tensor type, MeshAttr mesh);
int64_t localBytes(Tensor type, MeshAttr mesh);
/// The type of one rank's piece: local sizes, no state; what is cut flat is the one axis "flat", behind those above.
Tensor localType(Tensor type, MeshAttr mesh);

/// Mesh coordinates of a rank.
llvm::SmallVector<int64_t> coordinates(MeshAttr mesh, int64_t rank);
/// How the mesh axes of `over` divide an axis, slowest first: those that split it by their maps, cuts into blocks.
llvm::SmallVector<Divider> dividers(Tensor type, llvm::StringRef axis, MeshAttr mesh);
/// The runs of positions of `axis` that a rank holds, in the order in which it stores them. Together they are localSize
/// positions; those past the axis's size are padding.
std::vector<Interval> runs(Tensor type, llvm::StringRef axis, MeshAttr mesh, llvm::ArrayRef<int64_t> coordinates);
/// The map that divides an axis into chunks of unequal sizes; nothing else divides it then.
std::optional<OwnerMap> unequalMap(Tensor type, llvm::StringRef axis, MeshAttr mesh);
/// Whether each rank holds one block of the axis.
bool isInBlocks(Tensor type, llvm::StringRef axis, MeshAttr mesh);

/// What a MeshAxis holds of the maps of its list: null where all are blocks.
mlir::ArrayAttr listMaps(mlir::MLIRContext *context, llvm::ArrayRef<OwnerMap> maps);
/// "blocks", "zigzag", "cyclic 3", "blocks (7, 8, 8, 7)".
std::string spell(const OwnerMap &map);
/// "(7, 8, 8, 7)"; of equal chunks "()".
std::string spellSizes(const OwnerMap &map);

/// Whether the state says something the mesh can do with the type: one entry a mesh axis, axes that the type has,
/// sizes that divide (or are padded). Null `emitError`: says nothing.
mlir::LogicalResult checkState(Tensor type, StateAttr state, MeshAttr mesh,
                               llvm::function_ref<mlir::InFlightDiagnostic()> emitError = nullptr);

/// The change of one entry that a kind of message makes ("slice", "reduce_scatter", "all_to_all", "all_reduce",
/// "all_gather", "exchange", "broadcast", "all_reduce max", "all_reduce min", "collect").
bool isLegal(llvm::StringRef kind, const Entry &from, const Entry &to);

/// What a `collective` clause of the module says of this kind over exactly these mesh axes; "auto" where none does, and
/// where it says hierarchical, of what is not in three messages.
llvm::StringRef algorithmOf(mlir::ModuleOp module, llvm::StringRef kind, llvm::ArrayRef<int> over);
/// Whether one says that an all_reduce over exactly these mesh axes is hierarchical.
bool isHierarchical(mlir::ModuleOp module, llvm::ArrayRef<int> over);

/// "split batch", "sum", …
std::string spell(const Entry &entry);

} // namespace echelon::dist
