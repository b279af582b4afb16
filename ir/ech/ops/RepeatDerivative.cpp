// The derivative of a loop is a loop in the other direction.
//
// Forward, the loop keeps what its derivative reads: each value computed inside, and each carried value, becomes one
// more stacked result. Backward, the carried values are the cotangents of the carried values; cotangents of stacked
// results, the kept values and the forward's own slices come in as slices. Cotangents of slices go out stacked, those
// of values from outside as sums over the iterations. Free values are made again rather than kept, and so is the result
// of a norm over channels: it takes two operations from what was normalized, which fuse with those that read it, and
// the forward pass need not write it.
#include "ir/ech/Reverse.h"
#include "ir/ech/ops/Derive.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace echelon::ech;

namespace {

/// Whether a value is computed in the loop's body. (A body that is being built hangs in no region yet.)
bool isInside(RepeatOp loop, Value value) {
  Region *region = value.getParentRegion();
  return region && loop.getBody().isAncestor(region);
}

/// The carried values that a loop's outcome comes from, where `counts` says which results are part of it.
llvm::DenseSet<Value> carriedInto(RepeatOp loop, function_ref<bool(Value)> counts) {
  YieldOp yield = loop.yield();
  SmallVector<Value> open;
  for (auto [value, result] : llvm::zip(yield->getOperands(), loop.getResults()))
    if (counts(result))
      open.push_back(value);
  llvm::DenseSet<Value> seen;
  for (auto [argument, final] : llvm::zip(loop.carriedArguments(), loop.getFinals()))
    if (counts(final))
      seen.insert(argument);
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (!isInside(loop, value) || !seen.insert(value).second)
      continue;
    if (llvm::is_contained(loop.carriedArguments(), value))
      open.push_back(yield.getCarried()[cast<BlockArgument>(value).getArgNumber()]);
    else if (Operation *op = value.getDefiningOp())
      op->walk([&](Operation *inner) { llvm::append_range(open, inner->getOperands()); });
  }
  return seen;
}

/// Whether what is reduced over lies outside of something that is kept, and not in rows.
bool isOverChannels(NormalizeOp norm) {
  auto isReduced = [&](const Axis &axis) { return llvm::is_contained(strings(norm.getOver()), axis.name.getValue()); };
  ArrayRef<Axis> axes = tensor(norm.getOperand()).getAxes();
  const Axis *outer = llvm::find_if(axes, isReduced);
  return !norm.getRms() && std::any_of(outer, axes.end(), [&](const Axis &axis) { return !isReduced(axis); });
}

/// Makes values of the forward body available in the backward body.
class Keeper {
public:
  Keeper(RepeatOp forward, Block *backward, SmallVectorImpl<Value> &slices)
      : forward(forward), backward(backward), slices(slices), kept(forward.yield().getStacked()) {}

  /// Values of the forward body that the backward body reads are replaced there.
  void provide(OpBuilder &builder) {
    llvm::SetVector<Value> read;
    for (Operation &op : *backward)
      op.walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (isInside(forward, operand))
            read.insert(operand);
      });
    builder.setInsertionPointToStart(backward);
    IRMapping there;
    for (Value value : read)
      find(value, there, builder);
    for (Operation &op : *backward)
      op.walk([&](Operation *inner) {
        for (OpOperand &operand : inner->getOpOperands())
          if (Value replacement = there.lookupOrNull(operand.get()))
            operand.set(replacement);
      });
  }

  /// The forward loop with the kept values among its stacked results. The old one is gone.
  RepeatOp rebuild() {
    SmallVector<Type> stacks;
    for (Value value : kept)
      stacks.push_back(stackedType(tensor(value), forward.getAxis(), forward.getCount()));
    OpBuilder builder(forward);
    auto loop =
        RepeatOp::create(builder, forward.getLoc(), forward.getAxis(), forward.getCount(), forward.getCarried(),
                         forward.getSlices(), forward.getFinals().getTypes(), stacks, forward.getSums().getTypes());
    loop.setReverse(forward.getReverse());
    loop.setAlong(forward.getAlong());
    loop.setTime(forward.getTime());
    loop->setDiscardableAttrs(forward->getDiscardableAttrDictionary());
    loop.getBody().takeBody(forward.getBody());
    loop.yield().getStackedMutable().assign(kept);
    for (auto [old, now] : llvm::zip(forward.getFinals(), loop.getFinals()))
      old.replaceAllUsesWith(now);
    for (auto [old, now] : llvm::zip(forward.getStacks(), loop.getStacks())) // those kept now come after
      old.replaceAllUsesWith(now);
    for (auto [old, now] : llvm::zip(forward.getSums(), loop.getSums()))
      old.replaceAllUsesWith(now);
    return loop;
  }

  /// Which stack of the rebuilt loop each placeholder slice of the backward loop takes.
  SmallVector<std::pair<unsigned, unsigned>> fromStacks; // (slice of the backward loop, stack of the forward loop)

private:
  /// Whether a value is made of numbers, positions, random values, inputs alone.
  bool isFree(Value value) {
    SmallVector<Value> open{value};
    while (!free.count(value)) {
      Value next = open.back();
      auto op = dyn_cast_or_null<AxisRule>(next.getDefiningOp());
      bool is = op && op.freedom() != Freedom::Never;
      const size_t before = open.size();
      if (is && op.freedom() != Freedom::Source)
        for (Value operand : op->getOperands()) {
          auto known = free.find(operand);
          if (known == free.end())
            open.push_back(operand);
          else
            is &= known->second;
        }
      if (open.size() > before)
        continue;
      free[next] = is;
      open.pop_back();
    }
    return free.lookup(value);
  }

  Value find(Value value, IRMapping &there, OpBuilder &builder) {
    if (Value known = there.lookupOrNull(value))
      return known;
    Value here;
    if (isFree(value)) {
      Operation *op = value.getDefiningOp();
      for (Value operand : op->getOperands())
        if (isInside(forward, operand))
          find(operand, there, builder);
      Operation *again = builder.clone(*op, there);
      here = again->getResult(cast<OpResult>(value).getResultNumber());
    } else if (auto norm = value.getDefiningOp<NormalizeOp>();
               norm && value == norm.getResult() && isOverChannels(norm)) {
      Value x = norm.getOperand();
      if (isInside(forward, x))
        x = find(x, there, builder);
      Value mean = find(norm.getMean(), there, builder), low = find(norm.getMeanLow(), there, builder);
      Value rstd = find(norm.getRstd(), there, builder);
      auto map = [&](Function f, Value like, Value a, Value b) -> Value {
        return MapOp::create(builder, value.getLoc(), like.getType(), f, ValueRange{a, b});
      };
      here = normalizedAgain(map, value, rstd, x, mean, low);
    } else {
      here = backward->addArgument(value.getType(), value.getLoc());
      auto argument = dyn_cast<BlockArgument>(value);
      unsigned carried = forward.getCarried().size();
      if (argument && argument.getOwner() == forward.block() && argument.getArgNumber() >= carried) {
        slices.push_back(forward.getSlices()[argument.getArgNumber() - carried]);
      } else {
        auto *place = llvm::find(kept, value);
        if (place == kept.end())
          place = &kept.emplace_back(value);
        fromStacks.push_back({slices.size(), place - kept.begin()});
        slices.push_back({}); // the stack, once the forward loop has it
      }
    }
    there.map(value, here);
    return here;
  }

  RepeatOp forward;
  Block *backward;
  SmallVectorImpl<Value> &slices;
  SmallVector<Value> kept;
  llvm::DenseMap<Value, bool> free; // as far as asked
};

} // namespace

LogicalResult Reverse::visitRepeat(RepeatOp op, Build &build) {
  YieldOp yield = op.yield();

  // What comes into the backward loop: cotangents of carried values and of stacked results.
  SmallVector<Value> carried, slices;
  SmallVector<unsigned> flowing; // the carried values that have cotangents
  auto block = std::make_unique<Block>();
  decltype(cotangents) inside;
  std::swap(inside, cotangents); // a scope of its own: `inside` is the surrounding one until the loop is built
  OpBuilder::InsertPoint here = build.builder.saveInsertionPoint();
  llvm::DenseSet<Value> matters = carriedInto(op, [&](Value result) { return inside.contains(result); });
  for (auto [i, argument] : llvm::enumerate(op.carriedArguments())) {
    if (!isActive(argument) || !matters.contains(argument))
      continue;
    flowing.push_back(i);
    Value seed = inside.lookup(op.getFinals()[i]);
    carried.push_back(seed ? inOrder(build, seed, tensor(argument)) : build.zeros(tensor(argument)));
    block->addArgument(argument.getType(), derivativeLoc(op.getLoc(), argument));
  }
  for (Value stack : op.getStacks())
    if (auto d = inside.find(stack); d != inside.end())
      d->second = inOrder(build, d->second, tensor(stack));
  build.builder.setInsertionPointToStart(block.get());
  for (auto [i, argument] : llvm::zip(flowing, block->getArguments()))
    add(build, yield.getCarried()[i], argument);
  for (auto [value, stack] : llvm::zip(yield.getStacked(), op.getStacks()))
    if (Value d = inside.lookup(stack)) {
      slices.push_back(d);
      add(build, value, block->addArgument(value.getType(), derivativeLoc(op.getLoc(), value)));
    }
  for (auto [value, sum] : llvm::zip(yield.getSummed(), op.getSums()))
    add(build, value, inside.lookup(sum));

  // Its body, and what leaves it.
  if (failed(run(*op.block(), build)))
    return failure();
  build.loc = placeOf(op.getLoc());
  SmallVector<Value> next, stacked, summed, sliced, captured;
  for (unsigned i : flowing) {
    Value d = cotangent(op.carriedArguments()[i]);
    next.push_back(d ? inOrder(build, d, tensor(op.getCarried()[i])) : build.zeros(tensor(op.getCarried()[i])));
  }
  for (auto [whole, argument] : llvm::zip(op.getSlices(), op.sliceArguments()))
    if (Value d = cotangent(argument)) {
      sliced.push_back(whole);
      stacked.push_back(d);
    }
  for (auto [value, d] : cotangents)
    if (!isInside(op, value)) {
      captured.push_back(value);
      summed.push_back(d);
    }
  YieldOp::create(build.builder, build.loc, next, stacked, summed);
  std::swap(inside, cotangents);

  // The forward loop keeps what the body reads of it.
  Keeper keeper(op, block.get(), slices);
  keeper.provide(build.builder);
  RepeatOp forward = keeper.rebuild();
  for (auto [slice, stack] : keeper.fromStacks)
    slices[slice] = forward.getStacks()[stack];
  for (auto [old, now] : llvm::zip(op.getFinals(), forward.getFinals()))
    if (active.erase(old))
      active.insert(now);
  for (Value old : op.getResults()) {
    active.erase(old);
    cotangents.erase(old);
  }
  op.erase();

  build.builder.restoreInsertionPoint(here);
  SmallVector<Type> stacks;
  for (Value d : stacked)
    stacks.push_back(stackedType(tensor(d), forward.getAxis(), forward.getCount()));
  auto backward = RepeatOp::create(build.builder, build.loc, forward.getAxis(), forward.getCount(), carried, slices,
                                   ValueRange(carried).getTypes(), stacks, ValueRange(summed).getTypes());
  backward.getBody().push_back(block.release());
  backward.setReverse(!forward.getReverse());
  backward.setAlong(forward.getAlong());

  for (auto [i, d] : llvm::zip(flowing, backward.getFinals()))
    add(build, forward.getCarried()[i], d);
  for (auto [whole, d] : llvm::zip(sliced, backward.getStacks()))
    add(build, whole, d);
  for (auto [value, d] : llvm::zip(captured, backward.getSums()))
    add(build, value, d);
  return success();
}
