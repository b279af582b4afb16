// A pass through a repeat whose iterations are divided over ranks becomes the work of stages.
//   1. The operations of the pass, forward ones first, are put in an order in which those of one stage
//   (passes/pipeline)
//      stand together, and become a dist.at of that stage. Around the repeat and its derivative stand the messages.
//   2. What the last stage makes and the first one reads rides along with the derivative, as one more value that it
//      carries, unchanged.
//   3. The loop over micro batches is cut in two behind the last forward operation. What backward operations read of
//      forward ones is stacked up by the first loop, a place for each micro batch; free values are made again.
#include "ir/ech/Build.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Passes.h"
#include "passes/Phase.h"
#include "passes/pipeline/Stages.h"
#include "llvm/ADT/SetVector.h"

namespace echelon {
#define GEN_PASS_DEF_FORMPIPELINE
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::pipeline;

namespace {

/// Whether it is made of numbers, positions and inputs alone, and costs little to be made again.
bool isFree(Operation *op, Block *body) {
  auto rule = dyn_cast<ech::AxisRule>(op);
  auto isFromOutside = [&](Value v) {
    Operation *def = v.getDefiningOp();
    return !def || def->getBlock() != body || isFree(def, body);
  };
  return rule && (rule.freedom() == ech::Freedom::Source ||
                  (rule.freedom() == ech::Freedom::IfOperandsAre && llvm::all_of(op->getOperands(), isFromOutside)));
}

/// What follows from the backward pass is of it.
void settlePhases(ech::RepeatOp pass) {
  for (Operation &op : pass.block()->without_terminator()) {
    auto isLater = [&](Value v) {
      return v.getDefiningOp() && v.getDefiningOp()->getBlock() == pass.block() && isOfBackward(v.getDefiningOp());
    };
    if (!isOfBackward(&op) && llvm::any_of(op.getOperands(), isLater))
      setPhase(&op, "backward");
  }
}

/// Free values that both the forward and the backward pass read are made in each.
void separateFree(ech::RepeatOp pass) {
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

/// The loop with more values that it carries, unchanged: inside, `uses` read what comes in, behind it, what leaves.
void rideThrough(ech::RepeatOp loop, Value value, ArrayRef<OpOperand *> uses) {
  OpBuilder builder(loop);
  SmallVector<Value> carried(loop.getCarried());
  carried.push_back(value);
  auto wider =
      ech::RepeatOp::create(builder, loop.getLoc(), loop.getAxis(), loop.getCount(), carried, loop.getSlices(),
                            ValueRange(carried).getTypes(), loop.getStacks().getTypes(), loop.getSums().getTypes());
  wider.setReverse(loop.getReverse());
  wider->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  wider.getBody().takeBody(loop.getBody());
  Value argument = wider.block()->insertArgument(unsigned(carried.size() - 1), value.getType(), value.getLoc());
  wider.yield().getCarriedMutable().append(argument);
  for (OpOperand *use : uses)
    use->set(wider->isAncestor(use->getOwner()) ? argument : wider.getFinals().back());
  for (auto [old, now] : {std::pair(ResultRange(loop.getFinals()), ResultRange(wider.getFinals()).drop_back()),
                          std::pair(ResultRange(loop.getStacks()), ResultRange(wider.getStacks())),
                          std::pair(ResultRange(loop.getSums()), ResultRange(wider.getSums()))})
    for (auto [before, after] : llvm::zip(old, now))
      before.replaceAllUsesWith(after);
  loop.erase();
}

/// What is made on the last stage, and read on the first or inside of the derivative, rides along with the derivative.
/// Whether there was something.
FailureOr<bool> ride(ech::RepeatOp pass, const Stages &stages, StringRef over) {
  ech::RepeatOp loop = stages.backward();
  llvm::MapVector<Value, SmallVector<OpOperand *>> riding;
  for (Operation &op : pass.block()->without_terminator()) {
    const bool isForwardLoop = &op == stages.forward();
    if (stages.placeOf(&op) != Place::Last && !isForwardLoop)
      continue;
    for (Value value : isForwardLoop ? ValueRange(stages.forward().getFinals()) : ValueRange(op.getResults()))
      for (OpOperand &use : value.getUses()) {
        Operation *here = pass.block()->findAncestorOpInBlock(*use.getOwner());
        const bool isCarried =
            here == use.getOwner() && here == loop && use.getOperandNumber() < loop.getCarried().size();
        if (isa<ech::YieldOp>(here) || isCarried)
          continue;
        if (here == loop || stages.placeOf(here) == Place::First)
          riding[value].push_back(&use);
        else if (stages.placeOf(here) == Place::All && !isShareOfStage(&op, over)) // a share is nothing elsewhere
          return LogicalResult(emitError(here->getLoc())
                               << "E0318: what the last stage of " << over
                               << " makes is read on each stage, which is not built yet in a pipeline");
      }
  }
  for (auto &[value, uses] : riding) {
    rideThrough(loop, value, uses);
    break; // the loop is another one now
  }
  return !riding.empty();
}

/// The terms of a sum that nothing else reads.
void termsOf(Value sum, SmallVectorImpl<Value> &terms) {
  auto add = sum.getDefiningOp<ech::MapOp>();
  if (!add || add.getFunction() != ech::Function::Add || !sum.hasOneUse()) {
    terms.push_back(sum);
    return;
  }
  for (Value term : add.getOperands())
    termsOf(term, terms);
}

/// What one stage adds to a sum of the pass, and what another one does, as to the gradient of a parameter that both
/// read, are two sums, added up behind the pass. The pass with these; null where it stays as it is.
ech::RepeatOp separateSums(ech::RepeatOp pass, const Stages &stages, StringRef over) {
  ech::YieldOp yield = pass.yield();
  SmallVector<Value> sums(yield.getSummed());
  SmallVector<std::pair<unsigned, unsigned>> pairs; // places of two sums of which the first is to have both
  for (unsigned i = 0, n = sums.size(); i < n; ++i) {
    auto share = sums[i].getDefiningOp<SliceOp>();
    if (!share || !isShareOfStage(share, over) || !share.getResult().hasOneUse())
      continue;
    SmallVector<Value> terms;
    termsOf(share.getValue(), terms);
    llvm::MapVector<Place, SmallVector<Value>> byPlace;
    for (Value term : terms) {
      Operation *def = term.getDefiningOp();
      const bool isOfPass = def && def->getBlock() == pass.block();
      byPlace[!isOfPass ? Place::All : def == stages.forward() ? Place::Last : stages.placeOf(def)].push_back(term);
    }
    if (byPlace.size() < 2 || byPlace.count(Place::All))
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
  pass.replaceAllUsesWith(SmallVector<Value>(ArrayRef(totals).take_front(pass.getNumResults())));
  pass.erase();
  SmallVector<Operation *> all = llvm::map_to_vector(*wider.block(), [](Operation &op) { return &op; });
  for (Operation *op : llvm::reverse(all))
    if (isa<SliceOp, ech::MapOp>(op) && op->use_empty())
      op->erase();
  return wider;
}

class Former {
public:
  Former(ech::RepeatOp pass, const Stages &stages)
      : pass(pass), stages(stages), over(meshOf(pass).nameOf(stages.meshAxis())), builder(pass) {}

  void run() {
    order();
    cut();
  }

private:
  struct Run {
    Place place;
    SmallVector<Operation *> ops;
    bool isBackward;
  };

  SmallVector<Run> runs();
  void order();
  void makeAt(const Run &run);
  void makeMessages(ech::RepeatOp loop);
  void cut();
  ech::RepeatOp part(ArrayRef<Operation *> ops, ArrayRef<Value> taken, ValueRange stacks, ArrayRef<Value> kept);
  DictionaryAttr turnsOf();
  std::string whyOf(ech::RepeatOp loop) const;

  ech::RepeatOp pass;
  const Stages &stages;
  StringRef over;
  OpBuilder builder;
};

std::string Former::whyOf(ech::RepeatOp loop) const { return ("split " + loop.getAxis() + " over " + over).str(); }

/// Operations of one stage that can stand together, forward ones before backward ones.
SmallVector<Former::Run> Former::runs() {
  SmallVector<Run> runs;
  for (bool isBackward : {false, true}) {
    llvm::SetVector<Operation *> open;
    for (Operation &op : pass.block()->without_terminator())
      if (isOfBackward(&op) == isBackward)
        open.insert(&op);
    auto isReady = [&](Operation *op) {
      return !op->walk([&](Operation *inner) {
                  for (Value operand : inner->getOperands())
                    if (Operation *def = operand.getDefiningOp(); def && open.contains(def) && def != op)
                      return WalkResult::interrupt();
                  return WalkResult::advance();
                }).wasInterrupted();
    };
    auto rankOf = [&](Operation *op) { // the stages' loop lies between what goes into it and what follows
      const Place first = isBackward ? Place::Last : Place::First;
      return stages.isStageLoop(op) ? 2 : stages.placeOf(op) == Place::All ? 0 : stages.placeOf(op) == first ? 1 : 3;
    };
    while (!open.empty()) {
      int rank = 4;
      for (Operation *op : open)
        if (isReady(op))
          rank = std::min(rank, rankOf(op));
      Run run{Place::All, {}, isBackward};
      for (Operation *op : llvm::to_vector(open))
        if (rankOf(op) == rank && isReady(op)) {
          run.place = stages.placeOf(op);
          run.ops.push_back(op);
          open.remove(op);
        }
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

void Former::order() {
  Operation *end = pass.block()->getTerminator();
  const SmallVector<Run> all = runs();
  for (const Run &run : all)
    for (Operation *op : run.ops)
      op->moveBefore(end);
  for (const Run &run : all) {
    if (stages.isStageLoop(run.ops.front()))
      makeMessages(cast<ech::RepeatOp>(run.ops.front()));
    else if (run.place != Place::All)
      makeAt(run);
  }
}

/// A dist.at of the run's operations, where the last of them stood.
void Former::makeAt(const Run &run) {
  llvm::SmallPtrSet<Operation *, 32> mine(run.ops.begin(), run.ops.end());
  const int m = stages.meshAxis();
  // the share of a stage is the value itself
  SmallVector<Operation *> kept;
  llvm::DenseMap<Value, Value> shares; // value in the region -> what is read outside
  for (Operation *op : run.ops) {
    if (!isShareOfStage(op, over)) {
      kept.push_back(op);
      continue;
    }
    auto slice = cast<SliceOp>(op);
    SmallVector<StringRef> others;
    for (StringRef name : ech::strings(slice.getOver()))
      if (name != over)
        others.push_back(name);
    if (others.empty())
      continue;
    builder.setInsertionPoint(op);
    auto rest =
        SliceOp::create(builder, slice.getLoc(),
                        ech::tensor(slice.getResult()).withState(stateOf(slice.getResult()).with(m, Hold::Whole)),
                        slice.getValue(), builder.getStrArrayAttr(others), slice.getWhyAttr());
    copyPhase(op, rest);
    kept.push_back(rest);
    slice.getValueMutable().assign(rest.getResult());
    mine.insert(rest);
  }
  SmallVector<Value> yielded, outside;
  for (Operation *op : run.ops)
    for (Value result : op->getResults()) {
      const bool isRead = llvm::any_of(result.getUsers(), [&](Operation *user) {
        Operation *here = pass.block()->findAncestorOpInBlock(*user);
        return here && !mine.contains(here);
      });
      if (!isRead)
        continue;
      outside.push_back(result);
      yielded.push_back(isShareOfStage(op, over) ? cast<SliceOp>(op).getValue() : result);
    }
  builder.setInsertionPointAfter(run.ops.back());
  auto at = AtOp::create(builder, run.ops.front()->getLoc(), ValueRange(outside).getTypes(),
                         run.place == Place::First ? "first" : "last", over);
  setPhase(at, run.isBackward ? "backward" : "forward");
  Block &block = at.getBody().emplaceBlock();
  for (auto [value, result] : llvm::zip(outside, at.getResults()))
    value.replaceUsesWithIf(result, [&](OpOperand &use) {
      Operation *here = pass.block()->findAncestorOpInBlock(*use.getOwner());
      return here && !mine.contains(here) && here != at;
    });
  for (Operation *op : kept)
    op->moveBefore(&block, block.end());
  builder.setInsertionPointToEnd(&block);
  YieldOp::create(builder, at.getLoc(), yielded);
  for (Operation *op : llvm::reverse(run.ops))
    if (isShareOfStage(op, over))
      op->erase();
}

void Former::makeMessages(ech::RepeatOp loop) {
  const bool isReverse = loop.getReverse();
  const std::string why = whyOf(loop);
  for (OpOperand &operand : loop.getCarriedMutable()) {
    builder.setInsertionPoint(loop);
    auto receive = ReceiveOp::create(builder, loop.getLoc(), operand.get().getType(), operand.get(),
                                     isReverse ? "next" : "previous", over, why);
    copyPhase(loop, receive);
    operand.set(receive.getResult());
  }
  Operation *last = loop;
  for (Value final : loop.getFinals()) {
    builder.setInsertionPointAfter(last);
    auto send = SendOp::create(builder, loop.getLoc(), final, isReverse ? "previous" : "next", over, why);
    copyPhase(loop, send);
    last = send;
  }
}

void Former::cut() {
  SmallVector<Operation *> forward, backward;
  for (Operation &op : pass.block()->without_terminator())
    (isOfBackward(&op) ? backward : forward).push_back(&op);
  if (backward.empty())
    return;
  llvm::SmallPtrSet<Operation *, 32> isLater(backward.begin(), backward.end());
  llvm::SetVector<Value> kept;
  for (Operation *op : forward)
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return isLater.contains(pass.block()->findAncestorOpInBlock(*user)); }))
        kept.insert(result);
  builder.setInsertionPoint(pass);
  ech::RepeatOp first = part(forward, {}, {}, kept.getArrayRef());
  ech::RepeatOp second = part(backward, kept.getArrayRef(), first.getStacks(), {});
  setPhase(first, "forward");
  setPhase(second, "backward");
  if (DictionaryAttr turns = turnsOf()) {
    first->setAttr(kTurns, turns);
    second->setAttr(kTurns, turns);
  }
  pass.erase();
}

/// How the passes of the two loops mix; null where all forward ones come first.
DictionaryAttr Former::turnsOf() {
  auto schedules = pass->getParentOfType<ModuleOp>()->getAttrOfType<DictionaryAttr>(kSchedules);
  auto schedule = schedules ? schedules.getAs<StringAttr>(over) : StringAttr();
  if (!schedule || schedule == "gpipe")
    return {};
  const int64_t ranks = meshOf(pass).sizeOf(stages.meshAxis());
  return builder.getDictionaryAttr(
      {builder.getNamedAttr("schedule", schedule), builder.getNamedAttr("over", builder.getStringAttr(over)),
       builder.getNamedAttr("slots", builder.getI64IntegerAttr(std::min(ranks, int64_t(pass.getCount()))))});
}

/// A loop of some operations of the pass, which move there. It stacks up `kept`, and takes slices of `stacks` for the
/// values `taken`; its sums are those of the pass that its operations make.
ech::RepeatOp Former::part(ArrayRef<Operation *> ops, ArrayRef<Value> taken, ValueRange stacks, ArrayRef<Value> kept) {
  llvm::SmallPtrSet<Operation *, 32> mine(ops.begin(), ops.end());
  ech::YieldOp yield = pass.yield();
  SmallVector<Value> sums, results, slices(pass.getSlices());
  for (auto [value, result] : llvm::zip(yield.getSummed(), pass.getSums()))
    if (mine.contains(value.getDefiningOp())) {
      sums.push_back(value);
      results.push_back(result);
    }
  llvm::append_range(slices, stacks);
  IRMapping arguments;
  SmallVector<Type> stacked;
  for (Value value : kept)
    stacked.push_back(ech::stackedType(ech::tensor(value), pass.getAxis(), pass.getCount()));
  auto loop = ech::RepeatOp::create(builder, pass.getLoc(), pass.getAxis(), pass.getCount(), ValueRange(), slices,
                                    TypeRange(), stacked, ValueRange(sums).getTypes());
  loop.setTime(true);
  Block &block = loop.getBody().emplaceBlock();
  for (Value value : llvm::concat<Value>(llvm::to_vector(pass.sliceArguments()), llvm::to_vector(taken)))
    arguments.map(value, block.addArgument(value.getType(), value.getLoc()));
  for (Operation *op : ops) {
    op->moveBefore(&block, block.end());
    op->walk([&](Operation *inner) {
      for (OpOperand &operand : inner->getOpOperands())
        if (Value there = arguments.lookupOrNull(operand.get()))
          operand.set(there);
    });
  }
  OpBuilder inside = OpBuilder::atBlockEnd(&block);
  ech::YieldOp::create(inside, yield.getLoc(), ValueRange(), kept, sums);
  for (auto [result, sum] : llvm::zip(results, loop.getSums()))
    result.replaceAllUsesWith(sum);
  return loop;
}

struct FormPipeline : echelon::impl::FormPipelineBase<FormPipeline> {
  void runOnOperation() override {
    MeshAttr mesh = meshOf(getOperation());
    SmallVector<ech::RepeatOp> passes;
    getOperation().walk([&](ech::RepeatOp loop) {
      if (loop.getTime())
        passes.push_back(loop);
    });
    for (ech::RepeatOp pass : passes)
      if (failed(form(pass, mesh)))
        return signalPassFailure();
  }

  LogicalResult form(ech::RepeatOp pass, MeshAttr mesh) {
    for (bool isFirst = true;; isFirst = false) {
      FailureOr<std::unique_ptr<Stages>> stages = Stages::of(pass, mesh);
      if (failed(stages) || !*stages)
        return stages;
      if (isFirst) { // what is free is where it is read
        settlePhases(pass);
        separateFree(pass);
        continue;
      }
      const StringRef over = mesh.nameOf((*stages)->meshAxis());
      if (ech::RepeatOp wider = separateSums(pass, **stages, over)) {
        pass = wider;
        continue;
      }
      FailureOr<bool> again = ride(pass, **stages, over);
      if (failed(again))
        return failure();
      if (*again)
        continue;
      Former(pass, **stages).run();
      return success();
    }
  }
};
} // namespace
