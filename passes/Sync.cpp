// A step of one worker, and what becomes of it under `run.sync`.
// 1. @train is a mini-batch of one worker: its gradients, losses and next states are variables that it hands in.
//    Asynchronous workers read copies of parameters and states, which @read takes.
// 2. Where one worker may hand in several for an update, or one rank works for several workers, @hand_in adds them up.
// 3. @update takes the sum over workers of what is handed in: gradients times their weights, of all else the mean.
// 4. Where the run packs what workers hand in, @update packs it and takes the mean of what comes of it.
// Under `local` @train stays a step of its own, of one worker's parameters, and @meet brings them together.
#include "ir/ech/Reverse.h"
#include "ir/ech/ops/Derive.h"
#include "passes/Passes.h"
#include "passes/compress/Packing.h"
#include "passes/microbatch/Dependence.h"
#include "passes/update/MarkUpdate.h"

namespace echelon {
#define GEN_PASS_DEF_SYNC
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

namespace {

struct Sync : echelon::impl::SyncBase<Sync> {
  /// Something that a worker hands in.
  struct Item {
    enum What { Loss, Gradient, Next } what;
    StringRef name;    // of the report, the parameter, the state
    VariableOp handed; // the worker's own
    VariableOp sum;    // null where one of a worker makes an update
    ReportKind report; // of a loss
    Location loc;
  };

  void runOnOperation() override {
    policy = run::only<run::SyncOp>(getOperation());
    train = getOperation().lookupSymbol<StepOp>("train");
    if (!policy || !train)
      return;
    if (failed(checkSamples()))
      return signalPassFailure();
    workers = compress::workersOf(getOperation(), policy);
    compress::listWorkers(getOperation(), workers);
    packs = compress::clauseBetweenWorkers(getOperation());
    if (packs)
      workers.ofHop = int64_t(policy.getK());
    if (policy.isOneRank())
      workers.count = int64_t(policy.getWorkers());
    if (packs)
      listParts();
    if (packs && !packsAny()) {
      compress::refuseWithoutEffect(packs);
      return signalPassFailure();
    }
    getOperation()->setAttr(kWorkerAxis, StringAttr::get(&getContext(), workers.axis));
    if (policy.isLocal()) {
      meetLocally();
      return;
    }
    addsUp = policy.isBatch() || policy.isOneRank();
    if (policy.isAsync())
      readCopies();
    handIn();
    if (addsUp)
      addUp();
    update();
  }

  /// What is refused under micro batches is refused here: the workers' mini-batches are parts of a batch, too.
  LogicalResult checkSamples() {
    auto batchAxis = getOperation()->getAttrOfType<StringAttr>(kBatchAxis);
    if (!batchAxis || train.getBody().front().empty())
      return success();
    const auto parts = int64_t(policy.getWorkers());
    const Time time{batchAxis.getValue(), parts, getOperation()->getAttrOfType<ArrayAttr>(kLikeBatch),
                    policy.getPolicy()};
    return Dependences(train, time).decide();
  }

  /// Where the clause names mesh axes inside of the workers, each of their ranks hands in its part of a gradient.
  void listParts() {
    parts = compress::partsOf(getOperation(), packs, train, workers);
    partsOfWorker = parts.count / workers.count;
    if (auto given = getOperation()->getAttrOfType<ArrayAttr>(kExactGradients))
      exact = strings(given);
    if (partsOfWorker == 1)
      return;
    compress::listWorkers(getOperation(), parts);
    for (auto variable : getOperation().getOps<VariableOp>())
      if (variable.getKind() == VariableKind::Param && !compress::isSummed(cast<Tensor>(variable.getType()), parts))
        exact.push_back(variable.getSymName());
    Builder b(&getContext());
    getOperation()->setAttr(kPackedBy, b.getDenseI64ArrayAttr({partsOfWorker, parts.ofHop / workers.ofHop}));
    getOperation()->setAttr(kExactGradients, b.getStrArrayAttr(exact));
  }

  //===- @train --------------------------------------------------------------------------------------------------===//

  /// Reads of parameters and states become reads of the worker's copies, which @read makes of these.
  void readCopies() {
    StepOp read = stepAfter(train, "read");
    OpBuilder builder = OpBuilder::atBlockEnd(&read.getBody().front());
    for (auto of : llvm::make_early_inc_range(train.getBody().front().getOps<ReadOp>())) {
      auto variable = getOperation().lookupSymbol<VariableOp>(of.getSource());
      if (!variable)
        continue;
      VariableOp copy = like(variable, "copy.", VariableKind::Copy, variable.getType());
      Value now = ReadOp::create(builder, named(variable.getSymName(), variable.getLoc()),
                                 cast<Tensor>(variable.getType()), variable.getSymName());
      WriteOp::create(builder, variable.getLoc(), copy.getSymName(), now);
      of.setSource(copy.getSymName());
    }
  }

  void handIn() {
    Block &block = train.getBody().front();
    OpBuilder builder = OpBuilder::atBlockEnd(&block);
    for (Operation &op : llvm::make_early_inc_range(block)) {
      builder.setInsertionPoint(&op);
      if (auto report = dyn_cast<ReportOp>(op)) {
        if (report.getKind() != ReportKind::Metric)
          take({Item::Loss, report.getName(), {}, {}, report.getKind(), op.getLoc()}, report.getValue(), builder, op);
        op.erase();
      } else if (auto gradient = dyn_cast<GradientOp>(op)) {
        take({Item::Gradient, gradient.getParameter(), {}, {}, {}, op.getLoc()}, gradient.getValue(), builder, op);
        op.erase();
      } else if (auto write = dyn_cast<WriteOp>(op);
                 write && getOperation().lookupSymbol<VariableOp>(write.getTarget()).getKind() == VariableKind::State) {
        take({Item::Next, write.getTarget(), {}, {}, {}, op.getLoc()}, write.getValue(), builder, op);
        op.erase();
      }
    }
  }

  void take(Item item, Value value, OpBuilder &builder, Operation &from) {
    Build build(builder, from.getLoc(), tensor(value).getElement());
    const bool isGradient = item.what == Item::Gradient;
    if (isGradient && run::only<run::LossScaleOp>(getOperation())) { // it changes until this is applied
      Location place = value.getLoc();
      value = build.div(value, build.scalar("loss_scale"));
      value.getDefiningOp()->setLoc(place);
      mark(value.getDefiningOp());
    }
    auto variable = item.what == Item::Loss ? VariableOp() : getOperation().lookupSymbol<VariableOp>(item.name);
    const StringRef prefix = item.what == Item::Loss ? "loss." : isGradient ? "gradient." : "next.";
    Type type = variable ? variable.getType() : Type();
    if (hasParts(build, item)) {
      value = partOf(build, value);
      type = stackedType(cast<Tensor>(type), parts.axis, tensor(value).getAxes().front().size);
    }
    item.handed = variable ? like(variable, "handed_in." + prefix, VariableKind::HandedIn, type)
                           : alone(("handed_in." + prefix + item.name).str(), tensor(value), item.loc);
    mark(WriteOp::create(builder, from.getLoc(), item.handed.getSymName(),
                         inOrder(build, value, cast<Tensor>(item.handed.getType()))));
    items.push_back(item);
  }
  /// What this rank's samples add to a gradient; on one rank, those of each pass.
  Value partOf(Build &build, Value gradient) {
    SmallVector<StringRef> inside;
    for (int m : parts.mesh)
      if (!llvm::is_contained(workers.mesh, m))
        inside.push_back(parts.of.nameOf(m));
    compress::markLinear(gradient, batchAxisOf(getOperation()), Builder(&getContext()).getStrArrayAttr(inside));
    Value part = build.perWorker(gradient, parts.axis, policy.isOneRank() ? partsOfWorker : parts.count);
    mark(part.getDefiningOp());
    return part;
  }
  bool hasParts(Build &build, Item &item) { return partsOfWorker > 1 && isPacked(build, item); }
  static void mark(Operation *op) { setPhase(op, "backward"); }

  //===- @hand_in ------------------------------------------------------------------------------------------------===//

  void addUp() {
    StepOp step = stepAfter(train, "hand_in");
    update::MarkUpdate marks;
    OpBuilder builder(&getContext(), &marks);
    builder.setInsertionPointToEnd(&step.getBody().front());
    for (Item &item : items) {
      Build build(builder, item.loc, element(item));
      addUp(build, step, item);
    }
    if (packs)
      count(builder, step);
  }

  /// In `step`: a variable for the sum of what one worker hands in, or one rank for all of them, and one more of it.
  void addUp(Build &build, StepOp step, Item &item) {
    OpBuilder::InsertionGuard guard(build.builder);
    build.builder.setInsertionPointToEnd(&step.getBody().front());
    const bool isApart = policy.isOneRank() && isPacked(build, item);
    auto type = cast<Tensor>(item.handed.getType());
    item.sum = like(item.handed, "sum.", VariableKind::HandedIn, isApart ? ofEachWorker(type) : type);
    Value given = read(build, item.handed);
    if (!policy.isLocal() || !isApart)
      given = weighted(build, item, given);
    addTo(build, item.sum, isApart ? atWorker(build, given) : given);
  }

  /// One more of what a variable adds up for an update.
  void addTo(Build &build, VariableOp sum, Value given) {
    Value isFirst = build.map(Function::Gt, {build.scalar("is_first_in"), build.constant(0)});
    isFirst.getDefiningOp()->setLoc(named("is_first", build.loc));
    Value before = read(build, sum);
    Value after = build.select(isFirst, given, build.add(before, given));
    WriteOp::create(build.builder, build.loc, sum.getSymName(), inOrder(build, after, cast<Tensor>(sum.getType())));
  }

  //===- packed --------------------------------------------------------------------------------------------------===//
  // What workers hand in to an update is added up by worker, also on one rank that works for all, and packed once.

  compress::Packed packedOf(Build &build, Item &item) {
    return {build, getOperation().lookupSymbol<VariableOp>(item.name), packs.getAmount().convertToDouble(),
            packs.getFeedback(), parts};
  }
  bool isPacked(Build &build, Item &item) {
    auto variable = packs ? getOperation().lookupSymbol<VariableOp>(item.name) : VariableOp();
    return variable && variable.getKind() == VariableKind::Param && item.what != Item::Loss &&
           !llvm::is_contained(exact, variable.getSymName()) &&
           compress::findPacking(packs.getKind())->takes(packedOf(build, item));
  }
  bool packsAny() {
    OpBuilder builder(&getContext());
    Build build(builder, packs.getLoc(), builder.getF32Type());
    return llvm::any_of(getOperation().getOps<VariableOp>(), [&](VariableOp variable) {
      Item item{Item::Gradient, variable.getSymName(), {}, {}, {}, packs.getLoc()};
      return isPacked(build, item);
    });
  }
  Tensor ofEachWorker(Tensor type) {
    SmallVector<Axis> axes(type.getAxes());
    axes.insert(axes.begin(), {StringAttr::get(&getContext(), workers.axis), workers.count});
    return type.withAxes(axes);
  }
  /// x in the place of the worker that hands in, and 0 in those of the others.
  Value atWorker(Build &build, Value x) {
    Value place = build.toReal(build.index(workers.axis, workers.count));
    Value isOwn = build.map(Function::Eq, {place, build.scalar("hand_in_worker")});
    return inOrder(build, build.select(isOwn, x, build.constant(0)), ofEachWorker(tensor(x)));
  }

  /// In `step`: how many gradients each worker has handed in.
  void count(OpBuilder &builder, StepOp step) {
    Build build(builder, step.getLoc(), cast<Tensor>(items.front().handed.getType()).getElement());
    builder.setInsertionPointToEnd(&step.getBody().front());
    Tensor type = build.scalarType();
    counted = alone("sum.handed_in.count", policy.isOneRank() ? ofEachWorker(type) : type, step.getLoc());
    Value one = build.constant(1);
    addTo(build, counted, policy.isOneRank() ? atWorker(build, one) : one);
  }
  Value countOfEach(Build &build) {
    if (!policy.isOneRank())
      return build.perWorker(ifIn(build, counted ? read(build, counted) : build.constant(1)), parts.axis, parts.count,
                             /*isApart=*/true);
    Value each = read(build, counted);
    return partsOfWorker == 1 ? each : inARow(build, build.expand(each, withParts(tensor(each))));
  }
  /// Behind the axis of workers that of what each has parts of.
  Tensor withParts(Tensor type) {
    SmallVector<Axis> axes(type.getAxes());
    axes.insert(axes.begin() + 1, {StringAttr::get(&getContext(), parts.axis), partsOfWorker});
    return type.withAxes(axes);
  }
  /// On one rank: the parts of all workers along one axis.
  Value inARow(Build &build, Value each) {
    return build.relabel(each, {workers.axis, parts.axis}, {{parts.axis, parts.count}});
  }

  Value meanOfPacked(Build &build, Item &item, Value each) {
    compress::Packed p = packedOf(build, item);
    if (!policy.isLocal())
      p.counts = countOfEach(build);
    return compress::meanOfPacked(p, *compress::findPacking(packs.getKind()), each);
  }

  /// Times the weight of the gradient in the update; losses and states count the same.
  Value weighted(Build &build, Item &item, Value value) {
    return build.mul(value, item.what == Item::Gradient ? build.scalar("hand_in_weight")
                                                        : build.constant(1.0 / double(policy.getK())));
  }

  //===- @update -------------------------------------------------------------------------------------------------===//

  void update() {
    StepOp step = stepAfter(train, "update");
    update::MarkUpdate marks;
    OpBuilder builder(&getContext(), &marks);
    builder.setInsertionPointToEnd(&step.getBody().front());
    for (Item::What what : {Item::Loss, Item::Next, Item::Gradient})
      for (Item &item : items) {
        if (item.what != what)
          continue;
        Value total = applied(builder, item);
        if (what == Item::Loss)
          ReportOp::create(builder, item.loc, item.report, item.name, total);
        else if (what == Item::Next)
          WriteOp::create(builder, item.loc, item.name, total);
        else
          GradientOp::create(builder, item.loc, item.name, total);
      }
  }

  /// The sum over workers of what is in the update; of all others it may be anything.
  Value applied(OpBuilder &builder, Item &item) {
    Build build(builder, item.loc, element(item));
    Value own = read(build, item.sum ? item.sum : item.handed);
    if (!item.sum)
      own = weighted(build, item, own);
    const bool isPacked = this->isPacked(build, item), isOfParts = isPacked && partsOfWorker > 1;
    Value each = isPacked && policy.isOneRank() ? (isOfParts ? inARow(build, own) : own)
                 : isOfParts                    ? ifIn(build, own)
                                                : eachOf(build, own);
    Value total;
    if (isPacked) { // as gradients, not as their shares of the mean
      each = build.mul(each, build.constant(double(parts.ofHop)));
      each.getDefiningOp()->setLoc(named("handed_in", item.loc));
      total = meanOfPacked(build, item, each);
    } else {
      total = build.sum(each, {workers.axis});
      if (item.what == Item::Gradient)
        total.getDefiningOp()->setAttr(kSumsGradients, UnitAttr::get(&getContext()));
    }
    if (item.what == Item::Gradient)
      total.getDefiningOp()->setLoc(named(("d_" + item.name).str(), item.loc));
    auto variable = getOperation().lookupSymbol<VariableOp>(item.name);
    return inOrder(build, total, cast<Tensor>((isOfParts ? variable : item.handed).getType()));
  }
  /// What each worker has, 0 of those that are not in the update.
  Value eachOf(Build &build, Value own) {
    return build.perWorker(ifIn(build, own), workers.axis, meshWorkers(), /*isApart=*/true);
  }
  Value ifIn(Build &build, Value own) {
    Value isIn = build.map(Function::Ne, {build.scalar("hand_in_weight"), build.constant(0)});
    isIn.getDefiningOp()->setLoc(named("is_in", build.loc));
    return build.select(isIn, own, build.constant(0));
  }
  int64_t meshWorkers() { return policy.isOneRank() ? 1 : workers.count; }

  //===- local ---------------------------------------------------------------------------------------------------===//

  /// Each worker trains by itself. @meet makes of the parameters and states of all what all go on with: the mean, or
  /// where there is an outer optimizer (V = mu V + D with D = anchor - mean) the anchor less its step. Where these are
  /// not the workers' own at once, they are copies, which @take brings to one worker; @read makes copies of the start.
  void meetLocally() {
    reportMeans();
    const bool hasCopies = policy.isOneRank() || !policy.getOuter().empty() || packs;
    SmallVector<VariableOp> met;
    for (auto variable : getOperation().getOps<VariableOp>())
      if (variable.getKind() == VariableKind::Param || variable.getKind() == VariableKind::State)
        met.push_back(variable);
    StepOp reading, taking;
    if (hasCopies) {
      reading = stepAfter(train, "read");
      taking = stepAfter(train, "take");
    }
    StepOp meet = stepAfter(train, "meet"), hand;
    if (policy.isOneRank())
      hand = stepAfter(train, "hand_in");
    update::MarkUpdate marks;
    OpBuilder builder(&getContext(), &marks);
    for (VariableOp variable : met) {
      Build build(builder, placeOf(variable.getLoc()), cast<Tensor>(variable.getType()).getElement());
      Item item{Item::Next, variable.getSymName(), variable, {}, {}, build.loc};
      if (hand)
        addUp(build, hand, item);
      VariableOp copy;
      if (hasCopies) {
        copy = like(variable, "copy.", VariableKind::Copy, variable.getType());
        copyTo(build, reading, copy, variable);
        copyTo(build, taking, variable, copy);
      }
      builder.setInsertionPointToEnd(&meet.getBody().front());
      const bool isOuter = !policy.getOuter().empty() && variable.getKind() == VariableKind::Param;
      Value next;
      if (isPacked(build, item) || isOuter) {
        Value anchor = read(build, copy);
        next = moved(build, variable, anchor, meanDelta(build, item, anchor));
      } else {
        next = meanOfWorkers(build, item);
      }
      WriteOp::create(builder, build.loc, copy ? copy.getSymName() : variable.getSymName(),
                      inOrder(build, next, cast<Tensor>(variable.getType())));
    }
  }
  void copyTo(Build &build, StepOp step, VariableOp to, VariableOp from) {
    OpBuilder::InsertionGuard guard(build.builder);
    build.builder.setInsertionPointToEnd(&step.getBody().front());
    WriteOp::create(build.builder, build.loc, to.getSymName(), read(build, from));
  }
  Value meanOfWorkers(Build &build, Item &item) {
    if (item.sum)
      return read(build, item.sum);
    return compress::meanOverWorkers(build, getOperation(), read(build, item.handed));
  }
  /// How far the workers are from the anchor, in the mean.
  Value meanDelta(Build &build, Item &item, Value anchor) {
    if (!isPacked(build, item))
      return build.sub(anchor, meanOfWorkers(build, item));
    Value own = build.sub(anchor, read(build, item.sum ? item.sum : item.handed));
    Value each = item.sum ? own : build.perWorker(own, workers.axis, workers.count, /*isApart=*/true);
    each.getDefiningOp()->setLoc(named("delta", build.loc));
    return meanOfPacked(build, item, inOrder(build, each, ofEachWorker(tensor(anchor))));
  }
  /// What the outer optimizer makes of the anchor (Douillard et al., DiLoCo, 2023); without one, the mean.
  Value moved(Build &build, VariableOp param, Value anchor, Value step) {
    if (policy.getOuter().empty())
      return build.sub(anchor, step);
    const double rate = policy.getRate().convertToDouble(), momentum = policy.getMomentum().convertToDouble();
    if (momentum != 0) {
      VariableOp kept = like(param, "optimizer.outer_momentum.", VariableKind::Optimizer, param.getType());
      Value before = build.mul(read(build, kept), build.constant(momentum));
      Value now = build.add(before, step);
      WriteOp::create(build.builder, build.loc, kept.getSymName(), now);
      if (policy.getOuter() == "nesterov") {
        Value ahead = build.mul(now, build.constant(momentum));
        step = build.add(step, ahead);
      } else {
        step = now;
      }
    }
    return build.sub(anchor, build.mul(step, build.constant(rate)));
  }
  /// What is told of a step is the mean of what the workers have.
  void reportMeans() {
    OpBuilder builder(&getContext());
    for (auto report : train.getBody().front().getOps<ReportOp>()) {
      builder.setInsertionPoint(report);
      Build build(builder, report.getLoc(), tensor(report.getValue()).getElement());
      report.getValueMutable().assign(compress::meanOverWorkers(build, getOperation(), report.getValue()));
    }
  }

  //===- variables and steps -------------------------------------------------------------------------------------===//

  Location named(const Twine &name, Location loc) {
    return NameLoc::get(StringAttr::get(&getContext(), name), placeOf(loc));
  }
  Type element(Item &item) { return cast<Tensor>(item.handed.getType()).getElement(); }
  Value read(Build &build, VariableOp variable) {
    return ReadOp::create(build.builder, named(variable.getSymName(), build.loc), cast<Tensor>(variable.getType()),
                          variable.getSymName());
  }
  VariableOp like(VariableOp variable, const Twine &prefix, VariableKind kind, Type type) {
    OpBuilder builder(&getContext());
    Operation *last = variable;
    while (isa_and_nonnull<VariableOp>(last->getNextNode()))
      last = last->getNextNode();
    builder.setInsertionPointAfter(last);
    return VariableOp::create(builder, variable.getLoc(), (prefix + variable.getSymName()).str(), kind, type,
                              Distribution::Constant, APFloat(0.0), APFloat(0.0), variable.getStacked(),
                              /*decayed=*/false);
  }
  VariableOp alone(StringRef path, Tensor type, Location loc) {
    OpBuilder builder(train);
    return VariableOp::create(builder, loc, path, VariableKind::HandedIn, type, Distribution::Constant, APFloat(0.0),
                              APFloat(0.0), /*stacked=*/0, /*decayed=*/false);
  }
  StepOp stepAfter(StepOp before, StringRef name) {
    OpBuilder builder(&getContext());
    builder.setInsertionPointAfter(before);
    return StepOp::create(builder, before.getLoc(), name);
  }

  run::SyncOp policy;
  StepOp train;
  compress::Workers workers, parts; // parts: who packs
  int64_t partsOfWorker = 1;
  SmallVector<StringRef> exact; // parameters whose gradients travel as they are
  run::CompressOp packs;        // null where what workers hand in travels as it is
  VariableOp counted;           // gradients that each worker has handed in; null: one
  bool addsUp = false;
  SmallVector<Item> items;
};

} // namespace
