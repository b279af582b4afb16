// rt-bind-buffers: which buffers are members of the program's structs, and which are variables.
//
// 1. Stored tensors are members of Params, OptimizerState and State, inputs of Inputs. A moment that lies in the arena
//    as the parameters do is a member of a Params of its own: OptimizerState's m.wq.
// 2. Work that one function of a step leaves to another is a member: what the update is given of a parameter, of
//    Gradients; what else training keeps, of Activations; what evaluation adds up, of Sums. All other work stays local.
// 3. A gradient that is a part of a message is a member beside the message.
// 4. A member whose outermost axis a loop walks is a stack: its views in that loop are places of it.
// 5. A single number that one loop nest computes, and no kernel takes, is a variable.
#include "ir/rt/Rt.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/Identifier.h"
#include "passes/Moments.h"
#include "passes/Passes.h"
#include "passes/lower/ValueNames.h"
#include "llvm/ADT/SetVector.h"

namespace echelon {
#define GEN_PASS_DEF_BINDBUFFERS
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;

namespace {
/// A view at a place that one loop walks.
bool walksOneLoop(rt::ViewOp view) { return view.getIndices().size() == 1 && isa<BlockArgument>(view.getIndices()[0]); }

class Binder {
public:
  Binder(ModuleOp module, bool hasVariables)
      : module(module), hasVariables(hasVariables), builder(module.getContext()), symbols(module),
        moments(momentsLikeParams(module)), constants(constantsOf(module)) {}
  void run();

private:
  void bindStored(rt::AllocOp alloc);
  void bindMoment(rt::AllocOp alloc, ech::VariableOp variable);
  void bindGradients(rt::FunctionOp train);
  void bindWork(rt::FunctionOp step, StringRef group);
  void bindVariable(rt::AllocOp alloc);
  /// Makes `op` a member; its views are then found by bindPlaces.
  void bind(Operation *op, StringRef group, StringRef name);
  void bindPlaces(rt::AllocOp alloc);
  void shareStacks(ArrayRef<rt::FunctionOp> steps);
  /// A name that no other member of the group and no constant has: `wanted`, or of the same tensor's whole path.
  std::string unique(StringRef group, StringRef wanted, StringRef path, const std::string &key);
  std::string memberName(StringRef path) const { return lower::shortName(path); }
  /// "d_wq" of handed_in.gradient.layer.attn.wq, and so of its sum.
  std::string memberName(ech::VariableOp variable) const;

  ModuleOp module;
  bool hasVariables;
  Builder builder;
  SymbolTable symbols;
  llvm::MapVector<StringRef, int64_t> moments; // that lie as the parameters do
  llvm::StringSet<> constants;                 // sizes, which initializers of members name
  llvm::StringMap<std::string> names;          // "group.name" to what has it
  llvm::StringMap<std::string> paramNames;     // of members of Params, by path
};

std::string Binder::unique(StringRef group, StringRef wanted, StringRef path, const std::string &key) {
  auto takes = [&](const std::string &name) {
    if (constants.contains(name))
      return false;
    auto [known, isNew] = names.try_emplace((group + "." + name).str(), key);
    return isNew || known->second == key;
  };
  std::string name = identifier(wanted);
  if (takes(name))
    return name;
  if (!path.empty() && takes(name = identifier(path)))
    return name;
  return uniqueName(wanted, [&](StringRef name) { return !takes(name.str()); });
}

void Binder::bind(Operation *op, StringRef group, StringRef name) {
  op->setAttr(rt::kMember, builder.getStrArrayAttr({group, name}));
}

std::string Binder::memberName(ech::VariableOp variable) const {
  StringRef path = variable.getSymName();
  if (variable.getKind() == ech::VariableKind::Copy)
    path.consume_front("copy.");
  if (variable.getKind() != ech::VariableKind::HandedIn)
    return memberName(path);
  path.consume_front("sum.");
  path.consume_front("handed_in.");
  const auto [what, of] = path.split('.');
  return what == "loss" ? memberName(of) : (what == "gradient" ? "d_" : "next_") + memberName(of);
}

void Binder::bindStored(rt::AllocOp alloc) {
  Operation *of = symbols.lookup(*alloc.getOf());
  auto variable = dyn_cast<ech::VariableOp>(of);
  StringRef path = *alloc.getOf();
  StringRef group = !variable                                           ? "Inputs"
                    : variable.getKind() == ech::VariableKind::Param    ? "Params"
                    : variable.getKind() == ech::VariableKind::State    ? "State"
                    : variable.getKind() == ech::VariableKind::Copy     ? "Copies"
                    : variable.getKind() != ech::VariableKind::HandedIn ? "OptimizerState"
                    : path.starts_with("sum.")                          ? "Totals"
                                                                        : "HandedIn";
  std::string key; // an input in two forms is two members
  llvm::raw_string_ostream(key) << path << alloc.getOffset().value_or(0);
  StringRef rest = path;
  rest.consume_front("optimizer.");
  const std::string part = memberName(path) + "_part"; // of an input that is wanted whole and in parts
  const std::string name =
      unique(group, variable ? memberName(variable) : memberName(path), variable ? rest : StringRef(part), key);
  if (group == "Params")
    paramNames[path] = name;
  bind(alloc, group, name);
}

/// "m.wq", beside the parameter wq.
void Binder::bindMoment(rt::AllocOp alloc, ech::VariableOp variable) {
  auto [name, path] = momentOf(variable);
  bind(alloc, "OptimizerState", (name + "." + paramNames.lookup(path)).str());
}

/// What the rules of the update are given beside the parameter and the optimizer's state.
void Binder::bindGradients(rt::FunctionOp train) {
  llvm::SmallSetVector<Operation *, 8> parts;
  train.walk([&](rt::InvokeOp update) {
    rt::AllocOp param = rt::allocOf(update.getOperands()[0]);
    if (!param || !param->hasAttr(rt::kMember))
      return;
    auto name = cast<StringAttr>(param->getAttrOfType<ArrayAttr>(rt::kMember)[1]);
    for (Value operand : update.getOperands()) {
      if (!isa<rt::Buffer>(operand.getType()) || rt::buffer(operand).count() != static_cast<int64_t>(update.getCount()))
        continue;
      rt::AllocOp alloc = rt::allocOf(operand);
      Operation *made = operand.getDefiningOp();
      if (alloc.getArena() != rt::Arena::Work || made->hasAttr(rt::kMember))
        continue;
      StringRef own = rt::functionOf(update);
      bool isKept = false;
      rt::forEachUser(alloc.getBuffer(), [&](Operation *user) { isKept |= rt::functionOf(user) != own; });
      if (!isKept)
        continue;
      auto view = dyn_cast<rt::ViewOp>(made);
      if (view && (!view.getIndices().empty() || !rt::buffer(operand).isDense()))
        continue;
      std::string key;
      llvm::raw_string_ostream(key) << static_cast<void *>(made);
      bind(made, "Gradients", unique("Gradients", name.getValue(), "", key));
      if (view)
        parts.insert(alloc);
    }
  });
  for (Operation *message : parts)
    if (!message->hasAttr(rt::kMember))
      bind(message, "Gradients", unique("Gradients", "message", "", std::to_string(names.size())));
}

void Binder::bindWork(rt::FunctionOp step, StringRef group) {
  step.walk([&](rt::AllocOp alloc) {
    if (alloc.getArena() != rt::Arena::Work || alloc->hasAttr(rt::kMember))
      return;
    llvm::SmallSetVector<StringRef, 2> functions;
    rt::forEachUser(alloc.getBuffer(), [&](Operation *user) { functions.insert(rt::functionOf(user)); });
    if (functions.size() < 2) {
      bindVariable(alloc);
      return;
    }
    StringRef path = rt::nameOf(alloc.getLoc());
    bind(alloc, group, unique(group, path.empty() ? "value" : memberName(path), path, std::to_string(names.size())));
  });
}

void Binder::bindVariable(rt::AllocOp alloc) {
  if (!hasVariables || !rt::buffer(alloc).getAxes().empty())
    return;
  rt::FusedOp writer;
  for (Operation *user : alloc.getBuffer().getUsers()) {
    if (!isa<rt::FusedOp, rt::InvokeOp, rt::ReportOp>(user))
      return;
    auto loop = dyn_cast<rt::FusedOp>(user);
    if (!loop || !llvm::is_contained(loop.getOutputs(), alloc.getBuffer()))
      continue;
    auto output = llvm::find(loop.getOutputs(), alloc.getBuffer()) - loop.getOutputs().begin();
    StringRef mode = cast<StringAttr>(loop.getModes()[output]).getValue();
    if (writer || mode == "add" || llvm::is_contained(loop.getInputs(), alloc.getBuffer()))
      return;
    writer = loop;
  }
  if (!writer || writer->getBlock() != alloc->getBlock())
    return;
  for (Operation *user : alloc.getBuffer().getUsers()) // declared before all that reads it
    if (Operation *at = writer->getBlock()->findAncestorOpInBlock(*user);
        at && at != writer && at->isBeforeInBlock(writer))
      return;
  alloc->setAttr(rt::kVariable, builder.getUnitAttr());
}

/// The views of a member and of members within it.
void Binder::bindPlaces(rt::AllocOp alloc) {
  struct Region {
    Operation *op;
    rt::Buffer type;
    int64_t start;
    int64_t stride = 0; // between the places of a stack
  };
  SmallVector<Region> regions;
  if (alloc->hasAttr(rt::kMember))
    regions.push_back({alloc, rt::buffer(alloc), 0});
  SmallVector<rt::ViewOp> views;
  for (Operation *user : alloc.getBuffer().getUsers())
    if (auto view = dyn_cast<rt::ViewOp>(user)) {
      if (view->hasAttr(rt::kMember))
        regions.push_back({view, rt::buffer(view), static_cast<int64_t>(view.getOffset())});
      else
        views.push_back(view);
    }
  auto regionOf = [&](rt::ViewOp view) -> Region * { // the smallest around its start
    Region *best = nullptr;
    const int64_t at = view.getOffset();
    for (Region &region : regions)
      if (region.start <= at && at < region.start + region.type.count() &&
          (!best || region.type.count() <= best->type.count()))
        best = &region;
    return best;
  };
  for (rt::ViewOp view : views) {
    Region *region = regionOf(view);
    if (!region || !walksOneLoop(view) || region->type.getAxes().empty() || !region->type.isDense())
      continue;
    int64_t outermost = region->type.getStrides().front();
    if (view.getFactors()[0] == outermost && outermost > 1)
      region->stride = outermost;
  }
  for (Region &region : regions)
    if (region.stride)
      region.op->setAttr(rt::kStack, builder.getI64IntegerAttr(region.stride));
  for (rt::ViewOp view : views) {
    Region *region = regionOf(view);
    if (!region)
      continue;
    const int64_t inside = static_cast<int64_t>(view.getOffset()) - region->start;
    const bool isWhole = view.getIndices().empty() && inside == 0;
    const bool isPlace = region->stride && inside % region->stride == 0 &&
                         (view.getIndices().empty() ? rt::buffer(view).count() == region->stride
                                                    : walksOneLoop(view) && view.getFactors()[0] == region->stride);
    if (!isWhole && !isPlace)
      continue;
    view->setAttr(rt::kMember, region->op->getAttr(rt::kMember));
    if (isPlace && (!isWhole || rt::buffer(view).count() == region->stride)) {
      view->setAttr(rt::kStack, builder.getI64IntegerAttr(region->stride));
      view->setAttr(rt::kPosition, builder.getI64IntegerAttr(inside / region->stride));
    }
  }
}

void Binder::run() {
  SmallVector<rt::FunctionOp> steps;
  for (auto function : module.getOps<rt::FunctionOp>())
    if (function.getBody().front().getNumArguments() == 0)
      steps.push_back(function);
  for (bool areMoments : {false, true}) // a moment has the name of its parameter
    for (rt::FunctionOp step : steps)
      step.walk([&](rt::AllocOp alloc) {
        auto variable = alloc.getOf() ? symbols.lookup<ech::VariableOp>(*alloc.getOf()) : ech::VariableOp();
        const bool isMoment = variable && moments.count(momentOf(variable).first);
        if (alloc.getOf() && isMoment == areMoments)
          isMoment ? bindMoment(alloc, variable) : bindStored(alloc);
      });
  for (rt::FunctionOp step : steps) {
    if (step.getSymName() == "train")
      bindGradients(step);
    bindWork(step, step.getSymName() == "evaluate" ? "Sums" : "Activations");
  }
  for (rt::FunctionOp step : steps)
    step.walk([&](rt::AllocOp alloc) { bindPlaces(alloc); });
  shareStacks(steps);
}

/// What one step walks place by place is a stack in all steps: they share the struct.
void Binder::shareStacks(ArrayRef<rt::FunctionOp> steps) {
  DenseMap<Attribute, Attribute> strides; // by member
  auto forEachMember = [&](auto act) {
    for (rt::FunctionOp step : steps)
      step->walk([&](rt::AllocOp alloc) {
        if (Attribute member = alloc->getAttr(rt::kMember))
          act(alloc, member);
      });
  };
  forEachMember([&](rt::AllocOp alloc, Attribute member) {
    if (Attribute stride = alloc->getAttr(rt::kStack))
      strides.try_emplace(member, stride);
  });
  forEachMember([&](rt::AllocOp alloc, Attribute member) {
    if (Attribute stride = strides.lookup(member))
      alloc->setAttr(rt::kStack, stride);
  });
}

struct BindBuffers : echelon::impl::BindBuffersBase<BindBuffers> {
  using BindBuffersBase::BindBuffersBase;
  void runOnOperation() override { Binder(getOperation(), hasVariables).run(); }
};
} // namespace
