#include "passes/pipeline/Turns.h"

#include "ir/dist/Dist.h"

using namespace mlir;
using namespace echelon;

bool pipeline::isLaterInTurns(Operation *op) {
  auto turns = op->getAttrOfType<DictionaryAttr>(dist::kTurns);
  return turns && turns.getAs<StringAttr>("part").getValue() != "forward";
}

llvm::SetVector<Operation *> pipeline::neededInTurns(ArrayRef<ech::RepeatOp> later) {
  llvm::SetVector<Operation *> needed;
  SmallVector<Operation *> open(later.begin(), later.end());
  while (!open.empty()) {
    Operation *reader = open.pop_back_val();
    reader->walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        if (Operation *def = v.getDefiningOp();
            def && def->getBlock() == reader->getBlock() && !def->hasAttr(dist::kTurns) && needed.insert(def))
          open.push_back(def);
    });
  }
  return needed;
}
