// Sizes by their names, as rt-name-sizes gave them.
#pragma once
#include "ir/rt/Rt.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

namespace echelon::codegen {

class SizeTable {
public:
  explicit SizeTable(mlir::ModuleOp module);
  /// The product of the sizes of axes: "batch * seq"; what has no name is a number.
  std::string product(llvm::ArrayRef<ech::Axis> axes);
  /// The name of one axis's size; empty: it has none.
  std::string of(const ech::Axis &axis);
  /// Definitions of the sizes that were asked for.
  void print(llvm::raw_ostream &os) const;

private:
  bool conflicts(llvm::StringRef divisor) const;

  struct Size {
    std::string name, definition;
    llvm::SmallVector<std::string> over; // what it is divided by, of `divisors`
  };
  llvm::StringMap<Size> sizes; // by "axis=size"
  llvm::SmallVector<std::string> order;
  llvm::StringMap<int64_t> divisors; // mesh axes and micro batches
  llvm::StringSet<> used;
  llvm::SmallVector<std::string> counters; // mesh axes whose ranks something counts
};

} // namespace echelon::codegen
