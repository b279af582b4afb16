// What the generated program calls things: the user's names, made unique.
#pragma once
#include "ir/rt/Rt.h"
#include "llvm/ADT/StringSet.h"

namespace echelon::codegen {

class Names {
public:
  /// Names for every buffer, number, loop position and ticket of the module, in its order.
  explicit Names(mlir::ModuleOp module);
  const std::string &of(mlir::Value value) const { return names.find(value)->second; }
  bool has(mlir::Value value) const { return names.count(value); }
  /// A name like `wanted` that nothing in the module has, nor anything that was not released since.
  std::string fresh(llvm::StringRef wanted);
  void release(llvm::StringRef name) { temporary.erase(name); }

private:
  /// `base`, or with the lowest number behind it that nothing in `taken` has.
  std::string notTaken(const std::string &base);
  void give(mlir::Value value, llvm::StringRef wanted);
  /// Names what a block declares; a loop's own names are free again behind it.
  void inScope(mlir::Block &block);
  void name(mlir::Operation &op);
  llvm::DenseMap<mlir::Value, std::string> names;
  llvm::StringSet<> taken, temporary, everywhere;
  llvm::StringMap<std::string> views; // names of parts of buffers, by what they are
  llvm::StringMap<int> numbers; // behind a base; all below, and the base alone (1), are taken
};

/// Letters, digits and `_` only, not a word of C++ or of the runtime that programs use bare.
std::string identifier(llvm::StringRef text);

} // namespace echelon::codegen
