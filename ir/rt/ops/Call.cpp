// What is one line of a program but kernels: rules, collectives, reports, waits, loops.
#include "ir/ech/Ech.h"
#include "ir/rt/Rt.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace echelon::rt;

//===- rt.invoke -------------------------------------------------------------------------------------------------===//

namespace {
FunctionOp calleeOf(InvokeOp op) { return SymbolTable::lookupNearestSymbolFrom<FunctionOp>(op, op.getCalleeAttr()); }
} // namespace

LogicalResult InvokeOp::verify() {
  FunctionOp callee = calleeOf(*this);
  if (!callee)
    return emitOpError() << "invokes " << getCallee() << ", which is no function of the module";
  SmallVector<Type> wanted;
  for (Type type : callee.getBody().getArgumentTypes())
    if (!type.isIndex())
      wanted.push_back(type);
  if (wanted.size() != getOperands().size())
    return emitOpError() << "has " << getOperands().size() << " operands, and " << getCallee() << " takes "
                         << wanted.size();
  for (auto [operand, type] : llvm::zip(getOperands(), wanted)) {
    auto has = dyn_cast<Buffer>(operand.getType()), takes = dyn_cast<Buffer>(type);
    if (takes ? !has || has.getElement() != takes.getElement() || !has.isDense() ||
                    has.count() != static_cast<int64_t>(getCount())
              : (has && has.count() == 1 ? has.getElement() : operand.getType()) != type)
      return emitOpError() << "gives " << operand.getType() << " where " << getCallee() << " takes " << type;
  }
  for (int64_t i : getWritten())
    if (i < 0 || i >= static_cast<int64_t>(getOperands().size()))
      return emitOpError() << "names operands that it has";
  return success();
}

SmallVector<Value> InvokeOp::writes() {
  return llvm::map_to_vector(getWritten(), [&](int64_t i) { return Value(getOperands()[i]); });
}
SmallVector<Value> InvokeOp::reads() {
  return llvm::filter_to_vector(getOperands(), [](Value v) { return isa<Buffer>(v.getType()); });
}

void InvokeOp::emit(Writer &writer) {
  SmallVector<std::string> arguments;
  auto operands = getOperands().begin();
  for (Type type : calleeOf(*this).getBody().getArgumentTypes()) {
    if (type.isIndex()) {
      auto row = llvm::find_if(getOperands(), [&](Value v) {
        auto buffer = dyn_cast<Buffer>(v.getType());
        return buffer && buffer.count() == static_cast<int64_t>(getCount());
      });
      arguments.push_back(writer.size(buffer(*row).getAxes()));
      continue;
    }
    Value operand = *operands++;
    arguments.push_back(isa<Buffer>(operand.getType()) && !isa<Buffer>(type) ? writer.element(operand)
                                                                             : writer.name(operand));
  }
  writer.call(*this, getCallee(), arguments);
}

//===- collectives -----------------------------------------------------------------------------------------------===//

int64_t CollectiveOp::messageBytes() {
  int64_t bytes = getCount() * buffer(getIn()).elementBytes();
  return getKind() == "all_reduce" || getKind() == "broadcast" ? bytes : bytes * getRanks();
}

LogicalResult CollectiveOp::verify() {
  if (getTickets() && getTicket())
    return emitOpError() << "has a ticket of its own or keeps it in rt.tickets, not both";
  auto loop = (*this)->getParentOfType<ForOp>();
  if (getTickets() && (!loop || loop.position() != getPosition()))
    return emitOpError() << "keeps its ticket at the position of the loop that it stands in";
  auto kept = getTickets() ? getTickets().getDefiningOp<TicketsOp>() : TicketsOp();
  if (getTickets() && (!kept || kept.getCount() != loop.getCount()))
    return emitOpError() << "keeps " << loop.getCount() << " tickets, which one rt.tickets has room for";
  if (!getRuns())
    return success();
  if (getKind() != "all_gather" && getKind() != "reduce_scatter")
    return emitOpError() << "has rows in runs, which all_gather and reduce_scatter take alone";
  if (*getRuns() < 2 || getCount() % *getRuns() != 0)
    return emitOpError() << "has rows of " << getCount() << " elements in " << *getRuns()
                         << " runs: there are two or more, equally long";
  return success();
}

namespace {
/// A number of elements by the axes of a dense buffer that multiply to it, first or last ones; a number where none do.
std::string elements(int64_t n, ArrayRef<Value> buffers, bool areFirst, Writer &writer) {
  for (Value v : buffers) {
    ArrayRef<echelon::ech::Axis> axes = buffer(v).getAxes();
    int64_t product = 1;
    for (size_t i = 1; i <= axes.size() && buffer(v).isDense(); ++i) {
      product *= (areFirst ? axes[i - 1] : axes[axes.size() - i]).size;
      if (product == n && n > 1)
        return writer.size(areFirst ? axes.take_front(i) : axes.take_back(i));
    }
  }
  return std::to_string(n);
}
} // namespace

void CollectiveOp::emit(Writer &writer) {
  SmallVector<std::string> arguments{
      "r", "r.group(" + std::to_string((*this)->getAttrOfType<IntegerAttr>("rt.group").getInt()) + ")"};
  arguments.push_back(writer.name(getOut()));
  if (getIn() != getOut())
    arguments.push_back(writer.name(getIn()));
  std::string head = getKind().str();
  if (getRuns()) {
    head += "_inner";
    arguments.push_back(elements(*getRuns(), {getIn(), getOut()}, true, writer));
  }
  arguments.push_back(elements(getCount() / getRuns().value_or(1), {getIn(), getOut()}, false, writer));
  if (getReduction())
    arguments.push_back(getReduction()->str());
  arguments.push_back(("Algorithm::" + getAlgorithm()).str());
  if (std::string place = writer.place(*this); !place.empty()) // for who waits in vain
    arguments.push_back(place);
  if (getTicket())
    head = writer.define(getTicket()) + " = " + head + "_start";
  if (getTickets())
    head = writer.name(getTickets()) + "[" + writer.name(getPosition()) + "] = " + head + "_start";
  double megabytes = static_cast<double>(messageBytes()) / 1e6;
  std::string size = megabytes >= 0.01 ? llvm::formatv("{0:f2} MB", megabytes).str()
                                       : llvm::formatv("{0} bytes", messageBytes()).str();
  writer.call(*this, head, arguments, (llvm::Twine(getRanks()) + " ranks, " + size + ": " + getWhy()).str());
}
SmallVector<Value> CollectiveOp::reads() { return {getIn()}; }
SmallVector<Value> CollectiveOp::writes() { return {getOut()}; }

LogicalResult TicketsOp::verify() {
  auto keeps = [](Operation *user) { return isa<CollectiveOp>(user); };
  if (getCount() < 1 || llvm::count_if(getTickets().getUsers(), keeps) != 1)
    return emitOpError() << "has room for a ticket or more, which one collective keeps there";
  return success();
}
void TicketsOp::emit(Writer &writer) { writer.tickets(getTickets(), getCount()); }
void WaitOp::emit(Writer &writer) { writer.call(*this, "wait", {writer.name(getTicket())}); }

//===- numbers ---------------------------------------------------------------------------------------------------===//

void ReportOp::emit(Writer &writer) {
  writer.call(*this, "r.report", {std::to_string(getSlot()), writer.element(getValue())}, getName());
  if (getKind() == ech::stringifyReportKind(ech::ReportKind::Norm)) {
    writer.line("if (r.isBroken())");
    writer.line("  return; // a loss or the norm is not finite: nothing is updated");
  }
}
SmallVector<Value> ReportOp::reads() { return {getValue()}; }
SmallVector<Value> ReportOp::writes() { return {}; }

void OffsetOp::emit(Writer &writer) {
  std::string text;
  for (auto [mesh, factor] : llvm::zip(getMesh(), getFactors())) {
    text += text.empty() ? (factor < 0 ? "-" : "") : (factor < 0 ? " - " : " + ");
    text += "r.coordinate(" + std::to_string(mesh) + ")";
    if (std::abs(factor) != 1)
      text += " * " + std::to_string(std::abs(factor));
  }
  if (text.empty() || getPlus() != 0)
    text += (text.empty() ? "" : " + ") + std::to_string(getPlus());
  writer.line("const int64_t " + writer.name(getResult()) + " = " + text + ";");
}

//===- loops -----------------------------------------------------------------------------------------------------===//

void ForOp::emit(Writer &writer) {
  std::string i = writer.name(position());
  ech::Axis axis{getAxisAttr(), static_cast<int64_t>(getCount())};
  std::string n = writer.size(axis);
  if (getReverse())
    writer.open("for (int64_t " + i + " = " + n + " - 1; " + i + " >= 0; --" + i + ") {");
  else
    writer.open("for (int64_t " + i + " = 0; " + i + " < " + n + "; ++" + i + ") {");
  writer.block(getBody().front());
  writer.close();
}
