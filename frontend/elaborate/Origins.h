// What each value of a step is made of.
#pragma once
#include "ir/ech/Ech.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace echelon::frontend {

/// Names of axes. Inside a `repeat` those of the repeat are among them, too, where a value varies from one iteration
/// to the next.
using AxisSet = llvm::SmallVector<mlir::StringAttr, 4>;

inline void addAxis(AxisSet &set, mlir::StringAttr axis) {
  if (!llvm::is_contained(set, axis))
    set.push_back(axis);
}
inline bool within(const AxisSet &small, const AxisSet &large) {
  return llvm::all_of(small, [&](mlir::StringAttr axis) { return llvm::is_contained(large, axis); });
}

/// Of what a value is made: of numbers (states, and chance that samples share, are such within a step), of parameters,
/// or of samples.
struct Origin {
  enum Kind { Numbers, Parameters, Data } kind = Numbers;
  llvm::SmallMapVector<mlir::StringAttr, AxisSet, 2> along; // Parameters: each, and the axes that it varies along
};

class Origins {
public:
  /// Goes over the step. `read`: of what the variables and inputs are made, by their names. `samples`: the axes that
  /// count samples.
  Origins(ech::StepOp step, const llvm::DenseMap<mlir::StringAttr, Origin::Kind> &read,
          const llvm::StringSet<> &samples);
  const Origin &operator[](mlir::Value value) const;

private:
  void visit(mlir::Block &block);
  void visit(ech::RepeatOp loop);
  bool hasSamples(ech::Tensor type) const;
  bool join(mlir::Value into, const Origin &origin);

  const llvm::DenseMap<mlir::StringAttr, Origin::Kind> &read;
  const llvm::StringSet<> &samples;
  llvm::DenseMap<mlir::Value, Origin> origins;
};

/// The axes along which a result of `op` varies, of what varies along `axes` in one of its operands.
AxisSet carried(mlir::Operation *op, mlir::OpOperand &operand, mlir::Value result, const AxisSet &axes);

} // namespace echelon::frontend
