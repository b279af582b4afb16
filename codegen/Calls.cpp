#include "codegen/Calls.h"
#include "codegen/cpu/Loops.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

namespace {
void spell(rt::InvokeOp op, Writer &writer) {
  SmallVector<std::string> arguments;
  auto operands = op.getOperands().begin();
  for (Type type : op.function().getBody().getArgumentTypes()) {
    if (type.isIndex()) {
      auto row = llvm::find_if(op.getOperands(), [&](Value v) {
        auto buffer = dyn_cast<rt::Buffer>(v.getType());
        return buffer && buffer.count() == static_cast<int64_t>(op.getCount());
      });
      arguments.push_back(writer.size(rt::buffer(*row).getAxes()));
      continue;
    }
    Value operand = *operands++;
    arguments.push_back(isa<rt::Buffer>(operand.getType()) && !isa<rt::Buffer>(type) ? writer.element(operand)
                                                                                     : writer.name(operand));
  }
  writer.call(op, op.getCallee(), arguments);
}

/// A number of elements by the axes of a dense buffer that multiply to it, first or last ones; a number where none do.
std::string elements(int64_t n, ArrayRef<Value> buffers, bool areFirst, Writer &writer) {
  for (Value v : buffers) {
    ArrayRef<ech::Axis> axes = rt::buffer(v).getAxes();
    int64_t product = 1;
    for (size_t i = 1; i <= axes.size() && rt::buffer(v).isDense(); ++i) {
      product *= (areFirst ? axes[i - 1] : axes[axes.size() - i]).size;
      if (product == n && n > 1)
        return writer.size(areFirst ? axes.take_front(i) : axes.take_back(i));
    }
  }
  return std::to_string(n);
}

void spell(rt::CollectiveOp op, Writer &writer) {
  SmallVector<std::string> arguments{
      "r", "r.group(" + std::to_string(op->getAttrOfType<IntegerAttr>("rt.group").getInt()) + ")"};
  arguments.push_back(writer.name(op.getOut()));
  if (op.getIn() != op.getOut())
    arguments.push_back(writer.name(op.getIn()));
  std::string head = op.getKind().str();
  if (op.getRuns()) {
    head += "_inner";
    arguments.push_back(elements(*op.getRuns(), {op.getIn(), op.getOut()}, true, writer));
  }
  arguments.push_back(elements(op.getCount() / op.getRuns().value_or(1), {op.getIn(), op.getOut()}, false, writer));
  if (op.getReduction())
    arguments.push_back(op.getReduction()->str());
  arguments.push_back(("Algorithm::" + op.getAlgorithm()).str());
  if (std::string place = writer.place(op); !place.empty()) // for who waits in vain
    arguments.push_back(place);
  if (op.getTicket())
    head = writer.define(op.getTicket()) + " = " + head + "_start";
  if (op.getTickets())
    head = writer.name(op.getTickets()) + "[" + writer.name(op.getPosition()) + "] = " + head + "_start";
  const double megabytes = static_cast<double>(op.messageBytes()) / 1e6;
  const std::string size = megabytes >= 0.01 ? llvm::formatv("{0:f2} MB", megabytes).str()
                                             : llvm::formatv("{0} bytes", op.messageBytes()).str();
  writer.call(op, head, arguments, (Twine(op.getRanks()) + " ranks, " + size + ": " + op.getWhy()).str());
}

void spell(rt::ReportOp op, Writer &writer) {
  writer.call(op, "r.report", {std::to_string(op.getSlot()), writer.element(op.getValue())}, op.getName());
  if (op.getKind() == ech::stringifyReportKind(ech::ReportKind::Norm)) {
    writer.line("if (r.isBroken())");
    writer.line("  return; // a loss or the norm is not finite: nothing is updated");
  }
}

void spell(rt::TicketsOp op, Writer &writer) { writer.tickets(op.getTickets(), op.getCount()); }
void spell(rt::WaitOp op, Writer &writer) { writer.call(op, "wait", {writer.name(op.getTicket())}); }
void spell(rt::FusedOp op, Writer &writer) { cpu::spellLoops(op, writer); }
} // namespace

void codegen::spell(rt::OffsetOp op, Writer &writer) {
  std::string text;
  for (auto [mesh, factor] : llvm::zip(op.getMesh(), op.getFactors())) {
    text += text.empty() ? (factor < 0 ? "-" : "") : (factor < 0 ? " - " : " + ");
    text += "r.coordinate(" + std::to_string(mesh) + ")";
    if (std::abs(factor) != 1)
      text += " * " + std::to_string(std::abs(factor));
  }
  if (text.empty() || op.getPlus() != 0)
    text += (text.empty() ? "" : " + ") + std::to_string(op.getPlus());
  writer.line("const int64_t " + writer.name(op.getResult()) + " = " + text + ";");
}

void codegen::spell(rt::ForOp op, Writer &writer) {
  const std::string i = writer.name(op.position());
  const std::string n = writer.size(ech::Axis{op.getAxisAttr(), static_cast<int64_t>(op.getCount())});
  if (op.getReverse())
    writer.open("for (int64_t " + i + " = " + n + " - 1; " + i + " >= 0; --" + i + ") {");
  else
    writer.open("for (int64_t " + i + " = 0; " + i + " < " + n + "; ++" + i + ") {");
  writer.block(op.getBody().front());
  writer.close();
}

void codegen::spell(Operation *op, Writer &writer) {
  llvm::TypeSwitch<Operation *>(op)
      .Case<rt::InvokeOp, rt::CollectiveOp, rt::ReportOp, rt::TicketsOp, rt::WaitOp, rt::FusedOp>(
          [&](auto typed) { ::spell(typed, writer); })
      .Case<rt::ForOp>([&](auto loop) { codegen::spell(loop, writer); })
      .Default([&](Operation *kernel) { writer.kernel(kernel); });
}
