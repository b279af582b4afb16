// ech-keep-products: `keep (head.*) fp32` marks the products that read these parameters. Their derivatives take over
// the mark (ir/ech/Reverse.cpp), and ech-choose-types leaves what has it in f32.
#include "ir/ech/Build.h"
#include "passes/Passes.h"
#include "passes/types/Products.h"

namespace echelon {
#define GEN_PASS_DEF_KEEPPRODUCTS
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon;

namespace {

struct KeepProducts : echelon::impl::KeepProductsBase<KeepProducts> {
  void runOnOperation() override {
    auto clause = run::only<run::PrecisionOp>(getOperation());
    if (!clause || !clause.getKeep())
      return;
    const SmallVector<StringRef> patterns = ech::strings(*clause.getKeep());
    SmallVector<bool> isUsed(patterns.size());
    auto isKept = [&](Value v) {
      ech::ReadOp read = types::readOf(v);
      bool found = false;
      for (auto [pattern, used] : llvm::zip(patterns, isUsed))
        if (read && matchesPattern(pattern, read.getSource()))
          used = found = true;
      return found;
    };
    getOperation()->walk([&](Operation *op) {
      if (!types::isProduct(op))
        return;
      bool isAny = false;
      for (OpOperand &operand : op->getOpOperands())
        isAny |= types::isFactor(operand) && isKept(operand.get());
      if (isAny)
        op->setAttr(ech::kStaysF32, UnitAttr::get(&getContext()));
    });
    for (auto [pattern, used] : llvm::zip(patterns, isUsed))
      if (!used) {
        clause.emitError() << "E0409: no product reads a parameter of keep (" << pattern
                           << "), so it changes nothing; leave it out";
        signalPassFailure();
      }
  }
};

} // namespace
