// A loop nest as a target's pass takes it apart: its loops, how each buffer walks them, the depth at which each value
// is known, and the scalar operations that compute it there.
//
//   axes ["batch", "seq", "embed"], x and y dense, b [embed]  ->  loops [batch * seq, embed]; strides of x [embed, 1],
//   of b [0, 1]
#pragma once
#include "ir/rt/Rt.h"
#include "mlir/IR/Builders.h"
#include "passes/LocalNames.h"
#include "llvm/ADT/StringMap.h"

namespace echelon {

/// What a buffer is called, without what it is a member of.
std::string bufferName(mlir::Value buffer);

class Nest {
protected:
  struct Loop {
    std::string name;
    int64_t size;
    llvm::SmallVector<ech::Axis> axes; // that it walks, slowest first
  };
  /// An element by the loops that it depends on.
  struct Place {
    llvm::SmallVector<mlir::Value> indices;
    llvm::SmallVector<int64_t> strides;
  };

  Nest(rt::FusedOp op, LocalNames &names)
      : op(op), names(names), body(op.getBody().front()), b(op.getContext()), loc(b.getUnknownLoc()) {}

  /// Axes of size 1 vanish; neighbours that every buffer walks in one stride become one loop.
  void findLoops();
  /// A value is known at the depth of the innermost loop that it depends on.
  void findLevels();
  static int levelOf(llvm::ArrayRef<int64_t> strides);

  bool mode(size_t output, llvm::StringRef name) {
    return llvm::cast<mlir::StringAttr>(op.getModes()[output]).getValue() == name;
  }
  mlir::Value in(size_t input) { return op.getInputs()[input]; }
  mlir::Value out(size_t output) { return op.getOutputs()[output]; }
  mlir::Value yielded(size_t output) { return llvm::cast<rt::YieldOp>(body.getTerminator()).getValues()[output]; }
  llvm::ArrayRef<int64_t> stridesOut(size_t output) { return strides[op.getInputs().size() + output]; }
  static bool isVariable(mlir::Value buffer) {
    return buffer.getDefiningOp() && buffer.getDefiningOp()->hasAttr(rt::kVariable);
  }
  /// Whether the output is a sum over loops.
  bool isSum(size_t output) { return !mode(output, "store") && llvm::is_contained(stridesOut(output), 0); }

  // Scalars, made where `b` inserts, of positions of the loops that are open.
  Place placeOf(llvm::ArrayRef<int64_t> all);
  mlir::Value load(size_t input);
  void store(size_t output, mlir::Value value, bool adds);
  /// What the body computes, here: the variable that has it, or an expression.
  mlir::Value scalar(mlir::Value inner);
  /// How many elements and numbers the expression of a value has.
  int64_t leavesOf(mlir::Value inner);
  /// Gives the operation a name like `wanted`: it is a variable.
  mlir::Value declare(mlir::Value made, const std::string &wanted);
  /// The name that the spec gives a value, else that of the buffer it is stored to; "d_y_element" beside a buffer d_y.
  std::string nameFor(mlir::Value value);
  void setName(mlir::Operation *made, llvm::StringRef name) { made->setAttr(rt::kName, b.getStringAttr(name)); }
  rt::SizeAttr sizeOf(const Loop &loop) { return rt::SizeAttr::get(b.getContext(), loop.axes); }

  rt::FusedOp op;
  LocalNames &names;
  mlir::Block &body;
  mlir::OpBuilder b;
  mlir::Location loc;
  llvm::SmallVector<Loop> loops;
  llvm::SmallVector<llvm::SmallVector<int64_t>> strides; // of inputs, then outputs, one a loop
  llvm::SmallVector<int> depth; // of outputs: loops that their place depends on (the innermost + 1)
  llvm::StringMap<int> loopOf;  // of axes that positions are asked of
  llvm::DenseMap<mlir::Value, int> levels;
  llvm::SmallVector<mlir::Value> positions; // of the loops that are open
  llvm::DenseMap<mlir::Value, mlir::Value> declared;
};

} // namespace echelon
