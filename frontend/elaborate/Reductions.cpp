// Contractions, reductions over axes, and statistics.
#include "frontend/elaborate/Lowering.h"
#include <limits>

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;
using ech::Function;

bool Lowering::sizesAgree(ech::Tensor a, ech::Tensor b, SourceRange range, const std::string &what) {
  for (const ech::Axis &axis : a.getAxes())
    if (b.has(axis.name) && b.sizeOf(axis.name) != axis.size) {
      error(Code::E0204, range,
            "sizes differ in " + what + ": " + written(axis.name) + " = " + std::to_string(axis.size) + " meets " +
                written(axis.name) + " = " + std::to_string(b.sizeOf(axis.name)));
      return false;
    }
  return true;
}

bool Lowering::has(ech::Tensor type, ArrayRef<StringAttr> names, SourceRange range, const std::string &what) {
  for (StringAttr name : names)
    if (!type.has(name)) {
      error(Code::E0206, range,
            what + " has no axis " + written(name) + "; its axes are " + ech::describe(type) +
                (isWalked(name) ? ", for the repeat is at one position of " + written(name) : ""));
      return false;
    }
  return true;
}

Val Lowering::dot(const CallExpr &e, const Args &args) {
  auto a = realTensor(*args["a"], "dot"), b = realTensor(*args["b"], "dot");
  if (!a || !b)
    return Val::poison();
  SmallVector<ech::Axis> both;
  for (const ech::Axis &axis : a->type().getAxes())
    if (b->type().has(axis.name))
      both.push_back(axis);
  auto over = axes(args["over"], both, "`over`");
  if (!over || !has(a->type(), *over, args["over"]->range, "the first operand of dot") ||
      !has(b->type(), *over, args["over"]->range, "the second operand of dot") ||
      !sizesAgree(a->type(), b->type(), e.range, "dot"))
    return Val::poison();
  return tensor(build.dot(a->value, b->value, refs(*over)), a->made && b->made, e.range);
}

Val Lowering::countCall(const CallExpr &e, const Args &args) {
  auto x = anyTensor(eval(*args["x"]), e.range);
  if (!x)
    return Val::poison();
  auto over = axes(args["over"], x->type().getAxes(), "`over`");
  if (!over || !has(x->type(), *over, e.range, "the value"))
    return Val::poison();
  return tensor(build.count(refs(*over), x->type()), true, e.range);
}

Val Lowering::reduction(const CallExpr &e, const Args &args) {
  const std::string &name = e.callee.parts[0].text;
  Val raw = eval(*args["x"]);
  Val maskRaw = args["where"] ? eval(*args["where"]) : Val::truthOf(true);
  if (raw.isPoison() || maskRaw.isPoison())
    return Val::poison();
  SourceRange at = args["x"]->range;
  bool countsTruth = name == "sum" || name == "mean";
  std::optional<Val> x;
  if (countsTruth) {
    x = anyTensor(raw, at);
    if (x)
      x = tensor(build.toReal(x->value), x->made, at);
  } else {
    x = realTensor(raw, at, name.c_str());
  }
  if (!x)
    return Val::poison();

  // `where = mask`: the mask meets the value as in an element-wise operation.
  std::optional<Val> mask;
  if (maskRaw.isTensor()) {
    if (!maskRaw.type().getElement().isInteger(1))
      return poison(Code::E0207, args["where"]->range, "`where` is a mask of truth values; a comparison makes one");
    mask = maskRaw;
    if (!axesFit({*x, *mask}, args["where"]->range, "where", false))
      return Val::poison();
    x->value = build.expandTo(x->value, mask->type());
  } else if (maskRaw.kind != Val::Truth) {
    return poison(Code::E0207, args["where"]->range, "`where` is a mask of truth values; a comparison makes one");
  } else if (!maskRaw.truth) {
    mask = tensor(constantLike(maskRaw, false), true, e.range);
  }
  auto over = axes(args["over"], x->type().getAxes(), "`over`");
  if (!over || !has(x->type(), *over, args["over"] ? args["over"]->range : at, "the value"))
    return Val::poison();
  bool made = x->made && (!mask || mask->made);
  auto done = [&](Value v, std::optional<Interval> bounds = std::nullopt) { return tensor(v, made, e.range, bounds); };

  if (name == "argmax" || name == "cumsum") {
    if (over->size() != 1)
      return poison(Code::E0225, args["over"] ? args["over"]->range : e.range,
                    name + " runs over one axis, and these are " + std::to_string(over->size()));
  }
  if (over->empty() && name != "softmax" && name != "log_softmax") {
    if (!mask)
      return *x; // over no axes, each value is its own sum, mean and maximum
    return done(build.select(mask->value, x->value, build.constant(0)));
  }
  auto names = refs(*over);
  Value zero = mask ? build.constant(0) : Value();

  if (name == "sum")
    return done(build.sum(mask ? build.select(mask->value, x->value, zero) : x->value, names));
  if (name == "cumsum")
    return done(build.cumsum(mask ? build.select(mask->value, x->value, zero) : x->value, names[0]));
  if (name == "mean") {
    if (!mask)
      return done(build.mean(x->value, names));
    // The number of samples that count, at least 1: an all-false mask gives 0. Axes that the mask lacks count whole.
    SmallVector<StringRef> of, others;
    for (StringRef axis : names)
      (mask->type().has(axis) ? of : others).push_back(axis);
    Value count = build.toReal(mask->value);
    if (!of.empty())
      count = build.sum(count, of);
    if (!others.empty())
      count = build.mul(count, build.count(others, x->type()));
    Value sum = build.sum(build.select(mask->value, x->value, zero), names);
    return done(build.div(sum, build.map(Function::Max, {count, build.constant(1)})));
  }

  constexpr double infinity = std::numeric_limits<double>::infinity();
  Value low = mask ? build.constant(name == "min" ? infinity : -infinity) : Value();
  if (name == "argmax") {
    Value y = mask ? build.select(mask->value, x->value, low) : x->value;
    return done(build.argmax(y, names[0]), Interval{0, x->type().sizeOf(names[0]) - 1});
  }
  if (name == "max" || name == "min") {
    auto kind = name == "max" ? ech::Reduction::Max : ech::Reduction::Min;
    Value y = mask ? build.select(mask->value, x->value, low) : x->value;
    // One axis at a time, from the last declared to the first, so that ties go to the lowest logical index.
    SmallVector<StringAttr> ordered(*over);
    auto order = [&](StringAttr axis) {
      for (const AxisInfo &info : axisStore)
        if (info.name == axis)
          return info.order;
      return 0u;
    };
    llvm::stable_sort(ordered, [&](StringAttr p, StringAttr q) { return order(p) > order(q); });
    for (StringAttr axis : ordered)
      y = build.reduce(kind, y, {axis.getValue()});
    if (mask)
      y = build.select(build.map(Function::Eq, {y, low}), zero, y);
    return done(y);
  }

  // softmax, log_softmax, logsumexp. Where a mask allows nothing the scores are taken as they are and the result is
  // replaced by 0, so that no derivative meets infinity minus infinity.
  Value y = x->value, any;
  if (mask) {
    if (!neverEmpty(mask->value, names)) {
      SmallVector<StringRef> of;
      for (StringRef axis : names)
        if (mask->type().has(axis))
          of.push_back(axis);
      Value count = build.toReal(mask->value);
      if (!of.empty())
        count = build.sum(count, of);
      any = build.map(Function::Gt, {count, zero});
    }
    Value allowed = any ? build.map(Function::Or, {mask->value, build.map(Function::Not, {any})}) : mask->value;
    y = build.select(allowed, y, low);
  }
  if (name == "logsumexp") {
    Value r = build.logSumExp(y, names);
    return done(any ? build.select(any, r, zero) : r);
  }
  if (name == "softmax") {
    Value r = build.softmax(y, names);
    return done(any ? build.select(mask->value, r, zero) : r);
  }
  Value r = build.sub(y, build.logSumExp(y, names));
  return done(any ? build.select(any, r, zero) : r);
}

bool Lowering::neverEmpty(Value mask, ArrayRef<StringRef> over) const {
  // index(a) >= index(b), over b: position 0 of b is always allowed. The causal mask.
  auto compare = mask.getDefiningOp<ech::MapOp>();
  if (!compare || over.size() != 1)
    return false;
  Value later, earlier;
  if (compare.getFunction() == Function::Ge) {
    later = compare.getOperands()[0];
    earlier = compare.getOperands()[1];
  } else if (compare.getFunction() == Function::Le) {
    later = compare.getOperands()[1];
    earlier = compare.getOperands()[0];
  } else {
    return false;
  }
  auto a = later.getDefiningOp<ech::IndexOp>(), b = earlier.getDefiningOp<ech::IndexOp>();
  return a && b && b.getAxis() == over[0] && a.getAxis() != over[0];
}

Val Lowering::crossEntropy(const CallExpr &e, const Args &args) {
  auto logits = realTensor(*args["logits"], "cross_entropy");
  Val labels = eval(*args["labels"]);
  if (!logits || labels.isPoison())
    return Val::poison();
  SourceRange labelRange = args["labels"]->range;
  const AxisInfo *axis = axisOf(*args["over"], "`over`");
  if (!axis || !has(logits->type(), {axis->name}, args["over"]->range, "the first operand of cross_entropy"))
    return Val::poison();
  auto l = anyTensor(labels, labelRange);
  if (!l)
    return Val::poison();
  int64_t classes = logits->type().sizeOf(axis->name);
  bool distribution = l->type().has(axis->name);
  if (l->type().getElement().isInteger(1))
    return poison(Code::E0216, labelRange, "labels are integers or a distribution, and these are truth values");
  if (!distribution && l->type().isFloat())
    return poison(Code::E0216, labelRange,
                  "labels without the axis " + written(axis->name) +
                      " are integers below its size, and these are real numbers; labels with the axis are a "
                      "distribution");
  if (!sizesAgree(logits->type(), l->type(), e.range, "cross_entropy"))
    return Val::poison();
  for (const ech::Axis &a : l->type().getAxes())
    if (!logits->type().has(a.name))
      return poison(Code::E0216, labelRange,
                    "the labels have the axis " + written(a.name) + ", and the logits do not: they have " +
                        ech::describe(logits->type()));
  if (!distribution && (!l->range || l->range->low < 0 || l->range->high >= classes))
    return poison(Code::E0216, labelRange,
                  !l->range ? "these labels are not known to lie below " + written(axis->name) + " = " +
                                  std::to_string(classes)
                            : "labels go up to " + std::to_string(l->range->high) + ", and " + written(axis->name) +
                                  " has " + std::to_string(classes) + " classes");
  // Labels get exactly the logits' axes, with `over` or without it.
  Value target = distribution ? build.toReal(l->value) : l->value;
  SmallVector<ech::Axis> wanted;
  for (const ech::Axis &a : logits->type().getAxes())
    if (distribution || a.name != axis->name)
      wanted.push_back(a);
  target = build.expandTo(target, l->type().withAxes(wanted));
  return tensor(build.crossEntropy(logits->value, target, axis->name).getLoss(), false, e.range);
}

Val Lowering::top(const CallExpr &e, const Args &args) {
  auto x = realTensor(*args["x"], "top");
  const AxisInfo *over = axisOf(*args["over"], "`over`"), *into = axisOf(*args["into"], "`into`");
  if (!x || !over || !into || !has(x->type(), {over->name}, args["over"]->range, "the value"))
    return Val::poison();
  int64_t n = x->type().sizeOf(over->name);
  auto k = whole(*args["k"], "k", 1, n);
  if (!k)
    return Val::poison();
  if (into->size != *k)
    return poison(Code::E0204, args["into"]->range,
                  "k is " + std::to_string(*k) + ", and axis " + written(into->name) + " has " +
                      std::to_string(into->size) + " places");
  if (into != over && x->type().has(into->name))
    return poison(Code::E0203, args["into"]->range, "the value has an axis " + written(into->name) + " already");
  return tensor(build.top(x->value, over->name, into->name, *k), false, e.range, Interval{0, n - 1});
}

Val Lowering::normalize(const CallExpr &e, const Args &args) {
  const std::string &name = e.callee.parts[0].text;
  auto x = realTensor(*args["x"], "normalize");
  if (!x)
    return Val::poison();
  auto over = axes(args["over"], x->type().getAxes(), "`over`");
  auto rms = flag(args["rms"], false, "rms"), local = flag(args["local"], false, "local");
  if (!over || !rms || !local || !has(x->type(), *over, args["over"]->range, "the value"))
    return Val::poison();
  if (over->empty())
    return poison(Code::E0225, args["over"]->range, "statistics are taken over at least one axis");
  // Asked for several results of the same statistics, one operation gives them.
  std::string key = (*rms ? "rms" : "") + std::string(*local ? " local" : "");
  for (StringAttr axis : *over)
    key += " " + axis.str();
  ech::NormalizeOp &op = normalized[{x->value.getAsOpaquePointer(), builder.getInsertionBlock(), key}];
  if (!op) {
    op = build.normalize(x->value, refs(*over), *rms);
    if (*local)
      op->setAttr(ech::kLocal, builder.getUnitAttr());
  }
  Value v = name == "normalize" ? op.getResult() : name == "normalize_mean" ? op.getMean() : op.getVariance();
  return tensor(v, false, e.range);
}
