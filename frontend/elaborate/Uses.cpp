#include "frontend/elaborate/Uses.h"
#include "ir/ech/Ech.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
namespace ech = echelon::ech;

bool echelon::frontend::reaches(Value value, llvm::function_ref<bool(Operation *)> wanted) {
  SmallVector<Value> open{value};
  llvm::DenseSet<Value> seen{value};
  auto follow = [&](Value next) {
    if (seen.insert(next).second)
      open.push_back(next);
  };
  while (!open.empty())
    for (OpOperand &use : open.pop_back_val().getUses()) {
      Operation *user = use.getOwner();
      const unsigned place = use.getOperandNumber();
      if (auto loop = dyn_cast<ech::RepeatOp>(user)) {
        follow(loop.block()->getArgument(place));
      } else if (isa<ech::YieldOp>(user)) {
        auto around = cast<ech::RepeatOp>(user->getParentOp());
        if (place < around.getCarried().size())
          follow(around.carriedArguments()[place]);
        follow(around->getResult(place)); // results are in the order of what is yielded
      } else if (wanted(user)) {
        return true;
      } else {
        llvm::for_each(user->getResults(), follow);
      }
    }
  return false;
}
