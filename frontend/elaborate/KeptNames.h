// The values that `recompute keep (attn.q, mlp)` names.
//
// A value's path is that of a parameter declared beside it: `layer.attn.q` is what `q = …` assigns in the block that is
// called `attn` in `repeat layer`, and `layer.mlp` what the call `mlp` returns. A name is a path, or what is left of
// one without its first parts. It stands for all values of its paths, where one is assigned several times.
#pragma once
#include "frontend/Diagnostics.h"
#include "frontend/ast/Ast.h"
#include "mlir/IR/Value.h"
#include <set>

namespace echelon::frontend {

class KeptNames {
public:
  explicit KeptNames(const std::vector<Path> *wanted) : wanted(wanted) {}

  /// Whether values are to be told at all.
  bool areWanted() const { return wanted != nullptr; }
  /// A value in a repeat has a path: where a name stands for it, its operation is marked with that.
  void value(mlir::Value value, llvm::StringRef path);
  /// Reports names that no value has.
  void finish(Diagnostics &diagnostics) const;

private:
  const std::vector<Path> *wanted; // null: none
  std::set<std::string> known;     // paths and their ends
};

} // namespace echelon::frontend
