#include "passes/pipeline/Readers.h"
#include "ir/dist/Placed.h"
#include "passes/Moments.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::pipeline;

Readers::Readers(ModuleOp module, MeshAttr mesh, int meshAxis, ech::VariableOp param)
    : module(module), mesh(mesh), stages(meshAxis), param(param) {
  for (auto variable : module.getOps<ech::VariableOp>())
    if (variable == param || (isMoment(variable) && momentOf(variable).second == param.getSymName()))
      family.push_back(variable);
}

/// Each stage adds its own gradients to that.
static bool isNormOfAll(Operation *op) { return isa<ech::GlobalNormOp>(op) && op->hasAttr(kParameters); }

bool Readers::isOfFamily(StringRef variable) const {
  return llvm::any_of(family, [&](ech::VariableOp known) { return ech::VariableOp(known).getSymName() == variable; });
}

std::optional<int64_t> Readers::stage() {
  for (ech::VariableOp variable : family)
    if (stateOf(cast<Tensor>(variable.getType()))[stages] != wholeState(mesh)[stages])
      return std::nullopt;
  for (auto step : module.getOps<ech::StepOp>())
    if (!read(step))
      return std::nullopt;
  return found;
}

/// What one step makes of the variables and of the gradient. False: of all ranks.
bool Readers::read(ech::StepOp step) {
  Block *block = &step.getBody().front();
  bool isKnown = true;
  step.walk([&](ech::ReadOp read) {
    if (isOfFamily(read.getSource()))
      isKnown &= read->getBlock() == block && follow(read.getValue());
  });
  step.walk([&](ech::WriteOp write) {
    if (isOfFamily(write.getTarget()))
      isKnown &= write->getBlock() == block && findSums(write);
  });
  return isKnown;
}

/// The sums of passes that an update is made of.
bool Readers::findSums(ech::WriteOp write) {
  SmallVector<Value> open{write.getValue()};
  llvm::DenseSet<Value> seen;
  while (!open.empty()) {
    Value value = open.pop_back_val();
    Operation *def = value.getDefiningOp();
    if (!def || isNormOfAll(def) || !seen.insert(value).second)
      continue;
    if (def->getNumRegions() == 0)
      llvm::append_range(open, def->getOperands());
    else if (stateOf(value)[stages].hold == Hold::Sum && !addSum(cast<OpResult>(value)))
      return false;
  }
  return true;
}

/// A sum of a pass to which one stage alone adds; messages over other mesh axes may stand in between.
bool Readers::addSum(OpResult sum) {
  auto pass = dyn_cast<ech::RepeatOp>(sum.getOwner());
  if (!pass || !pass.getTime() || !llvm::is_contained(pass.getSums(), sum))
    return false;
  const unsigned behind = pass.getFinals().size() + pass.getStacks().size();
  Operation *def = pass.yield().getSummed()[sum.getResultNumber() - behind].getDefiningOp();
  while (isa_and_nonnull<SliceOp, ReduceScatterOp>(def) &&
         !ech::has(def->getAttrOfType<ArrayAttr>("over"), mesh.nameOf(stages)))
    def = def->getOperand(0).getDefiningOp();
  auto at = dyn_cast_or_null<AtOp>(def);
  if (!at || at.getOver() != mesh.nameOf(stages) || !isAt(int64_t(at.getPlace())))
    return false;
  totals.insert(sum);
  return follow(sum);
}

bool Readers::isAt(int64_t place) {
  const int64_t stage = place % mesh.sizeOf(stages);
  if (!found)
    found = stage;
  return found == stage;
}

bool Readers::follow(Value value) {
  SmallVector<Value> open{value};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    const Entry entry = stateOf(next)[stages];
    if (!made.insert(next))
      continue;
    if (placedAt(entry) || (entry.hold != Hold::Whole && entry.hold != Hold::Sum))
      return false;
    for (OpOperand &use : next.getUses()) {
      if (!followInto(use))
        return false;
      // in a pass, what other ranks of the stage have of it is of it, too; what is computed of it is no more of it
      Operation *user = use.getOwner();
      const bool isOutside = isa<ech::StepOp>(user->getParentOp());
      if (isOutside ? !isNormOfAll(user) : isa<DistDialect>(user->getDialect()))
        llvm::append_range(open, user->getResults());
    }
  }
  return true;
}

/// Whether a use leaves the value with its stage.
bool Readers::followInto(OpOperand &use) {
  Operation *user = use.getOwner();
  auto step = dyn_cast<ech::StepOp>(user->getParentOp());
  if (!step) { // in a pass
    for (auto at = user->getParentOfType<AtOp>(); at; at = at->getParentOfType<AtOp>())
      if (at.getOver() == mesh.nameOf(stages))
        return isAt(int64_t(at.getPlace()));
    return false;
  }
  if (auto write = dyn_cast<ech::WriteOp>(user))
    return isOfFamily(write.getTarget());
  return isNormOfAll(user) || (user->getNumResults() > 0 && user->getNumRegions() == 0 && isTakenAlone(user));
}

/// Whether an operation of all ranks may be one of a stage: it takes nothing that lies in parts over the stages.
bool Readers::isTakenAlone(Operation *op) const {
  auto isOver = [&](StringRef attribute) {
    auto names = op->getAttrOfType<ArrayAttr>(attribute);
    return names && ech::has(names, mesh.nameOf(stages));
  };
  if (isa<ech::PerWorkerOp, ech::HandInOp>(op) || isOver(kInside))
    return false;
  if (isa<DistDialect>(op->getDialect()) && isOver("over") && !isa<AllReduceOp, SliceOp>(op))
    return false;
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    const Entry entry = stateOf(operand)[stages];
    return made.contains(operand) || (entry.hold == Hold::Whole && !placedAt(entry));
  });
}
