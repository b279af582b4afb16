// rt-name-values: what the program calls its buffers, parts of them, numbers, positions and tickets.
//
// 1. A value has the name that the user gave it, or that the lowering gave it after its operation.
// 2. Names are unique in the functions that use a value; a loop's own names are free again after it.
// 3. A buffer that takes the place of another of its name and shape has that name, too: it is one variable.
// 4. A ticket that one function starts and another one waits for is a member of the messages of a step.
#include "ir/rt/Rt.h"
#include "passes/Identifier.h"
#include "passes/LocalNames.h"
#include "passes/Passes.h"
#include "passes/lower/ValueNames.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace echelon {
#define GEN_PASS_DEF_NAMEVALUES
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;

namespace {
using Functions = llvm::SmallSetVector<StringRef, 2>;

class Namer {
public:
  Namer(rt::FunctionOp step, const llvm::StringSet<> &reserved) : step(step), b(step.getContext()) {
    everywhere = reserved;
  }
  void run();

private:
  void inScope(Block &block);
  void name(Operation &op);
  void nameView(rt::ViewOp view);
  void nameSend(rt::SendOp send);
  void nameTurns(rt::StagesOp stages);
  void nameTicket(Operation *op, Value ticket, rt::CollectiveOp started);
  Functions functionsOf(Value v);
  bool isTaken(StringRef name, const Functions &functions);
  std::string free(StringRef wanted, const Functions &functions);
  void take(StringRef name, const Functions &functions);
  void give(Operation *op, StringRef wanted, const Functions &functions) {
    std::string name = free(wanted, functions);
    take(name, functions);
    op->setAttr(rt::kName, b.getStringAttr(name));
  }
  static StringRef nameOf(Operation *op) {
    auto name = op->getAttrOfType<StringAttr>(rt::kName);
    return name ? name.getValue() : "";
  }
  static std::string nameOf(BlockArgument position) { return echelon::nameOf(position); }
  /// The name of the memory that a buffer is (part of).
  StringRef memoryOf(Value v) {
    rt::AllocOp alloc = rt::allocOf(v);
    if (auto member = alloc->getAttrOfType<ArrayAttr>(rt::kMember))
      return cast<StringAttr>(member[1]).getValue();
    return nameOf(alloc);
  }

  rt::FunctionOp step;
  Builder b;
  llvm::StringMap<llvm::StringSet<>> taken; // by function
  llvm::StringSet<> everywhere;             // in all of them
  llvm::StringMap<std::string> places;      // names of local memory, by what it is
  llvm::StringMap<std::string> views;       // of parts, by what they are
};

Functions Namer::functionsOf(Value v) {
  Functions functions;
  rt::forEachUser(v, [&](Operation *user) { functions.insert(rt::functionOf(user)); });
  return functions;
}

bool Namer::isTaken(StringRef name, const Functions &functions) {
  return everywhere.contains(name) ||
         llvm::any_of(functions, [&](StringRef function) { return taken[function].contains(name); });
}
void Namer::take(StringRef name, const Functions &functions) {
  for (StringRef function : functions)
    taken[function].insert(name);
}
std::string Namer::free(StringRef wanted, const Functions &functions) {
  return uniqueName(wanted, [&](StringRef name) { return isTaken(name, functions); });
}

void Namer::nameView(rt::ViewOp view) {
  if (view->hasAttr(rt::kMember) || (view.getOffset() == 0 && view.getIndices().empty()))
    return; // a place of a member; the whole with other axes
  std::string key;
  llvm::raw_string_ostream text(key);
  text << view.getBase().getAsOpaquePointer() << " " << view.getOffset() << " "
       << rt::buffer(view.getView()).getElement();
  for (auto [index, factor] : llvm::zip(view.getIndices(), view.getFactors()))
    text << " " << index.getAsOpaquePointer() << "*" << factor;
  Functions functions = functionsOf(view);
  for (StringRef function : functions)
    text << " " << function;
  if (auto known = views.find(key); known != views.end()) {
    view->setAttr(rt::kName, b.getStringAttr(known->second));
    return;
  }
  const std::string own = lower::shortName(rt::nameOf(view.getLoc()));
  StringRef base = memoryOf(view.getBase());
  std::string wanted = own.empty() || own == base ? (base + "_part").str() : own;
  if (view.getIndices().size() == 1) {
    auto slot = view.getIndices()[0].getDefiningOp<rt::SlotOp>();
    auto position = dyn_cast<BlockArgument>(slot ? slot.getPosition() : view.getIndices()[0]);
    if (position && (!slot || own.empty() || own == base))
      wanted = (base + "_" + nameOf(position)).str();
  }
  give(view, wanted, functions);
  views[key] = nameOf(view).str();
}

void Namer::nameTicket(Operation *op, Value ticket, rt::CollectiveOp started) {
  Functions functions = functionsOf(ticket);
  functions.insert(rt::functionOf(started));
  std::string wanted = (started.getKind() + "_of_" + memoryOf(started.getOut())).str();
  if (functions.size() == 1) {
    give(op, wanted, functions);
    return;
  }
  const std::string name = free(wanted, {});
  everywhere.insert(name);
  op->setAttr(rt::kMember, b.getStrArrayAttr({"Messages", name}));
}

/// A send that goes on while its stage computes is one of the messages of a step.
void Namer::nameSend(rt::SendOp send) {
  Operation *tickets = send.getTickets().getDefiningOp();
  const std::string name = free(static_cast<int64_t>(send.getStep()) > 0 ? "to_next" : "to_previous", {});
  everywhere.insert(name);
  tickets->setAttr(rt::kMember, b.getStrArrayAttr({"Messages", name}));
}

void Namer::name(Operation &op) {
  auto wanted = [&](StringRef otherwise) {
    StringRef name = rt::nameOf(op.getLoc());
    return name.empty() ? otherwise.str() : lower::shortName(name);
  };
  if (auto alloc = dyn_cast<rt::AllocOp>(op)) {
    if (alloc->hasAttr(rt::kMember))
      return;
    Functions functions = functionsOf(alloc);
    std::string key;
    llvm::raw_string_ostream(key) << identifier(wanted("t")) << alloc.getOffset().value_or(-1) << alloc.getType()
                                  << (functions.empty() ? "" : functions[0]);
    auto known = places.find(key);
    if (known != places.end() && alloc.getOffset() && !alloc->hasAttr(rt::kVariable)) {
      alloc->setAttr(rt::kName, b.getStringAttr(known->second));
      return;
    }
    give(alloc, wanted("t"), functions);
    if (!alloc->hasAttr(rt::kVariable))
      places[key] = nameOf(alloc).str();
  } else if (auto view = dyn_cast<rt::ViewOp>(op)) {
    nameView(view);
  } else if (auto number = dyn_cast<rt::NumberOp>(op)) {
    give(number, wanted(rt::stringifyNumber(number.getKind())), functionsOf(number));
  } else if (auto offset = dyn_cast<rt::OffsetOp>(op)) {
    give(offset, wanted("first"), functionsOf(offset));
  } else if (auto tickets = dyn_cast<rt::TicketsOp>(op)) {
    for (Operation *user : tickets.getTickets().getUsers())
      if (auto kept = dyn_cast<rt::CollectiveOp>(user))
        nameTicket(tickets, tickets.getTickets(), kept);
      else if (auto send = dyn_cast<rt::SendOp>(user))
        nameSend(send);
  } else if (auto started = dyn_cast<rt::CollectiveOp>(op); started && started.getTicket()) {
    nameTicket(started, started.getTicket(), started);
  }
}

/// The numbers of a turn have the same names in all passes.
void Namer::nameTurns(rt::StagesOp stages) {
  Functions functions;
  stages.walk([&](Operation *inner) { functions.insert(rt::functionOf(inner)); });
  const auto before = taken;
  SmallVector<Attribute> names;
  for (StringRef wanted : {stages.getAxis(), StringRef("slot"), StringRef("chunk"), StringRef("buffer")}) {
    std::string name = wanted == stages.getAxis()
                           ? shortestName(wanted, [&](StringRef name) { return isTaken(name, functions); })
                           : uniqueName(wanted, [&](StringRef name) { return isTaken(name, functions); });
    names.push_back(b.getStringAttr(name));
    take(name, functions);
  }
  stages->setAttr(rt::kName, b.getArrayAttr(names));
  for (Block *inner : rt::blocksOf(stages))
    inScope(*inner);
  taken = before;
}

void Namer::inScope(Block &block) {
  const auto outerTaken = taken;
  const auto outerPlaces = places, outerViews = views;
  for (Operation &op : block) {
    name(op);
    auto loop = dyn_cast<rt::ForOp>(op);
    if (auto stages = dyn_cast<rt::StagesOp>(op))
      nameTurns(stages);
    else if (!loop)
      for (Block *inner : rt::blocksOf(&op))
        inScope(*inner);
    if (!loop)
      continue;
    Functions functions = functionsOf(loop.position());
    loop.walk([&](Operation *inner) { functions.insert(rt::functionOf(inner)); });
    for (auto next : loop.getBody().getOps<rt::NextOp>())
      give(next, ("fetch_" + loop.getAxis()).str(), functions);
    const auto beforeLoop = taken;
    std::string position = shortestName(loop.getAxis(), [&](StringRef name) { return isTaken(name, functions); });
    loop->setAttr(rt::kName, b.getStringAttr(position));
    take(position, functions);
    for (Block *inner : rt::blocksOf(loop))
      inScope(*inner);
    taken = beforeLoop;
  }
  taken = outerTaken;
  places = outerPlaces;
  views = outerViews;
}

void Namer::run() { inScope(step.getBody().front()); }

struct NameValues : echelon::impl::NameValuesBase<NameValues> {
  void runOnOperation() override {
    llvm::StringSet<> reserved = reservedNames(getOperation());
    Builder b(&getContext());
    for (auto function : getOperation().getOps<rt::FunctionOp>()) {
      SmallVector<Attribute> arguments;
      llvm::StringSet<> taken = reserved;
      for (Value argument : function.getBody().getArguments()) {
        StringRef wanted = rt::nameOf(argument.getLoc());
        std::string name = wanted == "lr" ? "lr" : uniqueName(wanted, [&](StringRef name) { // steps have no other rate
          return taken.contains(name);
        });
        taken.insert(name);
        arguments.push_back(b.getStringAttr(name));
        if (argument.getType().isIndex())
          renameRows(function, b.getStringAttr(name));
      }
      if (!arguments.empty())
        function->setAttr(rt::kName, b.getArrayAttr(arguments));
      Namer(function, reserved).run();
    }
  }

  /// The rows of a rule are as long as the argument of this name says.
  static void renameRows(rt::FunctionOp rule, StringAttr length) {
    for (Value argument : rule.getBody().getArguments())
      if (auto row = dyn_cast<rt::Buffer>(argument.getType()))
        argument.setType(rt::Buffer::dense({ech::Axis{length, rt::kAnyLength}}, row.getElement()));
    rule.walk([&](rt::FusedOp loop) { loop.setAxesAttr(ArrayAttr::get(rule.getContext(), length)); });
  }

  /// What is called in programs, and sizes with names.
  static llvm::StringSet<> reservedNames(ModuleOp module) {
    llvm::StringSet<> names = constantsOf(module);
    module.walk([&](rt::InvokeOp call) { names.insert(call.getCallee()); });
    module.walk([&](rt::CollectiveOp op) {
      for (const char *form : {"", "_start", "_inner", "_inner_start"})
        names.insert((op.getKind() + form).str());
    });
    return names;
  }
};
} // namespace
