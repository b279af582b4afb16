// The names that passes gave, and those of what only the text has: variables of loops and sums.
#pragma once
#include "ir/rt/Rt.h"
#include "passes/Identifier.h"
#include "llvm/ADT/StringSet.h"

namespace echelon::codegen {

/// What rt-name-values called a buffer, number, position, argument or ticket.
std::string nameOf(mlir::Value value);

/// Names of one function.
class Names {
public:
  explicit Names(mlir::ModuleOp module);
  /// From here on, those of a function of these operations.
  void enter(llvm::ArrayRef<mlir::Operation *> ops);
  /// A name like `wanted` that nothing in the function has, nor anything that was not released since.
  std::string fresh(llvm::StringRef wanted);
  /// The same for the variable of a loop over an axis ("" of several): as short as can be.
  std::string position(llvm::StringRef axis);
  void release(llvm::StringRef name) { temporary.erase(name); }

private:
  bool isTaken(llvm::StringRef name) const {
    return common.contains(name) || taken.contains(name) || temporary.contains(name);
  }
  llvm::StringSet<> common, taken, temporary; // common: of sizes, and of all functions
};

} // namespace echelon::codegen
