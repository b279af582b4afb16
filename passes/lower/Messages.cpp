// Messages: values are laid into one row of memory as the runtime's collective takes it, sent, and seen in their new
// form. The ranks of a group count row-major over its mesh axes, ascending; `@dp` below is the axis of a view that
// counts the parts along a mesh axis.
//
//   all_reduce      row: all values                 the same row, summed
//   reduce_scatter  (ranks, parts of all values)    one row of parts, summed
//   all_gather      parts of all values             (ranks, parts of all values)
//   all_to_all      (to, parts of all values)       (from, parts of all values)
//   exchange        all_gather, then each rank takes its part
#include "passes/lower/Lowering.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
using dist::Entry;
using dist::Hold;

std::string partAxis(MeshAttr mesh, int m) { return ("@" + mesh.nameOf(m)).str(); }

/// How a rank's piece of a value falls into parts over the mesh axes of a message.
class Parts {
public:
  /// `part`: the type that says along which axis each mesh axis in `over` divides.
  Parts(Lowering &l, Tensor part, ArrayRef<int> over, Location loc) : l(l), part(part), over(over), loc(loc) {
    for (int m : over)
      (dist::stateOf(part)[m].hold == Hold::Flat ? flats : divides).push_back(m);
  }

  /// One part of a piece with these axes.
  SmallVector<Axis> axesOf(ArrayRef<Axis> whole) const {
    if (!flats.empty())
      return {{flatName(), levels(divided(whole)).back()}};
    return divided(whole);
  }
  int64_t ranks() const {
    int64_t n = 1;
    for (int m : over)
      n *= l.mesh.sizeOf(m);
    return n;
  }
  SmallVector<Axis> counters(ArrayRef<int> of) const {
    SmallVector<Axis> axes;
    for (int m : of)
      axes.push_back({l.b.getStringAttr(partAxis(l.mesh, m)), l.mesh.sizeOf(m)});
    return axes;
  }

  /// The piece seen as counters, then one part. What parts reach beyond the piece is zero, in a longer copy.
  Value seen(Value whole) const {
    ArrayRef<Axis> axes = rt::buffer(whole).getAxes();
    Value padded = longer(axes) == SmallVector<Axis>(axes) ? whole : copied(whole, longer(axes));
    Value parts = asParts(padded, axes);
    return flats.empty() ? parts : flattened(parts, divided(axes));
  }
  /// The same without a copy; null where there would have to be one.
  Value exact(Value whole) const {
    ArrayRef<Axis> axes = rt::buffer(whole).getAxes();
    if (flats.empty())
      return longer(axes) == SmallVector<Axis>(axes) ? asParts(whole, axes) : Value();
    if (!divides.empty() || !rt::buffer(whole).isDense() || rt::buffer(whole).count() % ranks() != 0)
      return {};
    return flattened(whole, axes);
  }
  /// Writes parts (counters, then one part) into a piece.
  void join(Value parts, Value whole) const {
    ArrayRef<Axis> axes = rt::buffer(whole).getAxes();
    Type element = rt::buffer(whole).getElement();
    if (!flats.empty())
      parts = unflattened(parts, divided(axes));
    SmallVector<Axis> needed = longer(axes);
    if (needed == SmallVector<Axis>(axes)) {
      l.copy(asParts(whole, axes), parts, loc);
      return;
    }
    Value padded = l.alloc(needed, element, loc);
    l.copy(asParts(padded, axes), parts, loc);
    l.copy(whole, inside(padded, axes), loc);
  }
  /// A piece that is parts, seen whole without a copy; null where that cannot be.
  Value merged(Value parts, ArrayRef<Axis> whole) const {
    Buffer type = rt::buffer(parts);
    if (!flats.empty() || longer(whole) != SmallVector<Axis>(whole))
      return {};
    SmallVector<int64_t> strides;
    for (const Axis &a : whole) {
      int64_t size = type.sizeOf(a.name), stride = type.strideOf(a.name), expected = stride * size;
      for (int m : llvm::reverse(nest(a.name))) {
        if (type.strideOf(partAxis(l.mesh, m)) != expected)
          return {};
        expected *= l.mesh.sizeOf(m);
      }
      strides.push_back(stride);
    }
    return l.view(parts, 0, Buffer::get(l.b.getContext(), whole, type.getElement(), strides), loc);
  }

private:
  SmallVector<Axis> divided(ArrayRef<Axis> whole) const {
    SmallVector<Axis> axes(whole);
    for (Axis &a : axes)
      a.size = (a.size + partsOf(a.name) - 1) / partsOf(a.name);
    return axes;
  }
  /// Mesh axes of the message that divide an axis, slowest first.
  SmallVector<int> nest(StringRef axis) const {
    SmallVector<int> list;
    for (int m : dist::over(part, axis, l.mesh))
      if (llvm::is_contained(over, m))
        list.push_back(m);
    return list;
  }
  int64_t partsOf(StringRef axis) const {
    int64_t n = 1;
    for (int m : nest(axis))
      n *= l.mesh.sizeOf(m);
    return n;
  }
  SmallVector<Axis> longer(ArrayRef<Axis> whole) const {
    SmallVector<Axis> axes(whole);
    for (Axis &a : axes)
      a.size = (a.size + partsOf(a.name) - 1) / partsOf(a.name) * partsOf(a.name);
    return axes;
  }
  Value inside(Value padded, ArrayRef<Axis> axes) const {
    for (const Axis &a : axes)
      if (rt::buffer(padded).sizeOf(a.name) != a.size)
        padded = l.range(padded, a.name, 0, a.size, loc);
    return padded;
  }
  Value copied(Value whole, ArrayRef<Axis> needed) const {
    Value padded = l.alloc(needed, rt::buffer(whole).getElement(), loc);
    l.fill(padded, 0, loc);
    l.copy(inside(padded, rt::buffer(whole).getAxes()), whole, loc);
    return padded;
  }
  /// How long a row of these axes is, then its part of each flat cut in turn, without padding of those before.
  SmallVector<int64_t> levels(ArrayRef<Axis> axes) const {
    SmallVector<int64_t> counts{1};
    for (const Axis &a : axes)
      counts[0] *= a.size;
    for (int m : flats)
      counts.push_back((counts.back() + l.mesh.sizeOf(m) - 1) / l.mesh.sizeOf(m));
    return counts;
  }
  StringAttr flatName() const { return l.b.getStringAttr("flat"); }
  Value dense(Value v, ArrayRef<Axis> axes) const {
    return l.view(v, 0, Buffer::dense(axes, rt::buffer(v).getElement()), loc);
  }
  /// (counters of cuts along axes, a part's axes) as (counters of all, the last row).
  Value flattened(Value parts, ArrayRef<Axis> one) const {
    SmallVector<int64_t> counts = levels(one);
    SmallVector<Axis> axes = counters(divides);
    SmallVector<Axis> all = axes;
    llvm::append_range(all, one);
    axes.push_back({flatName(), counts[0]});
    Value row = dense(l.denseAs(parts, all, loc), axes);
    for (auto [i, m] : llvm::enumerate(flats)) {
      int64_t needed = counts[i + 1] * l.mesh.sizeOf(m);
      if (needed != counts[i]) {
        axes.back().size = needed;
        Value padded = l.alloc(axes, rt::buffer(row).getElement(), loc);
        l.copy(l.range(padded, "flat", 0, counts[i], loc), row, loc);
        l.fill(l.range(padded, "flat", counts[i], needed - counts[i], loc), 0, loc);
        row = padded;
      }
      axes.back() = counters(m)[0];
      axes.push_back({flatName(), counts[i + 1]});
      row = dense(row, axes);
    }
    return ordered(row, counters(over), axes.back());
  }
  Value unflattened(Value parts, ArrayRef<Axis> one) const {
    SmallVector<int64_t> counts = levels(one);
    SmallVector<int> order(divides);
    llvm::append_range(order, flats);
    SmallVector<Axis> axes = counters(order);
    axes.push_back({flatName(), counts.back()});
    Value row = l.denseAs(parts, axes, loc);
    for (size_t i = flats.size(); i-- > 0;) {
      axes.pop_back();
      axes.back() = {flatName(), counts[i + 1] * l.mesh.sizeOf(flats[i])};
      row = dense(row, axes);
      if (axes.back().size != counts[i]) {
        axes.back().size = counts[i];
        row = l.denseAs(l.range(row, "flat", 0, counts[i], loc), axes, loc);
      }
    }
    axes.pop_back();
    llvm::append_range(axes, one);
    return dense(row, axes);
  }
  /// The counters in this order.
  Value ordered(Value v, SmallVector<Axis> axes, const Axis &last) const {
    axes.push_back(last);
    SmallVector<int64_t> strides;
    for (const Axis &a : axes)
      strides.push_back(rt::buffer(v).strideOf(a.name));
    return l.view(v, 0, Buffer::get(l.b.getContext(), axes, rt::buffer(v).getElement(), strides), loc);
  }
  /// The counters of cuts along axes, then one part of these.
  Value asParts(Value padded, ArrayRef<Axis> whole) const {
    Buffer from = rt::buffer(padded);
    SmallVector<Axis> axes = counters(divides), one = divided(whole);
    SmallVector<int64_t> strides(axes.size(), 0);
    for (const Axis &a : one) {
      int64_t stride = from.strideOf(a.name), step = stride * a.size;
      for (int m : llvm::reverse(nest(a.name))) {
        strides[llvm::find(divides, m) - divides.begin()] = step;
        step *= l.mesh.sizeOf(m);
      }
      axes.push_back(a);
      strides.push_back(stride);
    }
    return l.view(padded, 0, Buffer::get(l.b.getContext(), axes, from.getElement(), strides), loc);
  }

  Lowering &l;
  Tensor part;
  ArrayRef<int> over;
  SmallVector<int> divides, flats; // those of `over` that cut along an axis; those that cut what is left, as one row
  Location loc;
};

/// Values of one element type that travel together.
struct Row {
  Type element;
  SmallVector<size_t> members;
  SmallVector<int64_t> starts; // of members, in elements of a row
  SmallVector<SmallVector<Axis>> parts;
  int64_t count = 0; // elements of a row
  Value in, out;
};

class Message {
public:
  Message(Lowering &l, Operation *op, StringRef kind, ValueRange values, TypeRange results, ArrayAttr over,
          StringRef why, StringRef algorithm, int64_t root = 0)
      : l(l), op(op), loc(op->getLoc()), kind(kind.str()), values(values), why(why.str()), algorithm(algorithm.str()),
        root(root) {
    for (Type type : results)
      types.push_back(cast<Tensor>(type));
    for (StringRef name : ech::strings(over))
      mesh.push_back(l.mesh.index(name));
    llvm::sort(mesh);
    for (int m : mesh)
      ranks *= l.mesh.sizeOf(m);
  }
  void send(bool starts, SmallVector<Value> &tickets);
  void finish(ValueRange results);

private:
  NameLoc named(StringRef name) { return NameLoc::get(l.b.getStringAttr(name), loc); }
  Axis axis(StringRef name, int64_t size) { return {l.b.getStringAttr(name), size}; }
  bool reduces() const { return kind == "all_reduce" || kind == "broadcast"; }
  Tensor before(size_t v) const { return ech::tensor(values[v]); }
  /// How value v falls into parts as it is sent; as it is received.
  Parts sent(size_t v) { return Parts(l, types[v], mesh, loc); }
  Parts received(size_t v) { return Parts(l, before(v), mesh, loc); }
  /// The type between gathering and taking one's part: whole over the message's mesh axes.
  Tensor whole(size_t v) {
    dist::StateAttr state = dist::stateOf(before(v));
    for (int m : mesh)
      state = state.with(m, Hold::Whole);
    return before(v).withState(state);
  }
  Value member(const Row &row, size_t i, Value base, bool hasRanks);
  void layOut();

  Lowering &l;
  Operation *op;
  Location loc;
  std::string kind;
  SmallVector<Value> values;
  SmallVector<Tensor> types;
  std::string why, algorithm;
  int64_t root;
  SmallVector<int> mesh;
  int64_t ranks = 1;
  SmallVector<Row> rows;
};

void Message::layOut() {
  for (size_t v = 0; v < values.size(); ++v) {
    Type element = types[v].getElement();
    auto *row = llvm::find_if(rows, [&](const Row &r) { return r.element == element; });
    if (row == rows.end()) {
      rows.emplace_back();
      row = &rows.back();
      row->element = element;
    }
    SmallVector<Axis> part(l.local(values[v]).getAxes());
    if (kind == "reduce_scatter" || kind == "all_to_all")
      part = sent(v).axesOf(part);
    row->members.push_back(v);
    row->starts.push_back(row->count);
    row->parts.push_back(part);
    row->count += Buffer::dense(part, element).count();
  }
}

/// Where member i lies in a row, or in one row for each rank.
Value Message::member(const Row &row, size_t i, Value base, bool hasRanks) {
  Buffer one = Buffer::dense(row.parts[i], row.element);
  SmallVector<Axis> axes;
  SmallVector<int64_t> strides;
  if (hasRanks) {
    axes = Parts(l, types[row.members[i]], mesh, loc).counters(mesh);
    strides.resize(axes.size());
    int64_t stride = row.count;
    for (size_t a = axes.size(); a-- > 0; stride *= axes[a].size)
      strides[a] = stride;
  }
  llvm::append_range(axes, one.getAxes());
  llvm::append_range(strides, one.getStrides());
  return l.view(base, row.starts[i], Buffer::get(l.b.getContext(), axes, one.getElement(), strides), loc);
}

void Message::send(bool starts, SmallVector<Value> &tickets) {
  if (ranks == 1)
    return;
  layOut();
  for (Row &row : rows) {
    bool single = row.members.size() == 1;
    Value only = values[row.members[0]];
    if (reduces() && single) {
      // in place where nobody else reads this rank's share
      Value first = l.read(only);
      auto alloc = first.getDefiningOp<rt::AllocOp>();
      bool own = only.hasOneUse() && alloc && alloc.getArena() == rt::Arena::Work && only.getDefiningOp() &&
                 alloc->getBlock() == l.b.getInsertionBlock();
      row.in = own ? first : l.alloc(rt::buffer(first).getAxes(), row.element, only.getLoc());
      l.copy(row.in, first, loc);
      row.out = row.in;
    } else if (reduces()) {
      // values may have been computed in the message itself
      for (size_t i = 0; i < row.members.size() && !row.in; ++i)
        if (auto alloc = rt::allocOf(l.read(values[row.members[i]])))
          if (alloc->hasAttr("rt.message") && rt::buffer(alloc).count() == row.count)
            row.in = alloc;
      if (!row.in)
        row.in = l.alloc({axis("message", row.count)}, row.element, named("message"));
      for (size_t i = 0; i < row.members.size(); ++i)
        l.copy(member(row, i, row.in, false), l.read(values[row.members[i]]), loc);
      row.out = row.in;
    } else if (kind == "reduce_scatter" || kind == "all_to_all") {
      if (single) {
        Value view = sent(row.members[0]).seen(l.read(only));
        row.in = l.denseAs(view, rt::buffer(view).getAxes(), named("message"));
      } else {
        row.in = l.alloc({axis("message", row.count * ranks)}, row.element, named("message"));
        for (size_t i = 0; i < row.members.size(); ++i)
          l.copy(member(row, i, row.in, true), sent(row.members[i]).seen(l.read(values[row.members[i]])), loc);
      }
      int64_t rowsOut = kind == "all_to_all" ? ranks : 1;
      row.out = l.alloc({axis("message", row.count * rowsOut)}, row.element,
                        named(kind == "all_to_all" ? "received" : "own_part"));
    } else { // all_gather, exchange
      if (single) {
        row.in = l.dense(only);
      } else {
        row.in = l.alloc({axis("message", row.count)}, row.element, named("message"));
        for (size_t i = 0; i < row.members.size(); ++i)
          l.copy(member(row, i, row.in, false), l.read(values[row.members[i]]), loc);
      }
      if (single && kind == "all_gather" && !starts) { // straight to where the value goes
        Value target = l.result(op->getResult(row.members[0]));
        if (Value seen = received(row.members[0]).exact(target); seen && rt::buffer(seen).isDense())
          row.out = target;
      }
      if (!row.out)
        row.out = l.alloc({axis("message", row.count * ranks)}, row.element, named("gathered"));
    }
    SmallVector<int64_t> meshAxes(mesh.begin(), mesh.end());
    std::string how = kind == "broadcast"                                ? std::to_string(root)
                      : kind == "all_reduce" || kind == "reduce_scatter" ? "Sum"
                                                                         : "";
    Value ticket = l.collective(kind == "exchange" ? "all_gather" : kind, row.in, row.out, row.count, how, meshAxes,
                                algorithm, why, loc, starts);
    if (ticket)
      tickets.push_back(ticket);
  }
}

void Message::finish(ValueRange results) {
  if (ranks == 1) {
    for (auto [value, result] : llvm::zip(values, results))
      l.bind(result, l.read(value));
    return;
  }
  for (Row &row : rows)
    for (size_t i = 0; i < row.members.size(); ++i) {
      size_t v = row.members[i];
      Value result = results[v];
      if (reduces() || kind == "reduce_scatter") {
        Value own = member(row, i, row.out, false);
        bool wholeRow = reduces() && row.members.size() == 1;
        l.bind(result, wholeRow ? row.out : own);
        continue;
      }
      if (l.buffers.lookup(result) == row.out)
        continue;
      Value parts = member(row, i, row.out, true);
      Parts how = received(v);
      if (kind == "exchange") {
        Tensor between = whole(v);
        Value all = l.alloc(l.local(between).getAxes(), row.element, loc);
        how.join(parts, all);
        l.bind(result, l.pieceOf(all, between, types[v], loc));
        continue;
      }
      SmallVector<Axis> axes(l.local(types[v]).getAxes());
      if (Value seen = how.merged(parts, axes); seen && rt::buffer(seen).isDense()) {
        l.bind(result, seen);
        continue;
      }
      how.join(parts, l.result(result, /*mustBeDense=*/false));
    }
}

template <typename Op> Message messageOf(Lowering &l, Op op, StringRef kind, int64_t root = 0) {
  return Message(l, op, kind, op.getValues(), op.getResults().getTypes(), op.getOver(), op.getWhy(), op.getAlgorithm(),
                 root);
}

template <typename Op> LogicalResult lowerMessage(Lowering &l, Op op) {
  Message message = messageOf(l, op, op->getName().stripDialect());
  SmallVector<Value> none;
  message.send(false, none);
  message.finish(op.getResults());
  return success();
}

LogicalResult lowerBroadcast(Lowering &l, dist::BroadcastOp op) {
  Message message = messageOf(l, op, "broadcast", op.getRoot());
  SmallVector<Value> none;
  message.send(false, none);
  message.finish(op.getResults());
  return success();
}

LogicalResult lowerStart(Lowering &l, dist::StartOp op) {
  auto message = std::make_shared<Message>(l, op, op.getKind(), op.getValues(), op.wait().getResults().getTypes(),
                                           op.getOver(), op.getWhy(), op.getAlgorithm());
  SmallVector<Value> tickets;
  message->send(true, tickets);
  l.started[op.getToken()] = [&l, message, tickets](Operation *wait) {
    for (Value ticket : tickets)
      rt::WaitOp::create(l.b, wait->getLoc(), ticket);
    message->finish(wait->getResults());
    return success();
  };
  return success();
}

LogicalResult lowerWait(Lowering &l, dist::WaitOp op) { return l.started[op.getToken()](op); }

LogicalResult lowerSlice(Lowering &l, dist::SliceOp op) {
  l.bind(op.getResult(),
         l.pieceOf(l.read(op.getValue()), ech::tensor(op.getValue()), ech::tensor(op.getResult()), op.getLoc()));
  return success();
}
} // namespace

/// Sums first, then tensor axis by tensor axis from the slowest split to the fastest: a view that begins at this rank's
/// part; a copy where parts reach beyond the whole.
Value Lowering::pieceOf(Value x, Tensor from, Tensor to, Location loc) {
  auto changes = [&](int m) { return dist::stateOf(from)[m] != dist::stateOf(to)[m] && mesh.sizeOf(m) > 1; };
  for (int m = 0; m < mesh.size(); ++m) {
    if (!changes(m) || dist::stateOf(to)[m].hold != Hold::Sum) // coordinate 0 holds it
      continue;
    Value out = alloc(rt::buffer(x).getAxes(), rt::buffer(x).getElement(), loc);
    Value counts = number("r.coordinate(" + std::to_string(m) + ") == 0 ? 1.0 : 0.0", b.getF64Type(),
                          NameLoc::get(b.getStringAttr("counts"), loc));
    SmallVector<StringRef> names;
    SmallVector<int64_t> sizes;
    for (const Axis &a : rt::buffer(x).getAxes()) {
      names.push_back(a.name);
      sizes.push_back(a.size);
    }
    auto fused = rt::FusedOp::create(b, loc, b.getStrArrayAttr(names), b.getDenseI64ArrayAttr(sizes), ValueRange{x},
                                     ValueRange{counts}, b.getStrArrayAttr({"store"}), ValueRange{out});
    Block &body = fused.getBody().emplaceBlock();
    OpBuilder inner = OpBuilder::atBlockEnd(&body);
    Type element = rt::buffer(x).getElement();
    Value v = body.addArgument(element, loc), n = body.addArgument(element, loc);
    v = rt::ComputeOp::create(inner, loc, element, "mul", ValueRange{v, n});
    rt::YieldOp::create(inner, loc, ValueRange{v});
    x = out;
  }
  for (StringRef axis : to.names()) {
    int64_t size = dist::localSize(to, axis, mesh), parts = 1;
    SmallVector<int> divided = llvm::filter_to_vector(dist::over(to, axis, mesh), changes);
    for (int m : divided)
      parts *= mesh.sizeOf(m);
    if (parts == 1)
      continue;
    int64_t whole = rt::buffer(x).sizeOf(axis);
    if (size * parts != whole) {
      SmallVector<Axis> needed(rt::buffer(x).getAxes());
      for (Axis &a : needed)
        if (a.name == axis)
          a.size = size * parts;
      Value padded = alloc(needed, rt::buffer(x).getElement(), loc);
      fill(padded, 0, loc);
      copy(range(padded, axis, 0, whole, loc), x, loc);
      x = padded;
    }
    Terms terms;
    int64_t step = size * parts;
    for (int m : divided) {
      terms.mesh.push_back(m);
      terms.factors.push_back(step /= mesh.sizeOf(m));
    }
    x = range(x, axis, 0, size, loc, offset(terms, 0, ("part_of_" + axis).str()));
  }
  for (int m = 0; m < mesh.size(); ++m) {
    if (dist::stateOf(from)[m].hold == Hold::Flat || dist::stateOf(to)[m].hold != Hold::Flat || mesh.sizeOf(m) == 1)
      continue;
    Buffer type = rt::buffer(x);
    int64_t count = type.count(), size = (count + mesh.sizeOf(m) - 1) / mesh.sizeOf(m);
    StringAttr flat = b.getStringAttr("flat");
    Value row = view(denseAs(x, type.getAxes(), loc), 0, Buffer::dense({Axis{flat, count}}, type.getElement()), loc);
    if (size * mesh.sizeOf(m) != count) {
      Value padded = alloc({Axis{flat, size * mesh.sizeOf(m)}}, type.getElement(), loc);
      copy(range(padded, flat, 0, count, loc), row, loc);
      fill(range(padded, flat, count, size * mesh.sizeOf(m) - count, loc), 0, loc);
      row = padded;
    }
    x = range(row, flat, 0, size, loc, offset(Terms{{m}, {size}}, 0, "part"));
  }
  return x;
}

void Lowering::reserveMessages(Block &block) {
  for (Operation &op : block) {
    ValueRange values;
    if (auto reduce = dyn_cast<dist::AllReduceOp>(op))
      values = reduce.getValues();
    else if (auto start = dyn_cast<dist::StartOp>(op); start && start.getKind() == "all_reduce")
      values = start.getValues();
    if (values.size() < 2)
      continue;
    Type element = ech::tensor(values[0]).getElement();
    if (llvm::any_of(values, [&](Value v) { return ech::tensor(v).getElement() != element; }))
      continue;
    int64_t count = 0;
    for (Value v : values)
      count += bufferType(v).count();
    Axis all{b.getStringAttr("message"), count};
    auto message = alloc({all}, element, NameLoc::get(b.getStringAttr("message"), op.getLoc())).getDefiningOp();
    message->setAttr("rt.message", b.getUnitAttr());
    int64_t start = 0;
    for (OpOperand &use : op.getOpOperands()) {
      Buffer type = bufferType(use.get());
      if (use.get().hasOneUse() && use.get().getDefiningOp() && use.get().getDefiningOp()->getBlock() == &block)
        slots[&use] = {view(message->getResult(0), start, type, use.get().getLoc())};
      start += type.count();
    }
  }
}

void echelon::lower::addMessages(Lowering &l) {
  l.add<dist::AllReduceOp>(lowerMessage<dist::AllReduceOp>);
  l.add<dist::ReduceScatterOp>(lowerMessage<dist::ReduceScatterOp>);
  l.add<dist::AllGatherOp>(lowerMessage<dist::AllGatherOp>);
  l.add<dist::AllToAllOp>(lowerMessage<dist::AllToAllOp>);
  l.add<dist::ExchangeOp>(lowerMessage<dist::ExchangeOp>);
  l.add<dist::BroadcastOp>(lowerBroadcast);
  l.add<dist::StartOp>(lowerStart);
  l.add<dist::WaitOp>(lowerWait);
  l.add<dist::SliceOp>(lowerSlice);
}
