#include "ir/dist/Placed.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;

Entry echelon::dist::placedEntry(StringAttr over, int64_t at) {
  return {over, Hold::Whole, StringAttr::get(over.getContext(), std::to_string(at))};
}

std::optional<int64_t> echelon::dist::placedAt(const Entry &entry) {
  int64_t at = 0;
  if (entry.hold != Hold::Whole || !entry.axis || entry.axis.getValue().getAsInteger(10, at))
    return std::nullopt;
  return at;
}

Place echelon::dist::placeOf(StateAttr state) {
  for (int m = 0; state && m < state.size(); ++m)
    if (const std::optional<int64_t> at = placedAt(state[m]))
      return std::pair(m, *at);
  return std::nullopt;
}

Place echelon::dist::placeOf(Operation *op) {
  for (Value value : op->getNumResults() ? ValueRange(op->getResults()) : ValueRange(op->getOperands()))
    if (auto type = dyn_cast<Tensor>(value.getType()))
      if (Place place = placeOf(stateOf(type)))
        return place;
  return std::nullopt;
}
