// A whole tensor in double precision, and loops over named axes: for tests, plain and slow.
#pragma once
#include "ir/ech/Ech.h"
#include "test/interpret/Interpret.h"
#include <functional>
#include <vector>

namespace echelon::test {

using ech::Tensor;

struct Array {
  Tensor type; // axes and element alone count
  std::vector<double> data;

  Array() = default;
  explicit Array(Tensor type, double fill = 0) : type(type), data(type.count(), fill) {}
  int64_t stride(llvm::StringRef axis) const {
    int64_t n = 1;
    for (const ech::Axis &a : llvm::reverse(type.getAxes())) {
      if (a.name == axis)
        return n;
      n *= a.size;
    }
    return 0;
  }
};

/// Axes walked together, with the position along each.
class Space {
public:
  std::vector<int64_t> place; ///< where it stands, axis by axis

  void add(llvm::StringRef axis, int64_t size) {
    if (has(axis))
      return;
    axes.push_back({axis, size});
    views.clear();
  }
  void add(Tensor type) {
    for (const ech::Axis &a : type.getAxes())
      add(a.name, a.size);
  }
  bool has(llvm::StringRef axis) const {
    return llvm::any_of(axes, [&](auto &a) { return a.first == axis; });
  }
  int64_t at(llvm::StringRef axis) const {
    for (auto [i, a] : llvm::enumerate(axes))
      if (a.first == axis)
        return place[i];
    return 0;
  }
  int index(llvm::StringRef axis) const {
    for (auto [i, a] : llvm::enumerate(axes))
      if (a.first == axis)
        return i;
    return -1;
  }
  /// Where the array has its element at this place (axes that the space lacks: 0).
  int64_t in(const Array &array) const {
    int64_t offset = 0;
    for (auto [axis, stride] : view(array.type))
      offset += place[axis] * stride;
    return offset;
  }
  void each(llvm::function_ref<void()> visit) {
    place.assign(axes.size(), 0);
    for (auto &a : axes)
      if (a.second == 0)
        return;
    while (true) {
      visit();
      size_t i = axes.size();
      while (i > 0 && ++place[i - 1] == axes[i - 1].second)
        place[--i] = 0;
      if (i == 0)
        return;
    }
  }

  /// Stands at a place that a function of the axis says.
  void stand(llvm::function_ref<int64_t(llvm::StringRef)> where) {
    place.clear();
    for (auto &a : axes)
      place.push_back(where(a.first));
  }

private:
  using View = llvm::SmallVector<std::pair<int, int64_t>, 6>; // axis of the space, stride in the array
  const View &view(Tensor type) const {
    for (auto &[known, view] : views)
      if (known == type)
        return view;
    View view;
    int64_t stride = 1;
    for (const ech::Axis &a : llvm::reverse(type.getAxes())) {
      for (auto [i, mine] : llvm::enumerate(axes))
        if (mine.first == a.name)
          view.push_back({int(i), stride});
      stride *= a.size;
    }
    views.push_back({type, view});
    return views.back().second;
  }
  mutable std::vector<std::pair<Tensor, View>> views;
  std::vector<std::pair<llvm::StringRef, int64_t>> axes;
};

/// What an operation reads besides its operands.
struct Surroundings {
  std::vector<interpret::Loop> loops; // the enclosing repeats, outermost first
  std::string batchAxis = "batch";
  double learningRate = 0.01;
  int64_t step = 2;
  uint64_t seed = 1;
  double lossScale = 1;
};

/// The results of one operation that has no region, on whole values. Ends the test with a message where it does not
/// know the operation.
std::vector<Array> evaluate(mlir::Operation *op, const std::vector<Array> &operands, const Surroundings &around);

} // namespace echelon::test
