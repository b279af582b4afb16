// The derivative of a repeat in two (Qi et al., "Zero Bubble Pipeline Parallelism", 2023): B, from the cotangents that
// come in to those that go out, and W, all else that it makes, which is the gradients of weights. W is a loop of its
// own; what it reads of B is stacked up there.
//
//   reverse  dh = dot(dy, w); dw = dot(x, dy); dx = dh * da      B: dh, dx, keeps dy     W: dw from x and dy
#include "ir/ech/Build.h"
#include "passes/Phase.h"
#include "passes/layout/Store.h"
#include "passes/pipeline/Prepare.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::pipeline;

namespace {

/// The operations of a block that values are made of.
llvm::DenseSet<Operation *> sourcesOf(Block &block, SmallVector<Value> open) {
  llvm::DenseSet<Operation *> sources;
  while (!open.empty()) {
    Operation *def = open.pop_back_val().getDefiningOp();
    Operation *here = def ? block.findAncestorOpInBlock(*def) : nullptr;
    if (here && sources.insert(here).second)
      here->walk([&](Operation *inner) { llvm::append_range(open, inner->getOperands()); });
  }
  return sources;
}

class Splitter {
public:
  explicit Splitter(ech::RepeatOp loop)
      : loop(loop), mesh(meshOf(loop)), needed(sourcesOf(*loop.block(), llvm::to_vector(loop.yield().getCarried()))) {}

  /// The loop of B, where there is something else; it replaces the whole one.
  ech::RepeatOp run();

private:
  bool isOfWeights(Value v) {
    Operation *def = v.getDefiningOp();
    Operation *here = def ? loop.block()->findAncestorOpInBlock(*def) : nullptr;
    return here && !needed.contains(here);
  }
  void findKept(ArrayRef<Operation *> rest);
  ech::RepeatOp makeLoop(ValueRange carried, ValueRange slices, ArrayRef<Value> stacked, ArrayRef<Value> summed);

  ech::RepeatOp loop;
  MeshAttr mesh;
  llvm::DenseSet<Operation *> needed;
  llvm::SetVector<Value> kept;
};

/// What the rest reads of B.
void Splitter::findKept(ArrayRef<Operation *> rest) {
  for (Operation *op : rest)
    op->walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        if (llvm::is_contained(loop.carriedArguments(), v) || (v.getDefiningOp() && needed.contains(v.getDefiningOp())))
          kept.insert(v);
    });
}

ech::RepeatOp Splitter::makeLoop(ValueRange carried, ValueRange slices, ArrayRef<Value> stacked,
                                 ArrayRef<Value> summed) {
  OpBuilder builder(loop);
  auto whole = [&](Value v) -> Type {
    Tensor type = ech::stackedType(ech::tensor(v), loop.getAxis(), loop.getCount());
    return type.withState(layout::stateOfStack(stateOf(v), loop.getAxisAttr(), mesh));
  };
  const int stages = stagesOf(mesh, loop.getAxis());
  auto total = [&](Value v) -> Type { return ech::tensor(v).withState(stateOf(v).with(stages, Hold::Sum)); };
  auto made = ech::RepeatOp::create(builder, loop.getLoc(), loop.getAxis(), loop.getCount(), carried, slices,
                                    ValueRange(carried).getTypes(), llvm::map_to_vector(stacked, whole),
                                    llvm::map_to_vector(summed, total));
  made.setReverse(loop.getReverse());
  made->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  return made;
}

ech::RepeatOp Splitter::run() {
  SmallVector<Operation *> rest;
  for (Operation &op : loop.block()->without_terminator())
    if (!needed.contains(&op))
      rest.push_back(&op);
  ech::YieldOp yield = loop.yield();
  SmallVector<Value> stacked, summed, stackedLater, summedLater, results, resultsLater;
  auto sort = [&](ValueRange values, ValueRange from, SmallVector<Value> &now, SmallVector<Value> &later) {
    for (auto [value, result] : llvm::zip(values, from)) {
      (isOfWeights(value) ? later : now).push_back(value);
      (isOfWeights(value) ? resultsLater : results).push_back(result);
    }
  };
  sort(yield.getStacked(), loop.getStacks(), stacked, stackedLater);
  const size_t own = stacked.size();
  sort(yield.getSummed(), loop.getSums(), summed, summedLater);
  if (resultsLater.empty())
    return {};
  findKept(rest);
  llvm::append_range(stacked, kept);
  ech::RepeatOp first = makeLoop(loop.getCarried(), loop.getSlices(), stacked, summed);
  SmallVector<Value> slices(loop.getSlices());
  llvm::append_range(slices, first.getStacks().drop_front(own));
  ech::RepeatOp second = makeLoop({}, slices, stackedLater, summedLater);
  second->setAttr(kOfWeights, UnitAttr::get(loop.getContext()));

  Block &body = second.getBody().emplaceBlock();
  IRMapping there;
  for (Value argument : loop.sliceArguments())
    there.map(argument, body.addArgument(argument.getType(), argument.getLoc()));
  for (Value value : kept)
    there.map(value, body.addArgument(value.getType(), value.getLoc()));
  moveInto(body, rest, there);
  OpBuilder builder = OpBuilder::atBlockEnd(&body);
  ech::YieldOp::create(builder, yield.getLoc(), ValueRange(), stackedLater, summedLater);
  yield.getStackedMutable().assign(stacked);
  yield.getSummedMutable().assign(summed);
  first.getBody().takeBody(loop.getBody());
  for (auto [before, now] : llvm::zip(loop.getFinals(), first.getFinals()))
    before.replaceAllUsesWith(now);
  SmallVector<Value> made(first.getStacks().take_front(own)), madeLater(second.getStacks());
  llvm::append_range(made, first.getSums());
  llvm::append_range(madeLater, second.getSums());
  for (auto [before, now] : llvm::zip(results, made))
    before.replaceAllUsesWith(now);
  for (auto [before, now] : llvm::zip(resultsLater, madeLater))
    before.replaceAllUsesWith(now);
  loop.erase();
  return first;
}

} // namespace

void echelon::pipeline::splitWeights(ech::RepeatOp pass, const Stages &stages, ArrayRef<Ride> rides) {
  SmallVector<Value> handedBack;
  for (const Ride &ride : rides)
    if (ride.goesBack && !stages.linkOf(ride.value.getDefiningOp())) // what a derivative ends with is handed back
      handedBack.push_back(ride.value);
  llvm::SetVector<Operation *> derivatives;
  for (const Link &link : stages.links()) {
    if (!link.backward)
      continue;
    ech::RepeatOp loop = Splitter(link.backward).run();
    if (!loop)
      loop = link.backward;
    derivatives.insert(loop);
  }
  for (Operation *loop : derivatives)
    loop->walk([&](Operation *inner) { llvm::append_range(handedBack, inner->getOperands()); });
  const llvm::DenseSet<Operation *> needed = sourcesOf(*pass.block(), handedBack);
  for (Operation &op : pass.block()->without_terminator())
    if (isOfBackward(&op) && !derivatives.contains(&op) && !needed.contains(&op))
      op.setAttr(kOfWeights, UnitAttr::get(op.getContext()));
}
