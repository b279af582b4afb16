// ech-choose-types: what is rounded. Everything computes in f32. In tf32 the operands of products are rounded to 10
// bits of mantissa, and nothing else changes. In bf16 or f16 a value of forward and backward pass is rounded to two
// bytes where it is kept for later, and where a product takes it:
//
//   a product's operand    rounded
//   a product's result     f32 while it is a sum over more (of contributions, ranks, passes), then rounded
//   what a loop carries, or keeps for the backward pass    rounded
//   softmax, norms, losses, what is summed for a parameter's gradient, all of the update    f32
//
// In f8E4M3FN as in bf16, and dots take eight bits (passes/types/EightBits.h). Parameters of two bytes:
// passes/types/ParamTypes.h. What takes f32 in any precision: passes/types/Products.h, ech-keep-products.
//
// Rules: docs/language.md, "Precision" (Micikevicius et al., Mixed Precision Training, 2018).
#include "ir/ech/Build.h"
#include "passes/Passes.h"
#include "passes/types/EightBits.h"
#include "passes/types/ParamTypes.h"
#include "passes/types/Products.h"

namespace echelon {
#define GEN_PASS_DEF_CHOOSETYPES
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using namespace echelon::types;

namespace {

/// Whether a product takes an operand rounded.
bool isRoundedFactor(OpOperand &operand) { return isFactor(operand) && !staysF32(operand.getOwner()); }
/// Whether a result stays f32: of norms and losses, of products that take f32, and the statistics of attention.
bool isKept(Value v) {
  Operation *op = v.getDefiningOp();
  if (auto attention = dyn_cast_or_null<AttentionOp>(op))
    return v != attention.getResult();
  return op && (isa<NormalizeOp, NormalizeGradOp, SoftmaxOp, LogSumExpOp, CrossEntropyOp, GlobalNormOp>(op) ||
                (isProduct(op) && staysF32(op)));
}
/// Whether a sum of several parts goes through it: what is rounded is the whole.
bool isPartOfSum(Operation *op) {
  auto map = dyn_cast<MapOp>(op);
  if (!map)
    return moves(op);
  switch (map.getFunction()) {
  case Function::Add:
  case Function::Sub:
  case Function::Neg:
    return true;
  case Function::Mul:
  case Function::Div:
    return llvm::any_of(map.getOperands(), isNumber);
  default:
    return false;
  }
}

/// Whether a value is moved and then taken apart, so that nobody takes it as it is.
bool isTakenApart(Value v) {
  return !v.use_empty() && llvm::all_of(v.getUsers(), [](Operation *user) {
    return isa<SliceOp>(user) || (moves(user) && isTakenApart(user->getResult(0)));
  });
}

class StepTypes {
public:
  StepTypes(Type narrow, StepOp step) : narrow(narrow), builder(narrow.getContext()), step(step), leading(step) {}
  void run() {
    findWide(step.getBody().front());
    // In this order what each answer rests on is known: chains may be long.
    SmallVector<Value> results;
    step.walk<WalkOrder::PreOrder>([&](Operation *op) { llvm::append_range(results, op->getResults()); });
    for (Value v : results)
      isOfPositions(v);
    block(step.getBody().front());
  }

private:
  bool isReal(Value v) { return tensor(v).getElement().isF32(); }
  bool isWide(Value v) { return wide.contains(v) || isKept(v); }
  void findWide(Block &block);
  void markWide(Value v);
  bool isRounded(Value v);
  bool isKeptForLater(Value v);
  bool isOfPositions(Value v);

  void block(Block &block);
  void operation(Operation *op);
  void arguments(RepeatOp repeat);
  void results(RepeatOp repeat);
  Value castTo(Value v, Type element, Operation *of);
  Value rounded(Value v, Operation *before);
  Value widened(Value v, Operation *before);
  void use(OpOperand &operand, bool asNarrow);
  /// Gives a value the narrow type; its users read it back as f32.
  void makeNarrow(Value v) { v.setType(tensor(v).withElement(narrow)); }

  Type narrow;
  OpBuilder builder;
  StepOp step;
  DenseMap<Value, bool> ofPositions;
  LeadingToProducts leading;
  DenseSet<Value> wide; // f32 in any case: parts of gradients, what the update takes
  DenseMap<std::tuple<Value, Block *, StringRef>, Value> copies; // rounded, of f32 values
  DenseMap<Value, Value> roundedOf;                              // of values that everyone reads rounded
  DenseMap<std::tuple<Value, Block *, StringRef>, Value> wideOf; // narrow values as f32
};

/// What the update takes, and what is added up for it, through loops.
void StepTypes::markWide(Value v) {
  SmallVector<Value> open{v};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (!isReal(next) || !wide.insert(next).second)
      continue;
    Operation *op = next.getDefiningOp();
    if (!op)
      continue;
    if (auto repeat = dyn_cast<RepeatOp>(op))
      open.push_back(repeat.yield().getOperands()[cast<OpResult>(next).getResultNumber()]);
    else if (isPartOfSum(op))
      llvm::append_range(open, op->getOperands());
  }
}

void StepTypes::findWide(Block &block) {
  for (Operation &op : block) {
    if (phaseOf(&op) == "update" || isa<WriteOp, ReportOp, GlobalNormOp, GradientOp>(op))
      for (Value v : op.getOperands())
        markWide(v);
    auto repeat = dyn_cast<RepeatOp>(op);
    if (!repeat)
      continue;
    for (Value v : repeat.yield().getSummed())
      markWide(v);
    if (repeat.getTime()) // micro batches hand on states, and what they have added up
      for (Value v : repeat.yield().getOperands())
        markWide(v);
    findWide(*repeat.block());
  }
}

/// Whether a value is made of positions and numbers alone: bf16 has no 257.
bool StepTypes::isOfPositions(Value v) {
  auto [known, isNew] = ofPositions.try_emplace(v, false);
  if (!isNew)
    return known->second;
  Operation *op = v.getDefiningOp();
  const bool is = op && (isa<ConstantOp, CountOp, ScalarOp, IndexOp, PositionOp>(op) ||
                         (isa<MapOp, ExpandOp, RelabelOp>(op) &&
                          llvm::all_of(op->getOperands(), [&](Value x) { return isOfPositions(x); })));
  return ofPositions[v] = is;
}

bool StepTypes::isKeptForLater(Value v) {
  StringRef phase = phaseOf(v.getDefiningOp());
  return llvm::any_of(v.getUsers(), [&](Operation *user) { return phaseOf(user) != phase && !isa<YieldOp>(user); });
}

/// Whether everyone reads a value rounded: a product that is whole, a value that is kept, and what products take.
bool StepTypes::isRounded(Value v) {
  Operation *op = v.getDefiningOp();
  if (!isReal(v) || tensor(v).rank() == 0 || isWide(v) || isa<ReadOp, RepeatOp>(op))
    return false;
  if (isOfPositions(v))
    return false;
  if (isProduct(op) && !llvm::all_of(v.getUsers(), isPartOfSum))
    return true;
  // What attention gives is turned back by rotary positions, which take it apart first: no sum, though all moving.
  if (isa<AttentionGradOp>(op) && isTakenApart(v))
    return true;
  if (phaseOf(op) == "forward" && !leading.contains(v)) // of losses and metrics
    return false;
  return isKeptForLater(v) || llvm::any_of(v.getUses(), [](OpOperand &use) {
           auto yield = dyn_cast<YieldOp>(use.getOwner());
           return isRoundedFactor(use) || (yield && !cast<RepeatOp>(yield->getParentOp()).getTime());
         });
}

/// A cast at the insertion point, in the pass of `of`.
Value StepTypes::castTo(Value v, Type element, Operation *of) {
  Build build(builder, v.getLoc(), builder.getF32Type());
  Value made = build.cast(v, element);
  copyPhase(of, made.getDefiningOp());
  return made;
}

/// A rounded copy of an f32 value, for products of one block and pass: it is not kept from one pass to the next, as the
/// value is there in any case.
Value StepTypes::rounded(Value v, Operation *before) {
  Value &copy = copies[{v, before->getBlock(), phaseOf(before)}];
  if (!copy) {
    builder.setInsertionPoint(before);
    copy = castTo(v, narrow, before);
  }
  return copy;
}

/// A narrow value as f32, for what computes with it.
Value StepTypes::widened(Value v, Operation *before) {
  Value &known = wideOf[{v, before->getBlock(), phaseOf(before)}];
  if (!known) {
    builder.setInsertionPoint(before);
    known = castTo(v, builder.getF32Type(), before);
  }
  return known;
}

void StepTypes::use(OpOperand &operand, bool asNarrow) {
  Value v = operand.get();
  if (Value copy = roundedOf.lookup(v))
    v = copy;
  const bool isNarrowNow = tensor(v).getElement() == narrow;
  if (asNarrow && !isNarrowNow && isReal(v))
    v = rounded(v, operand.getOwner());
  else if (!asNarrow && isNarrowNow)
    v = widened(v, operand.getOwner());
  operand.set(v);
}

/// What a loop carries is rounded where its iterations make it; what it takes slices of has its type already.
void StepTypes::arguments(RepeatOp repeat) {
  YieldOp yield = repeat.yield();
  for (auto [i, argument] : llvm::enumerate(repeat.carriedArguments())) {
    const bool asNarrow = isReal(argument) && tensor(argument).rank() && !repeat.getTime() &&
                          !wide.contains(argument) && !isWide(yield.getCarried()[i]) && !isWide(repeat.getFinals()[i]);
    use(repeat.getCarriedMutable()[i], asNarrow);
    if (asNarrow)
      makeNarrow(argument);
  }
  for (auto [i, argument] : llvm::enumerate(repeat.sliceArguments())) {
    Value whole = repeat.getSlices()[i];
    if (Value copy = roundedOf.lookup(whole))
      whole = copy;
    repeat.getSlicesMutable()[i].set(whole);
    argument.setType(tensor(argument).withElement(tensor(whole).getElement()));
  }
}

void StepTypes::results(RepeatOp repeat) {
  YieldOp yield = repeat.yield();
  for (auto [i, argument] : llvm::enumerate(repeat.carriedArguments())) {
    use(yield.getCarriedMutable()[i], tensor(argument).getElement() == narrow);
    repeat.getFinals()[i].setType(tensor(repeat.getFinals()[i]).withElement(tensor(argument).getElement()));
  }
  for (auto [i, stack] : llvm::enumerate(repeat.getStacks())) {
    OpOperand &kept = yield.getStackedMutable()[i];
    if (Value copy = roundedOf.lookup(kept.get()))
      kept.set(copy);
    stack.setType(tensor(stack).withElement(tensor(kept.get()).getElement()));
  }
  for (OpOperand &sum : yield.getSummedMutable())
    use(sum, false);
}

void StepTypes::operation(Operation *op) {
  if (auto repeat = dyn_cast<RepeatOp>(op)) {
    arguments(repeat);
    block(*repeat.block());
    results(repeat);
    return;
  }
  // What workers hand in travels as it was packed.
  if (isa<PerWorkerOp, HandInOp>(op))
    return;
  // What moves elements moves them as they are kept.
  if (moves(op) && op->getNumOperands() > 0 && llvm::all_of(op->getOperands(), [&](Value v) {
        return tensor(v).getElement() == narrow || roundedOf.lookup(v);
      })) {
    for (OpOperand &operand : op->getOpOperands())
      use(operand, true);
    makeNarrow(op->getResult(0));
    return;
  }
  const bool takesNarrow = isa<DotOp>(op);
  for (OpOperand &operand : op->getOpOperands()) {
    Value v = operand.get();
    if (!isReal(v) && tensor(v).getElement() != narrow)
      continue;
    use(operand, isRoundedFactor(operand));
    if (!takesNarrow && tensor(operand.get()).getElement() == narrow) // its kernels take f32
      operand.set(widened(operand.get(), op));
  }
  for (Value result : op->getResults())
    if (isRounded(result)) {
      builder.setInsertionPointAfter(op);
      roundedOf[result] = castTo(result, narrow, op);
    }
}

void StepTypes::block(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block))
    if (!isa<YieldOp>(op))
      operation(&op);
}

/// Each block and pass has rounded operands of its own, as with two bytes.
void roundOperands(StepOp step) {
  OpBuilder builder(step.getContext());
  DenseMap<std::tuple<Value, Block *, StringRef>, Value> copies;
  step.walk([&](Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      Value v = operand.get();
      if (!isRoundedFactor(operand) || !tensor(v).getElement().isF32())
        continue;
      Value &copy = copies[{v, op->getBlock(), phaseOf(op)}];
      if (!copy) {
        builder.setInsertionPoint(op);
        copy = Build(builder, v.getLoc(), builder.getF32Type()).map(Function::RoundTf32, {v});
        copyPhase(op, copy.getDefiningOp());
      }
      operand.set(copy);
    }
  });
}

struct ChooseTypes : echelon::impl::ChooseTypesBase<ChooseTypes> {
  void runOnOperation() override {
    auto precision = run::only<run::PrecisionOp>(getOperation());
    if (!precision)
      return;
    const Type compute = precision.getCompute();
    for (auto step : getOperation().getOps<StepOp>())
      if (step.getSymName() != "train.start")
        choose(step, compute);
    if (auto params = precision.getParams())
      narrowParameters(getOperation(), *params);
  }

  static void choose(StepOp step, Type compute) {
    if (compute.isTF32()) {
      roundOperands(step);
    } else if (isa<Float8E4M3FNType>(compute)) {
      EightBits dots(step);
      StepTypes(BFloat16Type::get(step.getContext()), step).run();
      dots.round();
    } else if (!compute.isF32()) {
      StepTypes(compute, step).run();
    }
  }
};

} // namespace
