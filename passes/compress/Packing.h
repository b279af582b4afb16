// What is handed in of a gradient, and what is made of it again. A new packing: docs/how-to-add.md.
#pragma once
#include "ir/ech/Build.h"
#include "passes/compress/Workers.h"

namespace echelon::compress {

/// One parameter's gradient, where it is packed.
struct Packed {
  ech::Build &build;
  mutable ech::VariableOp param; // MLIR has no const handles
  double amount;                 ///< the clause's: a share, or a rank
  bool feedback;
  const Workers &workers;
  mlir::Value counts = {}; ///< [worker]: how many of a worker's gradients are in u, under a sync policy; null: one each

  /// The parameter's axes at one index of its repeats.
  llvm::SmallVector<ech::Axis> own() const;
  llvm::SmallVector<llvm::StringRef> ownNames() const;
  int64_t elements() const; ///< of these
  /// Each worker's values as one row, along the axis `flat`; and back.
  mlir::Value flat(mlir::Value x) const;
  mlir::Value unflat(mlir::Value x) const;
  /// What all workers have, on every one of them.
  mlir::Value handIn(mlir::Value x) const { return build.handIn(x, workers.all); }
  /// The mean over the hop of what workers have, along their axis before or behind that.
  mlir::Value mean(mlir::Value perWorker) const;

  /// 1 for each worker and index of repeats where all of u is finite, else what is not: what is handed in is taken
  /// times it, so that the norm of all gradients sees what packing would leave out.
  mlir::Value finiteness(mlir::Value u) const;

  mlir::Value named(llvm::StringRef name, mlir::Value value) const;
  /// A variable beside the parameter: `prefix` and its path.
  ech::VariableOp variable(llvm::StringRef prefix, ech::Tensor type, ech::Distribution start, double a, double b) const;
  mlir::Value read(ech::VariableOp variable) const;
};

/// What any packing of single numbers takes: a number alone travels as it is.
inline bool isMany(const Packed &p) { return p.elements() > 1; }

struct Unpacked {
  mlir::Value mean;  ///< over the hop, of the gradient's axes
  mlir::Value alone; ///< what came of each worker's own; null where nobody asked (no feedback)
};

/// A way to pack. `u`: what each worker has, its axis the slowest.
struct Packing {
  llvm::StringLiteral name;
  /// Whether it packs a tensor like this; the others travel as they are.
  bool (*takes)(const Packed &);
  Unpacked (*pack)(const Packed &, mlir::Value u);
};
extern const Packing kFp16, kInt8, kOneBit, kTopK, kRandomK, kPowerSgd;

const Packing *findPacking(llvm::StringRef name);
/// Says that a clause packs no tensor of the model.
void refuseWithoutEffect(run::CompressOp clause);

/// The mean over the hop of what comes of `u`, packed. With feedback, what packing lost so far is added to it, and what
/// it loses is kept for the next time, in a variable optimizer.residual.PATH of each worker: u less what came of it. A
/// worker that is not in has nothing of its own in the mean, and keeps what it had.
mlir::Value meanOfPacked(const Packed &p, const Packing &packing, mlir::Value u);

} // namespace echelon::compress
