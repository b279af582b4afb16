#include "frontend/elaborate/KeptNames.h"
#include "ir/ech/Ech.h"
#include "ir/ech/Recompute.h"

using namespace mlir;
using namespace echelon::frontend;

/// Of no value in a spec: it asks for all of them, each marked with its path, as `recompute auto` needs them.
static constexpr StringRef kAnyName = "*";

void KeptNames::value(Value value, StringRef path) {
  for (StringRef end = path; !end.empty(); end = end.split('.').second)
    known.insert(end.str());
  Operation *op = value.getDefiningOp();
  if (!op) // what a repeat carries or takes slices of
    return;
  SmallVector<Attribute> names;
  if (auto earlier = op->getAttrOfType<ArrayAttr>(ech::kKeptAs))
    llvm::append_range(names, earlier);
  for (const Path &name : *wanted) {
    const bool isAny = name.text() == kAnyName;
    Attribute text = StringAttr::get(op->getContext(), isAny ? path : StringRef(name.text()));
    if ((isAny || path == name.text() || path.ends_with("." + name.text())) && !llvm::is_contained(names, text))
      names.push_back(text);
  }
  if (!names.empty())
    op->setAttr(ech::kKeptAs, ArrayAttr::get(op->getContext(), names));
}

void KeptNames::finish(Diagnostics &diagnostics) const {
  const std::vector<std::string> all(known.begin(), known.end());
  for (const Path &name : *wanted)
    if (name.text() != kAnyName && !known.count(name.text()))
      diagnostics.error(Code::E0410, name.range,
                        "no value of a repeat is called " + quoted(name.text()) +
                            (all.empty()                         ? "; none has a name"
                             : nearest(name.text(), all).empty() ? "; write the name that it is assigned to, after the "
                                                                   "name of the call that it is in, as in attn.q"
                                                                 : didYouMean(name.text(), all)));
}
