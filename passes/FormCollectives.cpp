// dist.convert becomes the messages that make it.
//   1. A sum that one coordinate alone holds, because it was picked from a split axis, is broadcast.
//   2. Else each step of the conversion (passes/layout/ConversionSteps.cpp) is one operation. It has the
//      conversion's reason, and the algorithm that a `collective` clause gives it.
#include "ir/dist/Dist.h"
#include "ir/run/Run.h"
#include "passes/Passes.h"
#include "passes/Phase.h"
#include "passes/layout/Rule.h"

namespace echelon {
#define GEN_PASS_DEF_FORMCOLLECTIVES
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon;
using namespace echelon::layout;

namespace {
struct FormCollectives : echelon::impl::FormCollectivesBase<FormCollectives> {
  MeshAttr mesh;

  void runOnOperation() override {
    mesh = dist::meshOf(getOperation());
    if (!mesh) {
      getOperation().emitError("has no dist.mesh: dist-assign-layout comes first");
      return signalPassFailure();
    }
    SmallVector<dist::ConvertOp> converts;
    getOperation().walk([&](dist::ConvertOp op) { converts.push_back(op); });
    for (dist::ConvertOp op : converts) {
      Value result = formBroadcast(op);
      if (!result)
        result = formSteps(op);
      op.getResult().replaceAllUsesWith(result);
      op.erase();
    }
    if (failed(checkStates(getOperation(), mesh)))
      signalPassFailure();
  }

  StringAttr algorithmOf(StringRef kind, ArrayRef<int> over) {
    return StringAttr::get(&getContext(), dist::algorithmOf(getOperation(), kind, over));
  }
  /// Whether `reduce` of the run's precision says what a sum travels in: of more than one number, handed on by the
  /// forward or the backward pass, or of gradients that workers have handed in.
  bool travelsRounded(Value value, StringRef kind) {
    auto precision = run::only<run::PrecisionOp>(getOperation());
    if (!precision || !precision.getReduce() || (kind != "all_reduce" && kind != "reduce_scatter"))
      return false;
    Operation *op = value.getDefiningOp();
    while (isa_and_nonnull<dist::SliceOp, dist::ReduceScatterOp, dist::AllReduceOp>(op))
      op = op->getOperand(0).getDefiningOp();
    Tensor type = ech::tensor(value);
    return type.getElement().isF32() && type.rank() > 0 && (!op || !isOfUpdate(op) || op->hasAttr(ech::kSumsGradients));
  }
  StringAttr algorithmOfRounded() {
    const Type type = *run::only<run::PrecisionOp>(getOperation()).getReduce();
    return StringAttr::get(&getContext(), type.isBF16() ? "bf16_summands" : "fp16_summands");
  }

  /// The coordinate of mesh axis m, which alone splits the axis, that holds a position.
  int64_t coordinateWith(Tensor type, StringRef axis, int64_t position, int m) {
    SmallVector<int64_t> at(mesh.size(), 0);
    auto isHeld = [&](const dist::Interval &run) { return run.begin <= position && position < run.end; };
    while (llvm::none_of(dist::runs(type, axis, mesh, at), isHeld))
      ++at[m];
    return at[m];
  }

  /// sum -> whole over one mesh axis, of a value picked from an axis that is split over just this one.
  Value formBroadcast(dist::ConvertOp op) {
    auto pick = op.getValue().getDefiningOp<ech::PickOp>();
    if (!pick)
      return {};
    dist::StateAttr from = dist::stateOf(op.getValue()), to = dist::stateOf(op.getResult());
    Tensor source = ech::tensor(pick.getOperand());
    SmallVector<int> split = dist::over(source, pick.getAxis(), mesh);
    if (split.size() != 1 || from[split[0]].hold != Hold::Sum || to != from.with(split[0], Hold::Whole))
      return {};
    const int64_t root = coordinateWith(source, pick.getAxis(), pick.getPosition(), split[0]);
    OpBuilder builder(op);
    StringRef name = mesh.nameOf(split[0]);
    auto message = dist::BroadcastOp::create(builder, op.getLoc(), op->getResultTypes(), op->getOperands(),
                                             builder.getStrArrayAttr(name), builder.getI64IntegerAttr(root),
                                             op.getWhyAttr(), algorithmOf("broadcast", split));
    copyPhase(op, message);
    return message.getResult(0);
  }

  /// An all_reduce that is to be hierarchical, in three steps: each rank of the inner group sums up a part of its own,
  /// the parts are summed over the outer mesh axes, and gathered again. So between machines goes one part of it.
  SmallVector<Step> inHierarchy(Tensor type, dist::StateAttr from, const Step &step) {
    if (step.kind != "all_reduce" || !dist::isHierarchical(getOperation(), step.over))
      return {step};
    const int inner = step.over.back();
    const dist::StateAttr parts = from.with(inner, Hold::Flat);
    SmallVector<Step> scatter = stepsOf(type, from, parts, mesh);
    if (type.count() < mesh.sizeOf(inner) || scatter.size() != 1) // a number, or what is cut flat inside
      return {step};
    SmallVector<int> outer(step.over);
    outer.pop_back();
    dist::StateAttr summed = parts;
    for (int m : outer)
      summed = summed.with(m, Hold::Whole);
    return {scatter.front(), {"all_reduce", outer, summed}, {"all_gather", {inner}, step.to}};
  }

  Value formSteps(dist::ConvertOp op) {
    OpBuilder builder(op);
    Value value = op.getValue();
    Tensor type = ech::tensor(value);
    SmallVector<Step> steps;
    for (const Step &step : stepsOf(type, dist::stateOf(value), dist::stateOf(op.getResult()), mesh))
      llvm::append_range(steps, inHierarchy(type, steps.empty() ? dist::stateOf(value) : steps.back().to, step));
    for (const Step &step : steps) {
      SmallVector<StringRef> names;
      for (int m : step.over)
        names.push_back(mesh.nameOf(m));
      OperationState message(op.getLoc(), "dist." + step.kind.str());
      message.addOperands(value);
      message.addTypes(type.withState(step.to));
      message.addAttribute("over", builder.getStrArrayAttr(names));
      message.addAttribute("why", op.getWhyAttr());
      if (step.kind != "slice")
        message.addAttribute("algorithm", travelsRounded(value, step.kind) ? algorithmOfRounded()
                                                                           : algorithmOf(step.kind, step.over));
      Operation *made = builder.create(message);
      copyPhase(op, made);
      value = made->getResult(0);
    }
    return value;
  }
};
} // namespace
