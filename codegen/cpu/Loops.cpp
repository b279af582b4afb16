#include "codegen/cpu/Loops.h"
#include "codegen/Expression.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

namespace {
/// What rt-make-loops called a variable, or the position of a loop.
std::string nameOf(Value v) {
  auto position = dyn_cast<BlockArgument>(v);
  Operation *op = position ? position.getOwner()->getParentOp() : v.getDefiningOp();
  return op->getAttrOfType<StringAttr>(rt::kName).str();
}

/// Spells the operations of a loop, one after the other. What has no name is where it is used.
class LoopPrinter {
public:
  explicit LoopPrinter(Printer &printer) : printer(printer) {}
  void block(Block &block) {
    for (Operation &op : block)
      llvm::TypeSwitch<Operation *>(&op)
          .Case<rt::LoopOp, rt::StoreOp, rt::AccumulateOp, rt::LocalOp, rt::ZeroOp, rt::LongSumOp, rt::EndRowOp,
                rt::EndSumOp, rt::BlockEndOp>([&](auto typed) { spell(typed); })
          .Default([&](Operation *scalar) { declare(scalar); });
  }

private:
  void spell(rt::LoopOp op);
  void spell(rt::StoreOp op);
  void spell(rt::AccumulateOp op) { printer.assign(nameOf(op.getLocal()), "+=", expression(op.getValue()).text); }
  void spell(rt::LocalOp op) { printer.line(rt::storedAs(op.getType().getElement()) + " " + nameOf(op) + " = 0;"); }
  void spell(rt::ZeroOp op) {
    printer.line("fill(" + printer.name(op.getBuffer()) + ", " + sizeOf(op.getBuffer()) + ", " +
                 literal(0, rt::buffer(op.getBuffer()).getElement()) + ");");
  }
  void spell(rt::LongSumOp op);
  void spell(rt::EndRowOp op) { printer.line(nameOf(op.getSum()) + ".row();"); }
  void spell(rt::EndSumOp op) { printer.line(nameOf(op.getSum()) + ".finish();"); }
  void spell(rt::BlockEndOp op) {
    if (op.getAll())
      printer.line("const int64_t " + nameOf(op) + " = std::min<int64_t>(" + endText(op) + ", " +
                   printer.size(op.getAll()->getAxes()) + ");");
  }
  void declare(Operation *scalar);

  std::string sizeOf(Value buffer) { return printer.size(rt::buffer(buffer).getAxes()); }
  std::string endText(rt::BlockEndOp op) { return nameOf(op.getFirst()) + " + " + std::to_string(op.getLength()); }
  std::string place(Value buffer, ValueRange indices, ArrayRef<int64_t> strides);
  /// A value where it is used: its name, or else what computes it.
  Expression expression(Value value);
  Expression expressionOf(Operation *made);
  Expression expressionOf(rt::LoadOp op);
  Expression expressionOf(rt::LiteralOp op) {
    const double number = op.getValue().convertToDouble();
    return {literal(number, op.getType()), number < 0 ? 6 : 9};
  }
  Expression expressionOf(rt::PositionOp op);
  Expression expressionOf(rt::TotalOp op);
  Expression expressionOf(rt::ComputeOp op) {
    auto operands = llvm::map_to_vector(op.getOperands(), [&](Value v) { return expression(v); });
    return apply(op.getFunction(), operands, llvm::to_vector(op.getOperandTypes()), op.getType());
  }

  Printer &printer;
};

std::string LoopPrinter::place(Value buffer, ValueRange indices, ArrayRef<int64_t> strides) {
  std::string index;
  for (auto [position, stride] : llvm::zip(indices, strides)) {
    index += (index.empty() ? "" : " + ") + nameOf(position);
    if (stride == 1)
      continue;
    auto axes = rt::axesWithin(buffer, stride); // a stride by the names of the axes inside of it
    index += " * " + (axes ? printer.size(*axes) : std::to_string(stride));
  }
  return index.empty() ? printer.element(buffer) : printer.name(buffer) + "[" + index + "]";
}

Expression LoopPrinter::expressionOf(rt::LoadOp op) {
  std::string text = place(op.getBuffer(), op.getIndices(), op.getStrides());
  return op.getType().isInteger(1) ? Expression{text + " != 0", 3} : Expression{text, 9};
}

Expression LoopPrinter::expressionOf(rt::PositionOp op) {
  std::string text = op.getIndex() ? nameOf(op.getIndex()) : "0";
  if (op.getOffset())
    text = op.getIndex() ? printer.name(op.getOffset()) + " + " + text : printer.name(op.getOffset());
  return {"static_cast<int32_t>(" + text + ")", 9};
}

Expression LoopPrinter::expressionOf(rt::TotalOp op) {
  std::string text = nameOf(op.getLocal());
  if (cast<rt::LocalType>(op.getLocal().getType()).getElement() == op.getType())
    return {text, 9};
  return {("static_cast<" + rt::storedAs(op.getType()) + ">(" + text + ")").str(), 9};
}

Expression LoopPrinter::expression(Value value) {
  Operation *made = value.getDefiningOp();
  if (!made || isa<rt::NumberOp, rt::OffsetOp>(made)) // of the function
    return {printer.name(value), 9};
  return made->hasAttr(rt::kName) ? Expression{nameOf(value), 9} : expressionOf(made);
}

Expression LoopPrinter::expressionOf(Operation *made) {
  return llvm::TypeSwitch<Operation *, Expression>(made)
      .Case<rt::LoadOp, rt::LiteralOp, rt::PositionOp, rt::TotalOp, rt::ComputeOp>(
          [&](auto typed) { return expressionOf(typed); })
      .DefaultUnreachable("every scalar has an expression");
}

void LoopPrinter::declare(Operation *scalar) {
  auto name = scalar->getAttrOfType<StringAttr>(rt::kName);
  if (!name)
    return;
  Type type = scalar->getResult(0).getType();
  StringRef spelled = type.isInteger(1) ? "bool" : rt::storedAs(type);
  printer.assign(("const " + spelled + " " + name.getValue()).str(), "=", expressionOf(scalar).text);
}

void LoopPrinter::spell(rt::StoreOp op) {
  std::string to = place(op.getBuffer(), op.getIndices(), op.getStrides());
  if (printer.isVariable(op.getBuffer()))
    to = ("const " + rt::storedAs(rt::buffer(op.getBuffer()).getElement()) + " " + to).str();
  printer.assign(to, op.getAdds() ? "+=" : "=", expression(op.getValue()).text);
}

void LoopPrinter::spell(rt::LongSumOp op) {
  const std::string further = op.getAdds()          ? ", " + std::to_string(op.getValues()) + ", LongSum::FromPlace"
                              : op.getValues() == 1 ? ""
                                                    : ", " + std::to_string(op.getValues());
  printer.line("LongSum " + nameOf(op) + "(" + printer.name(op.getBuffer()) + ", " + sizeOf(op.getBuffer()) + further +
               ");");
}

/// What the host compiler may assume of an innermost loop: sums in local variables are added up in any order.
std::string pragmaOf(rt::LoopOp op) {
  std::string names;
  for (Value sum : op.getSums())
    names += (names.empty() ? "" : ", ") + nameOf(sum);
  return names.empty() ? "#pragma GCC ivdep" : "#pragma omp simd reduction(+ : " + names + ")";
}

void LoopPrinter::spell(rt::LoopOp op) {
  const std::string i = nameOf(op.position()), size = printer.size(op.getSize().getAxes());
  std::string start = "0", end = size;
  if (op.getStart()) {
    start = nameOf(op.getStart());
    auto block = op.getEnd().getDefiningOp<rt::BlockEndOp>();
    end = block.getAll() ? nameOf(block) : endText(block);
  }
  if (op.getInnermost())
    printer.line(pragmaOf(op));
  const std::string next = op.getStep() ? i + " += " + std::to_string(*op.getStep()) : "++" + i;
  printer.open("for (int64_t " + i + " = " + start + "; " + i + " < " + end + "; " + next + ") {");
  block(op.getBody().front());
  printer.close();
}
} // namespace

void cpu::spellLoops(rt::FusedOp nest, Printer &printer) {
  // what the loops use is declared before them
  for (Value number : nest.getNumbers())
    printer.name(number);
  for (auto along : nest.getBody().getOps<rt::AlongOp>())
    if (along.getOffset())
      printer.name(along.getOffset());
  for (Value v : llvm::concat<Value>(llvm::to_vector(nest.getInputs()), llvm::to_vector(nest.getOutputs())))
    printer.name(v);
  SmallVector<Operation *> inside{nest};
  for (Operation &inner : nest.getBody().front().without_terminator())
    inside.push_back(&inner);
  printer.from(inside, [&] { LoopPrinter(printer).block(nest.getLoops().front()); });
}
