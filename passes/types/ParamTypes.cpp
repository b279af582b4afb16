#include "passes/types/ParamTypes.h"
#include "ir/ech/Build.h"
#include "passes/types/Products.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

namespace {
using CastAs = llvm::function_ref<Value(Operation *, Value, Type)>;

/// Which of a loop's slices an operand is.
std::optional<size_t> sliceOf(RepeatOp repeat, OpOperand &use) {
  for (auto [i, slice] : llvm::enumerate(repeat.getSlicesMutable()))
    if (&slice == &use)
      return i;
  return std::nullopt;
}

/// Whether a use moves the value's elements, and nothing else that is real.
bool movesAlone(OpOperand &use) {
  Operation *op = use.getOwner();
  return types::moves(op) && op->getNumResults() == 1 && tensor(op->getResult(0)).getElement().isF32() &&
         llvm::all_of(op->getOpOperands(), [&](OpOperand &other) {
           return &other == &use || !isa<FloatType>(tensor(other.get()).getElement());
         });
}

/// Makes a value narrow, with what only moves its elements and the slices that loops take of it. Products that round it
/// take it as it is; all else takes a copy in f32, made in the block and pass that needs it: never of a loop's whole
/// stack.
void makeNarrow(Value v, Type narrow, CastAs castAs, OpBuilder &builder) {
  v.setType(tensor(v).withElement(narrow));
  llvm::MapVector<std::pair<Block *, StringRef>, SmallVector<OpOperand *>> wide;
  SmallVector<Value> moved;
  for (OpOperand &use : llvm::make_early_inc_range(v.getUses())) {
    Operation *user = use.getOwner();
    if (auto map = dyn_cast<MapOp>(user); map && map.getFunction() == Function::Cast &&
                                          tensor(map.getResult()).getElement() == narrow) { // rounded to what it is
      map.getResult().replaceAllUsesWith(v);
      map.erase();
      continue;
    }
    std::optional<size_t> slice;
    if (auto repeat = dyn_cast<RepeatOp>(user); repeat && (slice = sliceOf(repeat, use)))
      moved.push_back(repeat.sliceArguments()[*slice]);
    else if (movesAlone(use))
      moved.push_back(user->getResult(0));
    else
      wide[{user->getBlock(), phaseOf(user)}].push_back(&use);
  }
  for (auto &[where, uses] : wide) {
    Operation *first = uses.front()->getOwner();
    for (OpOperand *use : uses)
      if (use->getOwner()->isBeforeInBlock(first))
        first = use->getOwner();
    builder.setInsertionPoint(first);
    Value copy = castAs(first, v, builder.getF32Type());
    for (OpOperand *use : uses)
      use->set(copy);
  }
  for (Value next : moved)
    makeNarrow(next, narrow, castAs, builder);
}
} // namespace

void types::narrowParameters(ModuleOp module, Type narrow) {
  llvm::StringSet<> parameters; // and their copies
  for (auto variable : module.getOps<VariableOp>()) {
    const bool isCopy = variable.getKind() == VariableKind::Copy;
    auto of = isCopy ? module.lookupSymbol<VariableOp>(variable.getSymName().split('.').second) : variable;
    if (!of || of.getKind() != VariableKind::Param)
      continue;
    parameters.insert(variable.getSymName());
    variable.setType(cast<Tensor>(variable.getType()).withElement(narrow));
  }
  OpBuilder builder(module.getContext());
  auto castAs = [&](Operation *of, Value v, Type element) {
    Value made = Build(builder, v.getLoc(), builder.getF32Type()).cast(v, element);
    copyPhase(of, made.getDefiningOp());
    return made;
  };
  SmallVector<ReadOp> reads;
  SmallVector<WriteOp> writes;
  module.walk([&](Operation *op) {
    if (auto read = dyn_cast<ReadOp>(op); read && parameters.contains(read.getSource()))
      reads.push_back(read);
    else if (auto write = dyn_cast<WriteOp>(op); write && parameters.contains(write.getTarget()))
      writes.push_back(write);
  });
  for (WriteOp write : writes) {
    Value v = write.getValue();
    builder.setInsertionPoint(write);
    Value stored = castAs(write, v, narrow);
    write.getValueMutable().assign(stored);
    auto isBehind = [&](OpOperand &use) { // as the average of parameters is
      return use.getOwner()->getBlock() == write->getBlock() && write->isBeforeInBlock(use.getOwner());
    };
    builder.setInsertionPointAfter(write);
    if (llvm::any_of(v.getUses(), isBehind))
      v.replaceUsesWithIf(castAs(write, stored, builder.getF32Type()), isBehind);
  }
  for (ReadOp read : reads)
    makeNarrow(read.getValue(), narrow, castAs, builder);
}
