// Which operations of a pass are done on which stage of a pipeline.
#pragma once
#include "ir/dist/State.h"

namespace echelon::pipeline {

/// On every stage; on the first, before the repeat's iterations or behind its derivative's; on the last.
enum class Place { All, First, Last };

/// A pass of the model, in which one repeat's iterations are divided over the coordinates of a mesh axis. What stands
/// outside of the repeat is done on one stage where its operands come from there:
/// - what the repeat hands on to, and what follows from that, on the last;
/// - what follows from the derivative's cotangents, on the first;
/// - of the rest, what goes into the first iteration alone on the first, what is read on one stage alone there, and all
///   else on each stage, for itself;
/// - what is divided over the mesh axis, or is a message over it, on each stage.
class Stages {
public:
  /// Null where no repeat of the pass is divided. Fails where it is divided in a way that is not built; the user has
  /// been told.
  static mlir::FailureOr<std::unique_ptr<Stages>> of(ech::RepeatOp pass, dist::MeshAttr mesh);

  int meshAxis() const { return stages; }
  ech::RepeatOp forward() const { return forwardLoop; }
  ech::RepeatOp backward() const { return backwardLoop; } ///< null in an evaluation
  /// Of the iterations of each stage.
  int64_t chunks() const { return mesh.mapOf(stages, forward().getAxis()).chunks; }
  bool isStageLoop(mlir::Operation *op) const { return op == forwardLoop || op == backwardLoop; }
  Place placeOf(mlir::Operation *op) const { return places.lookup(op); }

private:
  Stages(ech::RepeatOp pass, dist::MeshAttr mesh) : pass(pass), mesh(mesh) {}
  mlir::LogicalResult findLoops();
  void place();
  void findSources();
  Place placeByReaders(mlir::Operation *op);
  bool isDivided(mlir::Operation *op) const;

  ech::RepeatOp pass, forwardLoop, backwardLoop;
  dist::MeshAttr mesh;
  int stages = -1;
  llvm::DenseSet<mlir::Operation *> afterForward, afterBackward;
  llvm::DenseMap<mlir::Operation *, Place> places;
};

/// A conversion of what one stage alone has to what is summed over the stages: on that stage it is the value itself.
bool isShareOfStage(mlir::Operation *op, llvm::StringRef meshAxis);

} // namespace echelon::pipeline
