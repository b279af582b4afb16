// normalize and its derivative, by rows: what is reduced over lies last, or is brought there. Of norms over channels
// dist-split-norms leaves the statistics, which are taken of x as it lies.
#include "passes/lower/Lowering.h"

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

/// The moments of what all ranks hold, combined in rank order.
Value momentsOfAll(Lowering &l, ech::NormalizeOp op, const Form &form, Value x, ArrayRef<int64_t> mesh) {
  Location loc = op.getLoc();
  Type element = l.b.getF64Type();
  auto named = [&](StringRef name) { return NameLoc::get(l.b.getStringAttr(name), loc); };
  const int64_t ranks = l.ranksOver(mesh);
  SmallVector<Axis> own(form.kept);
  own.push_back(l.axisBeside("moment", 3, own));
  SmallVector<Axis> all{l.axisBeside("rank", ranks, own)};
  llvm::append_range(all, own);
  Value moments = l.alloc(own, element, named("moments")), gathered = l.alloc(all, element, named("moments_of_all"));
  Lowering::Call local(l, "local_moments", loc);
  local.out(moments).in(x).number(form.outer).number(form.channels).number(form.inner).done();
  l.collective("all_gather", moments, gathered, rt::buffer(moments).count(), "", mesh, "auto", Lowering::whyInside(op),
               loc);
  Lowering::Call combine(l, "combine_moments", loc);
  combine.out(moments).in(gathered).number(ranks).number(form.channels).done();
  return moments;
}

LogicalResult lowerRms(Lowering &l, ech::NormalizeOp op) {
  if (!op.getMean().use_empty() || !op.getVariance().use_empty())
    return l.refuse(op, "with rms has no mean and variance");
  Location loc = op.getLoc();
  auto over = ech::strings(op.getOver());
  const Form form = formOf(l.local(op.getOperand()), over, true);
  SmallVector<int64_t> mesh = l.insideOf(op);
  Value x = l.denseAs(l.read(op.getOperand()), form.order, loc);
  Value y = l.resultAs(op.getResult(), form.order), rstd = l.result(op.getRstd());
  if (mesh.empty()) {
    Lowering::Call call(l, "rms_normalize", loc);
    call.out(y).out(rstd).in(x).number(form.channels).number(form.inner).word(kEpsilon).share(0, 2).done();
    return success();
  }
  Value squares = l.alloc(form.kept, l.b.getF64Type(), NameLoc::get(l.b.getStringAttr("squares"), loc));
  Lowering::Call local(l, "rms_local", loc);
  local.out(squares).in(x).number(form.channels).number(form.inner).done();
  l.collective("all_reduce", squares, squares, form.channels, "Sum", mesh, "auto", Lowering::whyInside(op), loc);
  Lowering::Call finish(l, "rms_finish", loc);
  finish.out(y).out(rstd).in(x).in(squares).number(form.channels).number(form.inner);
  finish.number(totalOf(op.getOperand(), over)).word(kEpsilon).share(0, 2).done();
  return success();
}

/// The last arguments of a call that makes statistics: mean, variance and mean_low, where somebody reads one of them.
Lowering::Call &withStatistics(Lowering::Call &call, Lowering &l, ech::NormalizeOp op) {
  call.word(kEpsilon);
  if (!op.getMean().use_empty() || !op.getVariance().use_empty() || !op.getMeanLow().use_empty())
    call.out(l.result(op.getMean())).out(l.result(op.getVariance())).out(l.result(op.getMeanLow()));
  return call;
}

/// The statistics alone.
LogicalResult lowerStatistics(Lowering &l, ech::NormalizeOp op) {
  Location loc = op.getLoc();
  const Form form = formOf(l.local(op.getOperand()), ech::strings(op.getOver()), false);
  SmallVector<int64_t> mesh = l.insideOf(op);
  Value x = l.denseAs(l.read(op.getOperand()), form.order, loc), rstd = l.result(op.getRstd());
  if (mesh.empty()) {
    Lowering::Call call(l, "channel_statistics", loc);
    call.out(rstd).in(x).number(form.outer).number(form.channels).number(form.inner);
    withStatistics(call, l, op).done();
    return success();
  }
  Value moments = momentsOfAll(l, op, form, x, mesh);
  Lowering::Call finish(l, "channel_statistics_finish", loc);
  finish.out(rstd).in(moments).number(form.channels);
  withStatistics(finish, l, op).done();
  return success();
}

LogicalResult lowerNormalize(Lowering &l, ech::NormalizeOp op) {
  if (op.getRms())
    return lowerRms(l, op);
  if (op.getResult().use_empty())
    return lowerStatistics(l, op);
  Location loc = op.getLoc();
  const Form form = formOf(l.local(op.getOperand()), ech::strings(op.getOver()), true);
  SmallVector<int64_t> mesh = l.insideOf(op);
  Value x = l.denseAs(l.read(op.getOperand()), form.order, loc);
  Value y = l.resultAs(op.getResult(), form.order), rstd = l.result(op.getRstd());
  Value moments = mesh.empty() ? Value() : momentsOfAll(l, op, form, x, mesh);
  Lowering::Call call(l, moments ? "normalize_finish" : "normalize", loc);
  call.out(y).out(rstd).in(x);
  if (moments)
    call.in(moments);
  call.number(form.channels).number(form.inner);
  withStatistics(call, l, op).share(0, 2).done();
  return success();
}

LogicalResult lowerNormalizeGrad(Lowering &l, ech::NormalizeGradOp op) {
  Location loc = op.getLoc();
  auto over = ech::strings(op.getOver());
  const Form form = formOf(l.local(op.getResult()), over, true);
  SmallVector<int64_t> mesh = l.insideOf(op);
  Value dy = l.denseAs(l.read(op.getCotangent()), form.order, loc);
  Value y = l.denseAs(l.read(op.getResult()), form.order, loc);
  Value rstd = l.denseAs(l.read(op.getRstd()), form.kept, loc);
  Value dx = l.resultAs(op.getOperandCotangent(), form.order);
  if (mesh.empty()) {
    Lowering::Call call(l, op.getRms() ? "rms_normalize_grad" : "normalize_grad", loc);
    call.out(dx).in(dy).in(y).in(rstd).number(form.channels).number(form.inner).share(0, 1).share(0, 2).done();
    return success();
  }
  SmallVector<Axis> axes(form.kept);
  axes.push_back(l.axisBeside("part", op.getRms() ? 1 : 2, axes));
  Value sums = l.alloc(axes, l.b.getF64Type(), NameLoc::get(l.b.getStringAttr("sums"), loc));
  Lowering::Call local(l, op.getRms() ? "rms_grad_local" : "normalize_grad_local", loc);
  local.out(sums).in(dy).in(y).number(form.channels).number(form.inner).done();
  l.collective("all_reduce", sums, sums, rt::buffer(sums).count(), "Sum", mesh, "auto", Lowering::whyInside(op), loc);
  Lowering::Call finish(l, op.getRms() ? "rms_grad_finish" : "normalize_grad_finish", loc);
  finish.out(dx).in(dy).in(y).in(rstd).in(sums).number(form.channels).number(form.inner);
  finish.number(totalOf(op.getResult(), over)).share(0, 1).share(0, 2).done();
  return success();
}
} // namespace

void echelon::lower::addNorms(Lowering &l) {
  l.add<ech::NormalizeOp>(lowerNormalize);
  l.add<ech::NormalizeGradOp>(lowerNormalizeGrad);
}
