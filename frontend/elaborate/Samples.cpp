// What holds of samples alone: they have no order, and nothing mixes them unless it says so.
#include "frontend/elaborate/Elaborator.h"
#include "frontend/elaborate/Uses.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace echelon::frontend;

/// Unit, on what a reduction over all axes gives, samples among them, until the model is read.
static constexpr llvm::StringLiteral kOverAll = "ech.over_all";

void echelon::frontend::noteOverAll(Elaborator &elab, const CallExpr &call, ech::Tensor type, Value result) {
  std::vector<std::string> within, all;
  bool mixes = false;
  for (const ech::Axis &axis : type.getAxes()) {
    mixes |= elab.countsSamples(axis.name);
    all.push_back(elab.scopes.written(axis.name));
    if (!elab.countsSamples(axis.name))
      within.push_back(all.back());
  }
  Operation *op = result.getDefiningOp();
  if (!mixes || !op)
    return;
  auto over = [](const std::vector<std::string> &names) {
    return "over = " + (names.size() == 1 ? names[0] : "(" + llvm::join(names, ", ") + ")");
  };
  const std::string &name = call.callee.parts[0].text;
  const std::string advice =
      within.empty() ? "say so where that is meant: " + over(all)
                     : "write " + over(within) + " for each sample by itself, or " + over(all) + " where all are meant";
  op->setAttr(kOverAll, elab.build.builder.getUnitAttr());
  elab.remembered.overAll[op] = {
      elab.scopes.usersPlace(call.range),
      name + " without `over` runs over all axes, samples too, and what it gives enters each sample again; " + advice};
}

void echelon::frontend::refuseMixedSamples(Elaborator &elab, ech::StepOp step) {
  auto isOfSample = [&](Operation *op) {
    return llvm::any_of(op->getResultTypes(), [&](Type type) {
      auto tensor = dyn_cast<ech::Tensor>(type);
      return tensor &&
             llvm::any_of(tensor.getAxes(), [&](const ech::Axis &axis) { return elab.countsSamples(axis.name); });
    });
  };
  step.walk([&](Operation *op) {
    if (!op->removeAttr(kOverAll))
      return;
    if (reaches(op->getResult(0), isOfSample)) {
      const Remembered::OverAll &of = elab.remembered.overAll[op];
      elab.error(Code::E0230, of.range, of.message);
    }
  });
}
