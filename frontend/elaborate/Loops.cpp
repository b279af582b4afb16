// repeat and repeat along.
//
// A loop's body is built in a block that belongs to no operation yet. Its arguments are the carried values, which are
// known before (names that exist and that the body assigns), then slices, which are added when the body first meets an
// outer value that has the loop's axis. At the end the operation is made around the block.
#include "frontend/elaborate/Lowering.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

bool Lowering::isWalked(StringRef axis) const {
  return llvm::any_of(loops, [&](const Loop &l) { return l.axis->name == axis; });
}

Value Lowering::sliceInto(Loop &loop, Value outer) {
  Value &argument = loop.sliceInside[outer];
  if (!argument) {
    argument = loop.block->addArgument(ech::without(ech::tensor(outer), loop.axis->name), outer.getLoc());
    loop.slices.push_back(outer);
  }
  return argument;
}

Value Lowering::inside(const Val &v, SourceRange range) {
  Value value = v.value;
  for (size_t d = v.depth; d < loops.size(); ++d) {
    Loop &loop = loops[d];
    auto type = ech::tensor(value);
    if (!type.has(loop.axis->name))
      continue;
    int64_t size = type.sizeOf(loop.axis->name);
    if (size != loop.axis->size) {
      error(Code::E0204, range,
            "this value has " + loop.axis->name.str() + " = " + std::to_string(size) + ", and the repeat runs along " +
                loop.axis->name.str() + " = " + std::to_string(loop.axis->size) + "; rename the resized axis first");
      return build.constant(0, ech::without(type, loop.axis->name));
    }
    value = sliceInto(loop, value);
  }
  return value;
}

Value Lowering::coerce(const Val &v, ech::Tensor type, Code code, SourceRange range, const std::string &what,
                       bool carried) {
  Value value = v.isTensor() ? inside(v, range) : constantLike(v, type.getElement().isInteger(32));
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
          text += "[+ " + written(a.name) + "]";
      return text;
    };
    std::string hint = expansion(have, type), before = expansion(type, have);
    if (!hint.empty())
      hint = "; expand it: (…)" + hint;
    else if (!before.empty() && carried)
      hint = "; expand it before the repeat: (…)" + before;
    error(code, range,
          what + " must have the axes " + ech::describe(type) + ", and this has " + ech::describe(have) + hint);
    return nullptr;
  }
  if (have.getElement() != type.getElement()) {
    if (!type.isFloat() || have.getElement().isInteger(1)) {
      auto kind = [](Type t) {
        return t.isInteger(1) ? "truth values" : t.isInteger(32) ? "integers" : "real numbers";
      };
      error(code, range,
            what + " must hold " + kind(type.getElement()) + ", and this holds " + kind(have.getElement()));
      return nullptr;
    }
    value = build.toReal(value);
  }
  if (ech::tensor(value) != type) // the same axes in another order of storage
    value = build.relabel(value, builder.getArrayAttr({}), builder.getArrayAttr({}), type);
  return value;
}

void Lowering::repeatStatement(const RepeatStatement &s) {
  auto count = size(*s.count, "repeat " + s.axis.text);
  const AxisInfo *axis = declareAxis(s.axis, count ? *count : 1, nullptr, false, true);
  if (!axis)
    return;
  std::string prefix = scope->prefix;
  auto names = std::move(scope->callNames);
  scope->prefix += s.axis.text + ".";
  scope->callNames = nameCalls(s.body, [&](const Path &p) { return isBlock(*scope->file, p); });
  loop(axis, false, s.body, s.range, s.end);
  scope->callNames = std::move(names);
  scope->prefix = prefix;
}

void Lowering::repeatAlongStatement(const RepeatAlongStatement &s) {
  const AxisInfo *axis = axisOf(s.axis);
  if (!axis)
    return;
  if (axis->countsSamples()) {
    error(Code::E0219, s.axis.range, "samples do not depend on each other, so no repeat runs along " + s.axis.text);
    return;
  }
  if (isWalked(axis->name)) {
    error(Code::E0219, s.axis.range, "a repeat around this one runs over " + s.axis.text + " already");
    return;
  }
  for (AxisFacts &fact : shared.facts.axes)
    if (fact.name == axis->name)
      fact.isWalked = true;
  loop(axis, true, s.body, s.range, s.end);
}

void Lowering::loop(const AxisInfo *axis, bool along, const Body &body, SourceRange range, SourceRange end) {
  std::map<std::string, Val> before = scope->values;
  auto assigned = namesAssigned(body);
  Location loc = location(range);
  At at(*this, range);

  // Carried: exists before, assigned inside.
  std::deque<Carried> carried;
  for (const auto &[name, place] : assigned) {
    if (!before.count(name))
      continue;
    Val init = look(name, place, nullptr);
    if (init.isPoison())
      continue;
    if (init.kind == Val::Word || init.kind == Val::Truth) {
      error(Code::E0213, place, name + " is known when compiling, so it cannot change from one iteration to the next");
      continue;
    }
    Value value = init.isTensor() ? init.value : build.constant(init.number.value());
    auto type = ech::tensor(value);
    if (type.has(axis->name)) {
      error(Code::E0213, place,
            name + " has the axis " + axis->name.str() +
                " that the repeat runs along, so it cannot be carried; use another name inside");
      continue;
    }
    Val entry;
    entry.kind = Val::Tensor;
    entry.value = value;
    entry.range = init.range;
    entry.depth = static_cast<unsigned>(loops.size());
    carried.push_back({name, entry, {}, false, false, {}});
  }

  auto block = std::make_unique<mlir::Block>();
  loops.emplace_back();
  Loop &loop = loops.back();
  loop.axis = axis;
  loop.along = along;
  loop.scope = scope;
  loop.block = block.get();
  for (Carried &c : carried) {
    Location named = NameLoc::get(builder.getStringAttr(c.name), loc);
    c.argument = block->addArgument(c.init.value.getType(), named);
    Val inner = c.init;
    inner.value = c.argument;
    inner.depth = static_cast<unsigned>(loops.size());
    scope->values[c.name] = inner;
  }
  loop.carried = std::move(carried);

  auto point = builder.saveInsertionPoint();
  builder.setInsertionPointToEnd(block.get());
  execute(body);
  At closing(*this, range);
  build.loc = loc;

  // What the iteration yields.
  SmallVector<Value> out, stacked, summed, init;
  std::vector<Carried *> kept;
  for (Carried &c : loop.carried) {
    const Val now = scope->values[c.name];
    if (!c.assigned) { // in a branch that is not taken: the value of before
      c.argument.replaceAllUsesWith(c.init.value);
      for (Pending &p : loop.reports)
        if (p.value == c.argument)
          p.value = c.init.value;
      for (PendingWrite &w : loop.writes)
        if (w.value == c.argument)
          w.value = c.init.value;
      continue;
    }
    Value value;
    if (!now.isPoison())
      value = coerce(now, ech::tensor(c.argument), Code::E0213, c.assignedAt,
                     c.name + " is carried from one iteration to the next: it", true);
    if (value && c.init.range && ech::tensor(value).getElement().isInteger(32) &&
        (!now.range || now.range->low < c.init.range->low || now.range->high > c.init.range->high))
      error(Code::E0213, c.assignedAt,
            c.name + " is an integer below " + std::to_string(c.init.range->high + 1) +
                " before the repeat, and its next value is not known to be");
    out.push_back(value ? value : Value(c.argument));
    init.push_back(c.init.value);
    kept.push_back(&c);
  }
  for (Carried &c : loop.carried)
    if (!c.assigned)
      block->eraseArgument(c.argument.getArgNumber());

  std::vector<std::pair<std::string, Val>> locals;
  if (along) {
    auto read = namesReadAfter(*scope->body, end.end());
    for (const auto &[name, v] : scope->values) {
      if (before.count(name) || !read.count(name))
        continue;
      locals.emplace_back(name, v);
      if (!v.isTensor())
        continue;
      stacked.push_back(inside(v, range));
    }
  }
  size_t localCount = stacked.size();
  for (const PendingWrite &w : loop.writes)
    stacked.push_back(w.value);
  for (const Pending &p : loop.reports)
    summed.push_back(p.value);
  ech::YieldOp::create(builder, loc, out, stacked, summed);

  builder.restoreInsertionPoint(point);
  SmallVector<Type> stacks;
  for (Value v : stacked)
    stacks.push_back(ech::stackedType(ech::tensor(v), axis->name, axis->size));
  auto op = ech::RepeatOp::create(builder, loc, axis->name, axis->size, init, loop.slices, ValueRange(init).getTypes(),
                                  stacks, ValueRange(summed).getTypes());
  op.getBody().push_back(block.release());
  if (along)
    op.setAlong(true);

  // What the code behind the loop sees.
  for (const auto &[name, v] : scope->values)
    if (!before.count(name) && !along)
      scope->gone[name] = range;
  std::map<std::string, Val> after = std::move(before);
  auto reports = std::move(loop.reports);
  auto writes = std::move(loop.writes);
  auto finals = std::move(loop.carried);
  loops.pop_back();
  auto visible = [&](Value value, std::optional<Interval> bounds) {
    Val v;
    v.kind = Val::Tensor;
    v.value = value;
    v.range = bounds;
    v.depth = static_cast<unsigned>(loops.size());
    return v;
  };
  size_t i = 0;
  for (Carried &c : finals)
    if (c.assigned)
      after[c.name] = visible(op.getFinals()[i++], c.init.range);
  // A carried value that went wrong stays poisoned behind the loop.
  for (Carried &c : finals)
    if (c.assigned && scope->values[c.name].isPoison())
      after[c.name] = Val::poison();
  i = 0;
  for (auto &[name, v] : locals)
    after[name] = v.isTensor() ? visible(op.getStacks()[i++], v.range) : v;
  scope->values = std::move(after);
  for (auto [n, w] : llvm::enumerate(writes)) {
    w.value = op.getStacks()[localCount + n];
    (loops.empty() ? this->writes : loops.back().writes).push_back(w);
  }
  for (auto [n, p] : llvm::enumerate(reports)) {
    p.value = op.getSums()[n];
    (loops.empty() ? this->reports : loops.back().reports).push_back(p);
  }
}
