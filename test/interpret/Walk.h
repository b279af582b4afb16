// Walking several arrays along common named axes.
#pragma once
#include "test/interpret/Interpret.h"

namespace echelon::interpret {

/// Visits all positions of the given axes; `at(i)` is the place in the i-th array, which stays where it is along axes
/// that it lacks.
class Walk {
public:
  Walk(std::vector<std::string> axes, std::vector<int64_t> sizes) : axes(std::move(axes)), sizes(std::move(sizes)) {
    position.assign(this->axes.size(), 0);
    for (int64_t size : this->sizes)
      empty |= size == 0;
  }
  void add(const Array &array) {
    std::vector<int64_t> strides(axes.size(), 0);
    int64_t stride = 1;
    for (size_t i = array.axes.size(); i-- > 0; stride *= array.sizes[i])
      for (size_t k = 0; k < axes.size(); ++k)
        if (axes[k] == array.axes[i])
          strides[k] = stride;
    steps.push_back(strides);
    places.push_back(0);
  }
  int64_t at(size_t array) const { return places[array]; }
  int64_t coordinate(llvm::StringRef axis) const {
    for (size_t k = 0; k < axes.size(); ++k)
      if (axes[k] == axis)
        return position[k];
    return 0;
  }
  template <typename Visit> void run(Visit visit) {
    if (empty)
      return;
    for (;;) {
      visit();
      size_t k = axes.size();
      for (;;) {
        if (k == 0)
          return;
        --k;
        if (++position[k] < sizes[k])
          break;
        position[k] = 0;
      }
      for (size_t i = 0; i < places.size(); ++i) {
        places[i] = 0;
        for (size_t j = 0; j < axes.size(); ++j)
          places[i] += position[j] * steps[i][j];
      }
    }
  }

private:
  std::vector<std::string> axes;
  std::vector<int64_t> sizes, position, places;
  std::vector<std::vector<int64_t>> steps;
  bool empty = false;
};

/// Union of the arrays' axes, each with its size.
inline Walk walkOver(llvm::ArrayRef<const Array *> arrays) {
  std::vector<std::string> axes;
  std::vector<int64_t> sizes;
  for (const Array *array : arrays)
    for (size_t i = 0; i < array->axes.size(); ++i)
      if (!llvm::is_contained(axes, array->axes[i])) {
        axes.push_back(array->axes[i]);
        sizes.push_back(array->sizes[i]);
      }
  Walk walk(axes, sizes);
  for (const Array *array : arrays)
    walk.add(*array);
  return walk;
}

} // namespace echelon::interpret
