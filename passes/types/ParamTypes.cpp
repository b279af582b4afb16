#include "passes/types/ParamTypes.h"
#include "ir/ech/Build.h"
#include "passes/types/Products.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

void types::narrowParameters(ModuleOp module, Type narrow) {
  llvm::StringSet<> parameters;
  for (auto variable : module.getOps<VariableOp>())
    if (variable.getKind() == VariableKind::Param) {
      parameters.insert(variable.getSymName());
      variable.setType(cast<Tensor>(variable.getType()).withElement(narrow));
    }
  OpBuilder builder(module.getContext());
  auto castAs = [&](Operation *of, Value v, Type element) {
    Value made = Build(builder, v.getLoc(), builder.getF32Type()).cast(v, element);
    copyPhase(of, made.getDefiningOp());
    return made;
  };
  module.walk([&](Operation *op) {
    if (auto read = dyn_cast<ReadOp>(op); read && parameters.contains(read.getSource())) {
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
    } else if (auto write = dyn_cast<WriteOp>(op); write && parameters.contains(write.getTarget())) {
      builder.setInsertionPoint(write);
      write.getValueMutable().assign(castAs(write, write.getValue(), narrow));
    }
  });
}
