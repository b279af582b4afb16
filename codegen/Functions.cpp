// Functions. A run of operations of one phase is a function; a loop with several phases inside is a loop in `step`
// around calls.
#include "codegen/Functions.h"
#include "llvm/ADT/SetVector.h"
#include <functional>

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

namespace {
bool isDeclaration(Operation &op) { return isa<rt::AllocOp, rt::ViewOp, rt::NumberOp, rt::OffsetOp>(op); }

void phasesOf(Operation &op, llvm::SmallSetVector<StringRef, 4> &phases) {
  if (auto loop = dyn_cast<rt::ForOp>(op)) {
    for (Operation &inner : loop.getBody().front())
      phasesOf(inner, phases);
    return;
  }
  if (isDeclaration(op))
    return;
  auto phase = op.getAttrOfType<StringAttr>(ech::kPhase);
  phases.insert(phase ? phase.getValue() : "forward");
}

/// Whether no function ends between the two, of which `op` is the first.
bool inOneFunction(Operation *op, Operation *last) {
  if (last->getBlock() != op->getBlock())
    return false;
  llvm::SmallSetVector<StringRef, 4> phases;
  for (Operation *end = last->getNextNode(); op && op != end; op = op->getNextNode())
    phasesOf(*op, phases);
  return phases.size() == 1;
}

/// Prints loops of the step; what is in them is cut into functions.
class Step : public Printer {
public:
  using Printer::Printer;
  void loop(rt::ForOp loop, std::function<void(Block &)> cut) {
    inside = std::move(cut);
    loop.emit(*this);
  }
  void block(Block &body) override { inside(body); }

private:
  std::function<void(Block &)> inside;
};

class Training {
public:
  Training(rt::FunctionOp train, Names &names, const SourceLines &sources, raw_ostream &os, Probes *probes)
      : train(train), names(names), sources(sources), os(os), probes(probes), body(stepText),
        outer(names, sources, body) {}

  void print() {
    findSharedTickets();
    outer.open(usesRate() ? "void step(Rank &r, double lr) {" : "void step(Rank &r, double /*lr*/) {");
    if (!shared.empty())
      outer.line("Messages messages;");
    cut(train.getBody().front(), {});
    outer.close();
    // functions have been written by now; the step that calls them comes behind them
    os << "/// One training step on the inputs already loaded.\n" << stepText << "\n";
  }

private:
  /// Function by function; loops with several phases are printed into `step`.
  void cut(Block &block, SmallVector<Value> positions) {
    SmallVector<Operation *> run;
    StringRef phase;
    auto flush = [&] {
      if (!run.empty())
        function(phase, run, positions);
      run.clear();
    };
    for (Operation &op : block) {
      if (isDeclaration(op))
        continue;
      llvm::SmallSetVector<StringRef, 4> phases;
      phasesOf(op, phases);
      if (phases.empty())
        continue;
      if (phases.size() > 1) {
        flush();
        auto loop = cast<rt::ForOp>(op);
        SmallVector<Value> inside(positions);
        inside.push_back(loop.position());
        outer.loop(loop, [this, inside](Block &body) { cut(body, inside); });
        continue;
      }
      if (phases[0] != phase)
        flush();
      phase = phases[0];
      run.push_back(&op);
    }
    flush();
  }

  void function(StringRef phase, ArrayRef<Operation *> ops, ArrayRef<Value> positions) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    Printer printer(names, sources, stream);
    printer.shared = shared;
    printer.probes = probes;
    std::string name = nextName(phase), parameters = "Rank &r", arguments = "r";
    auto uses = [&](llvm::function_ref<bool(Value)> wanted) {
      bool found = false;
      auto look = [&](auto &self, Operation *op) -> void {
        op->walk([&](Operation *inner) {
          for (Value v : inner->getOperands()) {
            found |= wanted(v);
            if (auto view = v.getDefiningOp<rt::ViewOp>())
              self(self, view);
          }
          found |= llvm::any_of(inner->getResults(), wanted);
        });
      };
      for (Operation *op : ops)
        look(look, op);
      return found;
    };
    for (Value position : positions)
      if (uses([&](Value v) { return v == position; })) {
        parameters += ", int64_t " + names.of(position);
        arguments += ", " + names.of(position);
      }
    if (uses([&](Value v) { return shared.contains(v); })) {
      parameters += ", Messages &messages";
      arguments += ", messages";
    }
    if (uses(isRate)) {
      parameters += ", double lr";
      arguments += ", lr";
    }
    printer.open("void " + name + "(" + parameters + ") {");
    for (Operation *op : ops)
      printer.operation(*op);
    printer.close();
    os << text << "\n";
    outer.line(name + "(" + arguments + ");");
  }

  static bool isRate(Value v) {
    auto number = v.getDefiningOp<rt::NumberOp>();
    return number && number.getText() == "lr";
  }
  bool usesRate() {
    return train
        .walk([](Operation *op) {
          return llvm::any_of(op->getOperands(), isRate) ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  std::string nextName(StringRef phase) {
    int n = ++count[phase];
    return n == 1 ? phase.str() : (phase + "_" + Twine(n)).str();
  }

  /// A collective that one function starts and another one waits for.
  void findSharedTickets() {
    SmallVector<std::string> members;
    auto share = [&](Operation *op, Value ticket, const std::string &extent) {
      if (llvm::any_of(ticket.getUsers(),
                       [&](Operation *user) { return isa<rt::WaitOp>(user) && !inOneFunction(op, user); })) {
        shared.insert(ticket);
        members.push_back(names.of(ticket) + extent);
      }
    };
    train.walk([&](Operation *op) {
      if (auto started = dyn_cast<rt::CollectiveOp>(op); started && started.getTicket())
        share(op, started.getTicket(), "");
      else if (auto tickets = dyn_cast<rt::TicketsOp>(op))
        share(op, tickets.getTickets(), "[" + std::to_string(tickets.getCount()) + "]");
    });
    if (members.empty())
      return;
    os << "/// Collectives under way from one function to the next.\nstruct Messages {\n";
    for (const std::string &member : members)
      os << "  Ticket " << member << ";\n";
    os << "};\n\n";
  }

  rt::FunctionOp train;
  Names &names;
  const SourceLines &sources;
  raw_ostream &os;
  Probes *probes;
  std::string stepText;
  llvm::raw_string_ostream body;
  Step outer;
  llvm::StringMap<int> count;
  DenseSet<Value> shared;
};
} // namespace

void codegen::printTraining(rt::FunctionOp train, Names &names, const SourceLines &sources, raw_ostream &os,
                            Probes *probes) {
  Training(train, names, sources, os, probes).print();
}

void codegen::printStart(rt::FunctionOp start, Names &names, const SourceLines &sources, raw_ostream &os) {
  Printer printer(names, sources, os);
  os << "/// What starts from parameters, once they have their start values.\n";
  printer.open("void start(Rank &r) {");
  for (Operation &op : start.getBody().front())
    if (!isDeclaration(op))
      printer.operation(op);
  printer.close();
  os << "\n";
}

void codegen::printEvaluation(rt::FunctionOp evaluate, Names &names, const SourceLines &sources, raw_ostream &os) {
  rt::ForOp batches;
  for (auto loop : evaluate.getBody().front().getOps<rt::ForOp>())
    if (loop.getTime() && loop.getCount() == 0)
      batches = loop;
  auto function = [&](StringRef name, StringRef what, ArrayRef<Operation *> ops, const std::string &first = "") {
    Printer printer(names, sources, os);
    os << "/// " << what << "\n";
    printer.open(("void " + name + "(Rank &" + (ops.empty() ? "" : "r") + ") {").str());
    if (!first.empty())
      printer.line(first);
    for (Operation *op : ops)
      printer.operation(*op);
    printer.close();
    os << "\n";
  };
  auto between = [&](Operation *first, Operation *last) {
    SmallVector<Operation *> ops;
    for (Operation *op = first; op != last; op = op->getNextNode())
      if (!isDeclaration(*op))
        ops.push_back(op);
    return ops;
  };
  Block &block = evaluate.getBody().front();
  Operation *first = block.empty() ? nullptr : &block.front();
  if (!batches) { // nothing depends on samples
    function("evaluate_begin", "Before the held-out samples.", {});
    function("evaluate_batch", "For each batch of held-out samples.", {});
    function("evaluate_end", "Metrics of all held-out samples.", between(first, nullptr));
    return;
  }
  Block &inner = batches.getBody().front();
  function("evaluate_begin", "Before the held-out samples.", between(first, batches));
  std::string position; // of this batch, where it is asked for
  if (!batches.position().use_empty()) {
    auto batch = evaluate->getParentOfType<ModuleOp>()->getAttrOfType<IntegerAttr>("ech.batch");
    position = "const int64_t " + names.of(batches.position()) + " = r.batchOffset() / " +
               std::to_string(batch ? batch.getInt() : 1) + ";";
  }
  function("evaluate_batch", "For each batch of held-out samples.",
           between(inner.empty() ? nullptr : &inner.front(), nullptr), position);
  function("evaluate_end", "Metrics of all held-out samples.", between(batches->getNextNode(), nullptr));
}
