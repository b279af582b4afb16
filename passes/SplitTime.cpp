// The batch is split over time.
// 1. Every value gets its kind (microbatch/Dependence.h): fixed, of samples, a sum over this pass's samples, or made of
// totals.
//    Loops that hold several of them which must come one after the other are cut in two (time/Distribute.h).
// 2. Totals that a pass needs and that no parameter enters are computed first, by a loop of their own.
// 3. What touches samples moves into `ech.repeat … time`; its sums come out as sums over the passes. All but gradients
//    are added up in f64: an evaluation may have millions of passes.
// 4. What is made of totals, the reports, gradients and writes follow.
#include "ir/dist/State.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Loops.h"
#include "passes/Passes.h"
#include "passes/compress/Workers.h"
#include "passes/microbatch/Distribute.h"
#include "llvm/ADT/StringSet.h"

namespace echelon {
#define GEN_PASS_DEF_SPLITTIME
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

namespace {

/// Moves one step's operations.
class Split {
public:
  Split(StepOp step, const Time &time, Type real)
      : step(step), time(time), axis(freeAxis(step, time.evaluation() ? "batches" : "micro")),
        builder(step.getContext()), build(builder, step.getLoc(), real), dependences(step, time) {}

  LogicalResult run() {
    Block &block = step.getBody().front();
    SmallVector<Operation *> before = llvm::map_to_vector(block, [](Operation &op) { return &op; });
    builder.setInsertionPointToEnd(&block);
    if (failed(dependences.decide()))
      return failure();
    while (!dependences.early.empty()) {
      SmallVector<Value> wanted(dependences.early.takeVector());
      emit(dependences.sources(wanted).takeVector(), wanted);
      dependences.settled.insert_range(wanted);
      if (failed(dependences.decide()))
        return failure();
      follow(before);
    }
    emit(before, {});
    for (Operation *op : llvm::reverse(before))
      if (isGone(op)) {
        op->dropAllUses();
        op->erase();
      }
    shareAlike();
    return success();
  }

private:
  /// What no sample reaches, of all workers for which one rank works, is in equal shares.
  void shareAlike() {
    step.walk([&](PerWorkerOp each) {
      if (!isOfWorkers(each))
        return;
      builder.setInsertionPoint(each);
      build.loc = each.getLoc();
      Value share = build.mul(each.getOperand(), build.constant(1.0 / double(each.workers().size)));
      each.getResult().replaceAllUsesWith(build.expand(share, tensor(each.getResult())));
      each.erase();
    });
  }

  /// What is fixed now that totals are: it comes after them.
  void follow(ArrayRef<Operation *> ops) {
    for (Operation *op : ops) {
      if (replaced.contains(op) || dependences.isInside(op) || isGone(op))
        continue;
      bool settled = llvm::any_of(op->getResults(), [&](Value v) { return dependences.settled.contains(v); });
      bool late = false;
      op->walk([&](Operation *inner) {
        late |= llvm::any_of(inner->getOperands(), [&](Value v) { return totals.contains(v); });
      });
      if (late && !settled)
        builder.clone(*op, totals);
      if (late || settled)
        replaced.insert(op);
    }
  }

  bool isRead(Operation *op) const { return isa<ReadOp>(op); }
  /// Whether the operation is one of those that the loop and what follows it replace.
  bool isGone(Operation *op) const {
    if (isa<ReportOp, GradientOp, WriteOp>(op) || dependences.isInside(op))
      return !isRead(op) || time.evaluation();
    return replaced.contains(op) ||
           llvm::any_of(op->getResults(), [&](Value v) { return dependences.of(v) == Dependence::AfterTotals; });
  }
  bool isAfter(Operation *op) const { return isGone(op) && !dependences.isInside(op) && !replaced.contains(op); }

  /// The loop over the passes with the inside ones of `ops`, and after it the others. `wanted`: values to have totals
  /// of.
  void emit(ArrayRef<Operation *> ops, ArrayRef<Value> wanted) {
    llvm::SetVector<Value> exported;
    auto want = [&](Value value) {
      Operation *op = value.getDefiningOp();
      if (op && dependences.isInside(op) && !isRead(op) && !totals.contains(value))
        exported.insert(value);
    };
    for (Value value : wanted)
      want(value);
    SmallVector<Operation *> loop, after;
    for (Operation *op : ops) {
      if (dependences.isInside(op))
        loop.push_back(op);
      else if (isAfter(op)) {
        after.push_back(op);
        op->walk([&](Operation *inner) {
          for (Value operand : inner->getOperands())
            want(operand);
        });
      }
    }
    if (!loop.empty())
      emitLoop(loop, exported.takeVector());
    for (Operation *op : after) {
      auto each = dyn_cast<PerWorkerOp>(op);
      if (Value stack = each ? stacks.lookup(each.getOperand()) : Value()) {
        build.loc = op->getLoc();
        totals.map(each.getResult(), sumOfPasses(stack, each.workers()));
      } else {
        builder.clone(*op, totals);
      }
    }
  }

  void emitLoop(ArrayRef<Operation *> ops, ArrayRef<Value> exported) {
    IRMapping mapping = totals;
    SmallVector<Value> slices;
    auto block = std::make_unique<Block>();
    for (Operation *op : ops) // inputs come in as slices, in evaluation they are read again
      if (auto read = dyn_cast<ReadOp>(op); read && !time.evaluation()) {
        build.loc = read.getLoc();
        slices.push_back(build.relabel(read.getValue(), {time.batchAxis},
                                       {{axis, time.passes}, {time.batchAxis, part(read.getValue())}}));
        mapping.map(read.getValue(), block->addArgument(without(tensor(slices.back()), axis), read.getLoc()));
      }
    build.loc = step.getLoc();
    OpBuilder::InsertPoint here = builder.saveInsertionPoint();
    builder.setInsertionPointToEnd(block.get());
    valid = {};
    for (Operation *op : ops) {
      bool known = llvm::all_of(op->getResults(), [&](Value v) { return mapping.contains(v); });
      if (known)
        continue;
      adapt(op, builder.clone(*op, mapping), mapping);
      for (Value result : op->getResults())
        if (totals.contains(result)) // who reads it in a pass means the total
          mapping.map(result, totals.lookup(result));
    }
    SmallVector<Value> summed, extremes, sums, starts, carried;
    for (Value value : exported)
      (dependences.extreme(value) ? extremes : summed).push_back(value);
    for (Value value : summed) {
      Value sum = mapping.lookup(value);
      build.loc = value.getLoc();
      sum = dependences.of(value) == Dependence::PartialSum ? sum : share(sum);
      sums.push_back(isLong(value) ? build.cast(sum, builder.getF64Type()) : sum);
    }
    for (auto [i, value] : llvm::enumerate(extremes)) {
      build.loc = value.getLoc();
      bool largest = dependences.extreme(value).getKind() == Reduction::Max;
      Value sofar = block->insertArgument(static_cast<unsigned>(i), value.getType(), value.getLoc());
      carried.push_back(build.map(largest ? Function::Max : Function::Min, {sofar, mapping.lookup(value)}));
    }
    SmallVector<Value> apart; // each pass is a worker's
    for (Value value : exported)
      if (llvm::any_of(value.getUsers(), [&](Operation *user) { return isOfWorkers(user); }))
        apart.push_back(value);
    build.loc = step.getLoc();
    YieldOp::create(builder, build.loc, carried, llvm::map_to_vector(apart, [&](Value v) { return mapping.lookup(v); }),
                    sums);
    builder.restoreInsertionPoint(here);
    for (Value value : extremes) {
      build.loc = value.getLoc();
      starts.push_back(build.constant(dependences.extreme(value).neutral(), tensor(value)));
    }
    build.loc = step.getLoc();
    SmallVector<Type> stacked = llvm::map_to_vector(
        apart, [&](Value v) -> Type { return stackedType(tensor(mapping.lookup(v)), axis, time.passes); });
    auto loop = RepeatOp::create(builder, build.loc, axis, time.passes, starts, slices, ValueRange(starts).getTypes(),
                                 stacked, ValueRange(sums).getTypes());
    loop.setTime(true);
    loop.getBody().push_back(block.release());
    for (auto [value, total] : llvm::zip(extremes, loop.getFinals())) {
      build.loc = value.getLoc();
      totals.map(value, ofWorkers(dependences.extreme(value).getKind(), total));
    }
    for (auto [value, stack] : llvm::zip(apart, loop.getStacks()))
      stacks[value] = stack;
    for (auto [value, total] : llvm::zip(summed, loop.getSums())) {
      build.loc = value.getLoc();
      totals.map(value, build.cast(ofWorkers(Reduction::Sum, total), tensor(value).getElement()));
    }
  }
  /// Under a sync policy, each worker has evaluated batches of its own.
  Value ofWorkers(Reduction kind, Value total) {
    auto module = step->getParentOfType<ModuleOp>();
    const int64_t count = compress::workersApart(module);
    if (!time.evaluation() || count == 1)
      return total;
    const StringRef axis = module->getAttrOfType<StringAttr>(kWorkerAxis).getValue();
    return build.reduce(kind, build.perWorker(total, axis, count, /*isApart=*/true), {axis});
  }
  /// On one rank that works for several, a pass is what one of them does.
  bool isOfWorkers(Operation *op) const {
    auto each = dyn_cast<PerWorkerOp>(op);
    return each && each.workers().size > 1 && step->getParentOfType<ModuleOp>()->hasAttr(kWorkers);
  }
  /// Of the stack of all passes: what those of one worker add up to. Each micro batch has a pass of every worker.
  Value sumOfPasses(Value stack, const Axis &workers) {
    const int64_t micro = time.passes / workers.size;
    const StringRef worker = workers.name.getValue();
    if (micro == 1)
      return build.relabel(stack, {axis}, {{worker, workers.size}});
    return build.sum(build.relabel(stack, {axis}, {{axis, micro}, {worker, workers.size}}), {axis});
  }
  /// Whether the sum over passes is one of many small numbers, and is worth more digits. Gradients are as large as
  /// their parameters, and are added up where they are.
  static bool isLong(Value value) {
    Operation *op = value.getDefiningOp();
    return tensor(value).isFloat() && !(op && op->hasAttr(kPhase));
  }

  int64_t part(Value value) const {
    int64_t size = tensor(value).sizeOf(time.batchAxis);
    return time.evaluation() ? size : size / time.passes;
  }
  /// One pass's share of a value that is the same in each, or the mean over the passes of one that is not. How many
  /// passes an evaluation has is not known: there the first one brings it.
  Value share(Value value) {
    if (!time.evaluation())
      return build.mul(value, build.constant(1.0 / time.passes));
    Value first =
        build.map(Function::Eq, {build.position(axis), build.constant(0, build.type({}, builder.getI32Type()))});
    return build.select(first, value, build.constant(0));
  }

  /// Turns a clone, and all that it holds, from the whole batch to one pass.
  void adapt(Operation *original, Operation *clone, const IRMapping &mapping) {
    SmallVector<Operation *> olds, news;
    original->walk<WalkOrder::PreOrder>([&](Operation *op) { olds.push_back(op); });
    clone->walk<WalkOrder::PreOrder>([&](Operation *op) { news.push_back(op); });
    for (Operation *op : news) {
      for (Value result : op->getResults())
        resize(result);
      for (Region &region : op->getRegions())
        for (BlockArgument argument : region.getArguments())
          resize(argument);
    }
    for (auto [old, now] : llvm::zip(olds, news)) {
      build.loc = now->getLoc();
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(now);
      for (auto [before, operand] : llvm::zip(old->getOpOperands(), now->getOpOperands()))
        if (dependences.isShared(before) && !matchesZero(operand.get()))
          operand.set(share(operand.get()));
      if (time.evaluation() && isBatchSum(old))
        maskSamples(now);
      if (auto index = dyn_cast<IndexOp>(now); index && index.getAxis() == time.batchAxis)
        offset(index);
    }
  }
  void resize(Value value) {
    Tensor type = tensor(value);
    SmallVector<Axis> axes(type.getAxes());
    for (Axis &axis : axes)
      if (axis.name == time.batchAxis)
        axis.size = part(value);
    value.setType(type.withAxes(axes));
  }
  static bool matchesZero(Value value) {
    auto constant = value.getDefiningOp<ConstantOp>();
    return constant && constant.getValue().isZero();
  }

  /// Samples that only fill the last batch are in no sum and are no extreme.
  bool isBatchSum(Operation *op) const {
    return !isa<RepeatOp>(op) && llvm::any_of(op->getOperands(), [&](Value v) { return dependences.hasBatch(v); }) &&
           llvm::any_of(op->getResults(), [&](Value v) { return !dependences.hasBatch(v); });
  }
  void maskSamples(Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      Tensor type = tensor(operand.get());
      if (!dependences.hasBatch(operand.get()) || type.getElement().isInteger(1))
        continue;
      if (!valid) {
        OpBuilder::InsertionGuard guard(builder);
        Operation *top = op;
        while (!isa_and_nonnull<StepOp>(top->getParentOp()) && top->getBlock()->getParentOp())
          top = top->getBlock()->getParentOp();
        builder.setInsertionPointToStart(top->getBlock());
        Tensor samples = build.type({{time.batchAxis, part(operand.get())}}, builder.getI1Type());
        valid = ReadOp::create(builder, build.loc, samples, kValidSamples);
      }
      auto extreme = dependences.extreme(op->getResult(0));
      Value nothing = build.constant(extreme ? extreme.neutral() : 0, build.type({}, type.getElement()));
      Value kept = build.select(valid, operand.get(), nothing);
      kept.setType(type);
      operand.set(kept);
      return;
    }
  }
  /// index + position * samples of a pass.
  void offset(IndexOp index) {
    builder.setInsertionPointAfter(index);
    Tensor number = build.type({}, builder.getI32Type());
    Value first = build.mul(build.position(axis), build.constant(part(index.getResult()), number));
    Value global = build.add(index.getResult(), first);
    index.getResult().replaceAllUsesExcept(global, global.getDefiningOp());
  }

  StepOp step;
  const Time &time;
  StringAttr axis; // of the loop over the passes
  OpBuilder builder;
  Build build;
  Dependences dependences;
  llvm::DenseMap<Value, Value> stacks;  // what each pass has of a value, for workers
  IRMapping totals;                     // what replaces values after the loops built so far
  llvm::DenseSet<Operation *> replaced; // fixed ones that come after early totals
  Value valid;                          // which samples of the batch are real; one read a loop
};

struct SplitTime : echelon::impl::SplitTimeBase<SplitTime> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto batchAxis = module->getAttrOfType<StringAttr>(ech::kBatchAxis);
    auto micro = module->getAttrOfType<IntegerAttr>(ech::kMicroBatches);
    if (!batchAxis)
      return;
    Type real = realType();
    SmallVector<StepOp> steps(module.getOps<StepOp>());
    auto timeOf = [&](StepOp step) {
      const int64_t passes = step.getSymName() == "evaluate" ? 0 : micro ? micro.getInt() : 1;
      return Time{batchAxis.getValue(), passes, module->getAttrOfType<ArrayAttr>(ech::kLikeBatch), {}};
    };
    bool fine = true;
    for (StepOp step : steps)
      fine &= succeeded(checkStatistics(step, timeOf(step)));
    if (!fine)
      return signalPassFailure();
    for (StepOp step : steps) {
      const Time time = timeOf(step);
      if (time.passes == 1 && !hasStages(step))
        continue;
      if (time.evaluation())
        prepareEvaluation(step, time);
      else if (auto batch = module->getAttrOfType<IntegerAttr>(ech::kBatch); batch && batch.getInt() % time.passes) {
        step.emitError() << "a batch of " << batch.getInt() << " does not divide into " << time.passes
                         << " micro batches";
        return signalPassFailure();
      }
      if (failed(distributeLoops(step, time)))
        return signalPassFailure();
      if (!step.getBody().front().empty() && failed(Split(step, time, real).run()))
        return signalPassFailure();
    }
  }

  /// Whether it holds a repeat whose iterations are the stages of a pipeline: each pass goes through them, one alone,
  /// too.
  static bool hasStages(StepOp step) {
    const dist::MeshAttr mesh = dist::meshOf(step);
    return step
        .walk([&](RepeatOp loop) {
          const int stages = dist::stagesOf(mesh, loop.getAxis());
          return stages >= 0 && mesh.sizeOf(stages) > 1 ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  Type realType() {
    for (auto variable : getOperation().getOps<VariableOp>())
      if (auto type = cast<Tensor>(variable.getType()); type.isFloat())
        return type.getElement();
    return Float32Type::get(&getContext());
  }

  /// Batch statistics need more than one value; what is marked local has those of one pass, in its counts, too, and an
  /// evaluation has no micro batch.
  LogicalResult checkStatistics(StepOp step, const Time &time) {
    bool fine = true;
    step.walk([&](Operation *op) {
      const bool local = op->hasAttr(kLocal);
      if (auto count = dyn_cast<CountOp>(op); count && local && !time.evaluation()) {
        SmallVector<int64_t> sizes(count.getSizes());
        for (auto [axis, size] : llvm::zip(strings(count.getOver()), sizes))
          size /= axis == time.batchAxis ? time.passes : 1;
        count.setSizes(sizes);
      }
      auto norm = dyn_cast<NormalizeOp>(op);
      if (!norm || !has(norm.getOver(), time.batchAxis))
        return;
      if (time.evaluation()) {
        if (local) {
          fine = false;
          norm.emitError() << "E0313: an evaluation has no micro batch to take statistics of; use running statistics "
                              "where `training` is false, as nn.batchnorm does";
        }
        return;
      }
      int64_t values = 1, samples = 1;
      for (StringRef axis : strings(norm.getOver())) {
        const int64_t size = tensor(norm.getOperand()).sizeOf(axis);
        (axis == time.batchAxis ? samples : values) *= size;
      }
      samples /= local ? time.passes : 1;
      if (samples * values > 1)
        return;
      fine = false;
      norm.emitError() << "E0316: statistics of one value: the " << (time.passes > 1 && local ? "micro batch" : "batch")
                       << " has 1 sample on all ranks together, and no other axis is reduced over, so that each value "
                          "would be its own mean; take "
                       << (time.passes > 1 && local ? "micro batches of 2 samples or more" : "a batch of 2 or more")
                       << ", or statistics within a sample, as of nn.layernorm";
    });
    return success(fine);
  }

  /// Counts of samples become what the run says; `valid` is there to be read.
  void prepareEvaluation(StepOp step, const Time &time) {
    Tensor samples;
    step.walk([&](ReadOp read) {
      if (tensor(read.getValue()).has(time.batchAxis))
        samples = tensor(read.getValue());
    });
    if (samples && !SymbolTable::lookupSymbolIn(getOperation(), kValidSamples)) {
      OpBuilder builder(step);
      Axis batch{builder.getStringAttr(time.batchAxis), samples.sizeOf(time.batchAxis)};
      InputOp::create(builder, step.getLoc(), kValidSamples, -1,
                      Tensor::get(&getContext(), {batch}, builder.getI1Type()), 0);
    }
    SmallVector<CountOp> counts;
    step.walk([&](CountOp count) {
      if (has(count.getOver(), time.batchAxis))
        counts.push_back(count);
    });
    for (CountOp count : counts) {
      OpBuilder builder(count);
      Build build(builder, count.getLoc(), tensor(count.getResult()).getElement());
      double others = 1;
      for (auto [name, size] : llvm::zip(count.getOver().getAsRange<StringAttr>(), count.getSizes()))
        if (name != time.batchAxis)
          others *= size;
      Value number = build.scalar("samples");
      if (others != 1)
        number = build.mul(number, build.constant(others));
      count.getResult().replaceAllUsesWith(number);
      count.erase();
    }
  }
};

} // namespace
