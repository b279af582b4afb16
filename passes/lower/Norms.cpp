// normalize and its derivative: by rows (the reduced axes are the last) or by channels (what is kept lies together).
#include "passes/lower/Lowering.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
/// How a tensor is seen: x (outer, channels, inner), reduced over outer and inner; by rows, outer is 1.
struct Form {
  bool rows;
  SmallVector<Axis> order; // of x
  SmallVector<Axis> kept;  // of the statistics
  int64_t outer = 1, channels = 1, inner = 1;
  int64_t reduced() const { return outer * inner; }
};

Form formOf(Tensor local, ArrayRef<StringRef> over) {
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
    return true;
  };
  if (!classify()) {
    std::stable_partition(form.order.begin(), form.order.end(), [&](const Axis &a) { return !isReduced(a); });
    classify();
  }
  form.rows = form.outer == 1;
  return form;
}

/// Elements reduced over all ranks.
int64_t totalOf(Value v, ArrayRef<StringRef> over) {
  int64_t total = 1;
  for (StringRef axis : over)
    total *= ech::tensor(v).sizeOf(axis);
  return total;
}

LogicalResult lowerNormalize(Lowering &l, ech::NormalizeOp op) {
  Location loc = op.getLoc();
  auto over = ech::strings(op.getOver());
  Form form = formOf(l.local(op.getOperand()), over);
  SmallVector<int64_t> mesh = l.insideOf(op);
  Value x = l.denseAs(l.read(op.getOperand()), form.order, loc);
  Type element = rt::buffer(x).getElement();
  const bool all = op.getRms() || !op.getResult().use_empty(); // else the statistics alone
  Value y = all ? l.resultAs(op.getResult(), form.order) : Value(), rstd = l.result(op.getRstd());
  auto named = [&](StringRef name) { return NameLoc::get(l.b.getStringAttr(name), loc); };
  auto call = [&](StringRef callee) { return Lowering::Call(l, callee, loc); };
  auto sizes = [&](Lowering::Call &c) -> Lowering::Call & {
    if (form.rows)
      return c.number(form.channels).number(form.inner);
    return c.number(form.outer).number(form.channels).number(form.inner);
  };
  constexpr const char *epsilon = "1e-5";
  if (op.getRms()) {
    if (!op.getMean().use_empty() || !op.getVariance().use_empty())
      return l.refuse(op, "with rms has no mean and variance");
    if (!form.rows) {
      std::stable_partition(form.order.begin(), form.order.end(),
                            [&](const Axis &a) { return !llvm::is_contained(over, a.name.getValue()); });
      form.rows = true;
      form.inner *= form.outer;
      form.outer = 1;
      x = l.denseAs(x, form.order, loc);
      y = l.resultAs(op.getResult(), form.order);
    }
    if (mesh.empty()) {
      auto c = call("rms_normalize");
      sizes(c.out(y).out(rstd).in(x)).word(epsilon).share(0, 2).done();
      return success();
    }
    Value squares = l.alloc(form.kept, element, named("squares"));
    auto local = call("rms_local");
    sizes(local.out(squares).in(x)).done();
    l.collective("all_reduce", squares, squares, form.channels, "Sum", mesh, "auto", Lowering::whyInside(op), loc);
    auto finish = call("rms_finish");
    sizes(finish.out(y).out(rstd).in(x).in(squares));
    finish.number(totalOf(op.getOperand(), over)).word(epsilon).share(0, 2).done();
    return success();
  }
  auto statistics = [&](Lowering::Call &c) {
    c.word(epsilon);
    bool mean = !op.getMean().use_empty(), variance = !op.getVariance().use_empty();
    if (mean || variance)
      c.out(l.result(op.getMean())).out(l.result(op.getVariance()));
    all ? c.share(0, 2).done() : c.done();
  };
  if (mesh.empty()) {
    auto c = call(all ? form.rows ? "normalize" : "normalize_channels" : "channel_statistics");
    all ? c.out(y).out(rstd).in(x) : c.out(rstd).in(x);
    all ? sizes(c) : c.number(form.outer).number(form.channels).number(form.inner);
    statistics(c);
    return success();
  }
  int64_t ranks = l.ranksOver(mesh);
  SmallVector<Axis> own(form.kept);
  own.push_back(l.axisBeside("moment", 3, own));
  SmallVector<Axis> ofAll{l.axisBeside("rank", ranks, own)};
  llvm::append_range(ofAll, own);
  Value moments = l.alloc(own, element, named("moments")), gathered = l.alloc(ofAll, element, named("moments_of_all"));
  auto local = call(form.rows ? "local_moments" : "local_moments_channels");
  sizes(local.out(moments).in(x)).done();
  l.collective("all_gather", moments, gathered, rt::buffer(moments).count(), "", mesh, "auto", Lowering::whyInside(op),
               loc);
  call("combine_moments").out(moments).in(gathered).number(ranks).number(form.channels).done();
  if (!all) {
    auto finish = call("channel_statistics_finish");
    finish.out(rstd).in(moments).number(form.channels);
    statistics(finish);
    return success();
  }
  auto finish = call(form.rows ? "normalize_finish" : "normalize_channels_finish");
  sizes(finish.out(y).out(rstd).in(x).in(moments));
  statistics(finish);
  return success();
}

LogicalResult lowerNormalizeGrad(Lowering &l, ech::NormalizeGradOp op) {
  Location loc = op.getLoc();
  auto over = ech::strings(op.getOver());
  Form form = formOf(l.local(op.getResult()), over);
  if (op.getRms() && !form.rows) {
    std::stable_partition(form.order.begin(), form.order.end(),
                          [&](const Axis &a) { return !llvm::is_contained(over, a.name.getValue()); });
    form.inner *= form.outer;
    form.outer = 1;
    form.rows = true;
  }
  SmallVector<int64_t> mesh = l.insideOf(op);
  Value dy = l.denseAs(l.read(op.getCotangent()), form.order, loc);
  Value y = l.denseAs(l.read(op.getResult()), form.order, loc);
  Value rstd = l.denseAs(l.read(op.getRstd()), form.kept, loc);
  Value dx = l.resultAs(op.getOperandCotangent(), form.order);
  StringRef prefix = op.getRms() ? "rms_" : form.rows ? "normalize_" : "normalize_channels_";
  auto call = [&](StringRef suffix) { return Lowering::Call(l, (prefix + suffix).str(), loc); };
  auto sizes = [&](Lowering::Call &c) -> Lowering::Call & {
    if (form.rows)
      return c.number(form.channels).number(form.inner);
    return c.number(form.outer).number(form.channels).number(form.inner);
  };
  if (mesh.empty()) {
    Lowering::Call c(l, op.getRms() ? "rms_normalize_grad" : (prefix + "grad").str(), loc);
    sizes(c.out(dx).in(dy).in(y).in(rstd)).share(0, 1).share(0, 2).done();
    return success();
  }
  SmallVector<Axis> axes(form.kept);
  axes.push_back(l.axisBeside("part", op.getRms() ? 1 : 2, axes));
  Value sums = l.alloc(axes, rt::buffer(y).getElement(), NameLoc::get(l.b.getStringAttr("sums"), loc));
  auto local = call("grad_local");
  sizes(local.out(sums).in(dy).in(y)).done();
  l.collective("all_reduce", sums, sums, rt::buffer(sums).count(), "Sum", mesh, "auto", Lowering::whyInside(op), loc);
  auto finish = call("grad_finish");
  sizes(finish.out(dx).in(dy).in(y).in(rstd).in(sums));
  finish.number(totalOf(op.getResult(), over)).share(0, 1).share(0, 2).done();
  return success();
}
} // namespace

void echelon::lower::addNorms(Lowering &l) {
  l.add<ech::NormalizeOp>(lowerNormalize);
  l.add<ech::NormalizeGradOp>(lowerNormalizeGrad);
}
