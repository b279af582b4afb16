// The written-out softmax pattern becomes one ech.attention; what looks like attention and is not of the form is told.
#include "ir/ech/Build.h"
#include "passes/Passes.h"
#include "passes/attention/Pattern.h"

namespace echelon {
#define GEN_PASS_DEF_RECOGNISEATTENTION
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon::ech;

namespace {

struct RecogniseAttention : echelon::impl::RecogniseAttentionBase<RecogniseAttention> {
  void runOnOperation() override {
    SmallVector<DotOp> dots;
    getOperation()->walk([&](DotOp dot) { dots.push_back(dot); });
    for (DotOp dot : dots)
      if (auto p = matchAttention(dot))
        replace(dot, *p);
      else if (auto why = whyNoAttention(dot, batchAxisOf(getOperation())))
        dot.emitWarning("E0602: this attention is computed as it is written, with all its scores in memory, since ")
            << *why;
  }

  void replace(DotOp dot, const AttentionPattern &p) {
    OpBuilder builder(dot);
    Build build(builder, dot.getLoc(), tensor(p.q).getElement());
    StringRef query = p.query ? p.query.getValue() : StringRef();
    Value result = build.attention(p.q, p.k, p.v, p.mask, p.bias, query, p.past, p.key, p.scale, p.causal).getResult();
    Tensor wanted = tensor(dot.getResult());
    if (tensor(result) != wanted) // the same axes in another order of storage
      result = build.relabel(result, builder.getArrayAttr({}), builder.getArrayAttr({}), wanted);
    dot.getResult().replaceAllUsesWith(result);
    // What the pattern was made of, from its end to its beginning; a mask's parts may serve others.
    SmallVector<Operation *> dead{dot};
    while (!dead.empty()) {
      Operation *op = dead.pop_back_val();
      if (!op->use_empty() || !isMemoryEffectFree(op))
        continue;
      SmallVector<Value> operands(op->getOperands());
      op->erase();
      for (Value operand : operands)
        if (Operation *source = operand.getDefiningOp(); source && !llvm::is_contained(dead, source))
          dead.push_back(source);
    }
  }
};
} // namespace
