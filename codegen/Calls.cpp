#include "codegen/Calls.h"
#include "codegen/Kernels.h"
#include "codegen/Target.h"
#include "ir/dist/State.h"
#include "ir/ech/SourcePlace.h"
#include "ir/rt/Chosen.h"
#include "ir/rt/Offload.h"
#include "runtime/program/Turns.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

namespace {
/// A number of elements by the axes of a dense buffer that multiply to it, first or last ones; a number where none do.
std::string elements(int64_t n, ArrayRef<Value> buffers, bool areFirst, Printer &printer) {
  for (Value v : buffers) {
    ArrayRef<ech::Axis> axes = rt::buffer(v).getAxes();
    int64_t product = 1;
    for (size_t i = 1; i <= axes.size() && rt::buffer(v).isDense(); ++i) {
      product *= (areFirst ? axes[i - 1] : axes[axes.size() - i]).size;
      if (product == n && n > 1)
        return printer.size(areFirst ? axes.take_front(i) : axes.take_back(i));
    }
  }
  return std::to_string(n);
}

/// "2 ranks, 1.05 MB: split seq over tp (gpt.ech:42): dot"
template <typename Op> std::string remark(Op op, int64_t bytes) {
  const double megabytes = static_cast<double>(bytes) / 1e6;
  const std::string size =
      megabytes >= 0.01 ? llvm::formatv("{0:f2} MB", megabytes).str() : llvm::formatv("{0} bytes", bytes).str();
  StringRef why = op.getWhy();
  why.consume_back(" (" + ech::sourcePlace(op.getLoc()) + ")"); // the call says it
  auto choice = op->template getAttrOfType<StringAttr>(rt::kChosen);
  return (Twine(op.getRanks()) + " ranks, " + size + ": " + why + (choice ? "; by " + choice.str() : "")).str();
}

void spell(rt::CollectiveOp op, Printer &printer) {
  SmallVector<std::string> arguments{
      "r", "r.group(" + std::to_string(op->getAttrOfType<IntegerAttr>(rt::kGroup).getInt()) + ")"};
  arguments.push_back(printer.name(op.getOut()));
  if (op.getIn() != op.getOut())
    arguments.push_back(printer.name(op.getIn()));
  std::string head = op.getKind().str();
  if (op.getRuns()) {
    head += "_inner";
    arguments.push_back(elements(*op.getRuns(), {op.getIn(), op.getOut()}, true, printer));
  }
  arguments.push_back(elements(op.getCount() / op.getRuns().value_or(1), {op.getIn(), op.getOut()}, false, printer));
  if (op.getReduction())
    arguments.push_back(op.getReduction()->str());
  const std::string place = printer.place(op), algorithm = ("Algorithm::" + op.getAlgorithm()).str();
  if (op.getAlgorithm() != "automatic")
    arguments.push_back(place.empty() ? algorithm : "{" + algorithm + ", " + place + "}");
  else if (!place.empty())
    arguments.push_back(place);
  if (op.getTicket())
    head = printer.define(op.getTicket()) + " = " + head + "_start";
  if (op.getTickets())
    head = printer.name(op.getTickets()) + "[" + printer.name(op.getPosition()) + "] = " + head + "_start";
  printer.call(op, head, arguments, remark(op, op.messageBytes()));
}

/// The ranks along a mesh axis, or micro batches: by name where they have one, "pp".
std::string countOf(Operation *op, StringRef meshAxis, int64_t ranks, Printer &printer) {
  return printer.size(ech::Axis{StringAttr::get(op->getContext(), "@" + meshAxis), ranks});
}

/// "send(r, r.group(1), r.coordinate(1) + 1, x, batch * embed, …)"
template <typename Message> void spellNeighbor(Message op, StringRef kind, Printer &printer) {
  const std::string place = printer.place(op), own = "r.coordinate(" + std::to_string(op.getMesh()[0]) + ")";
  const std::string ranks = countOf(op, op.getAxis(), op.getRanks(), printer);
  const bool isNext = int64_t(op.getStep()) > 0;
  SmallVector<std::string> arguments{
      "r", "r.group(" + std::to_string(op->template getAttrOfType<IntegerAttr>(rt::kGroup).getInt()) + ")",
      !op.getAround() ? own + (isNext ? " + 1" : " - 1")
      : isNext        ? "(" + own + " + 1) % " + ranks
                      : "(" + own + " + " + ranks + " - 1) % " + ranks,
      printer.name(op.getBuffer()), elements(rt::buffer(op.getBuffer()).count(), {op.getBuffer()}, false, printer)};
  if (!place.empty())
    arguments.push_back(place);
  printer.call(op, kind, arguments, op.getWhy());
}
/// A kernel that sends: what goes from rank to rank in a hop.
template <typename Op> void spellRing(Op op, Printer &printer) {
  const Call call = callOf(op, printer);
  const int64_t bytes = rt::buffer(op.getK()).bytes() + rt::buffer(op.getV()).bytes();
  printer.call(op, call.function, call.arguments, remark(op, bytes));
}
void spell(rt::RingAttentionOp op, Printer &printer) { spellRing(op, printer); }
void spell(rt::RingAttentionGradOp op, Printer &printer) { spellRing(op, printer); }

void spell(rt::SendOp op, Printer &printer) {
  const std::string kept = op.getTickets()
                               ? printer.name(op.getTickets()) + "[" +
                                     (op.getPosition() ? printer.name(op.getPosition()) : "0") + "] = send_start"
                               : "send";
  spellNeighbor(op, kept, printer);
}
void spell(rt::ReceiveOp op, Printer &printer) { spellNeighbor(op, "receive", printer); }

/// "r.coordinate(0) >= 1 && r.coordinate(0) <= 2"; of several chunks of each stage, "chunk * pp + r.coordinate(0) >=
/// …".
std::string placesOf(rt::AtOp op, int64_t ranks, Printer &printer) {
  const int64_t last = *op.getUntil();
  int64_t first = op.getCoordinate();
  std::string place = "r.coordinate(" + std::to_string(uint64_t(op.getMesh())) + ")";
  if (op.getTurn()) {
    first += static_cast<int64_t>(*op.getChunk()) * ranks;
    place = printer.name(op.getTurn()) + " * " + countOf(op, op.getAxis(), ranks, printer) + " + " + place;
  }
  std::string text = first == 0 ? "" : place + " >= " + std::to_string(first);
  if (op.getTurn() || last < ranks - 1)
    text += (text.empty() ? "" : " && ") + place + " <= " + std::to_string(last);
  return text;
}
void spell(rt::AtOp op, Printer &printer) {
  const int64_t m = op.getMesh(), coordinate = op.getCoordinate(), ranks = dist::meshOf(op).sizeOf(m);
  const bool isLast = coordinate > 0 && coordinate == ranks - 1;
  const char *is = op.getExcept() ? " != " : " == ";
  std::string condition = "r.coordinate(" + std::to_string(m) + ")" + is +
                          (isLast ? countOf(op, op.getAxis(), ranks, printer) + " - 1" : std::to_string(coordinate));
  if (op.getUntil())
    condition = placesOf(op, ranks, printer);
  else if (op.getTurn())
    condition +=
        (op.getExcept() ? " || " : " && ") + printer.name(op.getTurn()) + is + std::to_string(uint64_t(*op.getChunk()));
  printer.open("if (" + condition + ") {");
  printer.block(op.getBody().front());
  printer.close();
}

/// Of what lies in a file: "let_go(r, p.wq[l], embed * head * key)".
void spellInFile(Operation *op, Printer &printer) {
  Value buffer = op->getOperand(0);
  printer.call(op, op->getName().stripDialect(),
               {"r", printer.name(buffer), printer.size(rt::buffer(buffer).getAxes())});
}
void spell(rt::LetGoOp op, Printer &printer) { spellInFile(op, printer); }
void spell(rt::WillNeedOp op, Printer &printer) { spellInFile(op, printer); }

/// To and from a buffer of the device, of the same elements.
void spellStaging(Operation *op, Printer &printer) {
  Value to = op->getOperand(0), from = op->getOperand(1);
  printer.call(op, op->getName().stripDialect(),
               {"r", printer.name(to), printer.name(from), printer.size(rt::buffer(to).getAxes())});
}
void spell(rt::FetchOp op, Printer &printer) { spellStaging(op, printer); }
void spell(rt::WriteBackOp op, Printer &printer) { spellStaging(op, printer); }

void spell(rt::TicketsOp op, Printer &printer) { printer.tickets(op.getTickets(), op.getCount()); }
void spell(rt::WaitOp op, Printer &printer) {
  printer.call(op, "wait",
               {printer.name(op.getTicket()) + (op.getPosition() ? "[" + printer.name(op.getPosition()) + "]" : "")});
}
} // namespace

void codegen::spell(rt::OffsetOp op, Printer &printer) {
  const int64_t size = op.getOf() ? op.getOf()->count() : 1, plus = op.getPlus();
  auto spelled = [&](int64_t n) { // "vocab", "2 * vocab"
    if (size == 1 || n % size != 0)
      return std::to_string(n);
    return (n == size ? "" : std::to_string(n / size) + " * ") + printer.size(op.getOf()->getAxes());
  };
  std::string text;
  if (op.getTable()) {
    const ArrayRef<int64_t> table = *op.getTable(), sizes = *op.getSizes();
    for (auto [mesh, count] : llvm::zip(op.getMesh(), sizes))
      text = (text.empty() ? "" : "(" + text + ") * " + std::to_string(count) + " + ") + "r.coordinate(" +
             std::to_string(mesh) + ")";
    std::string numbers;
    for (int64_t n : table)
      numbers += (numbers.empty() ? "" : ", ") + std::to_string(n);
    if (op.getTurn())
      text += " + " + printer.name(op.getTurn()) + " * " + std::to_string(int64_t(*op.getPerChunk()));
    printer.line("const int64_t " + printer.name(op.getResult()) + " = std::array<int64_t, " +
                 std::to_string(table.size()) + ">{" + numbers + "}[" + text + "]" +
                 (op.getPosition() ? " + " + printer.name(op.getPosition()) : "") + ";");
    return;
  }
  const bool isPlusFirst = plus > 0 && !op.getFactors().empty() && op.getFactors().front() < 0;
  if (isPlusFirst)
    text = spelled(plus);
  for (auto [mesh, factor] : llvm::zip(op.getMesh(), op.getFactors())) {
    text += text.empty() ? (factor < 0 ? "-" : "") : (factor < 0 ? " - " : " + ");
    text += "r.coordinate(" + std::to_string(mesh) + ")";
    if (std::abs(factor) != 1)
      text += " * " + spelled(std::abs(factor));
  }
  if (text.empty() || (plus != 0 && !isPlusFirst))
    text += (text.empty() ? ""
             : plus < 0   ? " - "
                          : " + ") +
            (plus == 0 ? "0" : spelled(text.empty() ? plus : std::abs(plus)));
  if (op.getTurn())
    text += " + " + printer.name(op.getTurn()) + " * " + spelled(int64_t(*op.getPerChunk()));
  if (op.getPosition())
    text += " + " + printer.name(op.getPosition());
  printer.line("const int64_t " + printer.name(op.getResult()) + " = " + text + ";");
}

namespace {
/// How many iterations a loop has on this rank.
std::string countOf(rt::ForOp op, Printer &printer) {
  return op.getOwn() ? printer.name(op.getOwn())
                     : printer.size(ech::Axis{op.getAxisAttr(), static_cast<int64_t>(op.getCount())});
}

/// A local function of what is done for an iteration ahead of it, which the first one needs before the loop.
void spellAhead(rt::ForOp op, Printer &printer) {
  const std::string n = countOf(op, printer), function = nameOf(*op.getBody().getOps<rt::NextOp>().begin());
  const bool gathers = !op.ahead()->getOps<rt::CollectiveOp>().empty();
  printer.line(std::string("// the parameters of an iteration, ") + (gathers ? "gathered" : "read") +
               " while the one before it computes");
  printer.open("const auto " + function + " = [&](int64_t " + printer.name(op.position()) + ") {");
  printer.block(*op.ahead());
  printer.close(";");
  if (op.getOwn())
    printer.line("if (" + n + " > 0)");
  printer.line((op.getOwn() ? "  " : "") + function + "(" + (op.getReverse() ? n + " - 1" : "0") + ");");
}

void spell(rt::NextOp op, Printer &printer) {
  auto loop = cast<rt::ForOp>(op->getParentOp());
  const std::string i = printer.name(loop.position());
  printer.line("if (" + (loop.getReverse() ? i + " > 0" : i + " + 1 < " + countOf(loop, printer)) + ")");
  printer.line("  " + nameOf(op) + "(" + i + (loop.getReverse() ? " - 1" : " + 1") + ");");
}
} // namespace

void codegen::spell(rt::ForOp op, Printer &printer, function_ref<void(Block &)> body) {
  const std::string i = printer.name(op.position()), n = countOf(op, printer);
  if (op.ahead())
    spellAhead(op, printer);
  if (op.getReverse())
    printer.open("for (int64_t " + i + " = " + n + " - 1; " + i + " >= 0; --" + i + ") {");
  else
    printer.open("for (int64_t " + i + " = 0; " + i + " < " + n + "; ++" + i + ") {");
  body(op.getBody().front());
  printer.close();
}

/// The turns of this rank's stage, in the order of the schedule.
void codegen::spell(rt::StagesOp op, Printer &printer, function_ref<void(Block &)> body) {
  const auto m = static_cast<int>(op.getMesh());
  const auto micro = static_cast<int64_t>(op.getCount()), chunks = static_cast<int64_t>(op.getChunks());
  const std::string schedule(runtime::stageOrderNamed(op.getSchedule())->function); // rt-prove-messages knows it
  printer.open("for (const Turn &turn : " + schedule + "(r.coordinate(" + std::to_string(m) + "), " +
               countOf(op, op.getOver(), dist::meshOf(op).sizeOf(m), printer) + ", " +
               countOf(op, op.getAxis(), micro, printer) + (chunks > 1 ? ", " + std::to_string(chunks) : "") + ")) {");
  const auto passes = rt::blocksOf(op);
  const char *members[] = {"micro", "slot", "chunk", "buffer"};
  std::string numbers; // that a pass reads
  for (BlockArgument number : op.getForward().getArguments())
    if (llvm::any_of(passes, [&](Block *pass) { return !pass->getArgument(number.getArgNumber()).use_empty(); }))
      numbers += (numbers.empty() ? "" : ", ") + printer.name(number) + " = turn." + members[number.getArgNumber()];
  if (!numbers.empty())
    printer.line("const int64_t " + numbers + ";");
  const char *conditions[] = {"if (turn.pass == Turn::Forward) {", "else if (turn.pass == Turn::Backward) {", "else {"};
  for (auto [i, pass] : llvm::enumerate(passes)) {
    printer.open(i > 0 && i + 1 == passes.size() ? "else {" : conditions[i]);
    body(*pass);
    printer.close();
  }
  printer.close();
}

void codegen::spell(Operation *op, Printer &printer) {
  llvm::TypeSwitch<Operation *>(op)
      .Case<rt::CollectiveOp, rt::RingAttentionOp, rt::RingAttentionGradOp, rt::SendOp, rt::ReceiveOp, rt::AtOp,
            rt::FetchOp, rt::LetGoOp, rt::NextOp, rt::TicketsOp, rt::WaitOp, rt::WillNeedOp, rt::WriteBackOp>(
          [&](auto typed) { ::spell(typed, printer); })
      .Case<rt::InvokeOp>([&](auto call) { printer.target().invoke(call, printer); })
      .Case<rt::ReportOp>([&](auto report) { printer.target().report(report, printer); })
      .Case<rt::ProgressOp>([&](auto progress) { printer.target().progress(progress, printer); })
      .Case<rt::FusedOp>([&](auto nest) { printer.target().nest(nest, printer); })
      .Case<rt::ForOp, rt::StagesOp>(
          [&](auto loop) { codegen::spell(loop, printer, [&](Block &body) { printer.block(body); }); })
      .Default([&](Operation *kernel) { printer.target().kernel(kernel, printer); });
}
