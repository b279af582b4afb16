// Contractions, reductions over axes, and statistics.
#include "frontend/elaborate/Elaborator.h"
#include <limits>
#include <set>

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;
using ech::Function;

bool Elaborator::sizesAgree(ech::Tensor a, ech::Tensor b, SourceRange range, const std::string &what) {
  for (const ech::Axis &axis : a.getAxes())
    if (b.has(axis.name) && b.sizeOf(axis.name) != axis.size) {
      error(Code::E0204, range,
            "sizes differ in " + what + ": " + written(axis.name) + " = " + std::to_string(axis.size) + " meets " +
                written(axis.name) + " = " + std::to_string(b.sizeOf(axis.name)));
      return false;
    }
  return true;
}

bool Elaborator::has(ech::Tensor type, ArrayRef<StringAttr> names, SourceRange range, const std::string &what) {
  for (StringAttr name : names)
    if (!type.has(name)) {
      error(Code::E0206, range,
            what + " has no axis " + written(name) + "; its axes are " + ech::describe(type) +
                (isWalked(name) ? ", for the repeat is at one position of " + written(name) : ""));
      return false;
    }
  return true;
}

/// Whether a tensor of integers was made real numbers for the operation.
static bool isWhole(const Val &v) {
  auto cast = v.value.getDefiningOp<ech::MapOp>();
  return cast && cast.getFunction() == Function::Cast && ech::tensor(cast.getOperands()[0]).getElement().isInteger(32);
}

Val Elaborator::dot(const CallExpr &e, const Args &args) {
  auto a = realTensor(*args["a"], "dot"), b = realTensor(*args["b"], "dot");
  if (!a || !b)
    return Val::poison();
  SmallVector<ech::Axis> both;
  for (const ech::Axis &axis : a->type().getAxes())
    if (b->type().has(axis.name))
      both.push_back(axis);
  auto over = axes(args["over"], both, "`over`");
  if (!over)
    return Val::poison();
  for (auto [operand, which] : {std::pair(&*a, "first"), std::pair(&*b, "second")})
    for (StringAttr name : *over)
      if (!operand->type().has(name) && !isWalked(name)) {
        std::vector<std::string> common;
        for (const ech::Axis &axis : both)
          common.push_back(written(axis.name));
        return poison(Code::E0206, args["over"]->range,
                      std::string("the ") + which + " operand of dot has no axis " + written(name) + "; its axes are " +
                          ech::describe(operand->type()) +
                          (isWhole(*a) || isWhole(*b)
                               ? "; whole numbers look up in a table: TABLE[" + written(name) + " = NUMBERS]"
                           : common.empty() ? "; no axis is in both operands"
                                            : "; both operands have " + listed(common)));
      }
  if (!has(a->type(), *over, args["over"]->range, "the first operand of dot") ||
      !has(b->type(), *over, args["over"]->range, "the second operand of dot") ||
      !sizesAgree(a->type(), b->type(), e.range, "dot"))
    return Val::poison();
  Value product = build.dot(a->value, b->value, refs(*over));
  dots[product.getDefiningOp()] = usersPlace(e.range);
  return tensor(product, a->made && b->made, e.range);
}

Val Elaborator::countCall(const CallExpr &e, const Args &args) {
  auto x = anyTensor(eval(*args["x"]), e.range);
  if (!x)
    return Val::poison();
  auto over = axes(args["over"], x->type().getAxes(), "`over`");
  auto local = flag(args["local"], false, "local");
  if (!over || !local || !has(x->type(), *over, e.range, "the value"))
    return Val::poison();
  Value count = build.count(refs(*over), x->type());
  if (!args["over"])
    noteOverAll(e, x->type(), count);
  if (*local)
    count.getDefiningOp()->setAttr(ech::kLocal, builder.getUnitAttr());
  return tensor(count, true, e.range);
}

/// `where = mask`, which meets the value as in an element-wise operation; the value gets its axes, too. Null where all
/// counts; nothing after an error.
std::optional<Value> Elaborator::maskOf(const Expr &where, const Val &given, Val &x) {
  const char *wanted = "`where` is a mask of truth values; a comparison makes one";
  if (!given.isTensor()) {
    if (given.kind == Val::Truth)
      return given.truth ? Value() : constantLike(given, false, where.range);
    error(Code::E0207, where.range, wanted);
    return std::nullopt;
  }
  if (!given.type().getElement().isInteger(1)) {
    error(Code::E0207, where.range, wanted);
    return std::nullopt;
  }
  if (!axesFit({x, given}, where.range, "where", false))
    return std::nullopt;
  x.value = build.expandTo(x.value, given.type());
  x.made &= given.isMade();
  return given.value;
}

/// Functions that are rarely meant over all axes, the samples among them: they say which.
static bool runsAlongAxes(const std::string &name) {
  static const std::set<std::string> names{"softmax", "log_softmax", "logsumexp", "argmax", "cumsum"};
  return names.count(name) != 0;
}

/// What `over` could be, of a value with these axes; samples are not meant.
std::string Elaborator::axesToRunAlong(ech::Tensor type) {
  std::vector<std::string> could;
  for (const ech::Axis &axis : type.getAxes())
    if (!isOfSamples(axis.name))
      could.push_back("over = " + written(axis.name));
  if (could.empty())
    return "and the value has no axis within a sample: its axes are " + ech::describe(type);
  return "as in " + listed(could, "or");
}

Val Elaborator::reduction(const CallExpr &e, const Args &args) {
  const std::string &name = e.callee.parts[0].text;
  Val raw = eval(*args["x"]);
  Val where = args["where"] ? eval(*args["where"]) : Val::truthOf(true);
  if (raw.isPoison() || where.isPoison())
    return Val::poison();
  SourceRange at = args["x"]->range;
  std::optional<Val> x;
  if (name == "sum" || name == "mean") { // of truth values: how many are true
    x = anyTensor(raw, at);
    if (x)
      x = tensor(build.toReal(x->value), x->made, at);
  } else {
    x = realTensor(raw, at, name.c_str());
  }
  if (!x)
    return Val::poison();
  std::optional<Value> mask = args["where"] ? maskOf(*args["where"], where, *x) : Value();
  if (!mask)
    return Val::poison();
  if (!args["over"] && runsAlongAxes(name))
    return poison(Code::E0119, e.range, name + " needs the argument over, " + axesToRunAlong(x->type()));
  auto over = axes(args["over"], x->type().getAxes(), "`over`");
  if (!over || !has(x->type(), *over, args["over"] ? args["over"]->range : at, "the value"))
    return Val::poison();
  auto done = [&](Value v, std::optional<Interval> bounds = std::nullopt) {
    if (!args["over"])
      noteOverAll(e, x->type(), v);
    return tensor(v, x->made, e.range, bounds);
  };

  if (name == "argmax" || name == "cumsum") {
    if (over->size() != 1)
      return poison(Code::E0225, args["over"] ? args["over"]->range : e.range,
                    name + " runs over one axis, and these are " + std::to_string(over->size()));
    if (name == "cumsum" && !haveOrder(*over, args["over"] ? args["over"]->range : e.range, name))
      return Val::poison();
  }
  auto masked = [&](double otherwise) {
    return *mask ? build.select(*mask, x->value, build.constant(otherwise)) : x->value;
  };
  if (over->empty() && name != "softmax" && name != "log_softmax")
    return *mask ? done(masked(0)) : *x; // over no axes, each value is its own sum, mean and maximum
  auto names = refs(*over);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (name == "sum")
    return done(build.sum(masked(0), names));
  if (name == "cumsum")
    return done(build.cumsum(masked(0), names[0]));
  if (name == "mean")
    return done(meanOf(x->value, *mask, names));
  if (name == "argmax")
    return done(build.argmax(masked(-infinity), names[0]), Interval{0, x->type().sizeOf(names[0]) - 1});
  if (name == "max" || name == "min")
    return done(extremeOf(name == "max" ? ech::Reduction::Max : ech::Reduction::Min, x->value, *mask, *over));
  return done(exponentialOf(name, x->value, *mask, names));
}

/// Where a mask is all false, 0. Axes that the mask lacks count whole.
Value Elaborator::meanOf(Value x, Value mask, ArrayRef<StringRef> over) {
  if (!mask)
    return build.mean(x, over);
  SmallVector<StringRef> of, others;
  for (StringRef axis : over)
    (ech::tensor(mask).has(axis) ? of : others).push_back(axis);
  Value count = build.toReal(mask);
  if (!of.empty())
    count = build.sum(count, of);
  if (!others.empty())
    count = build.mul(count, build.count(others, ech::tensor(x)));
  Value sum = build.sum(build.select(mask, x, build.constant(0)), over);
  return build.div(sum, build.map(Function::Max, {count, build.constant(1)}));
}

/// One axis at a time, from the last declared to the first, so that ties go to the lowest logical index. Where a mask
/// is all false, 0.
Value Elaborator::extremeOf(ech::Reduction kind, Value x, Value mask, ArrayRef<StringAttr> over) {
  SmallVector<StringAttr> ordered(over);
  auto order = [&](StringAttr axis) {
    for (const AxisInfo &info : axisStore)
      if (info.name == axis)
        return info.order;
    return 0u;
  };
  llvm::stable_sort(ordered, [&](StringAttr p, StringAttr q) { return order(p) > order(q); });
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Value zero, nothing;
  if (mask) {
    zero = build.constant(0);
    nothing = build.constant(kind == ech::Reduction::Min ? infinity : -infinity);
    x = build.select(mask, x, nothing);
  }
  for (StringAttr axis : ordered)
    x = build.reduce(kind, x, {axis.getValue()});
  return mask ? build.select(build.map(Function::Eq, {x, nothing}), zero, x) : x;
}

/// Whether the mask allows something along the axes; null where it always does.
Value Elaborator::allowsAny(Value mask, ArrayRef<StringRef> over) {
  if (neverEmpty(mask, over))
    return {};
  SmallVector<StringRef> of;
  for (StringRef axis : over)
    if (ech::tensor(mask).has(axis))
      of.push_back(axis);
  Value count = build.toReal(mask);
  if (!of.empty())
    count = build.sum(count, of);
  return build.map(Function::Gt, {count, build.constant(0)});
}

/// softmax, log_softmax, logsumexp. Where a mask allows nothing the scores are taken as they are and the result is
/// replaced by 0, so that no derivative meets infinity minus infinity.
Value Elaborator::exponentialOf(const std::string &name, Value x, Value mask, ArrayRef<StringRef> over) {
  Value zero, any, y = x;
  if (mask) {
    zero = build.constant(0);
    Value low = build.constant(-std::numeric_limits<double>::infinity());
    any = allowsAny(mask, over);
    Value taken = any ? build.map(Function::Or, {mask, build.map(Function::Not, {any})}) : mask;
    y = build.select(taken, x, low);
  }
  Value result = name == "softmax"     ? build.softmax(y, over)
                 : name == "logsumexp" ? build.logSumExp(y, over).getResult()
                                       : build.logSoftmax(y, over);
  return any ? build.select(name == "softmax" ? mask : any, result, zero) : result;
}

bool Elaborator::neverEmpty(Value mask, ArrayRef<StringRef> over) const {
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

/// Axes of the logits that the labels have not, which few mean; and the product that left such an axis, though both its
/// operands have it.
void Elaborator::warnOfFurtherAxes(const CallExpr &e, const Args &args, const Val &logits, const Val &labels,
                                   const AxisInfo &classes) {
  std::vector<std::string> names;
  SmallVector<StringAttr> further;
  std::string added;
  int64_t predictions = 1;
  for (const ech::Axis &a : logits.type().getAxes())
    if (a.name != classes.name && !labels.type().has(a.name)) {
      further.push_back(a.name);
      names.push_back(written(a.name));
      added += "[+ " + written(a.name) + "]";
      predictions *= a.size;
    }
  if (further.empty())
    return;
  auto &d = shared.diagnostics.warning(Code::E0228, usersPlace(args["labels"]->range),
                                       "the logits have the " + std::string(names.size() == 1 ? "axis " : "axes ") +
                                           listed(names) + ", and the labels have not, so each label is held against " +
                                           std::to_string(predictions) + " predictions; sum or average over " +
                                           listed(names) + " before, or say that it is meant: labels" + added);
  SmallVector<Value> open{logits.value};
  llvm::DenseSet<Value> seen{logits.value};
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op)
      continue;
    if (auto place = dots.find(op); place != dots.end())
      for (auto [axis, name] : llvm::zip(further, names))
        if (ech::tensor(op->getOperand(0)).has(axis) && ech::tensor(op->getOperand(1)).has(axis)) {
          d.note(place->second, "both operands have " + name + " here, and `over` leaves it");
          return;
        }
    for (Value operand : op->getOperands())
      if (seen.insert(operand).second)
        open.push_back(operand);
  }
}

Val Elaborator::crossEntropy(const CallExpr &e, const Args &args) {
  auto logits = realTensor(*args["logits"], "cross_entropy");
  Val labels = eval(*args["labels"]);
  if (!logits || labels.isPoison())
    return Val::poison();
  SourceRange labelRange = args["labels"]->range;
  const AxisInfo *axis = axisOf(*args["over"], "`over`");
  if (axis && !logits->type().has(axis->name) && labels.isTensor() && labels.type().has(axis->name))
    return poison(Code::E0206, args["logits"]->range,
                  "the first operand of cross_entropy, the logits, has no axis " + written(axis->name) +
                      ", and the second, the labels, has it; are they the wrong way round?");
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
  if (auto softmax = logits->value.getDefiningOp<ech::SoftmaxOp>())
    shared.diagnostics.warning(
        Code::E0227, usersPlace(args["logits"]->range),
        "cross_entropy takes the logits and makes probabilities of them itself; give it what goes into softmax");
  warnOfFurtherAxes(e, args, *logits, *l, *axis);
  // Labels get exactly the logits' axes, with `over` or without it.
  Value target = distribution ? build.toReal(l->value) : l->value;
  SmallVector<ech::Axis> wanted;
  for (const ech::Axis &a : logits->type().getAxes())
    if (distribution || a.name != axis->name)
      wanted.push_back(a);
  target = build.expandTo(target, l->type().withAxes(wanted));
  return tensor(build.crossEntropy(logits->value, target, axis->name).getLoss(), false, e.range);
}

Val Elaborator::top(const CallExpr &e, const Args &args) {
  auto x = realTensor(*args["x"], "top");
  const AxisInfo *over = axisOf(*args["over"], "`over`"), *into = axisOf(*args["into"], "`into`");
  if (!x || !over || !into || !has(x->type(), {over->name}, args["over"]->range, "the value"))
    return Val::poison();
  int64_t n = x->type().sizeOf(over->name);
  auto k = whole(*args["k"], "k", 1, n);
  if (!k)
    return Val::poison();
  if (into->isWrong)
    return Val::poison();
  if (into->size != *k)
    return poison(Code::E0204, args["into"]->range,
                  "k is " + std::to_string(*k) + ", and axis " + written(into->name) + " has " +
                      std::to_string(into->size) + " places");
  if (into != over && x->type().has(into->name))
    return poison(Code::E0203, args["into"]->range, "the value has an axis " + written(into->name) + " already");
  return tensor(build.top(x->value, over->name, into->name, *k), false, e.range, Interval{0, n - 1});
}

Val Elaborator::normalize(const CallExpr &e, const Args &args) {
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
