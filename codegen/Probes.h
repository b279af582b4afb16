// What a program that is to be profiled has beside the others': a table of its operations, and after each one a line
// that ends its lap.
#pragma once
#include "passes/LocalNames.h"
#include "llvm/Support/raw_ostream.h"

namespace echelon::codegen {

class Probes {
public:
  /// The line behind an operation that was printed; empty where its parts are measured, not it.
  std::string behind(mlir::Operation &op);
  /// The table, one line an operation that has a line after it.
  void print(llvm::raw_ostream &os) const;

private:
  llvm::SmallVector<std::string> entries;
};

} // namespace echelon::codegen
