#include "codegen/cpu/Cpu.h"
#include "codegen/Functions.h"
#include "codegen/Kernels.h"
#include "codegen/cpu/Loops.h"
#include "ir/ech/SourcePlace.h"
#include "ir/rt/Offload.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

void Cpu::printIncludes(raw_ostream &os) const {
  os << "#include \"runtime/Runtime.h\"\n\n#include <algorithm>\n#include <cmath>\n#include <limits>\n\n"
     << "using namespace echelon::runtime;\n";
}

void Cpu::kernel(Operation *op, Printer &printer) {
  const Call made = callOf(op, printer);
  printer.call(op, made.function, made.arguments);
}

void Cpu::nest(rt::FusedOp op, Printer &printer) { cpu::spellLoops(op, printer); }

void Cpu::rule(rt::FunctionOp rule, const Text &text, raw_ostream &os) {
  DenseSet<Value> written;
  rule.walk([&](rt::FusedOp loop) { written.insert(loop.getOutputs().begin(), loop.getOutputs().end()); });
  SmallVector<std::string> parameters;
  std::string length;
  for (Value argument : rule.getBody().getArguments()) {
    if (argument.getType().isIndex())
      length = nameOf(argument);
    auto buffer = dyn_cast<rt::Buffer>(argument.getType());
    Type type = buffer ? buffer.getElement() : argument.getType();
    std::string spelled = type.isIndex() ? "int64_t" : rt::storedAs(type).str();
    parameters.push_back((buffer && !written.contains(argument) ? "const " : "") + spelled + (buffer ? " *" : " ") +
                         nameOf(argument));
  }
  os << "/// The update of one parameter, of " << length << " elements on this rank.\n";
  Printer printer = text.printer();
  printer.probes = nullptr; // its calls are measured
  printer.function(filled(("void " + rule.getSymName() + "(").str(), parameters, ") {", 0),
                   [&] { printer.block(rule.getBody().front()); });
  os << printer.text() << "\n";
}

void Cpu::invoke(rt::InvokeOp op, Printer &printer) {
  auto row = llvm::find_if(op.getOperands(), [&](Value v) {
    auto buffer = dyn_cast<rt::Buffer>(v.getType());
    return buffer && buffer.count() == static_cast<int64_t>(op.getCount());
  });
  const std::string length = printer.size(rt::buffer(*row).getAxes());
  auto offloaded = op->getAttrOfType<DenseI64ArrayAttr>(rt::kOffloadedRows);
  SmallVector<std::string> arguments;
  auto operands = op.getOperands().begin();
  for (Type type : op.function().getBody().getArgumentTypes()) {
    if (type.isIndex()) {
      arguments.push_back(offloaded ? "piece.count" : length);
      continue;
    }
    Value operand = *operands++;
    const bool isRow = isa<rt::Buffer>(type);
    arguments.push_back(isa<rt::Buffer>(operand.getType()) && !isRow ? printer.element(operand)
                                                                     : printer.name(operand));
    if (isRow && offloaded)
      arguments.back() += " + piece.first";
  }
  if (!offloaded)
    return printer.call(op, op.getCallee(), arguments);
  std::string rows;
  for (int64_t i : offloaded.asArrayRef())
    rows += (rows.empty() ? "" : ", ") + printer.name(op.getOperands()[i]);
  printer.open("for (const UpdatePiece piece : in_pieces(r, " + length + ", {" + rows + "})) {");
  printer.call(op, op.getCallee(), arguments);
  printer.close();
}

void Cpu::report(rt::ReportOp op, Printer &printer) {
  const std::string place = ech::sourcePlace(op.getLoc());
  printer.call(op, "r.report", {std::to_string(op.getSlot()), printer.element(op.getValue())},
               (place.empty() ? "" : place + "  ") + op.getName().str());
  if (op.getKind() == ech::stringifyReportKind(ech::ReportKind::Norm)) {
    printer.line("if (r.isBroken())");
    printer.line("  return; // a loss or the norm is not finite: nothing is updated");
  }
}

void Cpu::progress(rt::ProgressOp op, Printer &printer) { printer.line(op.getLooks() ? "r.look();" : "progress(r);"); }
