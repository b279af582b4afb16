#include "codegen/Functions.h"
#include "codegen/Calls.h"
#include "ir/dist/State.h"
#include "llvm/ADT/StringExtras.h"
#include <functional>

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

namespace {
SmallVector<Operation *> operationsOf(rt::FunctionOp function) {
  SmallVector<Operation *> ops;
  for (Operation &op : function.getBody().front())
    ops.push_back(&op);
  return ops;
}

bool isRate(Value v) {
  auto number = v.getDefiningOp<rt::NumberOp>();
  return number && number.getKind() == rt::Number::LearningRate && !number.getOf();
}
bool isOfMessages(Value v) {
  auto member = v.getDefiningOp() ? v.getDefiningOp()->getAttrOfType<ArrayAttr>(rt::kMember) : ArrayAttr();
  return member && cast<StringAttr>(member[0]).getValue() == "Messages";
}

/// A member alone, which no function prints.
bool isKeptTickets(Operation &op) { return isa<rt::TicketsOp>(op) && op.hasAttr(rt::kMember); }

/// Whether operations use, or define, a value that is wanted, views included.
bool uses(ArrayRef<Operation *> ops, function_ref<bool(Value)> wanted) {
  bool found = false;
  std::function<void(Operation *)> look = [&](Operation *op) {
    op->walk([&](Operation *inner) {
      for (Value v : inner->getOperands()) {
        found |= wanted(v);
        if (auto view = v.getDefiningOp<rt::ViewOp>())
          look(view);
      }
      found |= llvm::any_of(inner->getResults(), wanted);
    });
  };
  for (Operation *op : ops)
    look(op);
  return found;
}

/// The parameter of a step for the learning rate, with a name where it is used.
std::string rateOf(ArrayRef<Operation *> ops, const Text &text) {
  if (!text.target.takesRate())
    return "";
  return uses(ops, isRate) ? ", double lr" : ", double /*lr*/";
}

void printOpening(StringRef function, Printer &printer, const Text &text) {
  if (const std::string opening = text.target.opening(function); !opening.empty())
    printer.line(opening);
}

class Training {
public:
  Training(rt::FunctionOp train, const Text &text, raw_ostream &os)
      : train(train), text(text), os(os), step(text.printer()) {}

  void print() {
    const bool hasMessages = printMessages();
    SmallVector<Operation *> all = operationsOf(train);
    step.open("void step(Rank &r" + rateOf(all, text) + ") {");
    printOpening("step", step, text);
    if (hasMessages)
      step.line("Messages messages;");
    calls(train.getBody().front(), {});
    step.close();
    // functions have been written by now; the step that calls them comes after them
    os << "/// One training step on the inputs already loaded.\n" << step.text() << "\n";
  }

private:
  /// Function by function; loops that are in none are printed into `step`.
  void calls(Block &block, SmallVector<Value> positions) {
    SmallVector<Operation *> run;
    auto flush = [&] {
      if (!run.empty())
        function(rt::functionOf(run.front()), run, positions);
      run.clear();
    };
    for (Operation &op : block) {
      if (rt::isDeclaration(op) || isKeptTickets(op))
        continue;
      auto loop = dyn_cast<rt::ForOp>(op);
      StringRef function = rt::functionOf(&op);
      if (!run.empty() && rt::functionOf(run.front()) != function)
        flush();
      if (!function.empty()) {
        run.push_back(&op);
      } else if (isa<rt::WaitOp>(op)) {
        step.operation(op);
      } else if (auto stages = dyn_cast<rt::StagesOp>(op)) {
        spell(stages, step, [&](Block &turn) {
          SmallVector<Value> inside(positions);
          llvm::append_range(inside, turn.getArguments());
          calls(turn, inside);
        });
      } else if (loop && !loop.getBody().front().empty()) {
        SmallVector<Value> inside(positions);
        inside.push_back(loop.position());
        spell(loop, step, [&](Block &body) { calls(body, inside); });
      }
    }
    flush();
  }

  void function(StringRef name, ArrayRef<Operation *> ops, ArrayRef<Value> positions) {
    SmallVector<std::string> parameters{"Rank &r"}, arguments{"r"};
    for (Value position : positions)
      if (uses(ops, [&](Value v) { return v == position; })) {
        parameters.push_back("int64_t " + nameOf(position));
        arguments.push_back(nameOf(position));
      }
    if (uses(ops, isOfMessages)) {
      parameters.push_back("Messages &messages");
      arguments.push_back("messages");
    }
    if (text.target.takesRate() && uses(ops, isRate)) {
      parameters.push_back("double lr");
      arguments.push_back("lr");
    }
    Printer printer = text.printer();
    printer.function("void " + name + "(" + llvm::join(parameters, ", ") + ") {", [&] {
      printOpening(name, printer, text);
      for (Operation *op : ops)
        printer.operation(*op);
    });
    os << printer.text() << "\n";
    step.line(name + "(" + llvm::join(arguments, ", ") + ");");
  }

  /// Collectives that one function starts and another one waits for.
  bool printMessages() {
    SmallVector<std::string> members;
    train.walk([&](Operation *op) {
      auto member = op->getAttrOfType<ArrayAttr>(rt::kMember);
      if (!member || cast<StringAttr>(member[0]).getValue() != "Messages")
        return;
      auto tickets = dyn_cast<rt::TicketsOp>(op);
      members.push_back(cast<StringAttr>(member[1]).str() +
                        (tickets ? "[" + std::to_string(tickets.getCount()) + "]" : ""));
    });
    if (members.empty())
      return false;
    os << "/// Collectives under way from one function to the next.\nstruct Messages {\n";
    for (const std::string &member : members)
      os << "  Ticket " << member << ";\n";
    os << "};\n\n";
    return true;
  }

  rt::FunctionOp train;
  const Text &text;
  raw_ostream &os;
  Printer step; // loops of the step, and calls of its functions
};
} // namespace

void codegen::printTraining(rt::FunctionOp train, const Text &text, raw_ostream &os) {
  Training(train, text, os).print();
}

void codegen::printOnce(rt::FunctionOp step, const StepFunction &as, const Text &text, raw_ostream &os) {
  Printer printer = text.printer();
  printer.probes = nullptr;
  os << "/// " << as.what << "\n";
  SmallVector<Operation *> ops = operationsOf(step);
  const std::string rate = as.takesRate ? rateOf(ops, text) : "";
  printer.function(("void " + as.function + "(Rank &r" + rate + ") {").str(), [&] {
    printOpening(as.function, printer, text);
    for (Operation *op : ops)
      printer.operation(*op);
  });
  os << printer.text() << "\n";
}

void codegen::printEvaluation(rt::FunctionOp evaluate, const Text &text, raw_ostream &os) {
  rt::ForOp batches;
  for (auto loop : evaluate.getBody().front().getOps<rt::ForOp>())
    if (loop.getTime() && loop.getCount() == 0)
      batches = loop;
  SmallVector<Operation *> begin, batch, end;
  auto collect = [&](Block &block) {
    for (Operation &op : block)
      if (!rt::isDeclaration(op) && &op != batches.getOperation()) {
        StringRef function = rt::functionOf(&op);
        (function == "evaluate_begin" ? begin : function == "evaluate_batch" ? batch : end).push_back(&op);
      }
  };
  collect(evaluate.getBody().front());
  if (batches)
    collect(batches.getBody().front());
  auto function = [&](StringRef name, StringRef what, ArrayRef<Operation *> ops, const std::string &first = "") {
    Printer printer = text.printer();
    printer.probes = nullptr; // training is measured
    os << "/// " << what << "\n";
    printer.function("void " + name + "(Rank &" + (ops.empty() ? "" : "r") + ") {", [&] {
      printOpening(name, printer, text);
      if (!first.empty())
        printer.line(first);
      for (Operation *op : ops)
        printer.operation(*op);
    });
    os << printer.text() << "\n";
  };
  std::string position; // of this batch, where it is asked for
  if (batches && !batches.position().use_empty()) {
    auto size = evaluate->getParentOfType<ModuleOp>()->getAttrOfType<IntegerAttr>(ech::kBatch);
    position = "const int64_t " + nameOf(batches.position()) + " = r.batchOffset() / " +
               std::to_string(size ? size.getInt() : 1) + ";";
  }
  function("evaluate_begin", "Before the held-out samples.", begin);
  function("evaluate_batch", "For each batch of held-out samples.", batch, position);
  function("evaluate_end", "Metrics of all held-out samples.", end);
}
