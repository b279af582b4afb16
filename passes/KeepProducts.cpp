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
    auto isKept = [&](Value v) {
      ech::ReadOp read = types::readOf(v);
      return read &&
             llvm::any_of(patterns, [&](StringRef pattern) { return matchesPattern(pattern, read.getSource()); });
    };
    getOperation()->walk([&](Operation *op) {
      if (types::isProduct(op) && llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
            return types::isFactor(operand) && isKept(operand.get());
          }))
        op->setAttr(ech::kStaysF32, UnitAttr::get(&getContext()));
    });
  }
};

} // namespace
