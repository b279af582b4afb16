// rt-select-kernels: which of the CPU's kernels does what. Each pattern below is a choice that another target makes
// otherwise; what all kernels of an operation take (matrices with one leading dimension, dense rows) is settled before.
#include "ir/rt/Rt.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"
#include "passes/Passes.h"
#include "runtime/kernels/GemmChoice.h"

namespace echelon {
#define GEN_PASS_DEF_SELECTKERNELS
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;
using ech::Axis;

namespace {
/// The library that is fastest for a product of these sizes (runtime/kernels/GemmChoice.h has the measurements).
struct ChooseBlas : OpRewritePattern<rt::GemmOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(rt::GemmOp op, PatternRewriter &rewriter) const override {
    if (op.getBlas())
      return failure();
    const int64_t bytes = rt::buffer(op.getA()).elementBytes();
    const runtime::Blas chosen = runtime::choose_gemm(op.getM().count(), op.getN().count(), op.getK().count(),
                                                      op.getTransA(), op.getTransB(), static_cast<int>(bytes));
    rewriter.modifyOpInPlace(op, [&] {
      op.setBlas(chosen == runtime::Blas::tiled    ? rt::Blas::Tiled
                 : chosen == runtime::Blas::onednn ? rt::Blas::OneDnn
                                                   : rt::Blas::OpenBlas);
    });
    return success();
  }
};

/// Whether neighbours in one lie apart in the other, both ways, over lengths that make a kernel for transposes worth
/// it.
bool isTransposed(rt::Buffer to, rt::Buffer from) {
  constexpr int64_t kFew = 8;
  auto fastest = [](rt::Buffer type) {
    const Axis *at =
        llvm::find_if(type.getAxes(), [&](const Axis &a) { return type.strideOf(a.name) == 1 && a.size > 1; });
    return at == type.getAxes().end() ? nullptr : at;
  };
  const Axis *t = fastest(to), *f = fastest(from);
  return t && f && t->name != f->name && t->size >= kFew && f->size >= kFew && from.position(t->name) >= 0 &&
         to.position(f->name) >= 0;
}

/// A loop that only copies between orders of axes goes by blocks.
struct CopyByBlocks : OpRewritePattern<rt::FusedOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(rt::FusedOp op, PatternRewriter &rewriter) const override {
    constexpr size_t kMostAxes = 8; // of copy_strided
    if (op.getInputs().size() != 1 || op.getOutputs().size() != 1 ||
        cast<StringAttr>(op.getModes()[0]).getValue() != "store")
      return failure();
    auto yield = cast<rt::YieldOp>(op.getBody().front().getTerminator());
    Value to = op.getOutputs()[0], from = op.getInputs()[0];
    rt::Buffer type = rt::buffer(to);
    if (yield.getValues()[0] != op.getBody().getArgument(0) || type.getElement() != rt::buffer(from).getElement() ||
        type.getAxes().size() > kMostAxes || !isTransposed(type, rt::buffer(from)))
      return failure();
    auto copy = rt::CopyStridedOp::create(rewriter, op.getLoc(), to, from);
    copy->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    rewriter.eraseOp(op);
    return success();
  }
};

struct SelectKernels : echelon::impl::SelectKernelsBase<SelectKernels> {
  using SelectKernelsBase::SelectKernelsBase;
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<CopyByBlocks>(&getContext());
    if (!isGpu)
      patterns.add<ChooseBlas>(&getContext());
    walkAndApplyPatterns(getOperation(), std::move(patterns));
    if (isGpu) // a rank has scratch of its own there
      getOperation().walk([](rt::ConvOp op) { op.getScratchMutable().clear(); });
  }
};
} // namespace
