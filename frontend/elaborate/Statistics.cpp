// Counts of elements, and statistics of values over axes.
#include "frontend/elaborate/AxisRules.h"
#include "frontend/elaborate/Elaborator.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

Val builtin::count(Elaborator &elab, const CallExpr &call, const Args &args) {
  auto x = elab.read.anyTensor(elab.eval(*args["x"]), call.range);
  if (!x)
    return Val::poison();
  auto over = elab.read.axes(args["over"], x->type().getAxes(), "`over`");
  auto local = elab.read.flag(args["local"], false, "local");
  if (!over || !local || !requireAxes(elab, x->type(), *over, call.range, "the value"))
    return Val::poison();
  Value count = elab.build.count(refs(*over), x->type());
  if (!args["over"])
    noteOverAll(elab, call, x->type(), count);
  if (*local)
    count.getDefiningOp()->setAttr(ech::kLocal, elab.build.builder.getUnitAttr());
  return elab.tensor(count, true, call.range);
}

Val builtin::normalize(Elaborator &elab, const CallExpr &call, const Args &args) {
  const std::string &name = call.callee.parts[0].text;
  auto x = elab.read.realTensor(*args["x"], "normalize");
  if (!x)
    return Val::poison();
  auto over = elab.read.axes(args["over"], x->type().getAxes(), "`over`");
  auto rms = elab.read.flag(args["rms"], false, "rms"), local = elab.read.flag(args["local"], false, "local");
  if (!over || !rms || !local || !requireAxes(elab, x->type(), *over, args["over"]->range, "the value"))
    return Val::poison();
  if (over->empty())
    return elab.poison(Code::E0225, args["over"]->range, "statistics are taken over at least one axis");
  // Asked for several results of the same statistics, one operation gives them.
  std::string key = (*rms ? "rms" : "") + std::string(*local ? " local" : "");
  for (StringAttr axis : *over)
    key += " " + axis.str();
  ech::NormalizeOp &op =
      elab.remembered.statistics[{x->value.getAsOpaquePointer(), elab.build.builder.getInsertionBlock(), key}];
  if (!op) {
    op = elab.build.normalize(x->value, refs(*over), *rms);
    if (*local)
      op->setAttr(ech::kLocal, elab.build.builder.getUnitAttr());
  }
  Value v = name == "normalize" ? op.getResult() : name == "normalize_mean" ? op.getMean() : op.getVariance();
  return elab.tensor(v, false, call.range);
}
