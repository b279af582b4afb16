// Buffers and calls: what all rules of the lowering use.
#include "passes/lower/Lowering.h"
#include "passes/lower/Places.h"
#include <set>

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

Lowering::Lowering(ModuleOp module, MeshAttr mesh)
    : b(module.getContext()), mesh(mesh), module(module), symbols(module) {
  addStructure(*this);
  addRepeats(*this);
  addTurns(*this);
  addLoops(*this);
  addContractions(*this);
  addReductions(*this);
  addPartials(*this);
  addNorms(*this);
  addViews(*this);
  addIndexing(*this);
  addWindows(*this);
  addAttention(*this);
  addMessages(*this);
}

LogicalResult Lowering::refuse(Operation *op, const Twine &what) {
  return op->emitError() << "internal error, please report: " << op->getName() << " " << what;
}

LogicalResult Lowering::lower(Operation *op) {
  auto rule = rules.find(op->getName().getStringRef());
  if (rule == rules.end())
    return refuse(op, "has no lowering");
  auto phase = op->getAttr(ech::kPhase);
  Marking marking(*this, dist::placeOf(op));
  Operation *last = b.getInsertionBlock()->empty() ? nullptr : &b.getInsertionBlock()->back();
  if (failed(rule->second(*this, op)))
    return failure();
  for (Operation *made = last ? last->getNextNode() : &b.getInsertionBlock()->front(); made && phase;
       made = made->getNextNode())
    if (!made->hasAttr(ech::kPhase))
      made->setAttr(ech::kPhase, phase);
  return success();
}

//===- types and places -------------------------------------------------------------------------------------------===//

Lowering::Terms Lowering::termsOf(Tensor type, StringRef axis) {
  Terms terms;
  if (!mesh || !type.getState() || !type.has(axis))
    return terms;
  int64_t factor = dist::localSize(type, axis, mesh);
  SmallVector<int> cuts = dist::over(type, axis, mesh);
  for (int m : llvm::reverse(cuts)) {
    terms.mesh.insert(terms.mesh.begin(), m);
    terms.factors.insert(terms.factors.begin(), factor);
    factor *= mesh.sizeOf(m);
  }
  if (!cuts.empty())
    terms.of = rt::SizeAttr::get(
        b.getContext(), ech::Axis{b.getStringAttr(axis), static_cast<int64_t>(dist::localSize(type, axis, mesh))});
  return terms;
}

Value Lowering::offset(const Terms &terms, int64_t plus, const Twine &name) {
  plus += terms.plus;
  std::string key = std::to_string(plus);
  for (auto [m, f] : llvm::zip(terms.mesh, terms.factors))
    key += " " + std::to_string(m) + "*" + std::to_string(f);
  SmallVector<int64_t> table, sizes;
  if (!terms.table.empty())
    for (int64_t m : terms.mesh) {
      sizes.push_back(mesh.sizeOf(m));
      key += " " + std::to_string(m);
    }
  for (int64_t number : terms.table) {
    table.push_back(number + plus);
    key += " " + std::to_string(number);
  }
  if (terms.of)
    key += " " + terms.of.getAxes()[0].name.str();
  Value &known = offsets[key];
  if (!known) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function.getBody().front());
    auto place = NameLoc::get(b.getStringAttr(name));
    auto listed = [&](ArrayRef<int64_t> list) { return list.empty() ? DenseI64ArrayAttr() : this->list(list); };
    known = rt::OffsetOp::create(b, place, b.getIndexType(), list(terms.mesh), list(terms.factors),
                                 b.getI64IntegerAttr(table.empty() ? plus : 0), terms.of, listed(table), listed(sizes),
                                 Value(), Value(), IntegerAttr());
  }
  return known;
}

//===- segments ---------------------------------------------------------------------------------------------------===//

namespace {
/// Visits all coordinates over the mesh axes of these, the last fastest; `at` has one for each axis of the mesh.
void forAll(ArrayRef<dist::Divider> dividers, SmallVector<int64_t> &at, function_ref<void()> visit) {
  if (dividers.empty())
    return visit();
  for (int64_t &c = at[dividers.front().mesh] = 0; c < dividers.front().size; ++c)
    forAll(dividers.drop_front(), at, visit);
  at[dividers.front().mesh] = 0;
}

/// The logical position of a local one.
int64_t positionIn(const std::vector<dist::Interval> &runs, int64_t local) {
  for (const dist::Interval &run : runs) {
    if (local < run.end - run.begin)
      return run.begin + local;
    local -= run.end - run.begin;
  }
  llvm_unreachable("a rank holds all that it stores");
}
} // namespace

SmallVector<Lowering::Segment> Lowering::segments(int64_t size, ArrayRef<dist::Divider> dividers, StringRef name,
                                                  StringAttr axis) {
  SmallVector<int64_t> at(mesh ? mesh.size() : 0, 0);
  std::vector<std::vector<dist::Interval>> held; // by coordinates
  std::set<int64_t> starts;                      // of runs, on some rank
  int64_t stored = size;
  for (const dist::Divider &divider : dividers)
    stored /= divider.size;
  forAll(dividers, at, [&] {
    held.push_back(runtime::runsOf(size, dividers, at));
    int64_t local = 0;
    for (const dist::Interval &run : held.back()) {
      starts.insert(local);
      local += run.end - run.begin;
    }
  });
  SmallVector<Segment> list;
  for (auto start = starts.begin(); start != starts.end(); ++start) {
    const int64_t end = std::next(start) == starts.end() ? stored : *std::next(start);
    Segment segment{*start, end - *start, {}, name.str()};
    if (starts.size() > 1)
      segment.name += "_" + std::to_string(list.size() + 1);
    Terms &begin = segment.begin;
    const auto numbers = llvm::map_to_vector(held, [&](const auto &runs) { return positionIn(runs, segment.at); });
    begin.plus = numbers.front();
    size_t step = numbers.size();
    for (const dist::Divider &divider : dividers) {
      begin.mesh.push_back(divider.mesh);
      begin.factors.push_back(divider.size > 1 ? numbers[step /= divider.size] - begin.plus : 0);
    }
    size_t i = 0;
    bool isSum = true;
    forAll(dividers, at, [&] {
      int64_t sum = begin.plus;
      for (auto [m, factor] : llvm::zip(begin.mesh, begin.factors))
        sum += at[m] * factor;
      isSum &= sum == numbers[i++];
    });
    if (isSum && !dividers.empty())
      begin.of = rt::SizeAttr::get(b.getContext(), Axis{axis, segment.size});
    if (!isSum) {
      begin.factors.clear();
      begin.plus = 0;
      begin.table = numbers;
    }
    list.push_back(segment);
  }
  return list;
}

SmallVector<Lowering::Segment> Lowering::segmentsOf(Tensor type, StringRef axis) {
  StringAttr name = b.getStringAttr(axis);
  if (!mesh || !type.getState() || !type.has(axis))
    return {Segment{0, type.has(axis) ? type.sizeOf(axis) : 1, {}, axis.str()}};
  if (dist::isInBlocks(type, axis, mesh))
    return {Segment{0, dist::localSize(type, axis, mesh), termsOf(type, axis), axis.str()}};
  return segments(dist::paddedSize(type, axis, mesh), dist::dividers(type, axis, mesh), axis, name);
}

Value Lowering::beginOf(const Segment &segment) {
  return segment.begin.mesh.empty() ? Value() : offset(segment.begin, 0, "first_" + segment.name);
}
Value Lowering::endOf(const Segment &segment) {
  return segment.begin.mesh.empty() ? Value() : offset(segment.begin, segment.size, "end_" + segment.name);
}
Value Lowering::shiftOf(const Segment &segment) {
  if (segment.at == 0)
    return beginOf(segment);
  return offset(segment.begin, -segment.at, "shift_of_" + segment.name);
}

Value Lowering::placeAlong(OpBuilder &in, Location loc, Tensor type, StringRef axis) {
  Type i32 = b.getI32Type();
  const SmallVector<Segment> segments = segmentsOf(type, axis);
  Value place = rt::AlongOp::create(in, loc, i32, axis, shiftOf(segments.front()));
  for (const Segment &segment : ArrayRef(segments).drop_front()) {
    Value local = rt::AlongOp::create(in, loc, i32, axis, Value());
    Value at = rt::LiteralOp::create(in, loc, i32, in.getF64FloatAttr(segment.at));
    Value isBefore = rt::ComputeOp::create(in, loc, in.getI1Type(), "lt", ValueRange{local, at});
    Value here = rt::AlongOp::create(in, loc, i32, axis, shiftOf(segment));
    place = rt::ComputeOp::create(in, loc, i32, "select", ValueRange{isBefore, place, here});
  }
  return place;
}

void Lowering::translate(Value to, Value from, ArrayRef<Segment> segments, bool toLogical, Location loc) {
  SmallVector<StringRef> names;
  SmallVector<int64_t> sizes;
  for (const Axis &a : rt::buffer(from).getAxes()) {
    names.push_back(a.name);
    sizes.push_back(a.size);
  }
  SmallVector<Value> shifts;
  for (const Segment &segment : segments)
    shifts.push_back(shiftOf(segment));
  auto fused = rt::FusedOp::create(b, loc, b.getStrArrayAttr(names), b.getDenseI64ArrayAttr(sizes), ValueRange{from},
                                   shifts, b.getStrArrayAttr({"store"}), ValueRange{to});
  Block &body = fused.getBody().emplaceBlock();
  OpBuilder in = OpBuilder::atBlockEnd(&body);
  Type i32 = rt::buffer(from).getElement();
  auto literal = [&](int64_t n) -> Value { return rt::LiteralOp::create(in, loc, i32, in.getF64FloatAttr(n)); };
  auto compute = [&](StringRef function, ValueRange operands, Type type) -> Value {
    return rt::ComputeOp::create(in, loc, type, function, operands);
  };
  auto isBelow = [&](Value x, int64_t n) { return compute("lt", {x, literal(n)}, in.getI1Type()); };
  Value x = body.addArgument(i32, loc), result;
  for (const Segment &segment : segments) {
    Value shift = body.addArgument(i32, loc);
    if (toLogical) {
      Value here = compute("add", {x, shift}, i32);
      result = result ? compute("select", {isBelow(x, segment.at), result, here}, i32) : here;
      continue;
    }
    Value here = compute("sub", {x, shift}, i32), before = result ? result : literal(-1);
    Value inside = compute("select", {isBelow(here, segment.at + segment.size), here, before}, i32);
    result = compute("select", {isBelow(here, segment.at), before, inside}, i32);
  }
  rt::YieldOp::create(in, loc, ValueRange{result});
}

Value Lowering::flatOffset(Tensor type) {
  Terms terms;
  int64_t count = 1;
  const SmallVector<int64_t> shape = dist::localShape(type, mesh);
  for (int64_t size : ArrayRef(shape).drop_front(dist::axesAboveFlat(type)))
    count *= size;
  for (int m : dist::flatCuts(type)) {
    count = llvm::divideCeil(count, mesh.sizeOf(m));
    terms.mesh.push_back(m);
    terms.factors.push_back(count);
  }
  return offset(terms, 0, "first_of_part");
}
Value Lowering::offsetBetween(Tensor a, StringRef axisA, Tensor b, StringRef axisB) {
  Terms terms = termsOf(a, axisA), minus = termsOf(b, axisB);
  terms.of = {};
  for (auto [m, factor] : llvm::zip(minus.mesh, minus.factors)) {
    auto at = llvm::find(terms.mesh, m);
    if (at == terms.mesh.end()) {
      terms.mesh.push_back(m);
      terms.factors.push_back(-factor);
    } else if ((terms.factors[at - terms.mesh.begin()] -= factor) == 0) {
      terms.factors.erase(terms.factors.begin() + (at - terms.mesh.begin()));
      terms.mesh.erase(at);
    }
  }
  return terms.mesh.empty() ? Value() : offset(terms, 0, axisA + "_minus_" + axisB);
}

int64_t Lowering::ranksOver(ArrayRef<int64_t> meshAxes) {
  int64_t ranks = 1;
  for (int64_t m : meshAxes)
    ranks *= mesh.sizeOf(m);
  return ranks;
}

Axis Lowering::axisBeside(StringRef wanted, int64_t size, ArrayRef<Axis> others) {
  std::string name = wanted.str();
  while (llvm::any_of(others, [&](const Axis &a) { return a.name == name; }))
    name += "_";
  return {b.getStringAttr(name), size};
}

namespace {
/// The same memory with its axes in this order; along one that it lacks, all positions are one.
Buffer permuted(Buffer type, ArrayRef<Axis> order) {
  SmallVector<int64_t> strides;
  for (const Axis &a : order)
    strides.push_back(type.strideOf(a.name));
  return Buffer::get(type.getContext(), order, type.getElement(), strides);
}
} // namespace

//===- buffers ----------------------------------------------------------------------------------------------------===//

Value Lowering::resultAs(Value v, ArrayRef<Axis> order) {
  Buffer dense = Buffer::dense(order, local(v).getElement());
  if (dense == bufferType(v))
    return result(v);
  Value own = alloc(dense, locOf(v));
  bind(v, view(own, 0, permuted(dense, local(v).getAxes()), v.getLoc()));
  return own;
}

Tensor Lowering::ofTurn(Tensor local, Tensor type) const {
  if (!isInChunks(type))
    return local;
  SmallVector<Axis> axes(local.getAxes());
  for (Axis &axis : axes)
    if (chunks.have(axis.name.getValue()))
      axis.size /= chunks.count;
  return Tensor::get(local.getContext(), axes, local.getElement());
}

Value Lowering::chunkOf(Value buffer, Tensor type, Location loc) {
  if (!isInChunks(type) || !chunks.turn)
    return buffer;
  const StringRef axis = chunks.axisOf(type);
  const int64_t all = dist::localSize(type, axis, mesh), size = all / chunks.count;
  if (rt::buffer(buffer).sizeOf(axis) != all)
    return buffer; // made in this turn
  return range(buffer, axis, 0, size, loc, chunks.turn, size);
}

Value Lowering::read(Value v) {
  if (Value known = buffers.lookup(v))
    return chunks.axes ? chunkOf(known, ech::tensor(v), v.getLoc()) : known;
  // free values are computed where they are first needed as a whole
  if (Operation *op = v.getDefiningOp(); op && succeeded(lower(op)))
    if (Value known = buffers.lookup(v))
      return known;
  llvm::report_fatal_error("a value is used before it is computed");
}

Value Lowering::alloc(Buffer type, Location loc) {
  // in the innermost loop that is being built: its life is then that of an iteration
  return rt::AllocOp::create(b, loc, Buffer::dense(type.getAxes(), type.getElement()),
                             rt::ArenaAttr::get(b.getContext(), rt::Arena::Work), nullptr, nullptr);
}

Value Lowering::view(Value base, int64_t offset, Buffer type, Location loc, ValueRange indices,
                     ArrayRef<int64_t> factors) {
  if (!offset && indices.empty() && base.getType() == type)
    return base;
  if (auto inner = base.getDefiningOp<rt::ViewOp>()) { // one view of the whole
    SmallVector<Value> all(inner.getIndices());
    SmallVector<int64_t> times(inner.getFactors());
    llvm::append_range(all, indices);
    llvm::append_range(times, factors);
    return viewOnce(inner.getBase(), inner.getOffset() + offset, type, loc, all, times);
  }
  return viewOnce(base, offset, type, loc, indices, factors);
}

Value Lowering::viewOnce(Value base, int64_t offset, Buffer type, Location loc, ValueRange indices,
                         ArrayRef<int64_t> factors) {
  for (Operation *user : base.getUsers()) {
    auto known = dyn_cast<rt::ViewOp>(user);
    if (known && known.getType() == type && known.getOffset() == uint64_t(offset) &&
        llvm::equal(known.getIndices(), indices) && known.getFactors() == factors &&
        known->getBlock() == b.getInsertionBlock() &&
        (b.getInsertionPoint() == known->getBlock()->end() || known->isBeforeInBlock(&*b.getInsertionPoint())))
      return known;
  }
  return rt::ViewOp::create(b, loc, type, base, offset, indices, factors);
}

Value Lowering::slice(Value base, StringRef axis, int64_t at, Location loc, Value index) {
  Buffer from = rt::buffer(base);
  int position = from.position(axis);
  SmallVector<Axis> axes(from.getAxes());
  SmallVector<int64_t> strides(from.getStrides());
  int64_t stride = strides[position];
  axes.erase(axes.begin() + position);
  strides.erase(strides.begin() + position);
  Buffer to = Buffer::get(b.getContext(), axes, from.getElement(), strides);
  if (index)
    return view(base, at * stride, to, loc, index, stride);
  return view(base, at * stride, to, loc);
}

Value Lowering::range(Value base, StringRef axis, int64_t at, int64_t size, Location loc, Value index, int64_t factor) {
  Buffer from = rt::buffer(base);
  int position = from.position(axis);
  SmallVector<Axis> axes(from.getAxes());
  int64_t stride = from.getStrides()[position];
  axes[position].size = size;
  Buffer to = Buffer::get(b.getContext(), axes, from.getElement(), from.getStrides());
  if (index)
    return view(base, at * stride, to, loc, index, stride * factor);
  return view(base, at * stride, to, loc);
}

Value Lowering::denseAs(Value buffer, ArrayRef<Axis> order, Location loc) {
  Buffer type = rt::buffer(buffer);
  Buffer wanted = permuted(type, order);
  if (wanted.isDense())
    return view(buffer, 0, Buffer::dense(order, type.getElement()), loc);
  Value to = alloc(order, type.getElement(), loc);
  copy(to, buffer, loc);
  return to;
}

Value Lowering::dense(Value v) { return denseAs(read(v), local(v).getAxes(), v.getLoc()); }

namespace {
/// Whether two buffers are the same bytes in the same order.
bool isSame(Value a, Value b) {
  auto x = a.getDefiningOp<rt::ViewOp>(), y = b.getDefiningOp<rt::ViewOp>();
  if (a == b)
    return true;
  Value baseA = x ? x.getBase() : a, baseB = y ? y.getBase() : b;
  if (baseA != baseB || (x ? x.getOffset() : 0) != (y ? y.getOffset() : 0))
    return false;
  if ((x ? x.getIndices().size() : 0) != (y ? y.getIndices().size() : 0))
    return false;
  if (x && y && (!llvm::equal(x.getIndices(), y.getIndices()) || x.getFactors() != y.getFactors()))
    return false;
  Buffer p = rt::buffer(a), q = rt::buffer(b);
  return llvm::all_of(p.getAxes(), [&](const Axis &axis) {
    return axis.size == 1 || (q.sizeOf(axis.name) == axis.size && q.strideOf(axis.name) == p.strideOf(axis.name));
  });
}
} // namespace

void Lowering::loop(Location loc, Value to, ValueRange from, ArrayRef<Axis> axes, StringRef mode,
                    function_ref<Value(OpBuilder &, ValueRange)> build) {
  SmallVector<StringRef> names;
  SmallVector<int64_t> sizes;
  for (const Axis &a : axes) {
    names.push_back(a.name);
    sizes.push_back(a.size);
  }
  auto fused = rt::FusedOp::create(b, loc, b.getStrArrayAttr(names), b.getDenseI64ArrayAttr(sizes), from, ValueRange{},
                                   b.getStrArrayAttr({mode}), ValueRange{to});
  Block &body = fused.getBody().emplaceBlock();
  for (Value v : from)
    body.addArgument(rt::buffer(v).getElement(), loc);
  OpBuilder inner = OpBuilder::atBlockEnd(&body);
  Value made = build(inner, body.getArguments());
  rt::YieldOp::create(inner, loc, ValueRange{made});
}

void Lowering::copy(Value to, Value from, Location loc, bool adds) {
  if (!adds && isSame(to, from))
    return;
  Type element = rt::buffer(to).getElement();
  loop(loc, to, from, rt::buffer(to).getAxes(), adds ? "add" : "store", [&](OpBuilder &inner, ValueRange x) -> Value {
    if (x[0].getType() == element)
      return x[0];
    return rt::ComputeOp::create(inner, loc, element, "cast", ValueRange{x[0]});
  });
}

void Lowering::fill(Value to, double value, Location loc) {
  Buffer type = rt::buffer(to);
  if (type.isDense()) {
    rt::FillOp::create(b, loc, to, b.getF64FloatAttr(value));
    return;
  }
  loop(loc, to, {}, type.getAxes(), "store", [&](OpBuilder &inner, ValueRange) -> Value {
    return rt::LiteralOp::create(inner, loc, type.getElement(), inner.getF64FloatAttr(value));
  });
}

//===- calls ------------------------------------------------------------------------------------------------------===//

Value Lowering::number(rt::Number kind, Type type, Location loc, std::optional<int64_t> of, std::optional<double> by) {
  auto ofAttr = of ? b.getI64IntegerAttr(*of) : IntegerAttr();
  auto byAttr = by ? b.getF64FloatAttr(*by) : FloatAttr();
  SmallVector<Attribute> key{rt::NumberAttr::get(b.getContext(), kind), b.getUnitAttr()};
  for (Attribute part : {Attribute(ofAttr), Attribute(byAttr)})
    key.push_back(part ? part : b.getUnitAttr());
  Value &known = numbers[b.getArrayAttr(key)];
  if (!known) { // at the start: for all that need it
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function.getBody().front());
    known = rt::NumberOp::create(b, loc, type, kind, ofAttr, byAttr);
  }
  return known;
}

Value Lowering::collective(StringRef kind, Value in, Value out, int64_t count, StringRef reduction,
                           ArrayRef<int64_t> meshAxes, StringRef algorithm, StringRef why, Location loc,
                           std::optional<Start> start, int64_t runs) {
  SmallVector<int64_t> sorted(meshAxes);
  llvm::sort(sorted);
  SmallVector<int> over(sorted.begin(), sorted.end());
  if (algorithm == "auto")
    algorithm = dist::algorithmOf(module, kind, over);
  Type ticket = start && !start->tickets ? rt::TicketType::get(b.getContext()) : Type();
  auto op = rt::CollectiveOp::create(
      b, loc, ticket, b.getStringAttr(kind), in, out, b.getI64IntegerAttr(count),
      runs > 1 ? b.getI64IntegerAttr(runs) : IntegerAttr(),
      reduction.empty() ? StringAttr() : b.getStringAttr(reduction), b.getDenseI64ArrayAttr(sorted),
      b.getI64IntegerAttr(ranksOver(sorted)), b.getStringAttr(mesh.names(over)),
      b.getStringAttr(algorithm == "auto" ? "automatic" : algorithm), b.getStringAttr(why),
      start ? start->tickets : Value(), start ? start->position : Value());
  return op.toWaitFor();
}

//===- shapes of kernels ------------------------------------------------------------------------------------------===//

std::optional<Around> echelon::lower::around(Buffer x, ArrayRef<StringRef> over) {
  Around axes;
  int part = 0; // before, in, after
  for (const Axis &a : x.getAxes()) {
    bool in = llvm::is_contained(over, a.name.getValue());
    if (a.size == 1)
      continue;
    if (in && part == 2)
      return std::nullopt;
    part = in ? 1 : part == 0 ? 0 : 2;
    (part == 0 ? axes.outer : part == 1 ? axes.n : axes.inner).push_back(a);
  }
  return axes;
}

Value echelon::lower::withMiddle(Lowering &l, Value v, ArrayRef<StringRef> over, Around &axes) {
  SmallVector<Axis> order(l.local(v).getAxes());
  Type element = l.local(v).getElement();
  auto found = around(Buffer::dense(order, element), over);
  if (!found) {
    std::stable_partition(order.begin(), order.end(),
                          [&](const Axis &a) { return !llvm::is_contained(over, a.name.getValue()); });
    found = around(Buffer::dense(order, element), over);
  }
  axes = *found;
  return l.denseAs(l.read(v), order, v.getLoc());
}
