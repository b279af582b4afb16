// What holds of samples alone: they have no order, and nothing mixes them unless it says so.
#include "frontend/elaborate/Elaborator.h"
#include "frontend/elaborate/Uses.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

/// Unit, on what a reduction over all axes gives, samples among them, until the model is read.
static constexpr llvm::StringLiteral kOverAll = "ech.over_all";

bool Elaborator::haveOrder(ArrayRef<StringAttr> axes, SourceRange range, const std::string &what) {
  for (StringAttr name : axes)
    if (isOfSamples(name)) {
      error(Code::E0219, range, "samples have no order, so " + what + " does not run along " + written(name));
      return false;
    }
  return true;
}

bool Elaborator::isOfSamples(StringAttr axis) const {
  auto other = shared.likeBatch.find(axis.str());
  return (batchAxis && axis == batchAxis->name) || (other != shared.likeBatch.end() && other->second);
}

void Elaborator::noteOverAll(const CallExpr &e, ech::Tensor type, Value result) {
  std::vector<std::string> within, all;
  bool mixes = false;
  for (const ech::Axis &axis : type.getAxes()) {
    mixes |= isOfSamples(axis.name);
    all.push_back(written(axis.name));
    if (!isOfSamples(axis.name))
      within.push_back(all.back());
  }
  Operation *op = result.getDefiningOp();
  if (!mixes || !op)
    return;
  auto over = [](const std::vector<std::string> &names) {
    return "over = " + (names.size() == 1 ? names[0] : "(" + llvm::join(names, ", ") + ")");
  };
  const std::string &name = e.callee.parts[0].text;
  const std::string advice =
      within.empty() ? "say so where that is meant: " + over(all)
                     : "write " + over(within) + " for each sample by itself, or " + over(all) + " where all are meant";
  op->setAttr(kOverAll, builder.getUnitAttr());
  overAll[op] = {
      usersPlace(e.range),
      name + " without `over` runs over all axes, samples too, and what it gives enters each sample again; " + advice};
}

void Elaborator::refuseMixedSamples() {
  auto isOfSample = [&](Operation *op) {
    return llvm::any_of(op->getResultTypes(), [&](Type type) {
      auto tensor = dyn_cast<ech::Tensor>(type);
      return tensor && llvm::any_of(tensor.getAxes(), [&](const ech::Axis &axis) { return isOfSamples(axis.name); });
    });
  };
  step.walk([&](Operation *op) {
    if (!op->removeAttr(kOverAll))
      return;
    if (reaches(op->getResult(0), isOfSample))
      error(Code::E0230, overAll[op].range, overAll[op].message);
  });
}
