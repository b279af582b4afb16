// normalize and its derivative, by rows: what is reduced over lies last, or is brought there. Of norms over channels
// dist-split-norms leaves the statistics, which are taken of x as it lies.
#include "passes/lower/Slices.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
constexpr double kEpsilon = 1e-5;

/// How a tensor is seen: x (outer, channels, inner), reduced over outer and inner; by rows, outer is 1.
struct Form {
  SmallVector<Axis> order; // of x
  SmallVector<Axis> kept;  // of the statistics
  SmallVector<Axis> outer, channels, inner;
};

Form formOf(Tensor local, ArrayRef<StringRef> over, bool byRows) {
  Form form;
  form.order.assign(local.getAxes().begin(), local.getAxes().end());
  auto isReduced = [&](const Axis &a) { return llvm::is_contained(over, a.name.getValue()); };
  llvm::copy_if(form.order, std::back_inserter(form.kept), [&](const Axis &a) { return !isReduced(a); });
  auto classify = [&] {
    int part = 0;
    form.outer = form.channels = form.inner = {};
    for (const Axis &a : form.order) {
      if (a.size == 1)
        continue;
      if (isReduced(a)) {
        part = part == 1 ? 2 : part;
        (part == 0 ? form.outer : form.inner).push_back(a);
      } else {
        if (part == 2)
          return false;
        part = 1;
        form.channels.push_back(a);
      }
    }
    if (part == 0) // one row
      std::swap(form.outer, form.inner);
    return true;
  };
  if (!classify() || (byRows && !form.outer.empty())) {
    std::stable_partition(form.order.begin(), form.order.end(), [&](const Axis &a) { return !isReduced(a); });
    classify();
  }
  return form;
}

/// Elements reduced over all ranks.
int64_t totalOf(Value v, ArrayRef<StringRef> over) {
  int64_t total = 1;
  for (StringRef axis : over)
    total *= ech::tensor(v).sizeOf(axis);
  return total;
}

LogicalResult lowerRms(Lowering &l, ech::NormalizeOp op) {
  if (!op.getMean().use_empty() || !op.getVariance().use_empty())
    return l.refuse(op, "with rms has no mean and variance");
  Location loc = op.getLoc();
  auto over = ech::strings(op.getOver());
  const Form form = formOf(l.local(op.getOperand()), over, true);
  Value x = l.denseAs(l.read(op.getOperand()), form.order, loc);
  Value y = l.resultAs(op.getResult(), form.order), rstd = l.result(op.getRstd());
  rt::NormalizeOp::create(l.b, loc, true, y, rstd, ValueRange(), x, l.size(form.channels), l.size(form.inner),
                          APFloat(kEpsilon));
  return success();
}

/// Where mean, variance and mean_low go, if somebody reads one of them.
SmallVector<Value> placesOf(Lowering &l, ValueRange statistics) {
  SmallVector<Value> places;
  if (llvm::any_of(statistics, [](Value v) { return !v.use_empty(); }))
    for (Value v : statistics)
      places.push_back(l.result(v));
  return places;
}

/// The statistics alone.
LogicalResult lowerStatistics(Lowering &l, ech::NormalizeOp op) {
  Location loc = op.getLoc();
  const Form form = formOf(l.local(op.getOperand()), ech::strings(op.getOver()), false);
  Value x = l.denseAs(l.read(op.getOperand()), form.order, loc), rstd = l.result(op.getRstd());
  rt::ChannelStatisticsOp::create(l.b, loc, rstd, placesOf(l, op->getResults().take_back(3)), x, l.size(form.outer),
                                  l.size(form.channels), l.size(form.inner), APFloat(kEpsilon));
  return success();
}

LogicalResult lowerNormalize(Lowering &l, ech::NormalizeOp op) {
  if (op.getRms())
    return lowerRms(l, op);
  if (op.getResult().use_empty())
    return lowerStatistics(l, op);
  Location loc = op.getLoc();
  const Form form = formOf(l.local(op.getOperand()), ech::strings(op.getOver()), true);
  Value x = l.denseAs(l.read(op.getOperand()), form.order, loc);
  Value y = l.resultAs(op.getResult(), form.order), rstd = l.result(op.getRstd());
  rt::NormalizeOp::create(l.b, loc, false, y, rstd, placesOf(l, op->getResults().take_back(3)), x,
                          l.size(form.channels), l.size(form.inner), APFloat(kEpsilon));
  return success();
}

LogicalResult lowerNormalizeGrad(Lowering &l, ech::NormalizeGradOp op) {
  Location loc = op.getLoc();
  const Form form = formOf(l.local(op.getResult()), ech::strings(op.getOver()), true);
  Value dy = l.denseAs(l.read(op.getCotangent()), form.order, loc);
  Value y = l.denseAs(l.read(op.getResult()), form.order, loc);
  Value rstd = l.denseAs(l.read(op.getRstd()), form.kept, loc);
  Value dx = l.resultAs(op.getOperandCotangent(), form.order);
  rt::NormalizeGradOp::create(l.b, loc, op.getRms(), dx, dy, y, rstd, l.size(form.channels), l.size(form.inner));
  return success();
}

//===- where several ranks hold what is reduced ------------------------------------------------------------------===//

/// The moments of what all ranks hold, combined in rank order.
Value momentsOfAll(Lowering &l, Value gathered, rt::SizeAttr channels, Location loc) {
  Value all = l.dense(gathered);
  ArrayRef<Axis> axes = rt::buffer(all).getAxes();
  Value moments = l.alloc(axes.drop_front(), l.b.getF64Type(), NameLoc::get(l.b.getStringAttr("moments"), loc));
  combine(l, loc, rt::CombineKind::Moments, moments, all, {l.size(axes[0]), channels});
  return moments;
}

LogicalResult lowerNormalizeOfAll(Lowering &l, dist::CombineOp op) {
  Location loc = op.getLoc();
  Value operand = op.getOperands()[0];
  const Form form = formOf(l.local(operand), ech::strings(op.getAlong()), true);
  Value x = l.denseAs(l.read(operand), form.order, loc);
  Value y = l.resultAs(op.getResults()[0], form.order), rstd = l.result(op.getResults()[1]);
  Value moments = momentsOfAll(l, op.getOperands()[1], l.size(form.channels), loc);
  SmallVector<Value> outs{y, rstd};
  llvm::append_range(outs, placesOf(l, op.getResults().take_back(3)));
  combine(l, loc, rt::CombineKind::Normalize, outs, {x, moments}, {l.size(form.channels), l.size(form.inner)}, {},
          kEpsilon);
  return success();
}

LogicalResult lowerStatisticsOfAll(Lowering &l, dist::CombineOp op) {
  Value rstd = l.result(op.getResults()[0]);
  const rt::SizeAttr channels = l.size(rt::buffer(rstd).getAxes());
  Value moments = momentsOfAll(l, op.getOperands()[0], channels, op.getLoc());
  SmallVector<Value> outs{rstd};
  llvm::append_range(outs, placesOf(l, op.getResults().take_back(3)));
  combine(l, op.getLoc(), rt::CombineKind::Statistics, outs, moments, channels, {}, kEpsilon);
  return success();
}

LogicalResult lowerRmsOfAll(Lowering &l, dist::CombineOp op) {
  Location loc = op.getLoc();
  Value operand = op.getOperands()[0];
  auto over = ech::strings(op.getAlong());
  const Form form = formOf(l.local(operand), over, true);
  Value x = l.denseAs(l.read(operand), form.order, loc), squares = l.dense(op.getOperands()[1]);
  Value y = l.resultAs(op.getResults()[0], form.order), rstd = l.result(op.getResults()[1]);
  combine(l, loc, rt::CombineKind::RmsNormalize, {y, rstd}, {x, squares}, {l.size(form.channels), l.size(form.inner)},
          totalOf(operand, over), kEpsilon);
  return success();
}

LogicalResult lowerGradOfAll(Lowering &l, dist::CombineOp op, rt::CombineKind kind) {
  Location loc = op.getLoc();
  ValueRange operands = op.getOperands();
  auto over = ech::strings(op.getAlong());
  const Form form = formOf(l.local(operands[1]), over, true);
  Value dy = l.denseAs(l.read(operands[0]), form.order, loc), y = l.denseAs(l.read(operands[1]), form.order, loc);
  Value rstd = l.denseAs(l.read(operands[2]), form.kept, loc), sums = l.dense(operands[3]);
  Value dx = l.resultAs(op.getResults()[0], form.order);
  combine(l, loc, kind, dx, {dy, y, rstd, sums}, {l.size(form.channels), l.size(form.inner)},
          totalOf(operands[1], over));
  return success();
}
} // namespace

void echelon::lower::addNorms(Lowering &l) {
  l.add<ech::NormalizeOp>(lowerNormalize);
  l.add<ech::NormalizeGradOp>(lowerNormalizeGrad);
}

LogicalResult echelon::lower::lowerNormPartial(Lowering &l, dist::PartialOp op) {
  Location loc = op.getLoc();
  const bool isOfMoments = op.getKind() == dist::Partial::Moments;
  const Form form = formOf(l.local(op.getOperands().back()), ech::strings(op.getAlong()), !isOfMoments);
  SmallVector<Value> operands =
      llvm::map_to_vector(op.getOperands(), [&](Value operand) { return l.denseAs(l.read(operand), form.order, loc); });
  auto kind = isOfMoments                               ? rt::PartialKind::Moments
              : op.getKind() == dist::Partial::Squares  ? rt::PartialKind::Squares
              : op.getKind() == dist::Partial::NormSums ? rt::PartialKind::NormSums
                                                        : rt::PartialKind::RmsSums;
  SmallVector<rt::SizeAttr> sizes{l.size(form.channels), l.size(form.inner)};
  if (isOfMoments)
    sizes.insert(sizes.begin(), l.size(form.outer));
  partial(l, loc, kind, l.result(op.getResults()[0]), operands, sizes);
  return success();
}

LogicalResult echelon::lower::lowerNormCombine(Lowering &l, dist::CombineOp op) {
  switch (op.getKind()) {
  case dist::Combination::Normalize:
    return lowerNormalizeOfAll(l, op);
  case dist::Combination::Statistics:
    return lowerStatisticsOfAll(l, op);
  case dist::Combination::RmsNormalize:
    return lowerRmsOfAll(l, op);
  case dist::Combination::NormalizeGrad:
    return lowerGradOfAll(l, op, rt::CombineKind::NormalizeGrad);
  case dist::Combination::RmsGrad:
    return lowerGradOfAll(l, op, rt::CombineKind::RmsGrad);
  default:
    return l.refuse(op, "is no norm");
  }
}
