#include "codegen/cpu/Loops.h"
#include "codegen/Scalars.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

namespace {
/// Spells the operations of a loop, one after the other. What has no name is where it is used.
class LoopPrinter : ScalarPrinter {
public:
  using ScalarPrinter::ScalarPrinter;
  void block(Block &block) {
    for (Operation &op : block)
      llvm::TypeSwitch<Operation *>(&op)
          .Case<rt::LoopOp, rt::StoreOp, rt::AccumulateOp, rt::LocalOp, rt::ZeroOp, rt::LongSumOp, rt::EndRowOp,
                rt::EndSumOp, rt::BlockEndOp>([&](auto typed) { spell(typed); })
          .Default([&](Operation *scalar) { declare(scalar); });
  }

private:
  using ScalarPrinter::spell;
  void spell(rt::LoopOp op);
  void spell(rt::AccumulateOp op) { printer.assign(variableName(op.getLocal()), "+=", expression(op.getValue()).text); }
  void spell(rt::LocalOp op) {
    printer.line(rt::storedAs(op.getType().getElement()) + " " + variableName(op) + " = 0;");
  }
  void spell(rt::ZeroOp op) {
    printer.line("fill(" + printer.name(op.getBuffer()) + ", " + sizeOf(op.getBuffer()) + ", " +
                 literal(0, rt::buffer(op.getBuffer()).getElement()) + ");");
  }
  void spell(rt::LongSumOp op);
  void spell(rt::EndRowOp op) { printer.line(variableName(op.getSum()) + ".row();"); }
  void spell(rt::EndSumOp op) { printer.line(variableName(op.getSum()) + ".finish();"); }
  void spell(rt::BlockEndOp op) {
    if (op.getAll())
      printer.line("const int64_t " + variableName(op) + " = std::min<int64_t>(" + endText(op) + ", " +
                   printer.size(op.getAll()->getAxes()) + ");");
  }

  std::string sizeOf(Value buffer) { return printer.size(rt::buffer(buffer).getAxes()); }
  std::string endText(rt::BlockEndOp op) {
    return variableName(op.getFirst()) + " + " + std::to_string(op.getLength());
  }
};

void LoopPrinter::spell(rt::LongSumOp op) {
  const std::string further = op.getAdds()          ? ", " + std::to_string(op.getValues()) + ", LongSum::FromPlace"
                              : op.getValues() == 1 ? ""
                                                    : ", " + std::to_string(op.getValues());
  printer.line("LongSum " + variableName(op) + "(" + printer.name(op.getBuffer()) + ", " + sizeOf(op.getBuffer()) +
               further + ");");
}

/// What the host compiler may assume of an innermost loop: sums in local variables are added up in any order.
std::string pragmaOf(rt::LoopOp op) {
  std::string names;
  for (Value sum : op.getSums())
    names += (names.empty() ? "" : ", ") + variableName(sum);
  return names.empty() ? "#pragma GCC ivdep" : "#pragma omp simd reduction(+ : " + names + ")";
}

void LoopPrinter::spell(rt::LoopOp op) {
  const std::string i = variableName(op.position()), size = printer.size(op.getSize().getAxes());
  std::string start = "0", end = size;
  if (op.getStart()) {
    start = variableName(op.getStart());
    auto block = op.getEnd().getDefiningOp<rt::BlockEndOp>();
    end = block.getAll() ? variableName(block) : endText(block);
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
