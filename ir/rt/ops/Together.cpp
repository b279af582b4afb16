// What operations of one launch have in common, and what they touch and cost in all.
#include "ir/rt/Together.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace echelon::rt;

#define GET_OP_CLASSES
#include "ir/rt/RtTogether.cpp.inc"

OperandRange echelon::rt::rowsOf(InvokeOp call) {
  auto types = call.function().getBody().getArgumentTypes();
  return call.getOperands().take_front(llvm::find_if(types, [](Type type) { return type.isIndex(); }) - types.begin());
}

int64_t echelon::rt::packOf(KernelOp kernel) {
  auto pack = kernel->getAttrOfType<IntegerAttr>(kPack);
  return pack ? pack.getInt() : 1;
}

bool echelon::rt::walksInnermost(KernelOp kernel, ValueRange indices) {
  return !indices.empty() && !kernel.getSizes().empty() &&
         indices.back() == kernel.getBody().getArgument(static_cast<unsigned>(kernel.getSizes().size()) - 1);
}

LogicalResult TogetherOp::verifyRegions() {
  Block &body = getBody().front();
  if (body.empty())
    return emitOpError() << "has operations";
  for (Operation &op : body) {
    if (auto first = dyn_cast<InvokeOp>(body.front())) {
      auto call = dyn_cast<InvokeOp>(op);
      const size_t rows = rowsOf(first).size();
      if (!call || call.getCallee() != first.getCallee() ||
          call.getOperands().drop_front(rows) != first.getOperands().drop_front(rows))
        return emitOpError() << "has one rule, with the same numbers for all";
    } else if (auto first = dyn_cast<AddSquaresOp>(body.front())) {
      auto squares = dyn_cast<AddSquaresOp>(op);
      if (!squares || squares.getSum() != first.getSum() || !squares.getParameter() ||
          buffer(squares.getX()).getElement() != buffer(first.getX()).getElement())
        return emitOpError() << "has one sum of squares, of elements of one type that name their parameters";
    } else {
      return emitOpError() << "has rules or sums of squares";
    }
  }
  return success();
}

namespace {
template <typename F> SmallVector<Value> ofAll(TogetherOp together, F values) {
  llvm::SmallSetVector<Value, 8> all;
  for (auto op : together.getBody().getOps<Touches>())
    for (Value v : values(op))
      all.insert(v);
  return all.takeVector();
}
} // namespace
SmallVector<Value> TogetherOp::reads() {
  return ofAll(*this, [](Touches op) { return op.reads(); });
}
SmallVector<Value> TogetherOp::writes() {
  return ofAll(*this, [](Touches op) { return op.writes(); });
}

Cost TogetherOp::cost() {
  Cost all;
  int64_t count = 0;
  for (auto op : getBody().getOps<Costed>()) {
    const Cost one = op.cost();
    all = {one.name, one.kind, all.flops + one.flops, all.bytes + one.bytes, {}};
    ++count;
  }
  all.name += " of " + std::to_string(count) + " tensors";
  return all;
}
