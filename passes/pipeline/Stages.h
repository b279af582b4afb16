// Which operations of a pass are done where in the row of stages of a pipeline, and what goes from there to others.
//
// A micro batch goes through the *places* of the row, one for each chunk of iterations: of n stages, that of chunk c of
// stage r has number c n + r. The derivative goes the other way.
#pragma once
#include "ir/dist/State.h"

namespace echelon::pipeline {

inline constexpr int64_t kEverywhere = -1;

/// The places of a row from one to another.
struct Span {
  int64_t first, last;
};

/// A repeat whose iterations are divided, and its derivative, null in an evaluation. Several follow each other in a
/// chain.
struct Link {
  ech::RepeatOp forward, backward;
  Span span; ///< from its first iteration to its last one
};

/// A value that is made at one place and read at others: it goes from place to place, forward from `first` to `last`,
/// or back. `uses`: who reads what arrives.
struct Ride {
  mlir::Value value;
  bool goesBack;
  Span span;
  llvm::SmallVector<mlir::OpOperand *> uses;
};

/// A pass of the model through stages. What stands outside of the repeats is done at one place where its operands come
/// from there:
/// - what leads into a repeat is done where that begins;
/// - what follows from a repeat, where it ends, or where the next one that it leads into begins;
/// - what follows from a derivative, where the values of the forward pass are that it reads, else where it is read;
/// - of the rest, what is read at one place is done there; what takes no product, at each, for itself; all else at the
///   first place that reads it. Messages over other mesh axes that bring what all places read are made at each;
/// - what is divided over the mesh axis, or is a message over it, everywhere.
class Stages {
public:
  /// Null where no repeat of the pass is divided. Fails where two along one axis are; the user has been told.
  static mlir::FailureOr<std::unique_ptr<Stages>> of(ech::RepeatOp pass, dist::MeshAttr mesh);

  int meshAxis() const { return stages; }
  /// Of the iterations of each stage.
  int64_t chunks() const;
  int64_t places() const { return chunks() * mesh.sizeOf(stages); }
  llvm::ArrayRef<Link> links() const { return row; }
  bool hasBackward() const {
    return llvm::any_of(row, [](const Link &link) { return bool(link.backward); });
  }
  /// Null of other operations.
  const Link *linkOf(mlir::Operation *op) const;
  int64_t placeOf(mlir::Operation *op) const;
  /// Where a value is made.
  int64_t placeOf(mlir::Value value) const;
  /// In which order operations of one phase stand: in that of their places, repeats between what leads into them and
  /// what follows.
  int64_t rankOf(mlir::Operation *op) const;
  /// Fails where something would have to be at a place before it is made; the user has been told.
  mlir::FailureOr<llvm::SmallVector<Ride>> rides() const;

private:
  Stages(ech::RepeatOp pass, dist::MeshAttr mesh) : pass(pass), mesh(mesh) {}
  mlir::LogicalResult findLinks();
  void findSources();
  void place();
  int64_t placeForward(mlir::Operation *op, llvm::ArrayRef<Span> read);
  int64_t placeBackward(mlir::Operation *op, llvm::ArrayRef<Span> read);
  bool isDivided(mlir::Operation *op) const;
  bool isCheap(mlir::Operation *op);
  std::optional<Span> spanOf(mlir::Operation *loop) const;
  std::optional<Span> neededBy(mlir::OpOperand &use) const;
  llvm::SmallVector<Span> readers(mlir::Operation *op, bool ofBackward) const;
  mlir::LogicalResult addRides(mlir::Value value, mlir::Operation *maker, llvm::SmallVectorImpl<Ride> &rides) const;
  mlir::LogicalResult refuse(mlir::Operation *reader) const;
  mlir::Operation *here(mlir::Operation *op) const { return pass.getBody().front().findAncestorOpInBlock(*op); }
  /// The operation of the pass that makes a value; null: it comes from outside.
  mlir::Operation *makerOf(mlir::Value value) const;

  mutable ech::RepeatOp pass;
  dist::MeshAttr mesh;
  int stages = -1;
  llvm::SmallVector<Link> row;
  llvm::DenseMap<mlir::Operation *, int64_t> afterForward; ///< at which place the last repeat ends that it follows from
  llvm::DenseMap<mlir::Operation *, int64_t> afterBackward; ///< the same of derivatives
  llvm::DenseMap<mlir::Operation *, int64_t> placed;
  llvm::DenseMap<mlir::Operation *, bool> cheap; ///< as far as asked
};

/// A conversion of what one stage alone has to what is summed over the stages, or to a maximum or minimum over them: on
/// that stage it is the value itself, on others what changes nothing.
bool isShareOfStage(mlir::Operation *op, llvm::StringRef meshAxis);

} // namespace echelon::pipeline
