// Operations on whole arrays by the names of their axes, of which the meanings of operations are made.
#pragma once
#include "test/interpret/Walk.h"

namespace echelon::interpret {

/// The array without some axes.
Array shrunk(const Array &x, mlir::ArrayAttr over, double fill);
/// Reductions over some axes; of equal largest values the lowest position.
Array sumOver(const Array &x, mlir::ArrayAttr over);
Array maxOver(const Array &x, mlir::ArrayAttr over);
Array argmaxOver(const Array &x, mlir::ArrayAttr over);
/// lse = shift + logSum, the shift being the maximum.
struct LogSumExp {
  Array lse, shift, logSum;
};
LogSumExp logSumExp(const Array &x, mlir::ArrayAttr over);
/// Elements along some axes.
int64_t countOf(const Array &x, mlir::ArrayAttr over);

/// f of the inputs' elements at each position of `like`.
template <typename F> Array combine(const Array &like, llvm::ArrayRef<const Array *> inputs, F f) {
  Array y = like;
  llvm::SmallVector<const Array *> all{&y};
  llvm::append_range(all, inputs);
  Walk walk = walkOver(all);
  std::vector<double> x(inputs.size() + 3, 0);
  walk.run([&] {
    for (size_t i = 0; i < inputs.size(); ++i)
      x[i] = inputs[i]->values[walk.at(i + 1)];
    y.values[walk.at(0)] = f(x.data());
  });
  return y;
}

/// Along the axis: copies between a whole and its part that starts at `start`. `partIsTo`: which of the two the part
/// is; `gone`: the part lacks the axis.
void copyPart(Array &to, const Array &from, llvm::StringRef axis, int64_t start, bool partIsTo, bool gone);
/// The place of the element at these coordinates; -1 outside.
int64_t placeIn(const Array &x, llvm::function_ref<int64_t(llvm::StringRef)> coordinate);
/// A walk over y's axes and further (axis, size) pairs.
Walk walkWith(const Array &y, llvm::ArrayRef<std::pair<std::string, int64_t>> more);

} // namespace echelon::interpret
