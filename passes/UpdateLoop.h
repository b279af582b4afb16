// A loop of the update that stores a parameter: the optimizer's rule, applied to rows of equal length.
#pragma once
#include "ir/rt/Rt.h"
#include "mlir/IR/SymbolTable.h"

namespace echelon {

/// One loop as a rule on buffers: what it is given, in the order of the rule's arguments. All rows are dense and of
/// equal length, and none that is written overlaps another.
class UpdateLoop {
public:
  UpdateLoop(rt::FusedOp loop, const mlir::SymbolTable &symbols);
  /// Whether the loop is a rule.
  bool isOne() const { return param && !key.empty(); }

  rt::FusedOp loop;
  ech::VariableOp param;                  // that it stores
  std::string key;                        // equal for loops that compute the same
  int64_t count = 1;                      // elements of a row
  llvm::SmallVector<mlir::Value> rows;    // the parameter, its gradient, the optimizer's state
  llvm::SmallVector<mlir::Value> numbers; // one for the whole row: buffers of one element, and numbers
  llvm::SmallVector<int64_t> written;     // of the rows

  /// What the rule calls a row.
  std::string nameOf(mlir::Value row) const;

private:
  ech::VariableOp variableOf(mlir::Value v) const {
    rt::AllocOp alloc = rt::allocOf(v);
    return alloc && alloc.getOf() ? symbols.lookup<ech::VariableOp>(*alloc.getOf()) : ech::VariableOp();
  }
  bool isRow(mlir::Value v) const { return rt::buffer(v).isDense() && rt::buffer(v).count() == count; }
  static bool mayOverlap(mlir::Value a, mlir::Value b);
  bool collect();
  void describe();

  const mlir::SymbolTable &symbols;
};

} // namespace echelon
