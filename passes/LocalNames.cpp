#include "passes/LocalNames.h"
#include <functional>

using namespace mlir;
using namespace echelon;

std::string echelon::nameOf(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    Operation *parent = argument.getOwner()->getParentOp();
    if (auto loop = dyn_cast<rt::ForOp>(parent))
      return loop->getAttrOfType<StringAttr>(rt::kName).str();
    auto names = parent->getAttrOfType<ArrayAttr>(rt::kName);
    return cast<StringAttr>(names[argument.getArgNumber()]).str();
  }
  auto name = value.getDefiningOp()->getAttrOfType<StringAttr>(rt::kName);
  return name ? name.str() : "";
}

std::string echelon::nameOf(rt::NextOp next) { return next->getAttrOfType<StringAttr>(rt::kName).str(); }

LocalNames::LocalNames(ModuleOp module) : common(constantsOf(module)) {
  module.walk([&](Operation *op) {
    if (auto call = dyn_cast<rt::InvokeOp>(op))
      common.insert(call.getCallee());
  });
}

void LocalNames::enter(ArrayRef<Operation *> ops) {
  taken.clear();
  temporary.clear();
  loopNames.clear();
  scopes.assign(1, {});
  std::function<void(Value)> add = [&](Value v) {
    Operation *made = v.getDefiningOp();
    if (!made || made->hasAttr(rt::kName))
      if (auto argument = dyn_cast<BlockArgument>(v);
          made || isa<rt::ForOp, rt::StagesOp, rt::FunctionOp>(argument.getOwner()->getParentOp()))
        taken.insert(nameOf(v));
    if (auto view = dyn_cast_or_null<rt::ViewOp>(made))
      llvm::for_each(view->getOperands(), add);
  };
  for (Operation *op : ops)
    op->walk([&](Operation *inner) {
      llvm::for_each(inner->getOperands(), add);
      llvm::for_each(inner->getResults(), add);
      if (auto loop = dyn_cast<rt::ForOp>(inner))
        add(loop.position());
      if (auto next = dyn_cast<rt::NextOp>(inner))
        taken.insert(nameOf(next));
      if (isa<rt::StagesOp>(inner))
        for (Block *block : rt::blocksOf(inner))
          llvm::for_each(block->getArguments(), add);
    });
}

void LocalNames::close() {
  for (const std::string &name : scopes.pop_back_val())
    temporary.erase(name);
}

std::string LocalNames::local(StringRef wanted) {
  std::string name = uniqueName(wanted, [&](StringRef name) { return isTaken(name); });
  temporary.insert(name);
  return scopes.back().emplace_back(name);
}

std::string LocalNames::loopName(StringRef axis) {
  std::string name = shortestName(axis, [&](StringRef name) { return isTaken(name); });
  temporary.insert(name);
  return loopNames.emplace_back(name);
}

void LocalNames::releaseLoopNames() {
  for (const std::string &name : loopNames)
    temporary.erase(name);
  loopNames.clear();
}
