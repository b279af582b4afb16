// Type inference and construction of ech operations.
#include "ir/ech/Build.h"

using namespace mlir;
using namespace echelon::ech;
using echelon::ech::Names;

//===- types ----------------------------------------------------------------------------------------------------===//

Tensor echelon::ech::without(Tensor type, StringRef axis) {
  SmallVector<Axis> axes;
  for (const Axis &a : type.getAxes())
    if (a.name != axis)
      axes.push_back(a);
  return type.withAxes(axes);
}

Tensor echelon::ech::stackedType(Tensor type, StringRef axis, int64_t size) {
  SmallVector<Axis> axes{{StringAttr::get(type.getContext(), axis), size}};
  llvm::append_range(axes, type.getAxes());
  return type.withAxes(axes);
}

SmallVector<StringRef> echelon::ech::strings(ArrayAttr names) {
  return llvm::map_to_vector(names, [](Attribute a) { return llvm::cast<StringAttr>(a).getValue(); });
}

namespace {
bool contains(Names list, StringRef name) { return llvm::is_contained(list, name); }

/// `type` without the axes in `over`.
Tensor reduced(Tensor type, Names over) {
  SmallVector<Axis> axes;
  for (const Axis &a : type.getAxes())
    if (!contains(over, a.name))
      axes.push_back(a);
  return type.withAxes(axes);
}

Tensor resized(Tensor type, StringRef axis, int64_t size) {
  SmallVector<Axis> axes(type.getAxes());
  for (Axis &a : axes)
    if (a.name == axis)
      a.size = size;
  return type.withAxes(axes);
}

/// Union of axes: those of the operand with most axes in its order, then what it lacks.
SmallVector<Axis> unionOf(ValueRange operands) {
  Tensor widest = tensor(operands.front());
  for (Value v : operands)
    if (tensor(v).rank() > widest.rank())
      widest = tensor(v);
  SmallVector<Axis> axes(widest.getAxes());
  for (Value v : operands)
    for (const Axis &a : tensor(v).getAxes())
      if (llvm::none_of(axes, [&](const Axis &b) { return a.name == b.name; }))
        axes.push_back(a);
  return axes;
}
} // namespace

ArrayAttr Build::names(Names list) { return builder.getStrArrayAttr(list); }

Tensor Build::type(ArrayRef<std::pair<StringRef, int64_t>> axes, Type element) {
  auto list = llvm::map_to_vector(axes, [&](auto &a) { return Axis{builder.getStringAttr(a.first), a.second}; });
  return Tensor::get(builder.getContext(), list, element);
}

//===- free values ------------------------------------------------------------------------------------------------===//

Value Build::constant(double value) { return constant(value, scalarType()); }
Value Build::constant(double value, Tensor type) {
  return ConstantOp::create(builder, loc, type, builder.getF64FloatAttr(value));
}
Value Build::count(Names over, Tensor of) {
  auto sizes = llvm::map_to_vector(over, [&](StringRef axis) { return of.sizeOf(axis); });
  return CountOp::create(builder, loc, scalarType(), names(over), sizes);
}
Value Build::scalar(StringRef name, int64_t line, double beta) {
  return ScalarOp::create(builder, loc, scalarType(), builder.getStringAttr(name), builder.getI64IntegerAttr(line),
                          builder.getF64FloatAttr(beta));
}
Value Build::index(StringRef axis, int64_t size) {
  return IndexOp::create(builder, loc, type({{axis, size}}, builder.getI32Type()), builder.getStringAttr(axis));
}
Value Build::position(StringRef axis) {
  return PositionOp::create(builder, loc, type({}, builder.getI32Type()), builder.getStringAttr(axis));
}
Value Build::random(Distribution kind, StringRef site, double a, double b, Tensor type) {
  return RandomOp::create(builder, loc, type, DistributionAttr::get(builder.getContext(), kind),
                          builder.getStringAttr(site), builder.getF64FloatAttr(a), builder.getF64FloatAttr(b));
}

//===- element-wise -----------------------------------------------------------------------------------------------===//

Value Build::cast(Value x, Type element) {
  if (tensor(x).getElement() == element)
    return x;
  return MapOp::create(builder, loc, tensor(x).withElement(element), Function::Cast, ValueRange{x});
}

Value Build::map(Function f, ValueRange operands) {
  SmallVector<Value> values(operands);
  auto castFrom = [&](unsigned first) { // integers and truth values become real where they meet real numbers
    bool real = llvm::any_of(ArrayRef(values).drop_front(first), [](Value v) { return tensor(v).isFloat(); });
    bool integer =
        llvm::any_of(ArrayRef(values).drop_front(first), [](Value v) { return tensor(v).getElement().isInteger(32); });
    for (Value &v : MutableArrayRef(values).drop_front(first))
      v = real ? toReal(v) : integer ? cast(v, builder.getI32Type()) : v;
  };
  Type element;
  switch (f) {
  case Function::Eq:
  case Function::Ne:
  case Function::Lt:
  case Function::Le:
  case Function::Gt:
  case Function::Ge:
    castFrom(0);
    [[fallthrough]];
  case Function::And:
  case Function::Or:
  case Function::Not:
    element = builder.getI1Type();
    break;
  case Function::Select:
    castFrom(1);
    element = tensor(values[1]).getElement();
    break;
  default:
    if (isOfReals(f)) {
      for (Value &v : values)
        v = toReal(v);
      element = real;
      break;
    }
    castFrom(0);
    element = tensor(values[0]).getElement();
  }
  Tensor result = Tensor::get(builder.getContext(), unionOf(values), element);
  return MapOp::create(builder, loc, result, f, values);
}

Value Build::expandTo(Value x, Tensor like) {
  bool all = llvm::all_of(like.getAxes(), [&](const Axis &a) { return tensor(x).has(a.name); });
  if (all)
    return x;
  SmallVector<Axis> axes(like.getAxes());
  for (const Axis &a : tensor(x).getAxes())
    if (!like.has(a.name))
      axes.push_back(a);
  return expand(x, tensor(x).withAxes(axes));
}
Value Build::expand(Value x, Tensor result) { return ExpandOp::create(builder, loc, result, x); }

Value Build::sumTo(Value x, Tensor like) {
  SmallVector<StringRef> over;
  for (const Axis &a : tensor(x).getAxes())
    if (!like.has(a.name))
      over.push_back(a.name);
  return over.empty() ? x : sum(x, over);
}

//===- contractions and reductions --------------------------------------------------------------------------------===//

Value Build::dot(Value a, Value b, Names over) {
  Tensor ta = tensor(a), tb = tensor(b);
  SmallVector<Axis> axes;
  auto take = [&](Tensor from, auto wanted) {
    for (const Axis &axis : from.getAxes())
      if (!contains(over, axis.name) && wanted(axis))
        axes.push_back(axis);
  };
  take(ta, [&](const Axis &axis) { return tb.has(axis.name); });
  take(ta, [&](const Axis &axis) { return !tb.has(axis.name); });
  take(tb, [&](const Axis &axis) { return !ta.has(axis.name); });
  return DotOp::create(builder, loc, ta.withAxes(axes), a, b, names(over));
}

Value Build::reduce(Reduction kind, Value x, Names over) {
  return ReduceOp::create(builder, loc, reduced(tensor(x), over), kind, x, names(over));
}
Value Build::mean(Value x, Names over) {
  Value number = count(over, tensor(x)); // first, whatever order a compiler gives arguments
  return div(sum(toReal(x), over), number);
}
Value Build::argmax(Value x, StringRef over) {
  Tensor result = reduced(tensor(x), over).withElement(builder.getI32Type());
  return ArgMaxOp::create(builder, loc, result, x, names(over));
}
Value Build::softmax(Value x, Names over) { return SoftmaxOp::create(builder, loc, tensor(x), x, names(over)); }
LogSumExpOp Build::logSumExp(Value x, Names over) {
  Tensor result = reduced(tensor(x), over);
  return LogSumExpOp::create(builder, loc, TypeRange{result, result, result}, ValueRange{x},
                             ArrayRef{builder.getNamedAttr("over", names(over))});
}
Value Build::logSoftmax(Value x, Names over) {
  LogSumExpOp of = logSumExp(x, over);
  return sub(sub(x, map(Function::StopGradient, {of.getShift()})), of.getLogSum());
}
CrossEntropyOp Build::crossEntropy(Value logits, Value labels, StringRef over) {
  Tensor result = reduced(tensor(logits), over);
  return CrossEntropyOp::create(builder, loc, TypeRange{result, result, result}, ValueRange{logits, labels},
                                ArrayRef{builder.getNamedAttr("over", names(over))});
}
NormalizeOp Build::normalize(Value x, Names over, bool rms) {
  Tensor statistic = reduced(tensor(x), over);
  SmallVector<NamedAttribute> attributes{builder.getNamedAttr("over", names(over))};
  if (rms)
    attributes.push_back(builder.getNamedAttr("rms", builder.getUnitAttr()));
  return NormalizeOp::create(builder, loc, TypeRange{tensor(x), statistic, statistic, statistic, statistic},
                             ValueRange{x}, attributes);
}
Value Build::normalizeGrad(Value dy, Value y, Value rstd, Names over, bool rms) {
  return NormalizeGradOp::create(builder, loc, tensor(y), dy, y, rstd, names(over),
                                 rms ? builder.getUnitAttr() : UnitAttr());
}
Value Build::cumsum(Value x, StringRef over, bool reverse) {
  return CumSumOp::create(builder, loc, tensor(x), x, names(over), reverse ? builder.getUnitAttr() : UnitAttr());
}
Value Build::top(Value x, StringRef over, StringRef into, int64_t k) {
  SmallVector<Axis> axes;
  for (const Axis &a : tensor(x).getAxes())
    axes.push_back(a.name == over ? Axis{builder.getStringAttr(into), k} : a);
  Tensor result = Tensor::get(builder.getContext(), axes, builder.getI32Type());
  return TopOp::create(builder, loc, result, x, names(over), builder.getStringAttr(into));
}
Value Build::globalNorm(ValueRange values) { return GlobalNormOp::create(builder, loc, scalarType(), values); }

//===- workers ----------------------------------------------------------------------------------------------------===//

Value Build::perWorker(Value x, StringRef axis, int64_t workers, bool isApart) {
  return PerWorkerOp::create(builder, loc, stackedType(tensor(x), axis, workers), x,
                             isApart ? builder.getUnitAttr() : UnitAttr());
}
Value Build::handIn(Value x, StringRef axis) {
  SmallVector<Axis> axes(tensor(x).getAxes());
  axes.front().name = builder.getStringAttr(axis);
  return HandInOp::create(builder, loc, tensor(x).withAxes(axes), x);
}
Value Build::orthogonalize(Value x, Names over, StringRef vectors) {
  return OrthogonalizeOp::create(builder, loc, tensor(x), x, names(over), builder.getStringAttr(vectors));
}

//===- places -----------------------------------------------------------------------------------------------------===//

Value Build::gather(Value table, Names axes, ValueRange indices) {
  SmallVector<Axis> result;
  auto add = [&](const Axis &a) {
    if (llvm::none_of(result, [&](const Axis &b) { return a.name == b.name; }))
      result.push_back(a);
  };
  for (Value index : indices)
    for (const Axis &a : tensor(index).getAxes())
      add(a);
  for (const Axis &a : tensor(table).getAxes())
    if (!contains(axes, a.name))
      add(a);
  return GatherOp::create(builder, loc, tensor(table).withAxes(result), table, indices, names(axes));
}
Value Build::scatterAdd(Value values, Names axes, ValueRange indices, Tensor table) {
  return ScatterAddOp::create(builder, loc, table, values, indices, names(axes));
}
Value Build::pick(Value x, StringRef axis, int64_t position) {
  return PickOp::create(builder, loc, without(tensor(x), axis), x, builder.getStringAttr(axis),
                        builder.getI64IntegerAttr(position));
}
Value Build::place(Value x, StringRef axis, int64_t position, Tensor result) {
  return PlaceOp::create(builder, loc, result, x, builder.getStringAttr(axis), builder.getI64IntegerAttr(position));
}
Value Build::slice(Value x, StringRef axis, int64_t start, int64_t size) {
  return SliceOp::create(builder, loc, resized(tensor(x), axis, size), x, builder.getStringAttr(axis),
                         builder.getI64IntegerAttr(start));
}
Value Build::pad(Value x, StringRef axis, int64_t start, Tensor result) {
  return PadOp::create(builder, loc, result, x, builder.getStringAttr(axis), builder.getI64IntegerAttr(start));
}

Value Build::relabel(Value x, Names from, ArrayRef<std::pair<StringRef, int64_t>> to) {
  SmallVector<Axis> axes;
  SmallVector<Attribute> target;
  for (const auto &[name, size] : to)
    target.push_back(builder.getStringAttr(name));
  for (const Axis &a : tensor(x).getAxes()) {
    if (a.name == from.front())
      for (const auto &[name, size] : to)
        axes.push_back({builder.getStringAttr(name), size});
    else if (!contains(from, a.name))
      axes.push_back(a);
  }
  return relabel(x, builder.getArrayAttr(names(from)), builder.getArrayAttr(builder.getArrayAttr(target)),
                 tensor(x).withAxes(axes));
}
Value Build::relabel(Value x, ArrayAttr from, ArrayAttr to, Tensor result) {
  return RelabelOp::create(builder, loc, result, x, from, to);
}

Value Build::concat(ValueRange values, StringRef axis) {
  int64_t size = 0;
  for (Value v : values)
    size += tensor(v).sizeOf(axis);
  return ConcatOp::create(builder, loc, resized(tensor(values[0]), axis, size), values, builder.getStringAttr(axis));
}

//===- windows and attention --------------------------------------------------------------------------------------===//

Value Build::conv(Value x, Value w, Names over, const Window &window) {
  Tensor tx = tensor(x), tw = tensor(w);
  SmallVector<Axis> axes, to;
  for (const Axis &a : tw.getAxes())
    if (!contains(over, a.name) && !contains(window.kernel, a.name))
      to.push_back(a);
  bool placed = false;
  auto placeTo = [&] {
    if (!placed)
      axes.append(to);
    placed = true;
  };
  for (const Axis &a : tx.getAxes()) {
    const auto *walked = llvm::find(window.window, a.name.getValue());
    if (contains(over, a.name)) {
      placeTo();
    } else if (walked != window.window.end()) {
      placeTo(); // a conv without summed axes has its new axes before the window
      size_t i = walked - window.window.begin();
      int64_t kernel = tw.sizeOf(window.kernel[i]);
      axes.push_back({a.name, (a.size + window.padLow[i] + window.padHigh[i] - kernel) / window.stride[i] + 1});
    } else {
      axes.push_back(a);
    }
  }
  placeTo();
  return ConvOp::create(builder, loc, tx.withAxes(axes), x, w, names(over), names(window.window), names(window.kernel),
                        builder.getDenseI64ArrayAttr(window.stride), builder.getDenseI64ArrayAttr(window.padLow),
                        builder.getDenseI64ArrayAttr(window.padHigh));
}
Value Build::convGradX(Value dy, Value w, Names over, const Window &window, Tensor x) {
  return ConvGradXOp::create(builder, loc, x, dy, w, names(over), names(window.window), names(window.kernel),
                             builder.getDenseI64ArrayAttr(window.stride), builder.getDenseI64ArrayAttr(window.padLow),
                             builder.getDenseI64ArrayAttr(window.padHigh));
}
Value Build::convGradW(Value dy, Value x, Names over, const Window &window, Tensor w) {
  return ConvGradWOp::create(builder, loc, w, dy, x, names(over), names(window.window), names(window.kernel),
                             builder.getDenseI64ArrayAttr(window.stride), builder.getDenseI64ArrayAttr(window.padLow),
                             builder.getDenseI64ArrayAttr(window.padHigh));
}
Value Build::pool(Pooling kind, Value x, Names window, ArrayRef<int64_t> size, ArrayRef<int64_t> stride,
                  ArrayRef<int64_t> pad) {
  SmallVector<Axis> axes;
  for (const Axis &a : tensor(x).getAxes()) {
    const auto *walked = llvm::find(window, a.name.getValue());
    size_t i = walked - window.begin();
    axes.push_back(walked == window.end() ? a : Axis{a.name, (a.size + 2 * pad[i] - size[i]) / stride[i] + 1});
  }
  return PoolOp::create(builder, loc, tensor(x).withAxes(axes), kind, x, names(window),
                        builder.getDenseI64ArrayAttr(size), builder.getDenseI64ArrayAttr(stride),
                        builder.getDenseI64ArrayAttr(pad));
}
AttentionOp Build::attention(Value q, Value k, Value v, Value mask, Value bias, StringRef query, StringRef past,
                             StringRef key, double scale, bool causal) {
  Tensor result = tensor(q), statistic = without(result, key);
  SmallVector<Axis> order(statistic.getAxes()); // as kernels leave it: a row for each head
  std::stable_partition(order.begin(), order.end(), [&](const Axis &a) { return a.name != query; });
  statistic = statistic.withAxes(order);
  return AttentionOp::create(builder, loc, result, statistic, statistic, q, k, v, mask, bias,
                             builder.getStringAttr(query), builder.getStringAttr(past), builder.getStringAttr(key),
                             builder.getF64FloatAttr(scale), causal ? builder.getUnitAttr() : UnitAttr());
}

//===- repeat -----------------------------------------------------------------------------------------------------===//

RepeatOp Build::repeat(StringRef axis, int64_t count, ValueRange carried, ValueRange slices, bool reverse, bool along,
                       std::function<Yields(ValueRange, ValueRange)> body) {
  // The body is built first, in a block of its own: the types of stacks and sums follow from what it yields.
  auto block = std::make_unique<Block>();
  for (Value v : carried)
    block->addArgument(v.getType(), v.getLoc());
  for (Value v : slices)
    block->addArgument(without(tensor(v), axis), v.getLoc());
  Yields yields;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(block.get());
    auto arguments = ValueRange(block->getArguments());
    yields = body(arguments.take_front(carried.size()), arguments.drop_front(carried.size()));
    builder.setInsertionPointToEnd(block.get());
    YieldOp::create(builder, loc, yields.carried, yields.stacked, yields.summed);
  }
  SmallVector<Type> stacks;
  for (Value v : yields.stacked)
    stacks.push_back(stackedType(tensor(v), axis, count));
  auto op = RepeatOp::create(builder, loc, axis, count, carried, slices, ValueRange(carried).getTypes(), stacks,
                             ValueRange(yields.summed).getTypes());
  op.getBody().push_back(block.release());
  if (reverse)
    op.setReverse(true);
  if (along)
    op.setAlong(true);
  return op;
}
