// How often the ranks of a program do something.
#pragma once
#include "ir/rt/Rt.h"
#include <algorithm>

namespace echelon::rt {

/// A number for each stage of a pipeline, in order; one where all ranks do the same.
struct ByStage {
  llvm::SmallVector<int64_t> numbers = {0};

  int64_t of(size_t stage) const { return numbers[numbers.size() == 1 ? 0 : stage]; }
  int64_t most() const { return *std::max_element(numbers.begin(), numbers.end()); }
  void add(const ByStage &other, int64_t factor = 1) {
    if (numbers.size() < other.numbers.size())
      numbers.resize(other.numbers.size(), numbers.front());
    for (size_t stage = 0; stage < numbers.size(); ++stage)
      numbers[stage] += other.of(stage) * factor;
  }
};

/// How often an operation is done in one go of its function, where mesh axes have these sizes: once in a loop that runs
/// until data end.
ByStage timesOf(mlir::Operation *op, llvm::ArrayRef<int64_t> meshSizes);

} // namespace echelon::rt
