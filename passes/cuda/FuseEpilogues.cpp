// dist-fuse-epilogues: what a GPU's kernels do beside a product, on the way of its numbers to memory.
//
// 1. What is rounded under another name of its axes is rounded before it gets that name.
// 2. Attention whose operands were kept in two bytes reads these, and gives its results in two bytes.
// 3. Cross-entropy of logits that were kept in two bytes reads these.
// 4. A product whose result is only read rounded gives it rounded. Where a bias is added first, that is rounded, too,
//    and added to the sum in f32.
//
// Values that ranks still have to sum up stay f32.
#include "ir/dist/State.h"
#include "ir/ech/Build.h"
#include "passes/Passes.h"
#include "passes/Phase.h"
#include "passes/types/Products.h"

namespace echelon {
#define GEN_PASS_DEF_FUSEEPILOGUES
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using types::isWidening;

namespace {
/// Whether an operation rounds to two bytes.
bool isRounding(Operation *op) {
  auto map = dyn_cast_or_null<MapOp>(op);
  return map && map.getFunction() == Function::Cast && isNarrow(tensor(map.getResult()).getElement()) &&
         tensor(map.getOperands()[0]).getElement().isF32();
}

/// The type that all who read a value round it to; null: not all round it, or to more than one.
Type roundedTo(Value v) {
  Type narrow;
  for (Operation *user : v.getUsers()) {
    if (!isRounding(user) || isOfUpdate(user))
      return {};
    Type type = tensor(user->getResult(0)).getElement();
    if (narrow && narrow != type)
      return {};
    narrow = type;
  }
  return narrow;
}

bool isSummedUp(Value v) { return !dist::stateOf(v) || dist::sums(tensor(v)).empty(); }

Value castTo(OpBuilder &builder, Value v, Type element, Operation *of) {
  Build build(builder, v.getLoc(), builder.getF32Type());
  Value made = build.cast(v, element);
  copyPhase(of, made.getDefiningOp());
  return made;
}

/// Those who rounded a value to its type read `rounded`.
void replaceRoundings(Value v, Value rounded) {
  for (Operation *user : llvm::make_early_inc_range(v.getUsers()))
    if (isRounding(user) && tensor(user->getResult(0)).getElement() == tensor(rounded).getElement()) {
      user->getResult(0).replaceAllUsesWith(rounded);
      user->erase();
    }
}

void roundBeforeRenaming(RelabelOp relabel) {
  Type narrow = roundedTo(relabel.getResult());
  if (!narrow || !tensor(relabel.getResult()).getElement().isF32())
    return;
  OpBuilder builder(relabel);
  Value rounded = castTo(builder, relabel.getOperand(), narrow, relabel);
  auto renamed = cast<RelabelOp>(builder.clone(*relabel));
  renamed->setOperand(0, rounded);
  renamed->getResult(0).setType(tensor(relabel.getResult()).withElement(narrow));
  replaceRoundings(relabel.getResult(), renamed->getResult(0));
  relabel.erase();
}

/// What a value of f32 was kept as; null: it was not kept in two bytes.
Value keptAs(Value v) { return isWidening(v.getDefiningOp()) ? v.getDefiningOp()->getOperand(0) : Value(); }

/// Whether someone reads a value rounded, if under other names of its axes.
bool isRounded(Value v, Type narrow) {
  return llvm::any_of(v.getUsers(), [&](Operation *user) {
    return (isRounding(user) && tensor(user->getResult(0)).getElement() == narrow) ||
           (isa<RelabelOp>(user) && isRounded(user->getResult(0), narrow));
  });
}

/// A result becomes narrow; who does not round it reads it back as f32.
void makeNarrow(OpResult result, Type narrow) {
  Operation *op = result.getOwner();
  result.setType(tensor(result).withElement(narrow));
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  Value wide = castTo(builder, result, builder.getF32Type(), op);
  result.replaceAllUsesExcept(wide, wide.getDefiningOp());
  replaceRoundings(wide, result);
  for (Operation *user : llvm::make_early_inc_range(wide.getUsers()))
    if (auto relabel = dyn_cast<RelabelOp>(user); relabel && isRounded(relabel.getResult(), narrow)) {
      OpBuilder at(relabel);
      relabel.getOperandMutable().set(result);
      relabel.getResult().setType(tensor(relabel.getResult()).withElement(narrow));
      makeNarrow(cast<OpResult>(relabel.getResult()), narrow);
    }
  if (wide.use_empty())
    wide.getDefiningOp()->erase();
}

template <typename Op> void attendInTwoBytes(Op op, ArrayRef<OpOperand *> operands, ArrayRef<Value> results) {
  if (op.getBias() || isOfUpdate(op)) // a bias is added to the scores in f32
    return;
  Type narrow;
  for (OpOperand *operand : operands) {
    Value kept = keptAs(operand->get());
    if (!kept || (narrow && tensor(kept).getElement() != narrow))
      return;
    narrow = tensor(kept).getElement();
  }
  if (llvm::any_of(results, [&](Value v) { return !isSummedUp(v) || (!v.use_empty() && !isRounded(v, narrow)); }))
    return;
  for (OpOperand *operand : operands)
    operand->set(keptAs(operand->get()));
  for (Value result : results)
    makeNarrow(cast<OpResult>(result), narrow);
}

/// Whether the result's last axes are the bias's, and all that the right operand has of its own.
bool isAlongColumns(Value bias, DotOp dot) {
  auto has = [](Value v, const Axis &axis) { return tensor(v).has(axis.name); };
  ArrayRef<Axis> columns = tensor(bias).getAxes(), all = tensor(dot.getResult()).getAxes();
  return !columns.empty() && columns.size() < all.size() && all.take_back(columns.size()) == columns &&
         llvm::all_of(
             all,
             [&](const Axis &axis) {
               return llvm::is_contained(columns, axis) == (has(dot.getRhs(), axis) && !has(dot.getLhs(), axis));
             });
}

void roundInProduct(DotOp dot) {
  Value product = dot.getResult();
  auto isOwn = [&](Value of, Value other) {
    return llvm::any_of(tensor(of).getAxes(), [&](const Axis &axis) { return !tensor(other).has(axis.name); });
  };
  if (isOfUpdate(dot) || !isNarrow(tensor(dot.getLhs()).getElement()) || !isSummedUp(product) ||
      !isOwn(dot.getLhs(), dot.getRhs()) || !isOwn(dot.getRhs(), dot.getLhs())) // no matrix product
    return;
  Value bias, whole = product;
  if (product.hasOneUse() && !roundedTo(product))
    if (auto add = dyn_cast<MapOp>(*product.user_begin()); add && add.getFunction() == Function::Add) {
      bias = add.getOperands()[add.getOperands()[0] == product];
      whole = add.getResult();
      if (!isAlongColumns(bias, dot) || !isSummedUp(bias) || tensor(whole).getAxes() != tensor(product).getAxes())
        return;
    }
  Type narrow = roundedTo(whole);
  if (!narrow || narrow != tensor(dot.getLhs()).getElement())
    return;
  Operation *last = whole.getDefiningOp();
  OpBuilder builder(last);
  if (bias)
    bias = castTo(builder, bias, narrow, last);
  auto linear = dist::LinearOp::create(builder, last->getLoc(), tensor(whole).withElement(narrow), dot.getLhs(),
                                       dot.getRhs(), bias, dot.getOver());
  copyPhase(last, linear);
  replaceRoundings(whole, linear.getResult());
  last->erase();
  if (bias)
    dot.erase();
}

/// Rewrites all operations of a kind; what is erased on the way comes behind them.
template <typename Op, typename F> void forEach(StepOp step, F rewrite) {
  SmallVector<Op> all;
  step.walk([&](Op op) { all.push_back(op); });
  for (Op op : all)
    rewrite(op);
}

struct FuseEpilogues : echelon::impl::FuseEpiloguesBase<FuseEpilogues> {
  void runOnOperation() override {
    for (auto step : getOperation().getOps<StepOp>()) {
      forEach<RelabelOp>(step, roundBeforeRenaming);
      forEach<AttentionOp>(step, [](AttentionOp op) {
        if (!op->hasAttr(dist::kRing)) // what goes round is merged, and added up, in fp32
          attendInTwoBytes(op, {&op.getQMutable(), &op.getKMutable(), &op.getVMutable()}, {op.getResult()});
      });
      forEach<AttentionGradOp>(step, [](AttentionGradOp op) {
        if (!op->hasAttr(dist::kRing))
          attendInTwoBytes(op,
                           {&op.getCotangentMutable(), &op.getQMutable(), &op.getKMutable(), &op.getVMutable(),
                            &op.getResultMutable()},
                           {op.getDq(), op.getDk(), op.getDv()});
      });
      forEach<CrossEntropyOp>(step, [](CrossEntropyOp op) {
        if (Value kept = keptAs(op.getLogits()); kept && tensor(op.getLabels()).getElement().isInteger(32))
          op.getLogitsMutable().set(kept);
      });
      forEach<DotOp>(step, roundInProduct);
      forEach<MapOp>(step, [](MapOp op) {
        if (isWidening(op) && op->use_empty())
          op->erase();
      });
    }
  }
};
} // namespace
