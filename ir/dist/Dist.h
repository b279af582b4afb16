// The dist dialect: the mesh, the state of a value over it, and the operations that move data.
#pragma once
#include "ir/ech/Ech.h"
#include "runtime/program/OwnerMap.h"

namespace echelon::dist {

using ech::Tensor;
using runtime::Divider;
using runtime::Interval;
using runtime::OwnerMap;

/// What the coordinates of one mesh axis hold of a value.
enum class Hold : uint8_t { Whole, Split, Sum, Own, Cut, Flat };

/// The state over one mesh axis.
struct Entry {
  mlir::StringAttr over; ///< the mesh axis
  Hold hold = Hold::Whole;
  mlir::StringAttr axis; ///< of Split and Cut; of Flat the last of the leading axes that it leaves alone, if any; of
                         ///< Whole the number of the one coordinate that holds it, if only one does (Placed.h)
  bool operator==(const Entry &other) const { return over == other.over && hold == other.hold && axis == other.axis; }
  bool operator!=(const Entry &other) const { return !(*this == other); }
  /// Whether each coordinate holds a part only.
  bool isPart() const { return hold == Hold::Split || isCut(); }
  /// Whether `store` makes that part.
  bool isCut() const { return hold == Hold::Cut || hold == Hold::Flat; }
};
inline llvm::hash_code hash_value(const Entry &entry) {
  return llvm::hash_combine(entry.over, unsigned(entry.hold), entry.axis);
}

struct MeshAxis {
  mlir::StringAttr name;
  int64_t size;
  mlir::ArrayAttr list;            ///< names of the axes split over it, first choice first
  mlir::DenseBoolArrayAttr padded; ///< for each, whether it may be padded
  mlir::ArrayAttr maps;            ///< for each a #dist.map: what each coordinate holds; null: blocks of all
  bool operator==(const MeshAxis &other) const {
    return name == other.name && size == other.size && list == other.list && padded == other.padded &&
           maps == other.maps;
  }
};
inline llvm::hash_code hash_value(const MeshAxis &axis) {
  return llvm::hash_combine(axis.name, axis.size, axis.list, axis.padded, axis.maps);
}

/// Module attributes that the passes read.
inline constexpr llvm::StringLiteral kMesh = "dist.mesh"; // the #dist.mesh
/// Over which mesh axes `store` cuts what: {optimizer = ["dp"], gradients = ["dp"], params = ["dp"]}.
inline constexpr llvm::StringLiteral kStore = "dist.store";
/// Where the clauses stand: {"tp.head" = loc("gpt.ech":40:5), "dp.store" = loc(…)}.
inline constexpr llvm::StringLiteral kLines = "dist.lines";
/// In which order the stages of a pipeline work, by the mesh axis that splits the repeat: {pp = "1f1b"}.
inline constexpr llvm::StringLiteral kSchedules = "dist.schedules";
/// The mesh axes whose stages dist-balance-stages gives iterations: {pp = loc("gpt.ech":40:5)}.
inline constexpr llvm::StringLiteral kBalance = "dist.balance";
/// What it went by, the floating-point operations of what stands before the repeat, of one of its iterations, and of
/// what stands behind it, of repeats in a row alternately so on: {pp = [3, 12, 40]}.
inline constexpr llvm::StringLiteral kBalancedBy = "dist.balanced_by";
/// On the loops of a pipeline whose passes come in the turns of a schedule, one behind the other, by what they are of a
/// micro batch: {part = "backward", schedule = "1f1b", over = "pp", slots = 2, buffers = 1}, of how many a stage keeps
/// something, and from how many buffers it sends. A stage whose iterations are in several chunks (`cyclic 2`) takes a
/// turn for each, and what is split over the stages is, in a turn, of one chunk.
inline constexpr llvm::StringLiteral kTurns = "dist.turns";
/// Of the module: the mesh axes over which keys and values of attention go round, `with ring`. Of an ech.attention or
/// ech.attention_grad that layout has divided so, the one mesh axis, until it is lowered; `ech.why` is its reason.
inline constexpr llvm::StringLiteral kRing = "dist.ring";
/// Ranks of a machine, in order; without: all.
inline constexpr llvm::StringLiteral kNodeRanks = "dist.node_ranks";
/// `collective` clauses: [{op = "all_reduce", over = ["dp"], algorithm = "ring"}].
inline constexpr llvm::StringLiteral kAlgorithms = "dist.algorithms";
/// That of these which passes make of other messages: scattered over the last mesh axis, summed over the others,
/// gathered.
inline constexpr llvm::StringLiteral kHierarchical = "hierarchical";

/// On an ech operation divided along an axis that it works along inside (softmax, norms, argmax, …): the mesh axes
/// over which it communicates, until dist-split-inside makes messages of it. `ech.why` is its reason.
inline constexpr llvm::StringLiteral kInside = "dist.inside";

} // namespace echelon::dist

#include "ir/dist/DistDialect.h.inc"
#include "ir/dist/DistEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/dist/DistAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/dist/DistTypes.h.inc"
#define GET_OP_CLASSES
#include "ir/dist/DistOps.h.inc"
