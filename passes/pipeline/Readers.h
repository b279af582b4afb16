// Which stage of a pipeline alone reads a parameter, and what is made of it and of its gradient outside of passes.
#pragma once
#include "ir/dist/State.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SetVector.h"

namespace echelon::pipeline {

/// What of a module belongs to one parameter: variables, and values outside of passes.
class Readers {
public:
  Readers(mlir::ModuleOp module, dist::MeshAttr mesh, int meshAxis, ech::VariableOp param);

  /// The stage that alone reads the parameter and adds to its gradient. Nothing where several stages do or none does,
  /// or where what is made of the two, outside of passes, goes into something else than the update of the parameter and
  /// the norm of all gradients.
  std::optional<int64_t> stage();

  /// Once that is known: the parameter, and what the optimizer keeps of it.
  llvm::ArrayRef<ech::VariableOp> variables() const { return family; }
  /// What passes have added up of the gradient, pending over the stages.
  llvm::ArrayRef<mlir::Value> sums() const { return totals.getArrayRef(); }
  /// What is made of these and of the variables.
  llvm::ArrayRef<mlir::Value> values() const { return made.getArrayRef(); }

private:
  bool isOfFamily(llvm::StringRef variable) const;
  bool read(ech::StepOp step);
  bool findSums(ech::WriteOp write);
  bool addSum(mlir::OpResult sum);
  bool follow(mlir::Value value);
  bool followInto(mlir::OpOperand &use);
  bool isTakenAlone(mlir::Operation *op) const;
  bool isAt(int64_t place);

  mlir::ModuleOp module;
  dist::MeshAttr mesh;
  int stages;
  ech::VariableOp param;
  llvm::SmallVector<ech::VariableOp> family;
  llvm::SetVector<mlir::Value> totals, made;
  std::optional<int64_t> found;
};

} // namespace echelon::pipeline
