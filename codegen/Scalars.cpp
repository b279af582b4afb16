#include "codegen/Scalars.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

std::string codegen::variableName(Value v) {
  auto position = dyn_cast<BlockArgument>(v);
  Operation *op = position ? position.getOwner()->getParentOp() : v.getDefiningOp();
  if (isa<rt::KernelOp>(op))
    return nameOf(v);
  return op->getAttrOfType<StringAttr>(rt::kName).str();
}

std::string ScalarPrinter::place(Value buffer, ValueRange indices, ArrayRef<int64_t> strides) {
  const std::string at = index(buffer, indices, strides);
  return at.empty() ? printer.element(buffer) : printer.name(buffer) + "[" + at + "]";
}

std::string ScalarPrinter::index(Value buffer, ValueRange indices, ArrayRef<int64_t> strides) {
  std::string index;
  for (auto [position, stride] : llvm::zip(indices, strides)) {
    index += (index.empty() ? "" : " + ") + variableName(position);
    if (stride == 1)
      continue;
    auto axes = rt::axesWithin(buffer, stride); // a stride by the names of the axes inside of it
    index += " * " + (axes ? printer.size(*axes) : std::to_string(stride));
  }
  return index;
}

Expression ScalarPrinter::expressionOf(rt::LoadOp op) {
  std::string text = place(op.getBuffer(), op.getIndices(), op.getStrides());
  return op.getType().isInteger(1) ? Expression{text + " != 0", 3} : Expression{text, 9};
}

Expression ScalarPrinter::expressionOf(rt::LiteralOp op) {
  const double number = op.getValue().convertToDouble();
  return {literal(number, op.getType()), number < 0 ? 6 : 9};
}

Expression ScalarPrinter::expressionOf(rt::PositionOp op) {
  std::string text = op.getIndex() ? position(op.getIndex()) : "0";
  if (op.getOffset())
    text = op.getIndex() ? printer.name(op.getOffset()) + " + " + text : printer.name(op.getOffset());
  return {"static_cast<int32_t>(" + text + ")", 9};
}

Expression ScalarPrinter::expressionOf(rt::TotalOp op) {
  std::string text = variableName(op.getLocal());
  if (cast<rt::LocalType>(op.getLocal().getType()).getElement() == op.getType())
    return {text, 9};
  return {("static_cast<" + rt::storedAs(op.getType()) + ">(" + text + ")").str(), 9};
}

Expression ScalarPrinter::expressionOf(rt::ComputeOp op) {
  auto operands = llvm::map_to_vector(op.getOperands(), [&](Value v) { return expression(v); });
  return apply(op.getFunction(), operands, llvm::to_vector(op.getOperandTypes()), op.getType());
}

Expression ScalarPrinter::expression(Value value) {
  Operation *made = value.getDefiningOp();
  if (!made || isa<rt::NumberOp, rt::OffsetOp>(made)) // of the function
    return number(value);
  if (made->hasAttr(rt::kName))
    return {variableName(value), 9};
  return computed(made);
}

Expression ScalarPrinter::computed(Operation *made) {
  return llvm::TypeSwitch<Operation *, Expression>(made)
      .Case<rt::LoadOp, rt::LiteralOp, rt::PositionOp, rt::TotalOp, rt::ComputeOp>(
          [&](auto typed) { return expressionOf(typed); })
      .DefaultUnreachable("every scalar has an expression");
}

void ScalarPrinter::declare(Operation *scalar) {
  auto name = scalar->getAttrOfType<StringAttr>(rt::kName);
  if (!name)
    return;
  Type type = scalar->getResult(0).getType();
  StringRef spelled = type.isInteger(1) ? "bool" : rt::storedAs(type);
  printer.assign(("const " + spelled + " " + name.getValue()).str(), "=", computed(scalar).text);
}

void ScalarPrinter::spell(rt::StoreOp op) {
  std::string to = place(op.getBuffer(), op.getIndices(), op.getStrides());
  if (printer.isVariable(op.getBuffer()))
    to = ("const " + rt::storedAs(rt::buffer(op.getBuffer()).getElement()) + " " + to).str();
  printer.assign(to, op.getAdds() ? "+=" : "=", expression(op.getValue()).text);
}
