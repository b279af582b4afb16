// x[…]: gathers, picks, slices, renames, splits, merges and expansions.
//
// The places of one bracket name axes of the original value and act at once: picks and slices, which only remove, come
// first, then one relabelling of all names, then the gathers (on the new names), then the expansions.
#include "frontend/elaborate/Brackets.h"
#include "frontend/elaborate/AxisRules.h"
#include "frontend/elaborate/Elaborator.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

namespace {

/// What one bracket does to a value: its places are read, in the value's own names, then all of them act at once.
class BracketAction {
public:
  BracketAction(Elaborator &elab, const Val &x, const IndexExpr::Bracket &bracket)
      : elab(elab), build(elab.build), bracket(bracket), original(x.type()), value(x.value), range(x.range),
        made(x.made) {}

  Val run() {
    for (const Place &place : bracket.places)
      good &= read(place);
    if (!good || !relabel() || !gather() || !expand())
      return Val::poison();
    return elab.tensor(value, made, bracket.range, range);
  }

private:
  struct Gather {
    StringAttr axis;
    Val index;
    SourceRange range;
  };
  struct Group {
    SmallVector<StringAttr> from;
    SmallVector<ech::Axis> to;
    SourceRange range;
  };

  /// Each of these is false when it has reported an error.
  bool read(const Place &p) {
    switch (p.kind) {
    case Place::At:
      return readAt(p);
    case Place::Slice:
      return readSlice(p);
    case Place::Rename:
    case Place::Split:
    case Place::Merge:
      return readGroup(p);
    case Place::Expand:
      return readExpansion(p);
    }
    return false;
  }
  bool readAt(const Place &p);
  bool pick(const Place &p, const AxisInfo &axis, const Number &position);
  bool readSlice(const Place &p);
  std::optional<int64_t> sliceEnd(const Expr &e, const std::string &axis, int64_t size);
  bool readGroup(const Place &p);
  bool readExpansion(const Place &p);

  bool relabel();
  bool gather();
  bool expand();

  bool wrong(Code code, SourceRange where, std::string message) {
    elab.error(code, where, std::move(message));
    return false;
  }
  /// An axis of the original, which no other place has named.
  const AxisInfo *axis(const Ident &name) {
    const AxisInfo *a = elab.scopes.axis(name);
    if (!a || !requireAxes(elab, original, {a->name}, name.range, "the value"))
      return nullptr;
    if (used.insert(a->name).second)
      return a;
    wrong(Code::E0222, name.range,
          "two places of one bracket name axis " + name.text + "; a second bracket acts after the first");
    return nullptr;
  }
  bool isPosition(const AxisInfo &axis, const Ident &name) {
    return elab.loops.isWalked(axis.name) &&
           !wrong(Code::E0219, name.range, "inside its repeat " + name.text + " is a position, not an axis");
  }

  Elaborator &elab;
  ech::Build &build;
  const IndexExpr::Bracket &bracket;
  const ech::Tensor original;
  Value value; // after the picks and slices read so far; then after each action
  const std::optional<Interval> range;
  bool made, good = true;
  llvm::DenseSet<StringAttr> used; // axes of the original that a place has named
  SmallVector<Gather> gathers;
  SmallVector<Group> groups; // of renames, splits and merges
  SmallVector<std::pair<ech::Axis, SourceRange>> expansions;
};

} // namespace

/// Whether the index is an argmax over samples, perhaps renamed: the same samples in another order then give the same.
static bool isFoundAmongSamples(Elaborator &elab, const Val &index) {
  Operation *op = index.isTensor() ? index.value.getDefiningOp() : nullptr;
  while (isa_and_nonnull<ech::RelabelOp, ech::ExpandOp>(op))
    op = op->getOperand(0).getDefiningOp();
  auto found = dyn_cast_or_null<ech::ArgMaxOp>(op);
  return found && elab.countsSamples(cast<StringAttr>(found.getOver()[0]));
}

bool BracketAction::readAt(const Place &p) {
  const AxisInfo *a = axis(p.from[0]);
  Val at = elab.eval(*p.value);
  if (!a || at.isPoison())
    return false;
  if (a->countsSamples() && !isFoundAmongSamples(elab, at))
    return wrong(Code::E0219, p.from[0].range,
                 at.kind == Val::Known ? "samples have no order, so none of them is picked"
                                       : "samples have no order, so an index picks one only where argmax over " +
                                             p.from[0].text + " has found it");
  if (at.kind == Val::Word)
    return wrong(Code::E0110, p.value->range, "nothing is called " + quoted(at.word));
  if (at.kind == Val::Known)
    return pick(p, *a, at.number);
  if (!at.isTensor() || !at.type().getElement().isInteger(32))
    return wrong(Code::E0211, p.value->range,
                 "an index is an integer or an integer tensor, and this is " +
                     std::string(at.isTensor() && at.type().isFloat() ? "a tensor of real numbers" : "a truth value"));
  int64_t size = original.sizeOf(a->name);
  const std::string &name = p.from[0].text;
  if (!at.range)
    return wrong(Code::E0211, p.value->range,
                 "the index is not known to lie below " + name + " = " + std::to_string(size) +
                     "; clamp it, or take it from an input `int below " + name + "`");
  if (at.range->low < 0 || at.range->high >= size)
    return wrong(Code::E0211, p.value->range,
                 "the index runs from " + std::to_string(at.range->low) + " to " + std::to_string(at.range->high) +
                     ", and " + name + " has the positions 0 to " + std::to_string(size - 1));
  made &= at.made;
  gathers.push_back({a->name, at, p.range});
  return true;
}

bool BracketAction::pick(const Place &p, const AxisInfo &axis, const Number &position) {
  int64_t size = original.sizeOf(axis.name);
  auto n = position.integer();
  if (!n || *n < 0 || *n >= size)
    return wrong(Code::E0210, p.value->range,
                 p.from[0].text + " has the positions 0 to " + std::to_string(size - 1) + ", and this is " +
                     position.text());
  value = build.pick(value, axis.name, *n);
  return true;
}

std::optional<int64_t> BracketAction::sliceEnd(const Expr &e, const std::string &axis, int64_t size) {
  auto n = elab.read.known(&e, "an end of a slice");
  if (!n)
    return std::nullopt;
  auto end = n->integer();
  if (end && *end >= 0 && *end <= size)
    return end;
  wrong(Code::E0210, e.range,
        "slices of " + axis + " lie between 0 and " + std::to_string(size) + ", and this is " + n->text());
  return std::nullopt;
}

bool BracketAction::readSlice(const Place &p) {
  const AxisInfo *a = axis(p.from[0]);
  if (!a)
    return false;
  int64_t size = original.sizeOf(a->name);
  auto low = p.value ? sliceEnd(*p.value, p.from[0].text, size) : std::optional<int64_t>(0);
  auto high = p.high ? sliceEnd(*p.high, p.from[0].text, size) : std::optional<int64_t>(size);
  if (!low || !high)
    return false;
  if (*low >= *high)
    return wrong(Code::E0210, p.range,
                 "the slice " + std::to_string(*low) + ".." + std::to_string(*high) +
                     " is empty; its end is one past its last position");
  if (a->countsSamples())
    return wrong(Code::E0219, p.from[0].range, "samples have no order, so no slice is cut from them");
  if (*low != 0 || *high != size)
    value = build.slice(value, a->name, *low, *high - *low);
  return true;
}

/// "a * b" of names or sizes.
template <typename List, typename F> static std::string product(const List &list, F text) {
  std::string result;
  for (const auto &item : list)
    result += (result.empty() ? "" : " * ") + text(item);
  return result;
}

bool BracketAction::readGroup(const Place &p) {
  Group g;
  g.range = p.range;
  bool fits = true, samples = false;
  for (const Ident &name : p.from) {
    const AxisInfo *a = axis(name);
    if (!a) {
      fits = false;
      continue;
    }
    g.from.push_back(a->name);
    samples |= a->countsSamples();
    if (a->countsSamples() && p.kind != Place::Rename)
      fits = wrong(Code::E0219, name.range,
                   "the number of samples is the run's, so " + name.text + " is neither split nor merged");
  }
  for (const Ident &name : p.to) {
    const AxisInfo *a = elab.scopes.axis(name);
    if (!a || a->isWrong || isPosition(*a, name)) {
      fits = false;
    } else if (samples != a->countsSamples() && p.kind == Place::Rename) {
      const std::string &counted = samples ? p.from[0].text : name.text, &other = samples ? name.text : p.from[0].text;
      fits =
          wrong(Code::E0219, p.range,
                counted + " has as many samples as the run takes; declare `axis " + other + " like " + counted + "`");
    } else if (a->countsSamples() && p.kind != Place::Rename) {
      fits = wrong(Code::E0219, name.range,
                   "the number of samples is the run's, so " + name.text + " comes from no split or merge");
    } else {
      g.to.push_back({a->name, a->size});
    }
  }
  if (!fits)
    return false;
  constexpr __int128 kMany = __int128(1) << 62; // more than any value has
  __int128 have = 1, want = 1;
  for (StringAttr name : g.from)
    have *= original.sizeOf(name);
  for (const ech::Axis &axis : g.to)
    want = std::min(want * axis.size, kMany);
  if (have != want) {
    auto text = [](const Ident &name) { return name.text; };
    return wrong(Code::E0214, p.range,
                 product(p.from, text) + " = " +
                     product(g.from, [&](StringAttr name) { return std::to_string(original.sizeOf(name)); }) +
                     " cannot become " + product(p.to, text) + " = " +
                     product(g.to, [](const ech::Axis &axis) { return std::to_string(axis.size); }) +
                     "; the sizes must agree");
  }
  groups.push_back(std::move(g));
  return true;
}

bool BracketAction::readExpansion(const Place &p) {
  const AxisInfo *a = elab.scopes.axis(p.to[0]);
  auto n = a && p.value ? elab.read.size(*p.value, p.to[0].text) : std::optional<int64_t>(a ? a->size : 0);
  if (!a || !n || a->isWrong || isPosition(*a, p.to[0]))
    return false;
  if (p.value && a->countsSamples())
    return wrong(Code::E0219, p.range, "the number of samples is the run's; write [+ " + p.to[0].text + "]");
  expansions.push_back({{a->name, *n}, p.range});
  return true;
}

bool BracketAction::relabel() {
  // A gathered axis whose name another axis takes, from a rename or from an index, gives way under a name of its own.
  for (Gather &g : gathers) {
    bool taken = llvm::any_of(groups, [&](const Group &group) {
      return llvm::any_of(group.to, [&](const ech::Axis &a) { return a.name == g.axis; });
    });
    taken |= llvm::any_of(gathers, [&](const Gather &other) { return other.index.type().has(g.axis); });
    if (!taken)
      continue;
    auto other = build.builder.getStringAttr(g.axis.getValue() + "_gathered");
    groups.push_back({{g.axis}, {{other, original.sizeOf(g.axis)}}, g.range});
    g.axis = other;
  }
  if (groups.empty())
    return true;
  ech::Tensor type = ech::tensor(value);
  SmallVector<ech::Axis> result;
  SmallVector<Attribute> from, to;
  for (const Group &g : groups) {
    from.push_back(build.builder.getStrArrayAttr(refs(g.from)));
    to.push_back(
        build.builder.getStrArrayAttr(llvm::map_to_vector(g.to, [](const ech::Axis &a) { return a.name.getValue(); })));
  }
  for (const ech::Axis &a : type.getAxes()) {
    const Group *group = llvm::find_if(groups, [&](const Group &g) { return llvm::is_contained(g.from, a.name); });
    if (group == groups.end())
      result.push_back(a);
    else if (group->from[0] == a.name)
      result.append(group->to.begin(), group->to.end());
  }
  for (size_t i = 0; i < result.size(); ++i)
    for (const ech::Axis &b : ArrayRef(result).drop_front(i + 1))
      if (StringAttr name = result[i].name; name == b.name) {
        SourceRange where = bracket.range;
        for (const Group &g : groups)
          if (llvm::any_of(g.to, [&](const ech::Axis &t) { return t.name == name; }))
            where = g.range;
        return wrong(Code::E0203, where, "the value would have axis " + elab.scopes.written(name) + " twice");
      }
  // Back at its declared size a resized axis is the axis itself; a name for itself is no operation.
  if (type.withAxes(result) != type)
    value = build.relabel(value, build.builder.getArrayAttr(from), elab.build.builder.getArrayAttr(to),
                          type.withAxes(result));
  return true;
}

bool BracketAction::gather() {
  if (gathers.empty())
    return true;
  SmallVector<StringRef> names;
  SmallVector<Value> indices;
  ech::Tensor rest = ech::tensor(value);
  for (const Gather &g : gathers) {
    names.push_back(g.axis);
    indices.push_back(g.index.value);
    rest = ech::without(rest, g.axis);
  }
  for (auto [i, g] : llvm::enumerate(gathers)) {
    if (!requireEqualSizes(elab, g.index.type(), rest, g.range, "this gather"))
      return false;
    for (const Gather &h : ArrayRef(gathers).drop_front(i + 1))
      if (!requireEqualSizes(elab, g.index.type(), h.index.type(), g.range, "this gather"))
        return false;
  }
  value = build.gather(value, names, indices);
  return true;
}

bool BracketAction::expand() {
  for (const auto &[axis, where] : expansions) {
    ech::Tensor type = ech::tensor(value);
    if (type.has(axis.name))
      return wrong(Code::E0203, where, "the value has an axis " + elab.scopes.written(axis.name) + " already");
    // Slowest but for the batch, so that convolutions and norms find samples first as they are in memory.
    SmallVector<ech::Axis> all(type.getAxes());
    bool samplesFirst = elab.batch() && !all.empty() && all.front().name == elab.batch()->name;
    all.insert(all.begin() + samplesFirst, axis);
    value = build.expand(value, type.withAxes(all));
  }
  return true;
}

Val echelon::frontend::bracketed(Elaborator &elab, const IndexExpr &e) {
  Val x = elab.eval(*e.base);
  for (const IndexExpr::Bracket &b : e.brackets) {
    // A number that is given axes is a real one: 0[+ batch] is what a repeat begins to add to.
    auto t = x.kind == Val::Known ? elab.read.realTensor(x, e.base->range, "a place")
                                  : elab.read.anyTensor(x, e.base->range);
    if (!t)
      return Val::poison();
    llvm::SaveAndRestore at(elab.build.loc, elab.scopes.location(b.range));
    x = BracketAction(elab, *t, b).run();
  }
  return x;
}
