// rt-lower: tensors become buffers, operations become calls. The rules stand in passes/lower, one file a group of
// operations.
//
// 1. Each step becomes a function; inputs and stored tensors become buffers of their arenas.
// 2. Each operation, in order, becomes calls and loops (its rule), written straight to where the value goes.
// 3. Collectives get the number of their group in the program's table.
#include "mlir/IR/SymbolTable.h"
#include "passes/Passes.h"
#include "passes/lower/Lowering.h"

namespace echelon {
#define GEN_PASS_DEF_LOWERTORT
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;

namespace {
struct LowerToRt : echelon::impl::LowerToRtBase<LowerToRt> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto step : llvm::make_early_inc_range(module.getOps<ech::StepOp>())) {
      lower::Lowering lowering(module, dist::meshOf(module));
      lowering.b.setInsertionPoint(step);
      auto function = rt::FunctionOp::create(lowering.b, step.getLoc(), step.getSymName());
      if (failed(lowering.step(step, function)))
        return signalPassFailure();
      step.erase();
    }
    numberGroups(module);
  }

  void numberGroups(ModuleOp module) {
    Builder builder(module.getContext());
    SmallVector<Attribute> groups;
    module.walk([&](rt::CollectiveOp op) {
      Attribute key = op.getMeshAttr();
      auto at = llvm::find(groups, key);
      op->setAttr("rt.group", builder.getI64IntegerAttr(at - groups.begin()));
      if (at == groups.end())
        groups.push_back(key);
    });
    module->setAttr("rt.groups", builder.getArrayAttr(groups));
  }
};
} // namespace
