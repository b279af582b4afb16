#include "test/interpret/Algebra.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace echelon::ech;
using namespace echelon::interpret;

Array::Array(Tensor type) {
  for (const Axis &axis : type.getAxes()) {
    axes.push_back(axis.name.str());
    sizes.push_back(axis.size);
  }
  values.assign(type.count(), 0);
}
int64_t Array::sizeOf(StringRef axis) const {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] == axis)
      return sizes[i];
  return 1;
}
Array Array::inOrder(ArrayRef<std::string> order) const {
  Array y;
  for (const std::string &axis : order) {
    y.axes.push_back(axis);
    y.sizes.push_back(sizeOf(axis));
  }
  y.values.assign(values.size(), 0);
  Walk walk = walkOver({&y, this});
  walk.run([&] { y.values[walk.at(0)] = values[walk.at(1)]; });
  return y;
}

Array echelon::interpret::shrunk(const Array &x, ArrayAttr over, double fill) {
  Array y;
  for (size_t i = 0; i < x.axes.size(); ++i)
    if (!has(over, x.axes[i])) {
      y.axes.push_back(x.axes[i]);
      y.sizes.push_back(x.sizes[i]);
    }
  int64_t n = 1;
  for (int64_t size : y.sizes)
    n *= size;
  y.values.assign(n, fill);
  return y;
}
Array echelon::interpret::sumOver(const Array &x, ArrayAttr over) {
  Array y = shrunk(x, over, 0);
  Walk walk = walkOver({&x, &y});
  walk.run([&] { y.values[walk.at(1)] += x.values[walk.at(0)]; });
  return y;
}
Array echelon::interpret::maxOver(const Array &x, ArrayAttr over) {
  Array y = shrunk(x, over, -std::numeric_limits<double>::infinity());
  Walk walk = walkOver({&x, &y});
  walk.run([&] { y.values[walk.at(1)] = std::max(y.values[walk.at(1)], x.values[walk.at(0)]); });
  return y;
}
Array echelon::interpret::argmaxOver(const Array &x, ArrayAttr over) {
  Array best = shrunk(x, over, -std::numeric_limits<double>::infinity()), y = shrunk(x, over, 0);
  Walk walk = walkOver({&x, &best});
  std::string axis = cast<StringAttr>(over[0]).getValue().str();
  walk.run([&] {
    double &b = best.values[walk.at(1)], v = x.values[walk.at(0)], i = walk.coordinate(axis);
    double &at = y.values[walk.at(1)];
    if (v > b || (v == b && i < at)) {
      b = v;
      at = i;
    }
  });
  return y;
}
LogSumExp echelon::interpret::logSumExp(const Array &x, ArrayAttr over) {
  Array m = maxOver(x, over);
  Array e = combine(x, {&x, &m}, [](double *v) { return std::exp(v[0] - v[1]); });
  Array s = sumOver(e, over);
  return {combine(m, {&m, &s}, [](double *v) { return v[0] + std::log(v[1]); }), m,
          combine(s, {&s}, [](double *v) { return std::log(v[0]); })};
}
int64_t echelon::interpret::countOf(const Array &x, ArrayAttr over) {
  int64_t n = 1;
  for (auto name : over.getAsRange<StringAttr>())
    n *= x.sizeOf(name);
  return n;
}

void echelon::interpret::copyPart(Array &to, const Array &from, StringRef axis, int64_t start, bool partIsTo,
                                  bool gone) {
  const Array &part = partIsTo ? to : from, &whole = partIsTo ? from : to;
  Walk walk = walkOver({&part}); // positions of the part
  int64_t stride = 1;
  std::vector<int64_t> strides(whole.axes.size());
  for (size_t i = whole.axes.size(); i-- > 0; stride *= whole.sizes[i])
    strides[i] = stride;
  walk.run([&] {
    int64_t place = 0;
    for (size_t i = 0; i < whole.axes.size(); ++i)
      place += strides[i] *
               (whole.axes[i] == axis ? start + (gone ? 0 : walk.coordinate(axis)) : walk.coordinate(whole.axes[i]));
    (partIsTo ? to.values[walk.at(0)] : to.values[place]) = partIsTo ? from.values[place] : from.values[walk.at(0)];
  });
}

int64_t echelon::interpret::placeIn(const Array &x, llvm::function_ref<int64_t(StringRef)> coordinate) {
  int64_t place = 0;
  for (size_t i = 0; i < x.axes.size(); ++i) {
    int64_t c = coordinate(x.axes[i]);
    if (c < 0 || c >= x.sizes[i])
      return -1;
    place = place * x.sizes[i] + c;
  }
  return place;
}

Walk echelon::interpret::walkWith(const Array &y, llvm::ArrayRef<std::pair<std::string, int64_t>> more) {
  std::vector<std::string> axes = y.axes;
  std::vector<int64_t> sizes = y.sizes;
  for (auto &[axis, size] : more) {
    axes.push_back(axis);
    sizes.push_back(size);
  }
  Walk walk(axes, sizes);
  walk.add(y);
  return walk;
}
