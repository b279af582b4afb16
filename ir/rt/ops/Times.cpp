#include "ir/rt/Times.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::rt;

namespace {
/// The loops, turns and places around an operation, outermost first.
SmallVector<Operation *> around(Operation *op) {
  SmallVector<Operation *> found;
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp())
    if (isa<ForOp, AtOp, StagesOp>(parent))
      found.insert(found.begin(), parent);
  return found;
}

/// The table of how many iterations a rank does of a loop; null: all do as many.
OffsetOp ownOf(ForOp loop) { return loop.getOwn() ? loop.getOwn().getDefiningOp<OffsetOp>() : OffsetOp(); }

/// The mesh axis along which ranks differ; -1: they do not.
int64_t axisOf(ArrayRef<Operation *> around) {
  for (Operation *op : around) {
    if (auto at = dyn_cast<AtOp>(op))
      return static_cast<int64_t>(at.getMesh());
    if (auto loop = dyn_cast<ForOp>(op); loop && ownOf(loop))
      return ownOf(loop).getMesh().front();
  }
  return -1;
}

/// What one stage does.
struct OfStage {
  OfStage(int64_t stage, int64_t stages) : stage(stage), stages(stages) {}

  int64_t stage, stages;
  llvm::DenseMap<Value, int64_t> chunks; ///< of turns, and of loops over chunks

  int64_t times(ArrayRef<Operation *> around);
  int64_t trips(ForOp loop) const {
    if (OffsetOp own = ownOf(loop); own && own.getTable()) {
      const int64_t chunk = own.getTurn() ? chunks.lookup(own.getTurn()) : 0;
      return (*own.getTable())[stage + chunk * stages];
    }
    return std::max<int64_t>(static_cast<int64_t>(loop.getCount()), 1);
  }
};

/// Whether somebody asks for a value as the number of a chunk.
bool isChunk(Value number, ArrayRef<Operation *> inside) {
  return llvm::any_of(inside, [&](Operation *op) {
    auto loop = dyn_cast<ForOp>(op);
    auto at = dyn_cast<AtOp>(op);
    return (at && at.getTurn() == number) || (loop && ownOf(loop) && ownOf(loop).getTurn() == number);
  });
}

int64_t OfStage::times(ArrayRef<Operation *> around) {
  if (around.empty())
    return 1;
  const ArrayRef<Operation *> inside = around.drop_front();
  auto inChunks = [&](Value number, int64_t count) {
    int64_t sum = 0;
    for (int64_t chunk = 0; chunk < count; ++chunk) {
      chunks[number] = chunk;
      sum += times(inside);
    }
    return sum;
  };
  if (auto at = dyn_cast<AtOp>(around.front()))
    return at.isAt(stage, at.getTurn() ? chunks.lookup(at.getTurn()) : 0, stages) ? times(inside) : 0;
  if (auto turns = dyn_cast<StagesOp>(around.front())) {
    const auto count = static_cast<int64_t>(turns.getCount()), all = static_cast<int64_t>(turns.getChunks());
    if (all == 1)
      return count * times(inside);
    for (Block *pass : blocksOf(turns)) // those around are in one of them
      if (Value number = pass->getArgument(2); isChunk(number, inside))
        return count * inChunks(number, all);
    return count * all * times(inside);
  }
  auto loop = cast<ForOp>(around.front());
  return isChunk(loop.position(), inside) ? inChunks(loop.position(), trips(loop)) : trips(loop) * times(inside);
}
} // namespace

ByStage echelon::rt::timesOf(Operation *op, ArrayRef<int64_t> meshSizes) {
  const SmallVector<Operation *> all = around(op);
  const int64_t axis = axisOf(all), stages = axis < 0 ? 1 : meshSizes[axis];
  ByStage times;
  times.numbers.resize(stages);
  for (int64_t stage = 0; stage < stages; ++stage)
    times.numbers[stage] = OfStage(stage, stages).times(all);
  return times;
}
