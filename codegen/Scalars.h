// What a loop or a kernel computes of scalars: loads, expressions, variables, stores.
#pragma once
#include "codegen/Expression.h"
#include "codegen/Printer.h"
#include "ir/rt/Rt.h"

namespace echelon::codegen {

/// What a pass called a variable, or the position of a loop.
std::string variableName(mlir::Value value);

class ScalarPrinter {
public:
  explicit ScalarPrinter(Printer &printer) : printer(printer) {}
  virtual ~ScalarPrinter() = default;

protected:
  /// A number of the function that the scalars are in.
  virtual Expression number(mlir::Value value) { return {printer.name(value), 9}; }

  /// `const float x = …;` of an operation with a name.
  void declare(mlir::Operation *scalar);
  void spell(rt::StoreOp op);
  /// A value where it is used: its name, or else what computes it.
  Expression expression(mlir::Value value);
  virtual std::string place(mlir::Value buffer, mlir::ValueRange indices, llvm::ArrayRef<int64_t> strides);
  /// "b * hidden + h"; empty of the first element.
  std::string index(mlir::Value buffer, mlir::ValueRange indices, llvm::ArrayRef<int64_t> strides);
  /// The position of a loop, as a number.
  virtual std::string position(mlir::Value value) { return variableName(value); }

  Printer &printer;

private:
  Expression computed(mlir::Operation *made);
  Expression expressionOf(rt::LoadOp op);
  Expression expressionOf(rt::LiteralOp op);
  Expression expressionOf(rt::PositionOp op);
  Expression expressionOf(rt::TotalOp op);
  Expression expressionOf(rt::ComputeOp op);
};

} // namespace echelon::codegen
