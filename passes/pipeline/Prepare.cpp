#include "passes/pipeline/Prepare.h"
#include "ir/ech/Build.h"
#include "passes/Phase.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::pipeline;

Part echelon::pipeline::partOf(Operation *op) {
  return !isOfBackward(op) ? Part::Forward : op->hasAttr(kOfWeights) ? Part::Weights : Part::Backward;
}

void echelon::pipeline::moveInto(Block &body, ArrayRef<Operation *> ops, const IRMapping &there) {
  for (Operation *op : ops) {
    op->moveBefore(&body, body.end());
    op->walk([&](Operation *inner) {
      for (OpOperand &operand : inner->getOpOperands())
        operand.set(there.lookupOrDefault(operand.get()));
    });
  }
}

/// Whether it is made of numbers, positions and inputs alone, and costs little to be made again.
static bool isFree(Operation *op, Block *body) {
  auto rule = dyn_cast<ech::AxisRule>(op);
  auto isFromOutside = [&](Value v) {
    Operation *def = v.getDefiningOp();
    return !def || def->getBlock() != body || isFree(def, body);
  };
  return rule && (rule.freedom() == ech::Freedom::Source ||
                  (rule.freedom() == ech::Freedom::IfOperandsAre && llvm::all_of(op->getOperands(), isFromOutside)));
}

void echelon::pipeline::settlePhases(ech::RepeatOp pass) {
  for (Operation &op : pass.block()->without_terminator()) {
    auto isLater = [&](Value v) {
      return v.getDefiningOp() && v.getDefiningOp()->getBlock() == pass.block() && isOfBackward(v.getDefiningOp());
    };
    if (!isOfBackward(&op) && llvm::any_of(op.getOperands(), isLater))
      setPhase(&op, "backward");
  }
}

void echelon::pipeline::separateFree(ech::RepeatOp pass) {
  Block *body = pass.block();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body->without_terminator()))) {
    if (isOfBackward(&op) || !isFree(&op, body))
      continue;
    auto isLater = [&](OpOperand &use) {
      Operation *here = body->findAncestorOpInBlock(*use.getOwner());
      return here && isOfBackward(here);
    };
    if (llvm::none_of(op.getUses(), isLater))
      continue;
    OpBuilder builder(&op);
    Operation *again = builder.clone(op);
    setPhase(again, "backward");
    for (auto [value, now] : llvm::zip(op.getResults(), again->getResults()))
      value.replaceUsesWithIf(now, isLater);
  }
}

/// The terms of a sum that nothing else reads.
static void termsOf(Value sum, SmallVectorImpl<Value> &terms) {
  auto add = sum.getDefiningOp<ech::MapOp>();
  if (!add || add.getFunction() != ech::Function::Add || !sum.hasOneUse()) {
    terms.push_back(sum);
    return;
  }
  for (Value term : add.getOperands())
    termsOf(term, terms);
}

ech::RepeatOp echelon::pipeline::separateSums(ech::RepeatOp pass, const Stages &stages, StringRef over) {
  ech::YieldOp yield = pass.yield();
  SmallVector<Value> sums(yield.getSummed());
  SmallVector<std::pair<unsigned, unsigned>> pairs; // places of two sums of which the first is to have both
  for (unsigned i = 0, n = sums.size(); i < n; ++i) {
    auto share = sums[i].getDefiningOp<SliceOp>();
    if (!share || !isShareOfStage(share, over) || !share.getResult().hasOneUse())
      continue;
    SmallVector<Value> terms;
    termsOf(share.getValue(), terms);
    llvm::MapVector<int64_t, SmallVector<Value>> byPlace;
    for (Value term : terms)
      byPlace[stages.placeOf(term)].push_back(term);
    if (byPlace.size() < 2 || byPlace.count(kEverywhere))
      continue;
    OpBuilder builder(share);
    InPhaseOf phase(share);
    builder.setListener(&phase);
    bool isFirst = true;
    for (auto &[place, group] : byPlace) {
      Value sum = group.front();
      for (Value term : llvm::drop_begin(group))
        sum = ech::MapOp::create(builder, share.getLoc(), ech::tensor(sum), ech::Function::Add, ValueRange{sum, term});
      auto part = cast<SliceOp>(builder.clone(*share));
      part.getValueMutable().assign(sum);
      if (std::exchange(isFirst, false)) {
        sums[i] = part.getResult();
      } else {
        pairs.push_back({i, unsigned(sums.size())});
        sums.push_back(part.getResult());
      }
    }
  }
  if (pairs.empty())
    return {};
  OpBuilder builder(pass);
  auto wider = ech::RepeatOp::create(builder, pass.getLoc(), pass.getAxis(), pass.getCount(), pass.getCarried(),
                                     pass.getSlices(), pass.getFinals().getTypes(), pass.getStacks().getTypes(),
                                     ValueRange(sums).getTypes());
  wider.setTime(true);
  wider->setDiscardableAttrs(pass->getDiscardableAttrDictionary());
  yield.getSummedMutable().assign(sums);
  wider.getBody().takeBody(pass.getBody());
  SmallVector<Value> totals(wider.getSums());
  for (auto [i, j] : pairs) {
    auto sum = ech::MapOp::create(builder, pass.getLoc(), ech::tensor(totals[i]), ech::Function::Add,
                                  ValueRange{totals[i], totals[j]});
    setPhase(sum, "update");
    totals[i] = sum.getResult();
  }
  SmallVector<Value> results(wider.getFinals());
  llvm::append_range(results, wider.getStacks());
  llvm::append_range(results, ArrayRef(totals).take_front(pass.getSums().size()));
  pass.replaceAllUsesWith(results);
  pass.erase();
  SmallVector<Operation *> all = llvm::map_to_vector(*wider.block(), [](Operation &op) { return &op; });
  for (Operation *op : llvm::reverse(all))
    if (isa<SliceOp, ech::MapOp>(op) && op->use_empty())
      op->erase();
  return wider;
}
