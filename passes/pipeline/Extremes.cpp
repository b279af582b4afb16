// A maximum or minimum over the samples of a step or an evaluation, in a pipeline: one stage finds that of a pass. The
// others go on with what changes nothing, and once all passes are over, what all stages have is one again.
//
//   carry(%m: whole): max(%m, %x)      carry(%m: own): max(%m, share of %x), and all_reduce by "max" behind the loop
#include "passes/pipeline/Prepare.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::pipeline;

void echelon::pipeline::separateExtremes(ech::RepeatOp pass, const Stages &stages, StringRef why) {
  const MeshAttr mesh = meshOf(pass);
  OpBuilder builder(pass);
  const ArrayAttr over = builder.getStrArrayAttr(mesh.nameOf(stages.meshAxis()));
  auto own = [&](Value v) -> Type { return ech::tensor(v).withState(stateOf(v).with(stages.meshAxis(), Hold::Own)); };
  for (unsigned i = 0; i < pass.getCarried().size(); ++i) {
    Value sofar = pass.carriedArguments()[i], final = pass.getFinals()[i];
    auto extreme = pass.yield().getCarried()[i].getDefiningOp<ech::MapOp>(); // as ech-split-time makes it
    builder.setInsertionPoint(pass);
    Operation *start = builder.clone(*pass.getCarried()[i].getDefiningOp());
    start->getResult(0).setType(own(sofar));
    pass.getCarriedMutable()[i].set(start->getResult(0));
    for (OpOperand &operand : extreme->getOpOperands()) {
      if (operand.get() == sofar)
        continue;
      builder.setInsertionPoint(extreme);
      operand.set(SliceOp::create(builder, extreme.getLoc(), own(operand.get()), operand.get(), over, why));
    }
    const Type whole = final.getType();
    for (Value v : {sofar, Value(extreme.getResult()), final})
      v.setType(own(v));
    builder.setInsertionPointAfter(pass);
    const char *kind = extreme.getFunction() == ech::Function::Max ? "max" : "min";
    auto message = AllReduceOp::create(
        builder, extreme.getLoc(), whole, final, over, builder.getStringAttr(why),
        builder.getStringAttr(algorithmOf(pass->getParentOfType<ModuleOp>(), "all_reduce", stages.meshAxis())),
        builder.getStringAttr(kind));
    final.replaceAllUsesExcept(message.getResult(0), message);
  }
}
