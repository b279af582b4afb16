#include "passes/types/ParamTypes.h"
#include "ir/ech/Build.h"
#include "passes/types/Products.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

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
  for (ReadOp read : reads) {
    Value v = read.getValue();
    v.setType(tensor(v).withElement(narrow));
    builder.setInsertionPointAfter(read);
    Value wide = castAs(read, v, builder.getF32Type());
    v.replaceAllUsesExcept(wide, wide.getDefiningOp());
    for (Operation *user : llvm::make_early_inc_range(wide.getUsers())) // to be rounded to what it is
      if (auto map = dyn_cast<MapOp>(user);
          map && tensor(map.getResult()).getElement() == narrow && map.getFunction() == Function::Cast) {
        map.getResult().replaceAllUsesWith(v);
        map.erase();
      }
  }
}
