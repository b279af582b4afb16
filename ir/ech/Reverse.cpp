#include "ir/ech/Reverse.h"
#include "ir/ech/ops/Derive.h"

using namespace mlir;
using namespace echelon::ech;

//===- names and free values -------------------------------------------------------------------------------------===//

StringRef echelon::ech::nameOf(Value value) {
  auto named = dyn_cast<NameLoc>(value.getLoc());
  return named ? named.getName().getValue() : StringRef();
}
Location echelon::ech::placeOf(Location loc) {
  auto named = dyn_cast<NameLoc>(loc);
  return named ? named.getChildLoc() : loc;
}
Location echelon::ech::derivativeLoc(Location loc, Value value) {
  Location place = placeOf(loc);
  StringRef name = nameOf(value);
  return name.empty() ? place : NameLoc::get(StringAttr::get(loc.getContext(), "d_" + name), place);
}

//===- what depends on parameters --------------------------------------------------------------------------------===//

void Reverse::follow(Block &block, function_ref<bool(ReadOp)> isParameter) {
  auto mark = [&](Value value) { return tensor(value).isFloat() && active.insert(value).second; };
  for (Operation &op : block) {
    if (auto read = dyn_cast<ReadOp>(op)) {
      if (isParameter(read))
        mark(read.getValue());
    } else if (auto repeat = dyn_cast<RepeatOp>(op)) {
      for (auto [operand, argument] : llvm::zip(op.getOperands(), repeat.block()->getArguments()))
        if (isActive(operand))
          mark(argument);
      for (bool more = true; more;) { // an iteration may make the next one's carried values depend on parameters
        follow(*repeat.block(), isParameter);
        more = false;
        for (auto [next, argument] : llvm::zip(repeat.yield().getCarried(), repeat.carriedArguments()))
          more |= isActive(next) && mark(argument);
      }
      for (auto [inside, result] : llvm::zip(repeat.yield().getOperands(), op.getResults()))
        if (isActive(inside))
          mark(result);
      for (auto [argument, result] : llvm::zip(repeat.carriedArguments(), repeat.getFinals()))
        if (isActive(argument))
          mark(result);
    } else if (auto map = dyn_cast<MapOp>(op); !map || map.getFunction() != Function::StopGradient) {
      if (llvm::any_of(op.getOperands(), [&](Value v) { return isActive(v); }))
        for (Value result : op.getResults())
          mark(result);
    }
  }
}

//===- reverse mode ----------------------------------------------------------------------------------------------===//

void Reverse::add(Build &build, Value value, Value cotangent) {
  if (!cotangent || !isActive(value))
    return;
  cotangent = inOrder(build, cotangent, tensor(value));
  Value &sum = cotangents[value];
  sum = sum ? inOrder(build, build.add(sum, cotangent), tensor(value)) : cotangent;
}

LogicalResult Reverse::run(Block &block, Build &build) {
  SmallVector<Operation *> operations;
  for (Operation &op : block)
    operations.push_back(&op);
  for (Operation *op : llvm::reverse(operations))
    if (failed(visit(op, build)))
      return failure();
  return success();
}

LogicalResult Reverse::visit(Operation *op, Build &build) {
  SmallVector<Value> flowing = llvm::map_to_vector(op->getResults(), [&](Value v) { return cotangent(v); });
  if (llvm::none_of(flowing, [](Value v) { return bool(v); }))
    return success();
  build.loc = placeOf(op->getLoc());
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return visitRepeat(repeat, build);
  SmallVector<bool> wanted = llvm::map_to_vector(op->getOperands(), [&](Value v) { return isActive(v); });
  if (llvm::none_of(wanted, [](bool w) { return w; }))
    return success(); // a parameter's read
  auto derivable = dyn_cast<Derivable>(op);
  if (!derivable)
    return op->emitOpError() << "has no derivative";
  Block *into = build.builder.getInsertionBlock();
  Operation *last =
      build.builder.getInsertionPoint() == into->begin() ? nullptr : &*std::prev(build.builder.getInsertionPoint());
  SmallVector<Value> flows = derivable.derive(build, flowing, wanted);
  if (op->hasAttr(kStaysF32)) // and so do the products of its derivative
    for (Operation &made :
         llvm::make_range(last ? std::next(last->getIterator()) : into->begin(), build.builder.getInsertionPoint()))
      if (isProduct(&made))
        made.setAttr(kStaysF32, op->getAttr(kStaysF32));
  for (auto [operand, flow] : llvm::zip(op->getOperands(), flows)) {
    if (flow && flow.getDefiningOp() && flow.use_empty())
      flow.getDefiningOp()->setLoc(derivativeLoc(build.loc, operand));
    build.loc = derivativeLoc(op->getLoc(), operand);
    add(build, operand, flow);
    build.loc = placeOf(op->getLoc());
  }
  return success();
}
