// Values that are equal by definition are computed once, and dead ones not at all.
// 1. Identities of element-wise operations, expansions and relabels.
// 2. Loops lose results nobody reads, slices nobody uses, and what they carry or keep twice or unchanged.
// 3. Upstream's CSE. Operations of different phases differ in an attribute, so they stay apart.
// Every rule removes an operation, an operand or a result, so that it ends.
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/Loops.h"
#include "passes/Passes.h"
#include "passes/Phase.h"

#include <cmath>

namespace echelon {
#define GEN_PASS_DEF_SIMPLIFY
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

namespace {

std::optional<double> number(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant ? std::optional(constant.getValue().convertToDouble()) : std::nullopt;
}

//===- element-wise ----------------------------------------------------------------------------------------------===//

/// x * 1, x + 0, x - 0, x / 1, x ^ 1, -(-x), a cast that changes nothing, a choice between the same.
struct MapIdentity : OpRewritePattern<MapOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MapOp op, PatternRewriter &rewriter) const override {
    Value same = identity(op);
    if (!same || same.getType() != op.getType())
      return failure();
    rewriter.replaceOp(op, same);
    return success();
  }
  static Value identity(MapOp op) {
    OperandRange x = op.getOperands();
    auto is = [&](unsigned i, double value) { return i < x.size() && number(x[i]).value_or(NAN) == value; };
    switch (op.getFunction()) {
    case Function::Add:
      if (is(0, 0))
        return x[1];
      return is(1, 0) ? x[0] : Value();
    case Function::Sub:
      return is(1, 0) ? x[0] : Value();
    case Function::Mul:
      if (is(0, 1))
        return x[1];
      return is(1, 1) ? x[0] : Value();
    case Function::Div:
    case Function::Pow:
      return is(1, 1) ? x[0] : Value();
    case Function::Neg:
      if (auto inner = x[0].getDefiningOp<MapOp>(); inner && inner.getFunction() == Function::Neg)
        return inner.getOperands()[0];
      return {};
    case Function::Cast:
      return x[0];
    case Function::Select:
      return x[1] == x[2] ? x[1] : Value();
    default:
      return {};
    }
  }
};

/// Arithmetic of constants; a product with zero is zero.
struct MapOfConstants : OpRewritePattern<MapOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MapOp op, PatternRewriter &rewriter) const override {
    std::optional<double> value = fold(op);
    if (!value)
      return failure();
    auto constant = ConstantOp::create(rewriter, op.getLoc(), op.getType(), rewriter.getF64FloatAttr(*value));
    copyPhase(op, constant);
    rewriter.replaceOp(op, constant);
    return success();
  }
  static std::optional<double> fold(MapOp op) {
    OperandRange x = op.getOperands();
    if (!tensor(op.getResult()).isFloat())
      return {};
    if (op.getFunction() == Function::Neg) {
      auto a = number(x[0]);
      return a ? std::optional(-*a) : std::nullopt;
    }
    if (x.size() != 2)
      return {};
    auto a = number(x[0]), b = number(x[1]);
    if (op.getFunction() == Function::Mul && (a == 0.0 || b == 0.0))
      return 0.0;
    if (op.getFunction() == Function::Div && a == 0.0)
      return 0.0;
    if (!a || !b)
      return {};
    switch (op.getFunction()) {
    case Function::Add:
      return *a + *b;
    case Function::Sub:
      return *a - *b;
    case Function::Mul:
      return *a * *b;
    case Function::Div:
      return *b == 0 ? std::nullopt : std::optional(*a / *b);
    default:
      return {};
    }
  }
};

/// An element-wise operation broadcasts by itself, where another operand has the axes.
struct ExpandIntoMap : OpRewritePattern<MapOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MapOp op, PatternRewriter &rewriter) const override {
    for (OpOperand &operand : op->getOpOperands()) {
      auto expand = operand.get().getDefiningOp<ExpandOp>();
      if (!expand)
        continue;
      bool covered = llvm::all_of(tensor(op.getResult()).getAxes(), [&](const Axis &axis) {
        if (tensor(expand.getOperand()).has(axis.name))
          return true;
        return llvm::any_of(op->getOpOperands(),
                            [&](OpOperand &other) { return &other != &operand && tensor(other.get()).has(axis.name); });
      });
      if (!covered)
        continue;
      rewriter.modifyOpInPlace(op, [&] { operand.set(expand.getOperand()); });
      return success();
    }
    return failure();
  }
};

struct ExpandIdentity : OpRewritePattern<ExpandOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ExpandOp op, PatternRewriter &rewriter) const override {
    if (op.getOperand().getType() == op.getType()) {
      rewriter.replaceOp(op, op.getOperand());
      return success();
    }
    if (auto inner = op.getOperand().getDefiningOp<ExpandOp>()) {
      rewriter.modifyOpInPlace(op, [&] { op.getOperandMutable().assign(inner.getOperand()); });
      return success();
    }
    if (auto value = op.getOperand().getDefiningOp<ConstantOp>()) {
      auto constant = ConstantOp::create(rewriter, op.getLoc(), op.getType(), value.getValueAttr());
      copyPhase(op, constant);
      rewriter.replaceOp(op, constant);
      return success();
    }
    return failure();
  }
};

/// A relabel to the same names, and one that undoes another.
struct RelabelIdentity : OpRewritePattern<RelabelOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(RelabelOp op, PatternRewriter &rewriter) const override {
    Value same;
    if (op.getFrom() == op.getTo())
      same = op.getOperand();
    else if (auto inner = op.getOperand().getDefiningOp<RelabelOp>();
             inner && inner.getFrom() == op.getTo() && inner.getTo() == op.getFrom())
      same = inner.getOperand();
    if (!same || same.getType() != op.getType())
      return failure();
    rewriter.replaceOp(op, same);
    return success();
  }
};

//===- loops -----------------------------------------------------------------------------------------------------===//

struct ShrinkRepeat : OpRewritePattern<RepeatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(RepeatOp op, PatternRewriter &rewriter) const override {
    LoopParts parts(op);
    bool changed = false;
    auto drop = [&](bool &part) {
      part = false;
      changed = true;
    };
    YieldOp yield = op.yield();
    // Carried values that stay as they are, or that nobody reads.
    for (auto [i, argument] : llvm::enumerate(op.carriedArguments())) {
      Value next = yield.getCarried()[i], start = op.getCarried()[i], final = op.getFinals()[i];
      if (next == argument || next == start) {
        rewriter.replaceAllUsesWith(final, start);
        rewriter.replaceAllUsesWith(argument, start);
        drop(parts.carried[i]);
      } else if (argument.use_empty() && final.use_empty()) {
        drop(parts.carried[i]);
      }
    }
    // Slices that nobody reads, or that come in twice.
    for (auto [i, argument] : llvm::enumerate(op.sliceArguments())) {
      for (unsigned j = 0; j < i && !argument.use_empty(); ++j)
        if (parts.slices[j] && op.getSlices()[j] == op.getSlices()[i])
          rewriter.replaceAllUsesWith(argument, op.sliceArguments()[j]);
      if (argument.use_empty())
        drop(parts.slices[i]);
    }
    // Results that nobody reads, that are there twice, or that hold what is outside.
    for (auto [i, stack] : llvm::enumerate(op.getStacks())) {
      Value value = yield.getStacked()[i];
      for (unsigned j = 0; j < i; ++j)
        if (parts.stacks[j] && yield.getStacked()[j] == value)
          rewriter.replaceAllUsesWith(stack, op.getStacks()[j]);
      if (!stack.use_empty())
        if (auto argument = dyn_cast<BlockArgument>(value))
          if (argument.getOwner() == op.block() && argument.getArgNumber() >= op.getCarried().size()) {
            Value whole = op.getSlices()[argument.getArgNumber() - op.getCarried().size()];
            if (whole.getType() == stack.getType())
              rewriter.replaceAllUsesWith(stack, whole);
          }
      if (stack.use_empty())
        drop(parts.stacks[i]);
    }
    for (auto [i, sum] : llvm::enumerate(op.getSums())) {
      for (unsigned j = 0; j < i; ++j)
        if (parts.sums[j] && yield.getSummed()[j] == yield.getSummed()[i])
          rewriter.replaceAllUsesWith(sum, op.getSums()[j]);
      if (sum.use_empty())
        drop(parts.sums[i]);
    }
    if (!changed)
      return failure();
    rebuildLoop(op, parts, rewriter);
    return success();
  }
};

struct Simplify : echelon::impl::SimplifyBase<Simplify> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<MapIdentity, MapOfConstants, ExpandIntoMap, ExpandIdentity, RelabelIdentity, ShrinkRepeat>(
        &getContext());
    FrozenRewritePatternSet frozen(std::move(patterns));
    IRRewriter rewriter(&getContext());
    for (bool changed = true; changed;) { // what CSE merges may make more results the same
      if (failed(applyPatternsGreedily(getOperation(), frozen)))
        return signalPassFailure();
      DominanceInfo dominance(getOperation());
      changed = false;
      eliminateCommonSubExpressions(rewriter, dominance, getOperation(), &changed);
    }
  }
};

} // namespace
