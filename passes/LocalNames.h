// Names that one function of a program can still give: to variables of its loops and sums.
#pragma once
#include "ir/rt/Rt.h"
#include "passes/Identifier.h"
#include "llvm/ADT/StringSet.h"

namespace echelon {

/// What rt-name-values called a buffer, number, position, argument or ticket.
std::string nameOf(mlir::Value value);
/// And the local function of what a loop does ahead of its iterations.
std::string nameOf(rt::NextOp next);

class LocalNames {
public:
  explicit LocalNames(mlir::ModuleOp module);
  /// From here on, those of a function of these operations.
  void enter(llvm::ArrayRef<mlir::Operation *> ops);
  /// A brace opens; the names of variables that are declared in it are free again when it closes.
  void open() { scopes.emplace_back(); }
  void close();
  /// A name like `wanted` that nothing in the function has.
  std::string local(llvm::StringRef wanted);
  /// The same for a loop over an axis ("" over several): as short as possible.
  std::string loopName(llvm::StringRef axis);
  /// After the loops of a statement: their names are free again.
  void releaseLoopNames();

private:
  bool isTaken(llvm::StringRef name) const {
    return common.contains(name) || taken.contains(name) || temporary.contains(name);
  }
  llvm::StringSet<> common, taken, temporary; // common: of sizes, and of all functions
  llvm::SmallVector<llvm::SmallVector<std::string>> scopes;
  llvm::SmallVector<std::string> loopNames;
};

} // namespace echelon
