// Convolution, pooling and concatenation: what gives resized axes.
#include "frontend/elaborate/AxisRules.h"
#include "frontend/elaborate/Elaborator.h"

using namespace mlir;
using namespace echelon::frontend;

Val builtin::conv(Elaborator &elab, const CallExpr &call, const Args &args) {
  auto x = elab.read.realTensor(*args["x"], "conv"), w = elab.read.realTensor(*args["w"], "conv");
  if (!x || !w)
    return Val::poison();
  if (!args["window"])
    return elab.poison(Code::E0119, call.range, "conv needs the argument window: the axes that the kernel walks along");
  auto window = elab.read.axes(args["window"], x->type().getAxes(), "`window`");
  if (!window || !requireAxes(elab, x->type(), *window, args["window"]->range, "the first operand of conv") ||
      !requireOrder(elab, *window, args["window"]->range, "a window"))
    return Val::poison();
  SmallVector<ech::Axis> both;
  for (const ech::Axis &a : x->type().getAxes())
    if (w->type().has(a.name))
      both.push_back(a);
  SmallVector<StringAttr> over;
  if (args["over"]) {
    auto list = elab.read.axes(args["over"], both, "`over`");
    if (!list || !requireAxes(elab, x->type(), *list, args["over"]->range, "the first operand of conv") ||
        !requireAxes(elab, w->type(), *list, args["over"]->range, "the second operand of conv"))
      return Val::poison();
    over = *list;
  }
  size_t n = window->size();
  if (n == 0 || n > 3)
    return elab.poison(Code::E0215, args["window"]->range, "a window runs over one, two or three axes");
  SmallVector<ech::Axis> own; // of w, without what is summed
  for (const ech::Axis &a : w->type().getAxes())
    if (!llvm::is_contained(over, a.name))
      own.push_back(a);
  if (own.size() < n)
    return elab.poison(Code::E0215, args["w"]->range,
                       "the kernel has " + std::to_string(own.size()) +
                           " axes besides `over`, and the window runs over " + std::to_string(n) +
                           "; its last axes are the kernel's sizes, in the window's order");
  ech::Build::Window shape;
  SmallVector<int64_t> kernel;
  for (size_t i = 0; i < n; ++i) {
    const ech::Axis &k = own[own.size() - n + i];
    // The last declared axes of w are the kernel's.
    if (w->type().getAxes()[w->type().rank() - static_cast<int64_t>(n) + i].name != k.name)
      return elab.poison(Code::E0215, args["w"]->range,
                         "the last axes of the kernel pair with the window, and one of them is in `over`");
    if (!requireOrder(elab, {k.name}, args["w"]->range, "a kernel"))
      return Val::poison();
    shape.window.push_back((*window)[i]);
    shape.kernel.push_back(k.name);
    kernel.push_back(k.size);
  }
  for (const ech::Axis &a : own)
    if (x->type().has(a.name))
      return elab.poison(Code::E0215, args["w"]->range,
                         "axis " + elab.scopes.written(a.name) +
                             " is in both operands of conv but not in `over`; conv sums over what "
                             "both have");
  for (StringAttr a : over)
    if (llvm::is_contained(*window, a))
      return elab.poison(Code::E0203, args["over"]->range,
                         "axis " + elab.scopes.written(a) + " is summed over and walked along");
  if (!requireEqualSizes(elab, x->type(), w->type(), call.range, "conv"))
    return Val::poison();
  auto stride = elab.read.numbers(args["stride"], n, 1, 1, "stride");
  if (!stride)
    return Val::poison();
  SmallVector<int64_t> pad;
  const auto *word = args["pad"] ? dynCast<PathExpr>(args["pad"]) : nullptr;
  Val padValue = word ? elab.eval(*word) : Val();
  if (!args["pad"] || padValue.kind == Val::Word) {
    for (size_t i = 0; i < n; ++i) {
      if (kernel[i] % 2 == 0)
        return elab.poison(Code::E0215, args["pad"] ? args["pad"]->range : call.range,
                           "`pad = same` pads (k - 1) / 2 on both sides, so k is odd, and " +
                               elab.scopes.written(own[own.size() - n + i].name) + " is " + std::to_string(kernel[i]) +
                               "; say pad as a number");
      pad.push_back((kernel[i] - 1) / 2);
    }
  } else {
    auto given = elab.read.numbers(args["pad"], n, 0, 0, "pad");
    if (!given)
      return Val::poison();
    pad = *given;
  }
  for (size_t i = 0; i < n; ++i) {
    int64_t size = x->type().sizeOf((*window)[i]);
    if (size + 2 * pad[i] < kernel[i])
      return elab.poison(Code::E0215, call.range,
                         "the kernel of " + std::to_string(kernel[i]) + " does not fit into " +
                             elab.scopes.written((*window)[i]) + " = " + std::to_string(size) + " with a padding of " +
                             std::to_string(pad[i]));
  }
  shape.stride = *stride;
  shape.padLow = pad;
  shape.padHigh = pad;
  return elab.tensor(elab.build.conv(x->value, w->value, refs(over), shape), false, call.range);
}

Val builtin::pool(Elaborator &elab, const CallExpr &call, const Args &args) {
  auto x = elab.read.realTensor(*args["x"], "pooling");
  if (!x)
    return Val::poison();
  auto window = elab.read.axes(args["window"], x->type().getAxes(), "`window`");
  if (!window || !requireAxes(elab, x->type(), *window, args["window"]->range, "the value") ||
      !requireOrder(elab, *window, args["window"]->range, "a window"))
    return Val::poison();
  size_t n = window->size();
  if (n == 0 || n > 3)
    return elab.poison(Code::E0215, args["window"]->range, "a window runs over one, two or three axes");
  auto size = elab.read.numbers(args["size"], n, 2, 1, "size");
  if (!size)
    return Val::poison();
  auto stride = args["stride"] ? elab.read.numbers(args["stride"], n, 1, 1, "stride") : size;
  auto pad = elab.read.numbers(args["pad"], n, 0, 0, "pad");
  if (!stride || !pad)
    return Val::poison();
  for (size_t i = 0; i < n; ++i) {
    int64_t have = x->type().sizeOf((*window)[i]);
    if (have + 2 * (*pad)[i] < (*size)[i])
      return elab.poison(Code::E0215, call.range,
                         "the window of " + std::to_string((*size)[i]) + " does not fit into " +
                             elab.scopes.written((*window)[i]) + " = " + std::to_string(have) + " with a padding of " +
                             std::to_string((*pad)[i]));
    if (2 * (*pad)[i] > (*size)[i])
      return elab.poison(Code::E0215, args["pad"]->range,
                         "a padding of more than half the window would make windows of padding alone");
  }
  auto kind = call.callee.parts[0].text == "maxpool" ? ech::Pooling::Max : ech::Pooling::Avg;
  return elab.tensor(elab.build.pool(kind, x->value, refs(*window), *size, *stride, *pad), x->made, call.range);
}

Val builtin::concat(Elaborator &elab, const CallExpr &call, const Args &args) {
  const AxisInfo *over = elab.read.axis(*args["over"], "`over`");
  std::vector<Val> values;
  bool good = over, real = false, made = true;
  std::optional<Interval> bounds;
  for (const Argument &a : call.arguments) {
    if (a.name && a.name->text == "over")
      continue;
    auto v = elab.read.anyTensor(elab.eval(*a.value), a.range);
    if (!v) {
      good = false;
      continue;
    }
    if (over && !requireAxes(elab, v->type(), {over->name}, a.range, "this operand of concat")) {
      good = false;
      continue;
    }
    real |= v->type().isFloat();
    made &= v->made;
    bounds = values.empty() ? v->range
             : bounds && v->range
                 ? std::optional(Interval{std::min(bounds->low, v->range->low), std::max(bounds->high, v->range->high)})
                 : std::nullopt;
    values.push_back(*v);
  }
  if (!good)
    return Val::poison();
  if (values.size() < 2)
    return elab.poison(Code::E0119, call.range, "concat joins two or more values along an axis");
  if (over->countsSamples())
    return elab.poison(Code::E0219, args["over"]->range,
                       "the number of samples is the run's, so nothing is added to them");
  int64_t total = 0;
  SmallVector<Value> operands;
  for (const Val &v : values) {
    auto first = ech::without(values[0].type(), over->name), own = ech::without(v.type(), over->name);
    bool same = first.rank() == own.rank() && llvm::all_of(own.getAxes(), [&](const ech::Axis &a) {
                  return first.has(a.name) && first.sizeOf(a.name) == a.size;
                });
    if (!same)
      return elab.poison(Code::E0204, call.range,
                         "operands of concat have the same axes but for " + elab.scopes.written(over->name) +
                             "; these have " + ech::describe(values[0].type()) + " and " + ech::describe(v.type()));
    if (v.type().getElement().isInteger(1) != values[0].type().getElement().isInteger(1))
      return elab.poison(Code::E0207, call.range, "concat meets truth values and numbers");
    total += v.type().sizeOf(over->name);
    // All in the first one's order of storage.
    Value value = real ? elab.build.toReal(v.value) : v.value;
    SmallVector<ech::Axis> order;
    for (const ech::Axis &a : values[0].type().getAxes())
      order.push_back({a.name, v.type().sizeOf(a.name)});
    auto type = ech::tensor(value).withAxes(order);
    if (type != ech::tensor(value))
      value = elab.build.relabel(value, elab.build.builder.getArrayAttr({}), elab.build.builder.getArrayAttr({}), type);
    operands.push_back(value);
  }
  if (total >= (int64_t(1) << 31))
    return elab.poison(Code::E0202, call.range,
                       "the joined axis has " + std::to_string(total) + " places; sizes lie below 2^31");
  return elab.tensor(elab.build.concat(operands, over->name), made, call.range, bounds);
}
