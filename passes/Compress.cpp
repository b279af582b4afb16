// Gradients travel packed over the mesh axes of `run.compress`.
// 1. What each worker adds to a gradient g, as a mean over its hop, is u = n g (+ e, what packing lost so far).
// 2. A packing (passes/compress/) says what is handed in of u, and what the sum over workers is made of again, as
//    ordinary operations: layout, fusion and messages follow.
// 3. With feedback, e = u - (what came of u) is a variable optimizer.residual.PATH of each
//    worker.
#include "ir/ech/Reverse.h"
#include "ir/ech/ops/Derive.h"
#include "passes/Passes.h"
#include "passes/Phase.h"
#include "passes/compress/Packing.h"
#include "passes/compress/Workers.h"
#include "passes/update/MarkUpdate.h"

namespace echelon {
#define GEN_PASS_DEF_COMPRESS
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

namespace {

struct Compress : echelon::impl::CompressBase<Compress> {
  void runOnOperation() override {
    auto clause = run::only<run::CompressOp>(getOperation());
    auto step = getOperation().lookupSymbol<StepOp>("train");
    if (!clause || !step || compress::clauseBetweenWorkers(getOperation()))
      return;
    const compress::Workers workers = compress::workersOf(getOperation(), clause, step);
    const compress::Packing *packing = compress::findPacking(clause.getKind());
    if (!packing) {
      clause.emitError() << "no packing is called '" << clause.getKind() << "'";
      return signalPassFailure();
    }
    compress::listWorkers(getOperation(), workers);
    SmallVector<StringRef> exact;
    bool packsAny = false;
    if (auto given = getOperation()->getAttrOfType<ArrayAttr>(kExactGradients))
      exact = strings(given);
    for (auto gradient : llvm::make_early_inc_range(step.getBody().front().getOps<GradientOp>())) {
      auto param = getOperation().lookupSymbol<VariableOp>(gradient.getParameter());
      if (!param || llvm::is_contained(exact, param.getSymName()))
        continue;
      if (compress::isSummed(cast<Tensor>(param.getType()), workers))
        packsAny |= pack(gradient, param, clause, workers, *packing);
      else
        exact.push_back(param.getSymName());
    }
    if (!packsAny) {
      compress::refuseWithoutEffect(clause);
      return signalPassFailure();
    }
    Builder b(&getContext());
    getOperation()->setAttr(kPackedBy, b.getDenseI64ArrayAttr({workers.count, workers.ofHop}));
    getOperation()->setAttr(kExactGradients, b.getStrArrayAttr(exact));
  }

  /// False: it travels as it is.
  static bool pack(GradientOp gradient, VariableOp param, run::CompressOp clause, const compress::Workers &workers,
                   const compress::Packing &packing) {
    update::MarkUpdate mark;
    OpBuilder builder(gradient->getContext(), &mark);
    builder.setInsertionPoint(gradient);
    Build build(builder, placeOf(gradient.getLoc()), tensor(gradient.getValue()).getElement());
    compress::Packed p{build, param, clause.getAmount().convertToDouble(), clause.getFeedback(), workers};
    if (!packing.takes(p))
      return false;
    SmallVector<StringRef> meshAxes = llvm::map_to_vector(workers.mesh, [&](int m) { return workers.of.nameOf(m); });
    compress::markLinear(gradient.getValue(), batchAxisOf(clause->getParentOfType<ModuleOp>()),
                         Builder(clause).getStrArrayAttr(meshAxes));
    Value u = build.perWorker(gradient.getValue(), workers.axis, workers.count);
    u = p.named("handed_in", build.mul(u, build.constant(double(workers.ofHop))));
    // What packing loses is kept from step to step, and so is without the scale, which changes.
    Value scale =
        run::only<run::LossScaleOp>(clause->getParentOfType<ModuleOp>()) ? build.scalar("loss_scale") : Value();
    if (scale)
      u = build.div(u, scale);
    Value mean = compress::meanOfPacked(p, packing, u);
    if (scale) // the update takes it away again
      mean = build.mul(mean, scale);
    gradient.getValueMutable().assign(inOrder(build, mean, tensor(gradient.getValue())));
    return true;
  }
};

} // namespace
