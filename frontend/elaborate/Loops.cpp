// repeat and repeat along.
//
// A loop's body is built in a block that belongs to no operation yet. Its arguments are the carried values, which are
// known before (names that exist and that the body assigns), then slices, which are added when the body first meets an
// outer value that has the loop's axis. At the end the operation is made around the block.
//
//   x = wte[vocab = tokens]            a spec
//   repeat layer = 4 {
//     param w[embed, out] ~ zeros
//     x = relu(dot(x, w, over = embed)[out -> embed])
//   }
//
//   block(%x)                          x is assigned inside and known before: carried
//   block(%x, %w)                      w is met, [layer, embed, out] outside: a slice, [embed, out] inside
//   %y = ech.repeat layer = 4          made last, with the operands (x; slices w) that the block's arguments stand for
#include "frontend/elaborate/Loops.h"
#include "frontend/elaborate/Constants.h"
#include "frontend/elaborate/Walk.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

bool Loops::isWalked(StringRef axis) const {
  return llvm::any_of(loops, [&](const Loop &l) { return l.axis->name == axis; });
}

SmallVector<ech::Axis> Loops::stackingAxes() const {
  SmallVector<ech::Axis> axes;
  for (const Loop &loop : loops)
    if (!loop.along)
      axes.push_back({loop.axis->name, loop.axis->size});
  return axes;
}

Value Loops::sliceInto(Loop &loop, Value outer) {
  Value &argument = loop.sliceInside[outer];
  if (!argument) {
    argument = loop.block->addArgument(ech::without(ech::tensor(outer), loop.axis->name), outer.getLoc());
    loop.slices.push_back(outer);
  }
  return argument;
}

Value Loops::inside(const Val &v, SourceRange range) {
  Value value = v.value;
  for (size_t d = v.depth; d < loops.size(); ++d) {
    Loop &loop = loops[d];
    auto type = ech::tensor(value);
    if (!type.has(loop.axis->name))
      continue;
    int64_t size = type.sizeOf(loop.axis->name);
    if (size != loop.axis->size) {
      scopes.error(Code::E0204, range,
                   "this value has " + loop.axis->name.str() + " = " + std::to_string(size) +
                       ", and the repeat runs along " + loop.axis->name.str() + " = " +
                       std::to_string(loop.axis->size) + "; rename the resized axis first");
      return build.constant(0, ech::without(type, loop.axis->name));
    }
    value = sliceInto(loop, value);
  }
  return value;
}

Val Loops::look(const std::string &name, SourceRange range, bool *found) {
  auto it = scopes.here().values.find(name);
  if (found)
    *found = it != scopes.here().values.end();
  if (it == scopes.here().values.end())
    return Val::poison();
  for (Loop &loop : loops)
    if (loop.scope == &scopes.here())
      for (Carried &c : loop.carried)
        if (c.name == name)
          c.read = true;
  Val v = it->second;
  if (v.isTensor() && v.depth < loops.size()) {
    v.value = inside(v, range);
    v.depth = static_cast<unsigned>(loops.size());
  }
  return v;
}

Value Loops::coerce(const Val &v, ech::Tensor type, Code code, SourceRange range, const std::string &what,
                    bool carried) {
  Value value =
      v.isTensor() ? inside(v, range) : constantLike(scopes, build, v, type.getElement().isInteger(32), range);
  auto have = ech::tensor(value);
  bool sameAxes = have.rank() == type.rank() && llvm::all_of(type.getAxes(), [&](const ech::Axis &a) {
                    return have.has(a.name) && have.sizeOf(a.name) == a.size;
                  });
  if (!sameAxes) {
    // Either may lack axes: the new value, which an expansion mends here, or the one of before.
    auto expansion = [&](ech::Tensor small, ech::Tensor large) -> std::string {
      std::string text;
      for (const ech::Axis &a : small.getAxes())
        if (!large.has(a.name) || large.sizeOf(a.name) != a.size)
          return "";
      for (const ech::Axis &a : large.getAxes())
        if (!small.has(a.name))
          text += "[+ " + scopes.written(a.name) + "]";
      return text;
    };
    std::string hint = expansion(have, type), before = expansion(type, have);
    auto only = [&](ech::Tensor own, ech::Tensor other) { // the one axis that the other lacks
      std::string name;
      for (const ech::Axis &a : own.getAxes())
        if (!other.has(a.name)) {
          if (!name.empty())
            return std::string();
          name = scopes.written(a.name);
        }
      return name;
    };
    std::string lost = only(type, have), gained = only(have, type);
    if (!hint.empty())
      hint = "; expand it: (…)" + hint;
    else if (!before.empty() && carried)
      hint = "; expand it before the repeat: (…)" + before;
    else if (carried && have.rank() == type.rank() && !lost.empty() && !gained.empty())
      hint = "; " + gained + " is where " + lost + " is to be: nn.linear(…, " + gained + ", " + lost +
             ") leads from one to the other";
    scopes.error(code, range,
                 what + " must have the axes " + ech::describe(type) + ", and this has " + ech::describe(have) + hint);
    return nullptr;
  }
  if (have.getElement() != type.getElement()) {
    if (!type.isFloat() || have.getElement().isInteger(1)) {
      auto kind = [](Type t) {
        return t.isInteger(1) ? "truth values" : t.isInteger(32) ? "integers" : "real numbers";
      };
      scopes.error(code, range,
                   what + " must hold " + kind(type.getElement()) + ", and this holds " + kind(have.getElement()));
      return nullptr;
    }
    value = build.toReal(value);
  }
  if (ech::tensor(value) != type) // the same axes in another order of storage
    value = build.relabel(value, build.builder.getArrayAttr({}), build.builder.getArrayAttr({}), type);
  return value;
}

void Loops::repeat(const AxisInfo &axis, bool along, const Body &body, SourceRange range, SourceRange end,
                   llvm::function_ref<void()> execute) {
  Scope *scope = &scopes.here();
  std::map<std::string, Val> before = scope->values;
  llvm::SaveAndRestore at(build.loc, scopes.location(range));
  std::deque<Carried> carried = carriedBy(body, axis);

  auto block = std::make_unique<mlir::Block>();
  loops.emplace_back();
  Loop &loop = loops.back();
  loop.axis = &axis;
  loop.along = along;
  loop.scope = scope;
  loop.block = block.get();
  for (Carried &c : carried) {
    Location named = NameLoc::get(build.builder.getStringAttr(c.name), build.loc);
    c.argument = block->addArgument(c.init.value.getType(), named);
    Val inner = c.init;
    inner.value = c.argument;
    inner.depth = static_cast<unsigned>(loops.size());
    scope->values[c.name] = inner;
  }
  loop.carried = std::move(carried);

  auto point = build.builder.saveInsertionPoint();
  build.builder.setInsertionPointToEnd(block.get());
  execute();
  build.loc = scopes.location(range);
  dropUnassigned(loop);
  Yielded yielded = yieldOf(loop);
  // What an iteration of `repeat along` leaves behind: its locals, where they are read later.
  std::vector<std::pair<std::string, Val>> locals;
  if (along) {
    auto read = namesReadAfter(*scope->body, end.end());
    for (const auto &[name, v] : scope->values)
      if (!before.count(name) && read.count(name)) {
        locals.emplace_back(name, v);
        if (v.isTensor())
          yielded.stacked.push_back(inside(v, range));
      }
  }
  size_t localCount = yielded.stacked.size();
  for (const PendingWrite &w : loop.writes)
    yielded.stacked.push_back(w.value);
  ech::RepeatOp op = close(loop, std::move(block), point, yielded);

  if (!along)
    for (const auto &[name, v] : scope->values)
      if (!before.count(name))
        scope->gone[name] = range;
  Loop ended = std::move(loop);
  loops.pop_back();
  showResults(op, ended, locals, std::move(before));
  for (auto [n, w] : llvm::enumerate(ended.writes)) {
    w.value = op.getStacks()[localCount + n];
    writes().push_back(w);
  }
  for (auto [n, p] : llvm::enumerate(ended.reports)) {
    p.value = op.getSums()[n];
    p.places *= double(ended.axis->size);
    reports().push_back(p);
  }
}

/// Names that exist before the loop and that its body assigns.
std::deque<Loops::Carried> Loops::carriedBy(const Body &body, const AxisInfo &axis) {
  std::deque<Carried> carried;
  const std::map<std::string, Val> before = scopes.here().values;
  for (const auto &[name, place] : namesAssigned(body)) {
    if (!before.count(name))
      continue;
    Val init = look(name, place, nullptr);
    if (init.isPoison())
      continue;
    if (init.kind == Val::Word || init.kind == Val::Truth) {
      scopes.error(Code::E0213, place,
                   name + " is known when compiling, so it cannot change from one iteration to the next");
      continue;
    }
    Value value = init.isTensor() ? init.value : build.constant(init.number.value());
    if (ech::tensor(value).has(axis.name)) {
      scopes.error(Code::E0213, place,
                   name + " has the axis " + axis.name.str() +
                       " that the repeat runs along, so it cannot be carried; use another name inside");
      continue;
    }
    Val entry;
    entry.kind = Val::Tensor;
    entry.value = value;
    entry.range = init.range;
    entry.depth = static_cast<unsigned>(loops.size());
    carried.push_back({name, entry, {}, false, false, {}, true});
  }
  return carried;
}

/// What is assigned only in a branch that is not taken is not carried: it is the value of before.
void Loops::dropUnassigned(Loop &loop) {
  for (Carried &c : loop.carried) {
    if (c.assigned)
      continue;
    c.argument.replaceAllUsesWith(c.init.value);
    for (Pending &p : loop.reports)
      if (p.value == c.argument)
        p.value = c.init.value;
    for (PendingWrite &w : loop.writes)
      if (w.value == c.argument)
        w.value = c.init.value;
    for (auto &[name, v] : scopes.here().values)
      if (v.value == c.argument)
        v.value = c.init.value;
    loop.block->eraseArgument(c.argument.getArgNumber());
  }
  llvm::erase_if(loop.carried, [](const Carried &c) { return !c.assigned; });
}

/// The next values of what is carried, brought to the types of before, and what is summed.
Loops::Yielded Loops::yieldOf(Loop &loop) {
  Yielded yielded;
  for (Carried &c : loop.carried) {
    const Val now = scopes.here().values[c.name];
    Value value;
    if (!now.isPoison())
      value = coerce(now, ech::tensor(c.argument), Code::E0213, c.assignedAt,
                     c.name + " is carried from one iteration to the next: it", true);
    if (value && c.init.range && ech::tensor(value).getElement().isInteger(32) &&
        (!now.range || now.range->low < c.init.range->low || now.range->high > c.init.range->high))
      scopes.error(Code::E0213, c.assignedAt,
                   c.name + " is an integer below " + std::to_string(c.init.range->high + 1) +
                       " before the repeat, and its next value is not known to be");
    yielded.carried.push_back(value ? value : Value(c.argument));
  }
  for (const Pending &p : loop.reports)
    yielded.summed.push_back(p.value);
  return yielded;
}

/// Makes the operation around the loop's block, at `point`.
ech::RepeatOp Loops::close(Loop &loop, std::unique_ptr<mlir::Block> block, OpBuilder::InsertPoint point,
                           const Yielded &yielded) {
  ech::YieldOp::create(build.builder, build.loc, yielded.carried, yielded.stacked, yielded.summed);
  build.builder.restoreInsertionPoint(point);
  SmallVector<Value> init = llvm::map_to_vector(loop.carried, [](const Carried &c) { return c.init.value; });
  SmallVector<Type> stacks;
  for (Value v : yielded.stacked)
    stacks.push_back(ech::stackedType(ech::tensor(v), loop.axis->name, loop.axis->size));
  auto op = ech::RepeatOp::create(build.builder, build.loc, loop.axis->name, loop.axis->size, init, loop.slices,
                                  ValueRange(init).getTypes(), stacks, ValueRange(yielded.summed).getTypes());
  op.getBody().push_back(block.release());
  if (loop.along)
    op.setAlong(true);
  return op;
}

static bool sameAxes(ech::Tensor a, ech::Tensor b) {
  return a.rank() == b.rank() && llvm::all_of(a.getAxes(), [&](const ech::Axis &x) { return b.has(x.name); });
}

void Loops::noteAssigned(const Ident &name, const Val &v) {
  for (Loop &loop : llvm::reverse(loops)) {
    if (loop.scope != &scopes.here())
      break;
    auto carried = llvm::find_if(loop.carried, [&](const Carried &c) { return c.name == name.text; });
    if (carried == loop.carried.end())
      continue;
    bool hadSameAxes = std::exchange(carried->sameAxes, !v.isTensor() || sameAxes(v.type(), carried->init.type()));
    if (carried->assigned && hadSameAxes && !carried->sameAxes)
      carried->assignedAt = name.range;
    if (!carried->assigned) {
      carried->assigned = true;
      carried->assignedAt = name.range;
      if (!carried->read)
        scopes.error(Code::E0130, name.range,
                     name.text +
                         " exists before the repeat, so it is carried from one iteration to the next, but it is "
                         "assigned before it is read; read it first, or use another name inside");
    }
  }
}

/// What the code after the loop sees: what was there before, what was carried, and stacks of locals.
void Loops::showResults(ech::RepeatOp op, const Loop &ended, ArrayRef<std::pair<std::string, Val>> locals,
                        std::map<std::string, Val> before) {
  auto visible = [&](Value value, std::optional<Interval> bounds) {
    Val v;
    v.kind = Val::Tensor;
    v.value = value;
    v.range = bounds;
    v.depth = static_cast<unsigned>(loops.size());
    return v;
  };
  for (auto [i, c] : llvm::enumerate(ended.carried)) // what went wrong stays poisoned
    before[c.name] = scopes.here().values[c.name].isPoison() ? Val::poison() : visible(op.getFinals()[i], c.init.range);
  size_t i = 0;
  for (const auto &[name, v] : locals)
    before[name] = v.isTensor() ? visible(op.getStacks()[i++], v.range) : v;
  scopes.here().values = std::move(before);
}
