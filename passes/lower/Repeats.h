// How repeats are lowered: in a loop, or in the turns of a pipeline's stages.
#pragma once
#include "passes/lower/Lowering.h"

namespace echelon::lower {

/// The axis of memory in which a stage keeps what it needs of a micro batch again.
inline constexpr llvm::StringLiteral kSlot = "@slot"; // no axis of a model is called so

/// Where a repeat's results go, and with it the values that its body yields.
struct Places {
  Value own;                                   // how many iterations the rank does, where ranks differ
  llvm::SmallVector<Value> lists;              // of carried values: listOfCarried
  llvm::SmallVector<Value> carried, next;      // where a carried value comes into an iteration, and where it goes
  llvm::SmallVector<Destination> stacks, sums; // no buffer: a part of a list
};

/// Before the loop: where its results lie.
void placeResults(Lowering &l, ech::RepeatOp op, Places &places);
/// The iterations, at a position, in `into`; what is kept from one loop to another is in a slot.
mlir::LogicalResult lowerIterations(Lowering &l, ech::RepeatOp op, Places &places, mlir::Block &into, Value position,
                                    Value slot);
/// A free value that was first read in a block is made there; who reads it outside of the block makes it again.
void forgetFree(Lowering &l, mlir::Block &made, mlir::Region &of);

/// What the ranks at these places of the row of stages do, in the turns of these chunks.
rt::AtOp atPlaces(Lowering &l, Operation *op, llvm::StringRef over, int64_t first, int64_t last);
/// A copy that is made there alone, or what is added there.
void copyAtPlaces(Lowering &l, Operation *op, llvm::StringRef over, int64_t first, int64_t last, Value to, Value from,
                  bool adds = false);
/// The chunks of iterations that the turns of a pipeline do; `turns`: the attribute dist.turns.
Lowering::Chunks chunksOf(Lowering &l, mlir::DictionaryAttr turns);
/// A loop whose passes come in the turns of a schedule.
mlir::LogicalResult lowerInTurns(Lowering &l, ech::RepeatOp op, mlir::DictionaryAttr turns);

} // namespace echelon::lower
