// Contractions and reductions over axes.
#include "frontend/elaborate/Reductions.h"
#include "frontend/elaborate/AxisRules.h"
#include "frontend/elaborate/Elaborator.h"
#include <limits>
#include <set>

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;
using ech::Function;

/// Whether a tensor of integers was made real numbers for the operation.
static bool isWhole(const Val &v) {
  auto cast = v.value.getDefiningOp<ech::MapOp>();
  return cast && cast.getFunction() == Function::Cast && ech::tensor(cast.getOperands()[0]).getElement().isInteger(32);
}

Val builtin::dot(Elaborator &elab, const CallExpr &call, const Args &args) {
  auto a = elab.read.realTensor(*args["a"], "dot"), b = elab.read.realTensor(*args["b"], "dot");
  if (!a || !b)
    return Val::poison();
  SmallVector<ech::Axis> both;
  for (const ech::Axis &axis : a->type().getAxes())
    if (b->type().has(axis.name))
      both.push_back(axis);
  auto over = elab.read.axes(args["over"], both, "`over`");
  if (!over)
    return Val::poison();
  for (auto [operand, which] : {std::pair(&*a, "first"), std::pair(&*b, "second")})
    for (StringAttr name : *over)
      if (!operand->type().has(name) && !elab.loops.isWalked(name)) {
        std::vector<std::string> common;
        for (const ech::Axis &axis : both)
          common.push_back(elab.scopes.written(axis.name));
        return elab.poison(Code::E0206, args["over"]->range,
                           std::string("the ") + which + " operand of dot has no axis " + elab.scopes.written(name) +
                               "; its axes are " + ech::describe(operand->type()) +
                               (isWhole(*a) || isWhole(*b) ? "; whole numbers look up in a table: TABLE[" +
                                                                 elab.scopes.written(name) + " = NUMBERS]"
                                : common.empty()           ? "; no axis is in both operands"
                                                           : "; both operands have " + listed(common)));
      }
  if (!requireAxes(elab, a->type(), *over, args["over"]->range, "the first operand of dot") ||
      !requireAxes(elab, b->type(), *over, args["over"]->range, "the second operand of dot") ||
      !requireEqualSizes(elab, a->type(), b->type(), call.range, "dot"))
    return Val::poison();
  Value product = elab.build.dot(a->value, b->value, refs(*over));
  elab.remembered.products[product.getDefiningOp()] = elab.scopes.usersPlace(call.range);
  return elab.tensor(product, a->made && b->made, call.range);
}

/// `where = mask`, which meets the value as in an element-wise operation; the value gets its axes, too. Null where all
/// counts; nothing after an error.
static std::optional<Value> maskOf(Elaborator &elab, const Expr &where, const Val &given, Val &x) {
  const char *wanted = "`where` is a mask of truth values; a comparison makes one";
  if (!given.isTensor()) {
    if (given.kind == Val::Truth)
      return given.truth ? Value() : elab.read.constant(given, false, where.range);
    elab.error(Code::E0207, where.range, wanted);
    return std::nullopt;
  }
  if (!given.type().getElement().isInteger(1)) {
    elab.error(Code::E0207, where.range, wanted);
    return std::nullopt;
  }
  if (!requireFit(elab, {x, given}, where.range, "where", false))
    return std::nullopt;
  x.value = elab.build.expandTo(x.value, given.type());
  x.made &= given.isMade();
  return given.value;
}

/// Functions that are rarely meant over all axes, the samples among them: they say which.
static bool runsAlongAxes(const std::string &name) {
  static const std::set<std::string> names{"softmax", "log_softmax", "logsumexp", "argmax", "cumsum"};
  return names.count(name) != 0;
}

/// What `over` could be, of a value with these axes; samples are not meant.
static std::string axesToRunAlong(Elaborator &elab, ech::Tensor type) {
  std::vector<std::string> could;
  for (const ech::Axis &axis : type.getAxes())
    if (!elab.countsSamples(axis.name))
      could.push_back("over = " + elab.scopes.written(axis.name));
  if (could.empty())
    return "and the value has no axis within a sample: its axes are " + ech::describe(type);
  return "as in " + listed(could, "or");
}

/// Where a mask is all false, 0. Axes that the mask lacks count whole.
static Value meanOf(ech::Build &build, Value x, Value mask, ArrayRef<StringRef> over) {
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
static Value extremeOf(Elaborator &elab, ech::Reduction kind, Value x, Value mask, ArrayRef<StringAttr> over) {
  SmallVector<StringAttr> ordered(over);
  auto order = [&](StringAttr axis) {
    const AxisInfo *info = elab.declared(axis);
    return info ? info->order : 0;
  };
  llvm::stable_sort(ordered, [&](StringAttr p, StringAttr q) { return order(p) > order(q); });
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Value zero, nothing;
  if (mask) {
    zero = elab.build.constant(0);
    nothing = elab.build.constant(kind == ech::Reduction::Min ? infinity : -infinity);
    x = elab.build.select(mask, x, nothing);
  }
  for (StringAttr axis : ordered)
    x = elab.build.reduce(kind, x, {axis.getValue()});
  return mask ? elab.build.select(elab.build.map(Function::Eq, {x, nothing}), zero, x) : x;
}

static bool neverEmpty(Value mask, ArrayRef<StringRef> over) {
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

/// Whether the mask allows something along the axes; null where it always does.
static Value allowsAny(ech::Build &build, Value mask, ArrayRef<StringRef> over) {
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
Value echelon::frontend::exponentialOf(ech::Build &build, const std::string &name, Value x, Value mask,
                                       ArrayRef<StringRef> over) {
  Value zero, any, y = x;
  if (mask) {
    zero = build.constant(0);
    Value low = build.constant(-std::numeric_limits<double>::infinity());
    any = allowsAny(build, mask, over);
    Value taken = any ? build.map(Function::Or, {mask, build.map(Function::Not, {any})}) : mask;
    y = build.select(taken, x, low);
  }
  Value result = name == "softmax"     ? build.softmax(y, over)
                 : name == "logsumexp" ? build.logSumExp(y, over).getResult()
                                       : build.logSoftmax(y, over);
  return any ? build.select(name == "softmax" ? mask : any, result, zero) : result;
}

/// Between which numbers running sums of n integers lie; nothing where the values are no integers, or a sum may leave
/// what an integer holds.
static std::optional<Interval> rangeOfRunningSum(const Val &x, int64_t n) {
  if (!x.isTensor() || !x.range || !x.type().getElement().isInteger(32))
    return std::nullopt;
  const Interval all{std::min(x.range->low, x.range->low * n), std::max(x.range->high, x.range->high * n)};
  constexpr int64_t limit = int64_t(1) << 31;
  return all.low >= -limit && all.high < limit ? std::optional(all) : std::nullopt;
}

Val builtin::reduction(Elaborator &elab, const CallExpr &call, const Args &args) {
  const std::string &name = call.callee.parts[0].text;
  Val raw = elab.eval(*args["x"]);
  Val where = args["where"] ? elab.eval(*args["where"]) : Val::truthOf(true);
  if (raw.isPoison() || where.isPoison())
    return Val::poison();
  SourceRange at = args["x"]->range;
  std::optional<Val> x;
  if (name == "sum" || name == "mean") { // of truth values: how many are true
    x = elab.read.anyTensor(raw, at);
    if (x)
      x = elab.tensor(elab.build.toReal(x->value), x->made, at);
  } else {
    x = elab.read.realTensor(raw, at, name.c_str());
  }
  if (!x)
    return Val::poison();
  std::optional<Value> mask = args["where"] ? maskOf(elab, *args["where"], where, *x) : Value();
  if (!mask)
    return Val::poison();
  if (!args["over"] && runsAlongAxes(name))
    return elab.poison(Code::E0119, call.range, name + " needs the argument over, " + axesToRunAlong(elab, x->type()));
  auto over = elab.read.axes(args["over"], x->type().getAxes(), "`over`");
  if (!over || !requireAxes(elab, x->type(), *over, args["over"] ? args["over"]->range : at, "the value"))
    return Val::poison();
  auto done = [&](Value v, std::optional<Interval> bounds = std::nullopt) {
    if (!args["over"])
      noteOverAll(elab, call, x->type(), v);
    return elab.tensor(v, x->made, call.range, bounds);
  };

  if (name == "argmax" || name == "cumsum") {
    if (over->size() != 1)
      return elab.poison(Code::E0225, args["over"] ? args["over"]->range : call.range,
                         name + " runs over one axis, and these are " + std::to_string(over->size()));
    if (name == "cumsum" && !requireOrder(elab, *over, args["over"] ? args["over"]->range : call.range, name))
      return Val::poison();
  }
  auto masked = [&](double otherwise) {
    return *mask ? elab.build.select(*mask, x->value, elab.build.constant(otherwise)) : x->value;
  };
  if (over->empty() && name != "softmax" && name != "log_softmax")
    return *mask ? done(masked(0)) : *x; // over no axes, each value is its own sum, mean and maximum
  auto names = refs(*over);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (name == "sum")
    return done(elab.build.sum(masked(0), names));
  if (name == "cumsum") {
    auto range = rangeOfRunningSum(raw, x->type().sizeOf(names[0]));
    if (!range)
      return done(elab.build.cumsum(masked(0), names[0]));
    Value whole = raw.value;
    if (*mask) {
      whole = elab.build.select(*mask, whole, elab.read.constant(Val::known(Number::whole(0)), true, at));
      range = Interval{std::min<int64_t>(0, range->low), std::max<int64_t>(0, range->high)};
    }
    return done(elab.build.cumsum(whole, names[0]), range);
  }
  if (name == "mean")
    return done(meanOf(elab.build, x->value, *mask, names));
  if (name == "argmax")
    return done(elab.build.argmax(masked(-infinity), names[0]), Interval{0, x->type().sizeOf(names[0]) - 1});
  if (name == "max" || name == "min")
    return done(extremeOf(elab, name == "max" ? ech::Reduction::Max : ech::Reduction::Min, x->value, *mask, *over));
  return done(exponentialOf(elab.build, name, x->value, *mask, names));
}

/// Axes of the logits that the labels have not, which few mean; and the product that left such an axis, though both its
/// operands have it.
static void warnOfFurtherAxes(Elaborator &elab, const Args &args, const Val &logits, const Val &labels,
                              const AxisInfo &classes) {
  std::vector<std::string> names;
  SmallVector<StringAttr> further;
  std::string added;
  int64_t predictions = 1;
  for (const ech::Axis &a : logits.type().getAxes())
    if (a.name != classes.name && !labels.type().has(a.name)) {
      further.push_back(a.name);
      names.push_back(elab.scopes.written(a.name));
      added += "[+ " + elab.scopes.written(a.name) + "]";
      predictions *= a.size;
    }
  if (further.empty())
    return;
  auto &d = elab.warning(Code::E0228, args["labels"]->range,
                         "the logits have the " + std::string(names.size() == 1 ? "axis " : "axes ") + listed(names) +
                             ", and the labels have not, so each label is held against " + std::to_string(predictions) +
                             " predictions; sum or average over " + listed(names) +
                             " before, or say that it is meant: labels" + added);
  SmallVector<Value> open{logits.value};
  llvm::DenseSet<Value> seen{logits.value};
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op)
      continue;
    if (auto place = elab.remembered.products.find(op); place != elab.remembered.products.end())
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

Val builtin::crossEntropy(Elaborator &elab, const CallExpr &call, const Args &args) {
  auto logits = elab.read.realTensor(*args["logits"], "cross_entropy");
  Val labels = elab.eval(*args["labels"]);
  if (!logits || labels.isPoison())
    return Val::poison();
  SourceRange labelRange = args["labels"]->range;
  const AxisInfo *axis = elab.read.axis(*args["over"], "`over`");
  if (axis && !logits->type().has(axis->name) && labels.isTensor() && labels.type().has(axis->name))
    return elab.poison(Code::E0206, args["logits"]->range,
                       "the first operand of cross_entropy, the logits, has no axis " +
                           elab.scopes.written(axis->name) +
                           ", and the second, the labels, has it; are they the wrong way round?");
  if (!axis ||
      !requireAxes(elab, logits->type(), {axis->name}, args["over"]->range, "the first operand of cross_entropy"))
    return Val::poison();
  auto l = elab.read.anyTensor(labels, labelRange);
  if (!l)
    return Val::poison();
  int64_t classes = logits->type().sizeOf(axis->name);
  bool distribution = l->type().has(axis->name);
  if (l->type().getElement().isInteger(1))
    return elab.poison(Code::E0216, labelRange, "labels are integers or a distribution, and these are truth values");
  if (!distribution && l->type().isFloat())
    return elab.poison(Code::E0216, labelRange,
                       "labels without the axis " + elab.scopes.written(axis->name) +
                           " are integers below its size, and these are real numbers; labels with the axis are a "
                           "distribution");
  if (!requireEqualSizes(elab, logits->type(), l->type(), call.range, "cross_entropy"))
    return Val::poison();
  for (const ech::Axis &a : l->type().getAxes())
    if (!logits->type().has(a.name))
      return elab.poison(Code::E0216, labelRange,
                         "the labels have the axis " + elab.scopes.written(a.name) +
                             ", and the logits do not: they have " + ech::describe(logits->type()));
  if (!distribution && (!l->range || l->range->low < 0 || l->range->high >= classes))
    return elab.poison(Code::E0216, labelRange,
                       !l->range
                           ? "these labels are not known to lie below " + elab.scopes.written(axis->name) + " = " +
                                 std::to_string(classes)
                           : "labels go up to " + std::to_string(l->range->high) + ", and " +
                                 elab.scopes.written(axis->name) + " has " + std::to_string(classes) + " classes");
  if (auto softmax = logits->value.getDefiningOp<ech::SoftmaxOp>())
    elab.warning(
        Code::E0227, args["logits"]->range,
        "cross_entropy takes the logits and makes probabilities of them itself; give it what goes into softmax");
  warnOfFurtherAxes(elab, args, *logits, *l, *axis);
  // Labels get exactly the logits' axes, with `over` or without it.
  Value target = distribution ? elab.build.toReal(l->value) : l->value;
  SmallVector<ech::Axis> wanted;
  for (const ech::Axis &a : logits->type().getAxes())
    if (distribution || a.name != axis->name)
      wanted.push_back(a);
  target = elab.build.expandTo(target, l->type().withAxes(wanted));
  return elab.tensor(elab.build.crossEntropy(logits->value, target, axis->name).getLoss(), false, call.range);
}

Val builtin::top(Elaborator &elab, const CallExpr &call, const Args &args) {
  auto x = elab.read.realTensor(*args["x"], "top");
  const AxisInfo *over = elab.read.axis(*args["over"], "`over`"), *into = elab.read.axis(*args["into"], "`into`");
  if (!x || !over || !into || !requireAxes(elab, x->type(), {over->name}, args["over"]->range, "the value") ||
      !requireOrder(elab, {over->name}, args["over"]->range, "top"))
    return Val::poison();
  if (into->countsSamples())
    return elab.poison(Code::E0219, args["into"]->range,
                       "the number of samples is the run's, so `into` is another axis, of k places");
  int64_t n = x->type().sizeOf(over->name);
  auto k = elab.read.whole(*args["k"], "k", 1, n);
  if (!k)
    return Val::poison();
  if (into->isWrong)
    return Val::poison();
  if (into->size != *k)
    return elab.poison(Code::E0204, args["into"]->range,
                       "k is " + std::to_string(*k) + ", and axis " + elab.scopes.written(into->name) + " has " +
                           std::to_string(into->size) + " places");
  if (into != over && x->type().has(into->name))
    return elab.poison(Code::E0203, args["into"]->range,
                       "the value has an axis " + elab.scopes.written(into->name) + " already");
  return elab.tensor(elab.build.top(x->value, over->name, into->name, *k), false, call.range, Interval{0, n - 1});
}
