// The derivative of a loop is a loop in the other direction.
//
// Forward, the loop keeps what its derivative reads: each value computed inside, and each carried value, becomes one
// more stacked result. Backward, the carried values are the cotangents of the carried values; cotangents of stacked
// results, the kept values and the forward's own slices come in as slices. Cotangents of slices go out stacked, those
// of values from outside as sums over the iterations. Free values are made again rather than kept, and so is the result
// of a norm over channels: it takes two operations from what was normalized, which fuse with those that read it, and
// the forward pass need not write it.
//
// A loop with the mark kComputesAgain (`recompute`) keeps its carried values and what has a name of kKeptAs. All else
// that its derivative reads is computed again in the backward body, from these, from slices and from free values:
//
//   forward     m = norm(x); h = dot(m, w); a = tanh(h); x = x + a       keeps x; without the mark x, m and a
//   backward    m = norm(x); h = dot(m, w); a = tanh(h); dh = da * (1 - a * a); dw = dot(m, dh); …
//
// What makes only the next iteration's values, as x + a, is not computed again. A random value keeps its site and the
// loop its axis, so the draw is the same.
#include "ir/ech/Recompute.h"
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
  Keeper(RepeatOp forward, Block *backward, SmallVectorImpl<Value> &slices, Reverse &reverse)
      : forward(forward), backward(backward), slices(slices), reverse(reverse),
        computesAgain(forward->hasAttr(kComputesAgain)), kept(forward.yield().getStacked()) {}

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

  /// How a value of the forward body comes into the backward one.
  enum class Way { Taken, Normalized, Again };
  Way wayOf(Value value) {
    if (isFree(value))
      return Way::Again;
    if (auto norm = value.getDefiningOp<NormalizeOp>(); norm && value == norm.getResult() && isOverChannels(norm))
      return Way::Normalized;
    return computesAgain && value.getDefiningOp() && !keptAs(value) ? Way::Again : Way::Taken;
  }

  /// The names by which a value is to be kept; of what a loop gives, those of what its body makes. Null: it has none.
  ArrayAttr keptAs(Value value) {
    Operation *op = value.getDefiningOp();
    for (auto loop = dyn_cast_or_null<RepeatOp>(op); loop; loop = dyn_cast_or_null<RepeatOp>(op)) {
      value = loop.yield()->getOperand(cast<OpResult>(value).getResultNumber());
      op = value.getDefiningOp();
    }
    return op ? op->getAttrOfType<ArrayAttr>(kKeptAs) : ArrayAttr();
  }

  /// What of the forward body has to be there before a value is.
  SmallVector<Value> sourcesOf(Value value, Way way) {
    SmallVector<Value> sources;
    auto add = [&](Value source) {
      if (isInside(forward, source))
        sources.push_back(source);
    };
    Operation *op = value.getDefiningOp();
    if (way == Way::Normalized) {
      auto norm = cast<NormalizeOp>(op);
      llvm::for_each(ValueRange{norm.getOperand(), norm.getMean(), norm.getMeanLow(), norm.getRstd()}, add);
    } else if (way == Way::Again) {
      op->walk<WalkOrder::PreOrder>([&](Operation *inner) { // of a loop, what its body reads, too
        for (Value operand : inner->getOperands())
          if (inner == op || !op->isAncestor(operand.getParentRegion()->getParentOp()))
            add(operand);
      });
    }
    return sources;
  }

  /// Makes a value available in the backward body, and first what it is made of.
  void find(Value root, IRMapping &there, OpBuilder &builder) {
    SmallVector<Value> open{root}; // chains may be long
    while (!open.empty()) {
      Value value = open.back();
      const Way way = wayOf(value);
      const size_t before = open.size();
      if (!there.contains(value))
        for (Value source : sourcesOf(value, way))
          if (!there.contains(source)) {
            open.push_back(source);
            break;
          }
      if (open.size() > before)
        continue;
      if (!there.contains(value))
        bring(value, way, there, builder);
      open.pop_back();
    }
  }

  void bring(Value value, Way way, IRMapping &there, OpBuilder &builder) {
    if (way == Way::Taken)
      return there.map(value, take(value));
    if (way == Way::Normalized) {
      auto norm = value.getDefiningOp<NormalizeOp>();
      auto map = [&](Function f, Value like, Value a, Value b) -> Value {
        return MapOp::create(builder, value.getLoc(), like.getType(), f, ValueRange{a, b});
      };
      auto found = [&](Value v) { return there.lookupOrDefault(v); };
      return there.map(value, normalizedAgain(map, value, found(norm.getRstd()), found(norm.getOperand()),
                                              found(norm.getMean()), found(norm.getMeanLow())));
    }
    Operation *op = value.getDefiningOp();
    const SmallVector<Value> earlier =
        llvm::map_to_vector(op->getResults(), [&](Value result) { return there.lookupOrNull(result); });
    if (!isFree(value))
      ++reverse.operationsAgain;
    builder.clone(*op, there);
    for (auto [result, known] : llvm::zip(op->getResults(), earlier)) // its other results come in by ways of their own
      if (known)
        there.map(result, known);
      else if (wayOf(result) != Way::Again)
        there.erase(result);
  }

  /// A value that comes in as a slice: of what the forward loop takes slices of, or of what it keeps.
  Value take(Value value) {
    Value here = backward->addArgument(value.getType(), value.getLoc());
    auto argument = dyn_cast<BlockArgument>(value);
    unsigned carried = forward.getCarried().size();
    if (argument && argument.getOwner() == forward.block() && argument.getArgNumber() >= carried) {
      slices.push_back(forward.getSlices()[argument.getArgNumber() - carried]);
      return here;
    }
    auto *place = llvm::find(kept, value);
    if (place == kept.end())
      place = &kept.emplace_back(value);
    fromStacks.push_back({slices.size(), place - kept.begin()});
    slices.push_back({}); // the stack, once the forward loop has it
    if (computesAgain)
      noteKept(value);
    return here;
  }

  void noteKept(Value value) {
    if (ArrayAttr names = keptAs(value))
      reverse.kept.insert_range(names.getAsRange<StringAttr>());
    else if (StringRef name = nameOf(value); !name.empty())
      reverse.kept.insert(StringAttr::get(value.getContext(), name));
  }

  RepeatOp forward;
  Block *backward;
  SmallVectorImpl<Value> &slices;
  Reverse &reverse;
  const bool computesAgain;
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
  Keeper keeper(op, block.get(), slices, *this);
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
  if (Attribute groups = forward->getDiscardableAttr(kOverGroups))
    backward->setDiscardableAttr(kOverGroups, groups);

  for (auto [i, d] : llvm::zip(flowing, backward.getFinals()))
    add(build, forward.getCarried()[i], d);
  for (auto [whole, d] : llvm::zip(sliced, backward.getStacks()))
    add(build, whole, d);
  for (auto [value, d] : llvm::zip(captured, backward.getSums()))
    add(build, value, d);
  return success();
}
