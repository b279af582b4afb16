#include "passes/types/Products.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

ReadOp types::readOf(Value v) {
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(v)) {
      auto loop = dyn_cast<RepeatOp>(argument.getOwner()->getParentOp());
      const unsigned carried = loop ? loop.getCarried().size() : 0;
      if (!loop || argument.getArgNumber() < carried)
        return {};
      v = loop.getSlices()[argument.getArgNumber() - carried];
      continue;
    }
    Operation *op = v.getDefiningOp();
    if (auto read = dyn_cast<ReadOp>(op))
      return read;
    auto map = dyn_cast<MapOp>(op);
    if (!(map && map.getFunction() == Function::Cast) && !(moves(op) && op->getNumOperands() == 1))
      return {};
    v = op->getOperand(0);
  }
}
