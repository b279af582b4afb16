#include "ir/ech/Recompute.h"

using namespace mlir;
using namespace echelon::ech;

DictionaryAttr Recompute::toAttribute(Builder &b) const {
  NamedAttrList list;
  list.set("policy", b.getStringAttr(policy));
  if (every)
    list.set("every", b.getI64IntegerAttr(every));
  if (!axis.empty())
    list.set("axis", b.getStringAttr(axis));
  if (names)
    list.set("names", names);
  if (place)
    list.set("place", place);
  return list.getDictionary(b.getContext());
}

std::optional<Recompute> Recompute::of(ModuleOp module) {
  auto list = module->getAttrOfType<DictionaryAttr>(kRecompute);
  if (!list)
    return std::nullopt;
  Recompute made;
  if (auto policy = list.getAs<StringAttr>("policy"))
    made.policy = policy;
  if (auto every = list.getAs<IntegerAttr>("every"))
    made.every = every.getInt();
  if (auto axis = list.getAs<StringAttr>("axis"))
    made.axis = axis;
  made.names = list.getAs<ArrayAttr>("names");
  made.place = list.getAs<LocationAttr>("place");
  return made;
}

InFlightDiagnostic Recompute::error(ModuleOp module) const {
  return emitError(place ? Location(place) : module.getLoc()) << "E0410: ";
}
