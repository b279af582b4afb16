// A pass through a repeat whose iterations are divided over ranks becomes the work of stages.
//   1. The pass is prepared (passes/pipeline/Prepare.h). Where the schedule is zero_bubble, what no other stage waits
//      for is taken out of the derivative (Weights.cpp).
//   2. What is made at one place of the row of stages and read at others (passes/pipeline/Stages.h) goes there by
//      messages from place to place.
//   3. The operations, forward ones first, are put in an order in which those of one place stand together, and become
//      a dist.at of that place. Around each repeat and its derivative stand the messages of what they carry.
//   4. The loop over micro batches is cut in two behind the last forward operation, or in three. What later operations
//      read of earlier ones is stacked up by the loop that makes it, a place for each micro batch.
//   5. What one stage alone reads of parameters is there on that stage alone (passes/pipeline/PlaceParameters.h).
#include "ir/ech/Build.h"
#include "passes/Passes.h"
#include "passes/Phase.h"
#include "passes/layout/Clauses.h"
#include "passes/pipeline/PlaceParameters.h"
#include "passes/pipeline/Prepare.h"
#include "runtime/program/Turns.h"
#include "llvm/ADT/SetVector.h"
#include <map>

namespace echelon {
#define GEN_PASS_DEF_FORMPIPELINE
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::pipeline;

namespace {
/// The clause that makes stages of a repeat's iterations.
std::string clauseOf(ech::RepeatOp loop, int meshAxis) {
  auto module = loop->getParentOfType<ModuleOp>();
  return layout::Clauses(module, meshOf(module)).text(meshAxis, loop.getAxisAttr());
}

class Former {
public:
  Former(ech::RepeatOp pass, const Stages &stages, StringRef schedule)
      : pass(pass), stages(stages), over(meshOf(pass).nameOf(stages.meshAxis())), schedule(schedule), builder(pass) {}

  void run(ArrayRef<Ride> rides) {
    for (const Ride &ride : rides)
      makeRide(ride);
    order();
    cut();
  }

private:
  struct Run {
    int64_t place;
    SmallVector<Operation *> ops;
    Part part;
  };
  /// What each place but the last one sends to the next place, which receives it so.
  struct Sent {
    Value value;
    ReceiveOp as;
  };

  void makeRide(const Ride &ride);

  SmallVector<Run> runs();
  void order();
  SmallVector<Operation *> withoutShares(const Run &run, llvm::SmallPtrSetImpl<Operation *> &mine);
  void makeAt(const Run &run);
  SmallVector<ReceiveOp> receive(const Link &link, ech::RepeatOp loop);
  void send(ArrayRef<Sent> values, Operation *behind);
  void cut();
  ech::RepeatOp part(ArrayRef<Operation *> ops, ArrayRef<Value> taken, ValueRange stacks, ArrayRef<Value> kept);
  DictionaryAttr turnsOf(Part part);
  std::string whyOf(ech::RepeatOp loop) const { return clauseOf(loop, stages.meshAxis()); }

  ech::RepeatOp pass;
  const Stages &stages;
  StringRef over, schedule;
  OpBuilder builder;
};

/// A value that comes to places other than its own. What goes on from there is what has come, so that it is kept once.
void Former::makeRide(const Ride &ride) {
  builder.setInsertionPointAfter(ride.value.getDefiningOp());
  auto receive = ReceiveOp::create(builder, ride.value.getLoc(), ride.value.getType(), ride.value,
                                   ride.goesBack ? "next" : "previous", ride.span.first, ride.span.last, over,
                                   whyOf(stages.links().front().forward));
  setPhase(receive, ride.goesBack ? "backward" : "forward");
  for (OpOperand *use : ride.uses)
    use->set(receive.getResult());
}

/// Operations of one place that can stand together, forward ones before backward ones.
SmallVector<Former::Run> Former::runs() {
  SmallVector<Run> runs;
  for (Part part : {Part::Forward, Part::Backward, Part::Weights}) {
    llvm::SetVector<Operation *> open;
    for (Operation &op : pass.block()->without_terminator())
      if (partOf(&op) == part)
        open.insert(&op);
    auto isReady = [&](Operation *op) {
      return !op->walk([&](Operation *inner) {
                  for (Value operand : inner->getOperands())
                    if (Operation *def = operand.getDefiningOp(); def && open.contains(def) && def != op)
                      return WalkResult::interrupt();
                  return WalkResult::advance();
                }).wasInterrupted();
    };
    auto orderOf = [&](Operation *op) { // the pass goes through the places, forward or back
      const int64_t place = stages.placeOf(op);
      return std::pair(stages.rankOf(op), part == Part::Forward ? place : -place);
    };
    while (!open.empty()) {
      Operation *next = nullptr;
      for (Operation *op : open)
        if (isReady(op) && (!next || orderOf(op) < orderOf(next)))
          next = op;
      Run run{stages.placeOf(next), {}, part};
      const auto order = orderOf(next);
      for (Operation *op : llvm::to_vector(open))
        if (orderOf(op) == order && isReady(op)) {
          run.ops.push_back(op);
          open.remove(op);
        }
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

/// At each place all that comes in a part of the pass is received before anything is sent, and both are in one order:
/// so nobody who sends waits for one that does, whether a rank has one place or several, as in `interleaved`. Thus
/// what the repeats of a chain send stands behind the last one; at most places the others have no iterations.
void Former::order() {
  Operation *end = pass.block()->getTerminator();
  const SmallVector<Run> all = runs();
  for (const Run &run : all)
    for (Operation *op : run.ops)
      op->moveBefore(end);
  SmallVector<Sent> sent;
  Operation *behind = nullptr;
  for (const auto &[i, run] : llvm::enumerate(all)) {
    const bool isLast = i + 1 == all.size() || all[i + 1].part != run.part;
    for (Operation *op : run.ops)
      if (auto riding = dyn_cast<ReceiveOp>(op)) {
        sent.push_back({riding.getResult(), riding}); // what has come goes on
        behind = op;
      }
    if (const Link *link = stages.linkOf(run.ops.front())) {
      auto loop = cast<ech::RepeatOp>(run.ops.front());
      for (auto [final, as] : llvm::zip(loop.getFinals(), receive(*link, loop)))
        sent.push_back({final, as});
      behind = loop;
    } else if (run.place != kEverywhere) {
      makeAt(run);
    }
    if (isLast)
      send(std::exchange(sent, {}), behind);
  }
}

void Former::send(ArrayRef<Sent> values, Operation *behind) {
  for (const auto &[value, as] : values) {
    builder.setInsertionPointAfter(behind);
    ReceiveOp receive = as;
    auto send = SendOp::create(builder, receive.getLoc(), value, receive.getFrom() == "next" ? "previous" : "next",
                               receive.getFirst(), receive.getLast(), over, receive.getWhy());
    copyPhase(receive, send);
    behind = send;
  }
}

/// The run's operations without those that make a share: that is the value itself. Where such a slice goes over other
/// mesh axes, too, one over these is left, which is `mine` as well.
SmallVector<Operation *> Former::withoutShares(const Run &run, llvm::SmallPtrSetImpl<Operation *> &mine) {
  SmallVector<Operation *> kept;
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
    const StateAttr state = stateOf(slice.getResult()).with(stages.meshAxis(), Hold::Whole);
    auto rest = SliceOp::create(builder, slice.getLoc(), ech::tensor(slice.getResult()).withState(state),
                                slice.getValue(), builder.getStrArrayAttr(others), slice.getWhyAttr());
    copyPhase(op, rest);
    kept.push_back(rest);
    slice.getValueMutable().assign(rest.getResult());
    mine.insert(rest);
  }
  return kept;
}

/// A dist.at of the run's operations, where the last of them stood.
void Former::makeAt(const Run &run) {
  llvm::SmallPtrSet<Operation *, 32> mine(run.ops.begin(), run.ops.end());
  const SmallVector<Operation *> kept = withoutShares(run, mine);
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
  auto at = AtOp::create(builder, run.ops.front()->getLoc(), ValueRange(outside).getTypes(), run.place, over);
  setPhase(at, run.part == Part::Forward ? "forward" : "backward");
  if (run.part == Part::Weights)
    at->setAttr(kOfWeights, builder.getUnitAttr());
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

/// What a loop carries comes from the place before; nothing does where it is all at one place.
SmallVector<ReceiveOp> Former::receive(const Link &link, ech::RepeatOp loop) {
  SmallVector<ReceiveOp> received;
  const auto [first, last] = link.span;
  if (first == last)
    return received;
  const std::string why = whyOf(loop);
  builder.setInsertionPoint(loop);
  for (OpOperand &operand : loop.getCarriedMutable()) {
    received.push_back(ReceiveOp::create(builder, loop.getLoc(), operand.get().getType(), operand.get(),
                                         loop == link.backward ? "next" : "previous", first, last, over, why));
    copyPhase(loop, received.back());
    operand.set(received.back().getResult());
  }
  return received;
}

/// Cuts the loop behind the forward operations, and where weights' gradients are apart, behind what comes before these.
void Former::cut() {
  std::map<Part, SmallVector<Operation *>> parts;
  llvm::DenseMap<Operation *, Part> partOfOp;
  for (Operation &op : pass.block()->without_terminator()) {
    parts[partOf(&op)].push_back(&op);
    partOfOp[&op] = partOf(&op);
  }
  if (parts.size() == 1) {
    if (DictionaryAttr turns = turnsOf(Part::Forward); turns && stages.chunks() > 1)
      pass->setAttr(kTurns, turns);
    return;
  }
  std::map<Part, llvm::SetVector<Value>> kept; // what later parts read, by the part that makes it
  for (Operation &op : pass.block()->without_terminator())
    for (Value result : op.getResults())
      for (Operation *user : result.getUsers()) {
        auto later = partOfOp.find(pass.block()->findAncestorOpInBlock(*user));
        if (later != partOfOp.end() && later->second != partOfOp[&op])
          kept[partOfOp[&op]].insert(result);
      }
  builder.setInsertionPoint(pass);
  SmallVector<Value> taken, stacks;
  for (auto &[which, ops] : parts) {
    ArrayRef<Value> keeps = kept[which].getArrayRef();
    ech::RepeatOp loop = part(ops, taken, stacks, keeps);
    setPhase(loop, which == Part::Forward ? "forward" : "backward");
    llvm::append_range(taken, keeps);
    llvm::append_range(stacks, loop.getStacks());
    if (DictionaryAttr turns = turnsOf(which))
      loop->setAttr(kTurns, turns);
  }
  pass.erase();
}

/// In which order the loops' passes mix; null where all of one come before those of the next.
DictionaryAttr Former::turnsOf(Part part) {
  if (schedule == "gpipe")
    return {};
  const int64_t ranks = meshOf(pass).sizeOf(stages.meshAxis()), micro = std::max<int64_t>(1, int64_t(pass.getCount()));
  const runtime::StageOrder *known = runtime::stageOrderNamed(schedule); // as the resolver says
  const runtime::StageOrder::Places places = known->places(ranks, micro, stages.chunks());
  const char *name = part == Part::Forward ? "forward" : part == Part::Backward ? "backward" : "weights";
  return builder.getDictionaryAttr({builder.getNamedAttr("part", builder.getStringAttr(name)),
                                    builder.getNamedAttr("schedule", builder.getStringAttr(schedule)),
                                    builder.getNamedAttr("over", builder.getStringAttr(over)),
                                    builder.getNamedAttr("slots", builder.getI64IntegerAttr(places.slots)),
                                    builder.getNamedAttr("buffers", builder.getI64IntegerAttr(places.buffers))});
}

/// A loop of some operations of the pass, which move there. It stacks up `kept`, and takes slices of `stacks` for the
/// values `taken`; what it carries and adds up is what of the pass its operations make.
ech::RepeatOp Former::part(ArrayRef<Operation *> ops, ArrayRef<Value> taken, ValueRange stacks, ArrayRef<Value> kept) {
  llvm::SmallPtrSet<Operation *, 32> mine(ops.begin(), ops.end());
  ech::YieldOp yield = pass.yield();
  SmallVector<Value> starts, carried, next, sums, results, slices(pass.getSlices());
  for (auto [start, argument, value, final] :
       llvm::zip(pass.getCarried(), pass.carriedArguments(), yield.getCarried(), pass.getFinals()))
    if (mine.contains(value.getDefiningOp())) {
      starts.push_back(start);
      carried.push_back(argument);
      next.push_back(value);
      results.push_back(final);
    }
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
  auto loop = ech::RepeatOp::create(builder, pass.getLoc(), pass.getAxis(), pass.getCount(), starts, slices,
                                    ValueRange(starts).getTypes(), stacked, ValueRange(sums).getTypes());
  loop.setTime(true);
  Block &block = loop.getBody().emplaceBlock();
  llvm::append_range(carried, pass.sliceArguments());
  llvm::append_range(carried, taken);
  for (Value value : carried)
    arguments.map(value, block.addArgument(value.getType(), value.getLoc()));
  moveInto(block, ops, arguments);
  OpBuilder inside = OpBuilder::atBlockEnd(&block);
  ech::YieldOp::create(inside, yield.getLoc(), next, kept, sums);
  SmallVector<Value> made(loop.getFinals());
  llvm::append_range(made, loop.getSums());
  for (auto [before, now] : llvm::zip(results, made))
    before.replaceAllUsesWith(now);
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
    llvm::SetVector<int> rows;
    for (ech::RepeatOp pass : passes) {
      pass.walk([&](ech::RepeatOp loop) {
        if (const int m = stagesOf(mesh, loop.getAxis()); m >= 0 && mesh.sizeOf(m) > 1)
          rows.insert(m);
      });
      if (failed(form(pass, mesh)))
        return signalPassFailure();
    }
    for (int stages : rows)
      placeParameters(getOperation(), mesh, stages);
  }

  LogicalResult form(ech::RepeatOp pass, MeshAttr mesh) {
    auto stages = Stages::of(pass, mesh);
    if (failed(stages) || !*stages)
      return stages;
    const StringRef over = mesh.nameOf((*stages)->meshAxis()), schedule = scheduleOf(over);
    if ((*stages)->chunks() > 1 && failed(checkChunks(pass, over)))
      return failure();
    // each of these changes what is done where
    separateExtremes(pass, **stages,
                     clauseOf((*stages)->links().front().forward, (*stages)->meshAxis()) + ": extreme over samples");
    settlePhases(pass);
    separateFree(pass);
    stages = Stages::of(pass, mesh);
    if (ech::RepeatOp wider = separateSums(pass, **stages, over))
      pass = wider;
    stages = Stages::of(pass, mesh);
    FailureOr<SmallVector<Ride>> rides = (*stages)->rides();
    if (failed(rides))
      return failure();
    if ((*stages)->hasBackward() && schedule == "zero_bubble") {
      splitWeights(pass, **stages, *rides);
      stages = Stages::of(pass, mesh);
      if (failed(stages) || failed(rides = (*stages)->rides()))
        return failure();
    }
    Former(pass, **stages, schedule).run(*rides);
    return success();
  }

  /// Where stages have several chunks, none is at the end of its part of a pass when another one is: a message of all
  /// of them has no turn.
  LogicalResult checkChunks(ech::RepeatOp pass, StringRef over) {
    for (Operation &op : pass.block()->without_terminator()) {
      auto list = op.getAttrOfType<ArrayAttr>("over");
      const bool isMessage = isa<DistDialect>(op.getDialect()) && list && ech::has(list, over);
      auto inside = op.getAttrOfType<ArrayAttr>(kInside);
      if ((isMessage && !isShareOfStage(&op, over)) || (inside && ech::has(inside, over)))
        return emitError(op.getLoc()) << "E0318: a message of all stages of " << over
                                      << " in each pass is not built yet with interleaved; use 1f1b";
    }
    return success();
  }

  StringRef scheduleOf(StringRef over) {
    auto schedules = getOperation()->getAttrOfType<DictionaryAttr>(kSchedules);
    auto schedule = schedules ? schedules.getAs<StringAttr>(over) : StringAttr();
    return schedule ? schedule.getValue() : "gpipe";
  }
};
} // namespace
