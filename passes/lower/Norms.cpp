// normalize and its derivative, by rows: what is reduced over lies last, or is brought there. Of norms over channels
// dist-split-norms leaves the statistics, which are taken of x as it lies.
#include "passes/lower/Slices.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
constexpr const char *kEpsilon = "1e-5";

/// How a tensor is seen: x (outer, channels, inner), reduced over outer and inner; by rows, outer is 1.
struct Form {
  SmallVector<Axis> order; // of x
  SmallVector<Axis> kept;  // of the statistics
  int64_t outer = 1, channels = 1, inner = 1;
};

Form formOf(Tensor local, ArrayRef<StringRef> over, bool byRows) {
  Form form;
  form.order.assign(local.getAxes().begin(), local.getAxes().end());
  auto isReduced = [&](const Axis &a) { return llvm::is_contained(over, a.name.getValue()); };
  llvm::copy_if(form.order, std::back_inserter(form.kept), [&](const Axis &a) { return !isReduced(a); });
  auto classify = [&] {
    int part = 0;
    form.outer = form.channels = form.inner = 1;
    for (const Axis &a : form.order) {
      if (a.size == 1)
        continue;
      if (isReduced(a)) {
        part = part == 1 ? 2 : part;
        (part == 0 ? form.outer : form.inner) *= a.size;
      } else {
        if (part == 2)
          return false;
        part = 1;
        form.channels *= a.size;
      }
    }
    if (part == 0) // one row
      std::swap(form.outer, form.inner);
    return true;
  };
  if (!classify() || (byRows && form.outer > 1)) {
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
  Lowering::Call call(l, "rms_normalize", loc);
  call.out(y).out(rstd).in(x).number(form.channels).number(form.inner).word(kEpsilon).share(0, 2).done();
  return success();
}

/// The last arguments of a call that makes statistics: mean, variance and mean_low, where somebody reads one of them.
Lowering::Call &withStatistics(Lowering::Call &call, Lowering &l, ValueRange statistics) {
  call.word(kEpsilon);
  if (llvm::any_of(statistics, [](Value v) { return !v.use_empty(); }))
    for (Value v : statistics)
      call.out(l.result(v));
  return call;
}

/// The statistics alone.
LogicalResult lowerStatistics(Lowering &l, ech::NormalizeOp op) {
  Location loc = op.getLoc();
  const Form form = formOf(l.local(op.getOperand()), ech::strings(op.getOver()), false);
  Value x = l.denseAs(l.read(op.getOperand()), form.order, loc), rstd = l.result(op.getRstd());
  Lowering::Call call(l, "channel_statistics", loc);
  call.out(rstd).in(x).number(form.outer).number(form.channels).number(form.inner);
  withStatistics(call, l, op->getResults().take_back(3)).done();
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
  Lowering::Call call(l, "normalize", loc);
  call.out(y).out(rstd).in(x).number(form.channels).number(form.inner);
  withStatistics(call, l, op->getResults().take_back(3)).share(0, 2).done();
  return success();
}

LogicalResult lowerNormalizeGrad(Lowering &l, ech::NormalizeGradOp op) {
  Location loc = op.getLoc();
  const Form form = formOf(l.local(op.getResult()), ech::strings(op.getOver()), true);
  Value dy = l.denseAs(l.read(op.getCotangent()), form.order, loc);
  Value y = l.denseAs(l.read(op.getResult()), form.order, loc);
  Value rstd = l.denseAs(l.read(op.getRstd()), form.kept, loc);
  Value dx = l.resultAs(op.getOperandCotangent(), form.order);
  Lowering::Call call(l, op.getRms() ? "rms_normalize_grad" : "normalize_grad", loc);
  call.out(dx).in(dy).in(y).in(rstd).number(form.channels).number(form.inner).share(0, 1).share(0, 2).done();
  return success();
}

//===- where several ranks hold what is reduced ------------------------------------------------------------------===//

/// The moments of what all ranks hold, combined in rank order.
Value momentsOfAll(Lowering &l, Value gathered, int64_t channels, Location loc) {
  Value all = l.dense(gathered);
  ArrayRef<Axis> axes = rt::buffer(all).getAxes();
  Value moments = l.alloc(axes.drop_front(), l.b.getF64Type(), NameLoc::get(l.b.getStringAttr("moments"), loc));
  Lowering::Call(l, "combine_moments", loc).out(moments).in(all).number(axes[0].size).number(channels).done();
  return moments;
}

LogicalResult lowerNormalizeOfAll(Lowering &l, dist::CombineOp op) {
  Location loc = op.getLoc();
  Value operand = op.getOperands()[0];
  const Form form = formOf(l.local(operand), ech::strings(op.getAlong()), true);
  Value x = l.denseAs(l.read(operand), form.order, loc);
  Value y = l.resultAs(op.getResults()[0], form.order), rstd = l.result(op.getResults()[1]);
  Value moments = momentsOfAll(l, op.getOperands()[1], form.channels, loc);
  Lowering::Call call(l, "normalize_finish", loc);
  call.out(y).out(rstd).in(x).in(moments).number(form.channels).number(form.inner);
  withStatistics(call, l, op.getResults().take_back(3)).share(0, 2).done();
  return success();
}

LogicalResult lowerStatisticsOfAll(Lowering &l, dist::CombineOp op) {
  Value rstd = l.result(op.getResults()[0]);
  const int64_t channels = rt::buffer(rstd).count();
  Value moments = momentsOfAll(l, op.getOperands()[0], channels, op.getLoc());
  Lowering::Call call(l, "channel_statistics_finish", op.getLoc());
  call.out(rstd).in(moments).number(channels);
  withStatistics(call, l, op.getResults().take_back(3)).done();
  return success();
}

LogicalResult lowerRmsOfAll(Lowering &l, dist::CombineOp op) {
  Location loc = op.getLoc();
  Value operand = op.getOperands()[0];
  auto over = ech::strings(op.getAlong());
  const Form form = formOf(l.local(operand), over, true);
  Value x = l.denseAs(l.read(operand), form.order, loc), squares = l.dense(op.getOperands()[1]);
  Value y = l.resultAs(op.getResults()[0], form.order), rstd = l.result(op.getResults()[1]);
  Lowering::Call call(l, "rms_finish", loc);
  call.out(y).out(rstd).in(x).in(squares).number(form.channels).number(form.inner);
  call.number(totalOf(operand, over)).word(kEpsilon).share(0, 2).done();
  return success();
}

LogicalResult lowerGradOfAll(Lowering &l, dist::CombineOp op, StringRef callee) {
  Location loc = op.getLoc();
  ValueRange operands = op.getOperands();
  auto over = ech::strings(op.getAlong());
  const Form form = formOf(l.local(operands[1]), over, true);
  Value dy = l.denseAs(l.read(operands[0]), form.order, loc), y = l.denseAs(l.read(operands[1]), form.order, loc);
  Value rstd = l.denseAs(l.read(operands[2]), form.kept, loc), sums = l.dense(operands[3]);
  Value dx = l.resultAs(op.getResults()[0], form.order);
  Lowering::Call call(l, callee, loc);
  call.out(dx).in(dy).in(y).in(rstd).in(sums).number(form.channels).number(form.inner);
  call.number(totalOf(operands[1], over)).share(0, 1).share(0, 2).done();
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
  const char *callee = isOfMoments                               ? "local_moments"
                       : op.getKind() == dist::Partial::Squares  ? "rms_local"
                       : op.getKind() == dist::Partial::NormSums ? "normalize_grad_local"
                                                                 : "rms_grad_local";
  Lowering::Call call(l, callee, loc);
  call.out(l.result(op.getResults()[0]));
  for (Value operand : operands)
    call.in(operand);
  if (isOfMoments)
    call.number(form.outer);
  call.number(form.channels).number(form.inner).done();
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
    return lowerGradOfAll(l, op, "normalize_grad_finish");
  case dist::Combination::RmsGrad:
    return lowerGradOfAll(l, op, "rms_grad_finish");
  default:
    return l.refuse(op, "is no norm");
  }
}
