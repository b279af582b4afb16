// How a rank's piece of a value falls into parts over the mesh axes of a message: views whose axes count the parts
// along each mesh axis ("@dp"), then the axes of one part.
#pragma once
#include "passes/lower/Lowering.h"

namespace echelon::lower {

class ShardView {
public:
  /// `part`: the type that says along which axis each mesh axis in `over` divides.
  ShardView(Lowering &l, Tensor part, llvm::ArrayRef<int> over, Location loc);

  /// One part of a piece with these axes.
  llvm::SmallVector<Axis> axesOf(llvm::ArrayRef<Axis> whole) const;
  /// The axes that count parts along mesh axes.
  llvm::SmallVector<Axis> counters(llvm::ArrayRef<int> of) const;

  /// The axis that all mesh axes of the message, ascending, cut; none where it is cut otherwise.
  std::optional<size_t> cutAxis(llvm::ArrayRef<Axis> whole) const;

  /// The piece seen as counters, then one part. What parts reach beyond the piece is zero, in a longer copy.
  Value seen(Value whole) const;
  /// The same without a copy; null where there would have to be one.
  Value exact(Value whole) const;
  /// Writes parts (counters, then one part) into a piece.
  void join(Value parts, Value whole) const;
  /// A piece that is parts, seen whole without a copy; null where that cannot be.
  Value merged(Value parts, llvm::ArrayRef<Axis> whole) const {
    return interleavings(whole).empty() ? inParts(parts, whole) : Value();
  }

private:
  /// The same, its positions in the order of parts.
  Value inParts(Value parts, llvm::ArrayRef<Axis> whole) const;
  using Axes = llvm::SmallVector<Axis>;
  int64_t ranks() const;
  Axes divided(llvm::ArrayRef<Axis> whole) const;
  /// Mesh axes of the message that divide an axis, slowest first.
  llvm::SmallVector<int> nest(llvm::StringRef axis) const;
  int64_t partsOf(llvm::StringRef axis) const;
  Axes longer(llvm::ArrayRef<Axis> whole) const;
  Value inside(Value padded, llvm::ArrayRef<Axis> axes) const;
  Value copied(Value whole, llvm::ArrayRef<Axis> needed) const;
  /// Of the axes of a piece those that flat cuts leave alone, and those that they make one row of.
  llvm::ArrayRef<Axis> above(llvm::ArrayRef<Axis> axes) const { return axes.take_front(dist::axesAboveFlat(part)); }
  llvm::ArrayRef<Axis> inRow(llvm::ArrayRef<Axis> axes) const { return axes.drop_front(dist::axesAboveFlat(part)); }
  /// How long that row is, then its part of each flat cut in turn, without padding of those before.
  llvm::SmallVector<int64_t> levels(llvm::ArrayRef<Axis> axes) const;
  mlir::StringAttr flatName() const { return l.b.getStringAttr("flat"); }
  Value dense(Value v, llvm::ArrayRef<Axis> axes) const;
  /// One mesh axis that divides an axis of a piece, of which slower ones made `outer` parts, by a map of several
  /// chunks.
  struct Interleaving {
    llvm::StringRef axis;
    int64_t outer, size;
    dist::OwnerMap map;
  };
  /// What there is of these, slowest first; none: parts lie one after the other.
  llvm::SmallVector<Interleaving> interleavings(llvm::ArrayRef<Axis> whole) const;
  /// Copies between positions in their order and in that of parts.
  void interleave(const Interleaving &how, Value inOrder, Value byParts, bool toParts) const;
  void interleaveUnequal(const Interleaving &how, Value inOrder, Value byParts, bool toParts) const;
  /// A copy of a piece in which parts lie one after the other.
  Value byParts(Value whole) const;
  /// The way back.
  void placeRuns(Value byParts, Value whole) const;
  /// (counters of cuts along axes, a part's axes) as (counters of all, the axes above, the last row).
  Value flattened(Value parts, llvm::ArrayRef<Axis> one) const;
  Value unflattened(Value parts, llvm::ArrayRef<Axis> one) const;
  /// The counters in this order, then the others.
  Value ordered(Value v, Axes axes, llvm::ArrayRef<Axis> last) const;
  /// The counters of cuts along axes, then one part of these.
  Value asParts(Value padded, llvm::ArrayRef<Axis> whole) const;

  Lowering &l;
  Tensor part;
  llvm::ArrayRef<int> over;
  llvm::SmallVector<int> divides, flats; ///< of `over`: those that cut along an axis; that cut what is left, as one row
  Location loc;
};

} // namespace echelon::lower
