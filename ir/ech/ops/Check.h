// What operations ask in common: their verifiers, with messages that name axes and sizes, and their axis rules.
#pragma once
#include "ir/ech/Ech.h"

namespace echelon::ech {

/// Every name of `names` is an axis of `type`; `whose` names the tensor in the message ("the operand").
mlir::LogicalResult checkHas(mlir::Operation *op, mlir::ArrayAttr names, Tensor type, llvm::StringRef whose);
/// `type` has exactly these axes, in any order.
mlir::LogicalResult checkAxes(mlir::Operation *op, Tensor type, llvm::ArrayRef<Axis> axes, llvm::StringRef whose);
/// An axis that several of the types have is equally long in all of them, but for the axes in `except`.
mlir::LogicalResult checkSizesAgree(mlir::Operation *op, mlir::TypeRange types,
                                    llvm::ArrayRef<llvm::StringRef> except = {});
/// The elements of `type` are `element`.
mlir::LogicalResult checkElement(mlir::Operation *op, Tensor type, mlir::Type element, llvm::StringRef whose);
/// The elements of `type` are real numbers.
mlir::LogicalResult checkReal(mlir::Operation *op, Tensor type, llvm::StringRef whose);
/// The positions from `first` on, `count` of them, lie within the axis, which `type` has.
mlir::LogicalResult checkInside(mlir::Operation *op, Tensor type, llvm::StringRef axis, int64_t first, int64_t count);

/// The padding of what looks for the largest value along `over`, or adds exponentials: -infinity along these axes.
Padding lowestAlong(mlir::ArrayAttr over, llvm::StringRef axis);

/// Axes of all types, each once, in order of first sight.
llvm::SmallVector<Axis> unionOfAxes(mlir::TypeRange types);
/// `type`'s axes without those named.
llvm::SmallVector<Axis> axesWithout(Tensor type, mlir::ArrayAttr names);

} // namespace echelon::ech
