#include "ir/ech/ops/Check.h"
#include <limits>

using namespace mlir;
using namespace echelon::ech;

namespace {
std::string describeAxes(MLIRContext *context, ArrayRef<Axis> axes) {
  return describe(Tensor::get(context, axes, Float32Type::get(context)));
}
} // namespace

LogicalResult echelon::ech::checkHas(Operation *op, ArrayAttr names, Tensor type, StringRef whose) {
  for (auto name : names.getAsRange<StringAttr>())
    if (!type.has(name))
      return op->emitOpError() << whose << " " << describe(type) << " has no axis " << name.getValue();
  return success();
}

LogicalResult echelon::ech::checkAxes(Operation *op, Tensor type, ArrayRef<Axis> axes, StringRef whose) {
  bool same = static_cast<size_t>(type.rank()) == axes.size() && llvm::all_of(axes, [&](const Axis &axis) {
                return type.has(axis.name) && type.sizeOf(axis.name) == axis.size;
              });
  if (same)
    return success();
  return op->emitOpError() << whose << " has the axes " << describe(type) << ", not "
                           << describeAxes(op->getContext(), axes);
}

LogicalResult echelon::ech::checkSizesAgree(Operation *op, TypeRange types, ArrayRef<StringRef> except) {
  llvm::SmallDenseMap<StringAttr, int64_t> sizes;
  for (Type type : types)
    for (const Axis &axis : llvm::cast<Tensor>(type).getAxes()) {
      auto [entry, fresh] = sizes.try_emplace(axis.name, axis.size);
      if (!fresh && entry->second != axis.size && !llvm::is_contained(except, axis.name.getValue()))
        return op->emitOpError() << "meets axis " << axis.name.getValue() << " with two sizes, " << entry->second
                                 << " and " << axis.size;
    }
  return success();
}

LogicalResult echelon::ech::checkElement(Operation *op, Tensor type, Type element, StringRef whose) {
  if (type.getElement() == element)
    return success();
  return op->emitOpError() << whose << " has elements " << type.getElement() << ", not " << element;
}

LogicalResult echelon::ech::checkReal(Operation *op, Tensor type, StringRef whose) {
  if (type.isFloat())
    return success();
  return op->emitOpError() << whose << " has elements " << type.getElement() << ", not real numbers";
}

LogicalResult echelon::ech::checkInside(Operation *op, Tensor type, StringRef axis, int64_t first, int64_t count) {
  if (!type.has(axis))
    return op->emitOpError() << describe(type) << " has no axis " << axis;
  if (first < 0 || count < 0 || first + count > type.sizeOf(axis))
    return op->emitOpError() << "positions " << first << " .. " << first + count << " leave axis " << axis << " = "
                             << type.sizeOf(axis);
  return success();
}

Padding echelon::ech::lowestAlong(ArrayAttr over, StringRef axis) {
  return has(over, axis) ? Padding::number(-std::numeric_limits<double>::infinity()) : Padding();
}

SmallVector<Axis> echelon::ech::unionOfAxes(TypeRange types) {
  SmallVector<Axis> axes;
  for (Type type : types)
    for (const Axis &axis : llvm::cast<Tensor>(type).getAxes())
      if (llvm::none_of(axes, [&](const Axis &seen) { return seen.name == axis.name; }))
        axes.push_back(axis);
  return axes;
}

SmallVector<Axis> echelon::ech::axesWithout(Tensor type, ArrayAttr names) {
  return llvm::to_vector(llvm::make_filter_range(type.getAxes(), [&](const Axis &a) { return !has(names, a.name); }));
}
