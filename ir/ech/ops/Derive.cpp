#include "ir/ech/ops/Derive.h"

using namespace mlir;
using namespace echelon::ech;

SmallVector<StringRef> echelon::ech::missingAxes(Tensor from, Tensor to) {
  SmallVector<StringRef> names;
  for (const Axis &axis : from.getAxes())
    if (!to.has(axis.name))
      names.push_back(axis.name);
  return names;
}

Value echelon::ech::productTo(Build &build, Value d, Value g, Tensor like) {
  SmallVector<StringRef> both, alone; // axes to sum: those of d and g, those of d alone
  for (StringRef axis : missingAxes(tensor(d), like))
    (tensor(g).has(axis) ? both : alone).push_back(axis);
  if (!alone.empty())
    d = build.sum(d, alone);
  return inOrder(build, both.empty() ? build.mul(d, g) : build.dot(d, g, both), like);
}

Value echelon::ech::inOrder(Build &build, Value value, Tensor like) {
  Tensor type = tensor(value), wanted = type.withAxes(like.getAxes());
  if (type == wanted)
    return value;
  Operation *op = value.getDefiningOp();
  if (op && value.use_empty() && isa<DotOp, MapOp, ReduceOp, ExpandOp>(op)) {
    value.setType(wanted);
    return value;
  }
  return build.expand(value, wanted);
}
