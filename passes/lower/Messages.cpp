// Messages: values are laid into one row of memory as the runtime's collective takes it, sent, and seen in their new
// form. The ranks of a group count row-major over its mesh axes, ascending; `@dp` below is the axis of a view that
// counts the parts along a mesh axis.
//
//   all_reduce      row: all values                 the same row, summed
//   reduce_scatter  (ranks, parts of all values)    one row of parts, summed; the own row of them, where that is free
//   all_gather      parts of all values             (ranks, parts of all values)
//   all_to_all      (to, parts of all values)       (from, parts of all values)
//   exchange        all_gather, then each rank takes its part
//
// Where one value is scattered or gathered along an axis that is not its outermost, the collective takes or leaves the
// rows where they lie in the value, in several runs.
#include "passes/Phase.h"
#include "passes/compress/Workers.h"
#include "passes/lower/ShardView.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
using dist::Hold;

/// Values of one element type that travel together.
struct Row {
  Type element;
  SmallVector<size_t> members;
  SmallVector<int64_t> starts; // of members, in elements of a row
  SmallVector<SmallVector<Axis>> parts;
  int64_t count = 0; // elements of a row
  size_t outer = 0;  // axes before the one that is cut, where rows stay in runs
  int64_t runs = 1;  // pieces of a row in the buffer that has one for each rank: the positions of the outer axes
  Value in, out;
};

class Message {
public:
  Message(Lowering &l, Operation *op, StringRef kind, ValueRange values, TypeRange results, ArrayAttr over,
          StringRef why, StringRef algorithm, int64_t root = 0)
      : l(l), op(op), loc(op->getLoc()), kind(kind.str()), values(values), why(why.str()), algorithm(algorithm.str()),
        root(root) {
    if (auto reduce = dyn_cast<dist::AllReduceOp>(op); reduce && reduce.getReduction())
      reduction = *reduce.getReduction() == "max" ? "Max" : "Min";
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
  ShardView sent(size_t v) { return ShardView(l, types[v], mesh, loc); }
  ShardView received(size_t v) { return ShardView(l, before(v), mesh, loc); }
  /// The type between gathering and taking one's part: whole over the message's mesh axes.
  Tensor whole(size_t v) {
    dist::StateAttr state = dist::stateOf(before(v));
    for (int m : mesh)
      state = state.with(m, Hold::Whole);
    return before(v).withState(state);
  }
  /// The type of member i in a row, or in one row for each rank.
  Buffer memberType(const Row &row, size_t i, bool hasRanks);
  Value member(const Row &row, size_t i, Value base, bool hasRanks) {
    const std::string name = nameOf(values[row.members[i]]); // of the value, not of the whole message
    return l.view(base, row.starts[i], memberType(row, i, hasRanks), name.empty() ? loc : Location(named(name)));
  }
  /// What a buffer is called that holds a single value in another form: "q_gathered"; of several, "gathered".
  std::string nameAfter(const Row &row, StringRef form) {
    const std::string name = row.members.size() == 1 ? nameOf(values[row.members[0]]) : "";
    return name.empty() ? form.str() : name + "_" + form.str();
  }
  /// Whether a value lies where member i of the own row does.
  bool isMember(const Row &row, size_t i, Value place) {
    auto view = place.getDefiningOp<rt::ViewOp>();
    return view && view.getBase() == row.out && view.getOffset() == uint64_t(row.starts[i]) &&
           view.getIndices().empty() && view.getType() == memberType(row, i, false);
  }
  /// Leaves the rows of a single value as they lie in `whole`, seen as (counters, one part), if the collective can take
  /// or leave them there; false: `whole` is no place for them.
  bool leaveRowsIn(Row &row, Value seen);
  /// Whether nobody but this message reads what `memory`, where value v lies, holds.
  bool mayOverwrite(Value v, Value memory);
  void layOut();
  void inPlace(Row &row);
  void pack(Row &row);
  void scatter(Row &row);
  void gather(Row &row, bool starts);

  Lowering &l;
  Operation *op;
  Location loc;
  std::string kind;
  SmallVector<Value> values;
  SmallVector<Tensor> types;
  std::string why, algorithm;
  StringRef reduction = "Sum";
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

Buffer Message::memberType(const Row &row, size_t i, bool hasRanks) {
  Buffer one = Buffer::dense(row.parts[i], row.element);
  if (!hasRanks)
    return one;
  SmallVector<Axis> axes = ShardView(l, types[row.members[i]], mesh, loc).counters(mesh);
  SmallVector<int64_t> strides(axes.size());
  int64_t stride = row.count / row.runs;
  for (size_t a = axes.size(); a-- > 0; stride *= axes[a].size)
    strides[a] = stride;
  for (auto [i, a] : llvm::enumerate(one.getAxes())) {
    axes.push_back(a);
    strides.push_back(i < row.outer ? one.getStrides()[i] * ranks : one.getStrides()[i]);
  }
  return Buffer::get(l.b.getContext(), axes, one.getElement(), strides);
}

bool Message::leaveRowsIn(Row &row, Value seen) {
  auto lieAs = [](Buffer a, Buffer b) { // axes of one position have no stride
    return a.getAxes() == b.getAxes() && llvm::all_of(llvm::enumerate(a.getAxes()), [&](auto axis) {
             return axis.value().size == 1 || a.getStrides()[axis.index()] == b.getStrides()[axis.index()];
           });
  };
  if (lieAs(rt::buffer(seen), memberType(row, 0, true)))
    return true;
  if (kind != "all_gather" && kind != "reduce_scatter")
    return false;
  const size_t v = row.members[0];
  std::optional<size_t> cut = kind == "all_gather" ? received(v).cutAxis(row.parts[0]) : sent(v).cutAxis(row.parts[0]);
  if (!cut)
    return false;
  Row inRuns = row;
  inRuns.outer = *cut;
  for (size_t i = 0; i < inRuns.outer; ++i)
    inRuns.runs *= row.parts[0][i].size;
  // Shorter runs are laid out as rows: a collective calls its copies and sums once for each. Rows of 2 MiB on 2 ranks
  // of Zen 4, in runs and laid out: reduce_scatter 128 bytes 0.64 and 0.34 ms, 256 bytes 0.28 and 0.29, 1 KiB 0.17 and
  // 0.39; all_gather 128 bytes 0.22 and 0.38, 1 KiB 0.12 and 0.54.
  constexpr int64_t kLeastBytes = 256;
  if (row.count / inRuns.runs * rt::buffer(seen).elementBytes() < kLeastBytes ||
      !lieAs(rt::buffer(seen), memberType(inRuns, 0, true)))
    return false;
  row = inRuns;
  return true;
}

bool Message::mayOverwrite(Value v, Value memory) {
  auto alloc = memory.getDefiningOp<rt::AllocOp>();
  if (!v.hasOneUse() || !v.getDefiningOp() || !alloc || alloc.getArena() != rt::Arena::Work ||
      alloc->getBlock() != l.b.getInsertionBlock())
    return false;
  auto isReadBefore = [&](Operation *reader) {
    Operation *at = op->getBlock()->findAncestorOpInBlock(*reader);
    return at && at->isBeforeInBlock(op);
  };
  return llvm::all_of(l.buffers, [&](auto &entry) { // terms that were added up lie here too
    return rt::allocOf(entry.second) != alloc || entry.first == v || llvm::all_of(entry.first.getUsers(), isReadBefore);
  });
}

/// The rows of a reduce_scatter or an all_to_all, where they lie if the collective can take them there, and where this
/// rank's come to lie.
void Message::scatter(Row &row) {
  bool own = true;
  if (row.members.size() == 1) {
    size_t v = row.members[0];
    Value first = l.read(values[v]), view = sent(v).seen(first);
    row.in = leaveRowsIn(row, view) ? view : l.denseAs(view, rt::buffer(view).getAxes(), named("message"));
    own = row.runs == 1 && (rt::allocOf(row.in) != rt::allocOf(first) || mayOverwrite(values[v], first));
  } else {
    row.in = l.alloc({axis("message", row.count * ranks)}, row.element, named("message"));
    for (size_t i = 0; i < row.members.size(); ++i) {
      // A variable: arguments are evaluated in no fixed order, and both make operations.
      Value parts = sent(row.members[i]).seen(l.read(values[row.members[i]]));
      l.copy(member(row, i, row.in, true), parts, values[row.members[i]].getLoc());
    }
  }
  if (kind == "all_to_all")
    row.out = l.alloc({axis("message", row.count * ranks)}, row.element, named("received"));
  else if (own)
    row.out = l.ownRow(row.in, row.count, mesh, named(nameAfter(row, "part")));
  else
    row.out = l.alloc(row.members.size() == 1 ? ArrayRef<Axis>(row.parts[0]) : axis("message", row.count), row.element,
                      named(nameAfter(row, "part")));
}

/// The row of an all_reduce or a broadcast, in place: one value where it lies if nobody else reads this rank's share;
/// several in a message of their own, in which they may have been computed.
void Message::inPlace(Row &row) {
  Value only = values[row.members[0]];
  if (row.members.size() == 1) {
    Value first = l.read(only);
    bool own = mayOverwrite(only, first) || l.isDestinationOfMessage(only, first);
    row.in = own ? first : l.alloc(rt::buffer(first).getAxes(), row.element, only.getLoc());
    l.copy(row.in, first, loc);
  } else {
    for (size_t v : row.members)
      if (auto alloc = rt::allocOf(l.read(values[v]));
          !row.in && alloc && alloc->hasAttr(rt::kMessage) && rt::buffer(alloc).count() == row.count)
        row.in = alloc;
    pack(row);
  }
  row.out = row.in;
}

/// Members side by side in one row.
void Message::pack(Row &row) {
  if (!row.in)
    row.in = l.alloc({axis("message", row.count)}, row.element, named("message"));
  for (size_t i = 0; i < row.members.size(); ++i) {
    Value value = l.read(values[row.members[i]]); // a variable, as above
    l.copy(member(row, i, row.in, false), value, values[row.members[i]].getLoc());
  }
}

/// The row of an all_gather or an exchange and where those of all ranks come to lie: where one value goes, if it can be
/// written there.
void Message::gather(Row &row, bool starts) {
  bool single = row.members.size() == 1;
  if (!single && kind == "all_gather" && !starts) // each is called by its value, not after who reads it
    for (size_t v : row.members)
      if (const std::string name = nameOf(values[v]); !name.empty())
        l.places.insert({op->getResult(v), named(name + "_gathered")});
  if (single)
    row.in = l.dense(values[row.members[0]]);
  else
    pack(row);
  if (single && kind == "all_gather") {
    Value result = starts ? Value() : op->getResult(row.members[0]);
    if (result)
      l.places.insert({result, named(nameAfter(row, "gathered"))}); // not after who reads it
    Value target = result ? l.result(result) : Value();
    Value seen = target ? received(row.members[0]).exact(target) : Value();
    if (seen && leaveRowsIn(row, seen))
      row.out = target;
  }
  if (!row.out)
    row.out = l.alloc({axis("message", row.count * ranks)}, row.element, named(nameAfter(row, "gathered")));
}

void Message::send(bool starts, SmallVector<Value> &tickets) {
  if (ranks == 1)
    return;
  layOut();
  for (Row &row : rows) {
    if (reduces())
      inPlace(row);
    else if (kind == "reduce_scatter" || kind == "all_to_all")
      scatter(row);
    else
      gather(row, starts);
    SmallVector<int64_t> meshAxes(mesh.begin(), mesh.end());
    std::string how = kind == "broadcast"                                ? std::to_string(root)
                      : kind == "all_reduce" || kind == "reduce_scatter" ? reduction.str()
                                                                         : "";
    Value ticket =
        l.collective(kind == "exchange" ? "all_gather" : kind, row.in, row.out, row.count, how, meshAxes, algorithm,
                     why, loc, starts ? std::optional(Lowering::Start()) : std::nullopt, row.runs);
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
        Value place = l.buffers.lookup(values[v]),
              own = place && isMember(row, i, place) ? place : member(row, i, row.out, false);
        bool wholeRow = reduces() && row.members.size() == 1;
        l.bind(result, wholeRow ? row.out : own);
        continue;
      }
      if (l.buffers.lookup(result) == row.out)
        continue;
      Value parts = member(row, i, row.out, true);
      ShardView how = received(v);
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

/// The tickets of the iterations of the loop that is being built.
Value ticketsOf(Lowering &l, dist::StartEachOp op, rt::ForOp loop) {
  OpBuilder::InsertionGuard guard(l.b);
  l.b.setInsertionPoint(loop);
  auto tickets = rt::TicketsOp::create(l.b, op.getLoc(), rt::TicketType::get(l.b.getContext()), loop.getCount());
  copyPhase(op, tickets);
  return tickets.getTickets();
}

/// In place, where the iteration's part of the stack lies.
LogicalResult lowerStartEach(Lowering &l, dist::StartEachOp op) {
  Destination destination = l.destinations.lookup(op.stacked());
  Value place = destination.buffer;
  if (!place || destination.adds || !rt::buffer(place).isDense())
    return l.refuse(op, "is stacked where it cannot be summed");
  l.copy(place, l.read(op.getValue()), op.getLoc());
  l.bind(op.getResult(), place);
  SmallVector<int64_t> over;
  for (StringRef name : ech::strings(op.getOver()))
    over.push_back(l.mesh.index(name));
  if (l.ranksOver(over) == 1) {
    l.started[op.stack()] = [](Operation *) { return success(); };
    return success();
  }
  auto loop = cast<rt::ForOp>(l.b.getInsertionBlock()->getParentOp());
  Value tickets = ticketsOf(l, op, loop);
  l.collective(op.getKind(), place, place, rt::buffer(place).count(), "Sum", over, op.getAlgorithm(), op.getWhy(),
               op.getLoc(), Lowering::Start{tickets, loop.position()});
  l.started[op.stack()] = [&l, tickets](Operation *wait) {
    rt::WaitOp::create(l.b, wait->getLoc(), tickets);
    return success();
  };
  return success();
}

LogicalResult lowerWaitEach(Lowering &l, dist::WaitEachOp op) {
  if (failed(l.started[op.getStack()](op)))
    return failure();
  l.bind(op.getResult(), l.read(op.getStack()));
  return success();
}

LogicalResult lowerSlice(Lowering &l, dist::SliceOp op) {
  l.bind(op.getResult(),
         l.pieceOf(l.read(op.getValue()), ech::tensor(op.getValue()), ech::tensor(op.getResult()), op.getLoc()));
  return success();
}
} // namespace

Value Lowering::isFirst(int m, Location loc) {
  return number(rt::Number::IsFirst, b.getF64Type(),
                NameLoc::get(b.getStringAttr("is_first_" + mesh.getAxes()[m].name.str()), loc), m);
}

std::optional<double> Lowering::equalShare(int m) {
  auto equal = module->getAttrOfType<ArrayAttr>(compress::kEqualShares);
  return equal && ech::has(equal, mesh.nameOf(m)) ? std::optional(1.0 / double(mesh.sizeOf(m))) : std::nullopt;
}

Value Lowering::ownRow(Value rows, int64_t count, ArrayRef<int> over, Location loc) {
  Terms terms;
  int64_t step = count;
  for (int m : llvm::reverse(over)) {
    terms.mesh.insert(terms.mesh.begin(), m);
    terms.factors.insert(terms.factors.begin(), step);
    step *= mesh.sizeOf(m);
  }
  Buffer row = Buffer::dense({Axis{b.getStringAttr("message"), count}}, rt::buffer(rows).getElement());
  return view(rows, 0, row, loc, offset(terms, 0, "own_row"), 1);
}

/// A copy of the runs of an axis that this rank is left with.
Value Lowering::runsOf(Value x, StringRef axis, ArrayRef<dist::Divider> dividers, Location loc) {
  SmallVector<Axis> axes(rt::buffer(x).getAxes());
  const int at = rt::buffer(x).position(axis);
  const SmallVector<Segment> list = segments(axes[at].size, dividers, ("of_" + axis).str(), axes[at].name);
  for (const dist::Divider &divider : dividers)
    axes[at].size /= divider.size;
  Value out = alloc(axes, rt::buffer(x).getElement(), loc);
  for (const Segment &run : list)
    copy(range(out, axis, run.at, run.size, loc), range(x, axis, 0, run.size, loc, beginOf(run)), loc);
  return out;
}

/// Sums first, then tensor axis by tensor axis from the slowest split to the fastest: a view that begins at this rank's
/// part; a copy where parts reach beyond the whole, or are of several runs.
Value Lowering::pieceOf(Value x, Tensor from, Tensor to, Location loc) {
  auto changes = [&](int m) { return dist::stateOf(from)[m] != dist::stateOf(to)[m] && mesh.sizeOf(m) > 1; };
  for (int m = 0; m < mesh.size(); ++m) {
    if (!changes(m) || dist::stateOf(to)[m].hold != Hold::Sum) // coordinate 0 holds it
      continue;
    Value out = alloc(rt::buffer(x).getAxes(), rt::buffer(x).getElement(), loc);
    const std::optional<double> equal = equalShare(m);
    SmallVector<Value, 1> counts;
    if (!equal)
      counts.push_back(isFirst(m, loc));
    SmallVector<StringRef> names;
    SmallVector<int64_t> sizes;
    for (const Axis &a : rt::buffer(x).getAxes()) {
      names.push_back(a.name);
      sizes.push_back(a.size);
    }
    auto fused = rt::FusedOp::create(b, loc, b.getStrArrayAttr(names), b.getDenseI64ArrayAttr(sizes), ValueRange{x},
                                     counts, b.getStrArrayAttr({"store"}), ValueRange{out});
    Block &body = fused.getBody().emplaceBlock();
    OpBuilder inner = OpBuilder::atBlockEnd(&body);
    Type element = rt::buffer(x).getElement();
    Value v = body.addArgument(element, loc), n;
    if (equal)
      n = rt::LiteralOp::create(inner, loc, element, inner.getF64FloatAttr(*equal));
    else
      n = body.addArgument(element, loc);
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
    SmallVector<dist::Divider> dividers = dist::dividers(to, axis, mesh);
    llvm::erase_if(dividers, [&](const dist::Divider &divider) { return !llvm::is_contained(divided, divider.mesh); });
    if (llvm::any_of(dividers, [](const dist::Divider &divider) { return !divider.map.isBlocks(); })) {
      x = runsOf(x, axis, dividers, loc);
      continue;
    }
    Terms terms;
    terms.of = rt::SizeAttr::get(b.getContext(), Axis{b.getStringAttr(axis), size});
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
    StringAttr flat = b.getStringAttr("flat");
    SmallVector<Axis> axes(type.getAxes().take_front(dist::axesAboveFlat(to)));
    int64_t count = 1;
    for (const Axis &a : type.getAxes().drop_front(axes.size()))
      count *= a.size;
    const int64_t size = (count + mesh.sizeOf(m) - 1) / mesh.sizeOf(m);
    axes.push_back({flat, count});
    Value row = view(denseAs(x, type.getAxes(), loc), 0, Buffer::dense(axes, type.getElement()), loc);
    if (size * mesh.sizeOf(m) != count) {
      axes.back().size = size * mesh.sizeOf(m);
      Value padded = alloc(axes, type.getElement(), loc);
      copy(range(padded, flat, 0, count, loc), row, loc);
      fill(range(padded, flat, count, size * mesh.sizeOf(m) - count, loc), 0, loc);
      row = padded;
    }
    x = range(row, flat, 0, size, loc, offset(Terms{{m}, {size}, {}}, 0, "part"));
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
    message->setAttr(rt::kMessage, b.getUnitAttr());
    int64_t start = 0;
    for (OpOperand &use : op.getOpOperands()) {
      Buffer type = bufferType(use.get());
      if (use.get().hasOneUse() && use.get().getDefiningOp() && use.get().getDefiningOp()->getBlock() == &block)
        destinations[&use] = {view(message->getResult(0), start, type, locOf(use.get()))};
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
  l.add<dist::StartEachOp>(lowerStartEach);
  l.add<dist::WaitEachOp>(lowerWaitEach);
  l.add<dist::SliceOp>(lowerSlice);
}
