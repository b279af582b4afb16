// Values that are equal by definition are computed once.
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/Passes.h"

namespace echelon {
#define GEN_PASS_DEF_SIMPLIFY
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;

namespace {
struct Simplify : echelon::impl::SimplifyBase<Simplify> {
  void runOnOperation() override {
    if (failed(applyPatternsGreedily(getOperation(), RewritePatternSet(&getContext()))))
      return signalPassFailure();
    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(getOperation());
    eliminateCommonSubExpressions(rewriter, dominance, getOperation());
  }
};
} // namespace
