// Reverse mode over @train.
// 0. Repeats that `recompute` acts on are marked (recompute/GroupIterations.h).
// 1. In every step, one report is the run's loss: the unnamed one, else the sum; of several the sum is total_loss.
// 2. Reads move to the step's start, one a variable: a value read in a loop is one from outside it.
// 3. Every loss has cotangent 1, or what the run scales it by; the operations' derivatives follow from last to first.
// 4. Each parameter's cotangent becomes its gradient; zeros where no loss depends on it.
#include "ir/ech/Recompute.h"
#include "ir/ech/Reverse.h"
#include "ir/run/Run.h"
#include "passes/Passes.h"
#include "passes/Phase.h"
#include "passes/recompute/GroupIterations.h"

namespace echelon {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon::ech;

namespace {

/// Marks what is built as part of the backward pass. Loops of the forward pass that are built again are not.
struct MarkBackward : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    if (!isa<YieldOp>(op))
      echelon::setPhase(op, "backward");
  }
};

struct Differentiate : echelon::impl::DifferentiateBase<Differentiate> {
  void runOnOperation() override {
    for (auto step : getOperation().getOps<StepOp>()) {
      if (step.getSymName() == "train" && failed(differentiate(step)))
        return signalPassFailure();
      reportSums(step);
    }
  }

  /// What the run reports as its loss is one quantity in every step: the unnamed loss, else the sum. Where there are
  /// several, the sum, which training makes small, has a name of its own.
  void reportSums(StepOp step) {
    SmallVector<ReportOp> losses;
    bool hasUnnamed = false;
    for (auto report : step.getBody().front().getOps<ReportOp>())
      if (report.getKind() == ReportKind::Loss || report.getKind() == ReportKind::NamedLoss) {
        losses.push_back(report);
        hasUnnamed |= report.getKind() == ReportKind::Loss;
      }
    if (losses.empty() || (losses.size() == 1 && hasUnnamed))
      return;
    OpBuilder builder(&getContext());
    builder.setInsertionPointAfter(losses.back());
    Build build(builder, placeOf(losses.back().getLoc()), tensor(losses.front().getValue()).getElement());
    Value sum = losses.front().getValue();
    for (ReportOp loss : llvm::drop_begin(losses))
      sum = build.add(sum, loss.getValue());
    if (!hasUnnamed)
      ReportOp::create(builder, build.loc, ReportKind::Loss, "loss", sum);
    if (losses.size() > 1)
      ReportOp::create(builder, build.loc, ReportKind::NamedLoss, echelon::kTotalLoss, sum);
  }

  LogicalResult differentiate(StepOp step) {
    const std::optional<Recompute> recompute = Recompute::of(getOperation());
    if (recompute && failed(echelon::groupIterations(step, *recompute)))
      return failure();
    llvm::StringMap<Value> reads = hoistReads(step);
    SmallVector<ReportOp> losses;
    step.walk([&](ReportOp report) {
      if (report.getKind() == ReportKind::Loss || report.getKind() == ReportKind::NamedLoss)
        losses.push_back(report);
    });
    if (losses.empty())
      return step.emitOpError() << "has no loss to differentiate";

    Block &block = step.getBody().front();
    Reverse reverse;
    llvm::DenseSet<StringAttr> parameters;
    for (auto variable : getOperation().getOps<VariableOp>())
      if (variable.getKind() == VariableKind::Param)
        parameters.insert(variable.getSymNameAttr());
    reverse.follow(block, [&](ReadOp read) { return parameters.contains(read.getSourceAttr().getAttr()); });

    MarkBackward mark;
    OpBuilder builder(&getContext(), &mark);
    builder.setInsertionPointToEnd(&block);
    Type real = tensor(losses.front().getValue()).getElement();
    Build build(builder, step.getLoc(), real);
    const bool isScaled = bool(echelon::run::only<echelon::run::LossScaleOp>(getOperation()));
    for (ReportOp loss : losses) {
      build.loc = placeOf(loss.getLoc());
      if (reverse.isActive(loss.getValue()))
        reverse.add(build, loss.getValue(), isScaled ? build.scalar("loss_scale") : build.constant(1));
    }
    if (failed(reverse.run(block, build)) || (recompute && failed(finishRecompute(*recompute, step, reverse))))
      return failure();

    for (auto variable : getOperation().getOps<VariableOp>()) {
      if (variable.getKind() != VariableKind::Param)
        continue;
      Value read = reads.lookup(variable.getSymName());
      Value gradient = read ? reverse.cotangent(read) : Value();
      Location loc = read ? read.getLoc() : variable.getLoc();
      build.loc = NameLoc::get(builder.getStringAttr(("d_" + variable.getSymName()).str()), placeOf(loc));
      if (!gradient)
        gradient = build.zeros(cast<Tensor>(variable.getType()));
      GradientOp::create(builder, placeOf(loc), variable.getSymName(), gradient);
    }
    return success();
  }

  /// That `recompute` changes something, and each of its names; then nothing is marked any more.
  LogicalResult finishRecompute(const Recompute &clause, StepOp step, const Reverse &reverse) {
    for (Attribute name : clause.names ? clause.names.getValue() : ArrayRef<Attribute>())
      if (!reverse.kept.contains(cast<StringAttr>(name)))
        return clause.error(getOperation()) << "the backward pass does not read " << cast<StringAttr>(name).getValue()
                                            << ", so keeping it changes nothing; leave it out";
    if (!reverse.operationsAgain)
      return clause.error(getOperation()) << "no repeat keeps anything that could be computed again, so recompute "
                                             "changes nothing; leave it out";
    step.walk([](Operation *op) {
      op->removeDiscardableAttr(kComputesAgain);
      op->removeDiscardableAttr(kKeptAs);
    });
    SmallVector<Attribute> kept(reverse.kept.begin(), reverse.kept.end());
    getOperation()->setAttr(kKeptByRepeats, ArrayAttr::get(&getContext(), kept));
    return success();
  }

  llvm::StringMap<Value> hoistReads(StepOp step) {
    Block &block = step.getBody().front();
    llvm::StringMap<Value> reads;
    Operation *last = nullptr; // the reads are in the order of their first use
    SmallVector<ReadOp> all;
    step.walk([&](ReadOp read) { all.push_back(read); });
    for (ReadOp read : all) {
      Value &first = reads[read.getSource()];
      if (first) {
        read.getValue().replaceAllUsesWith(first);
        read.erase();
        continue;
      }
      first = read.getValue();
      if (last)
        read->moveAfter(last);
      else
        read->moveBefore(&block, block.begin());
      last = read;
    }
    return reads;
  }
};

} // namespace
