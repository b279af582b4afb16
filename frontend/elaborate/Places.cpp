// x[…]: gathers, picks, slices, renames, splits, merges and expansions.
//
// The places of one bracket name axes of the original value and act at once: picks and slices, which only remove, come
// first, then one relabelling of all names, then the gathers (on the new names), then the expansions.
#include "frontend/elaborate/Lowering.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

Val Lowering::index(const IndexExpr &e) {
  Val x = eval(*e.base);
  for (const IndexExpr::Bracket &b : e.brackets) {
    // A number that is given axes is a real one: 0[+ batch] is what a repeat begins to add to.
    auto t = x.kind == Val::Known ? realTensor(x, e.base->range, "a place") : anyTensor(x, e.base->range);
    if (!t)
      return Val::poison();
    At at(*this, b.range);
    x = bracket(*t, b);
  }
  return x;
}

Val Lowering::bracket(const Val &x, const IndexExpr::Bracket &bracket) {
  const ech::Tensor original = x.type();
  Value value = x.value;
  bool made = x.made, good = true;
  llvm::DenseSet<StringAttr> used; // axes of the original that a place has named
  auto axis = [&](const Ident &name) -> const AxisInfo * {
    const AxisInfo *a = axisOf(name);
    if (!a || !has(original, {a->name}, name.range, "the value")) {
      good = false;
      return nullptr;
    }
    if (!used.insert(a->name).second) {
      error(Code::E0222, name.range,
            "two places of one bracket name axis " + name.text + "; a second bracket acts after the first");
      good = false;
      return nullptr;
    }
    return a;
  };

  // What the places say, in the original's names.
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
  SmallVector<Gather> gathers;
  SmallVector<Group> groups;
  SmallVector<std::pair<ech::Axis, SourceRange>> expansions;

  for (const Place &p : bracket.places) {
    switch (p.kind) {
    case Place::At: {
      const AxisInfo *a = axis(p.from[0]);
      Val at = eval(*p.value);
      if (!a || at.isPoison()) {
        good = false;
        break;
      }
      int64_t size = original.sizeOf(a->name);
      if (at.kind == Val::Known) {
        auto n = at.number.integer();
        if (!n || *n < 0 || *n >= size) {
          good = false;
          error(Code::E0210, p.value->range,
                p.from[0].text + " has the positions 0 to " + std::to_string(size - 1) + ", and this is " +
                    at.number.text());
        } else if (a->countsSamples()) {
          good = false;
          error(Code::E0219, p.from[0].range, "samples have no order, so none of them is picked");
        } else {
          value = build.pick(value, a->name, *n);
        }
        break;
      }
      if (!at.isTensor() || !at.type().getElement().isInteger(32)) {
        good = false;
        error(Code::E0211, p.value->range,
              "an index is an integer or an integer tensor, and this is " +
                  std::string(at.isTensor() && at.type().isFloat() ? "a tensor of real numbers" : "a truth value"));
        break;
      }
      if (!at.range || at.range->low < 0 || at.range->high >= size) {
        good = false;
        error(Code::E0211, p.value->range,
              !at.range
                  ? "the index is not known to lie below " + p.from[0].text + " = " + std::to_string(size) +
                        "; clamp it, or take it from an input `int below " + p.from[0].text + "`"
                  : "the index runs from " + std::to_string(at.range->low) + " to " + std::to_string(at.range->high) +
                        ", and " + p.from[0].text + " has the positions 0 to " + std::to_string(size - 1));
        break;
      }
      made &= at.made;
      gathers.push_back({a->name, at, p.range});
      break;
    }
    case Place::Slice: {
      const AxisInfo *a = axis(p.from[0]);
      if (!a) {
        good = false;
        break;
      }
      int64_t size = original.sizeOf(a->name);
      auto bound = [&](const ExprPtr &e, int64_t otherwise) -> std::optional<int64_t> {
        if (!e)
          return otherwise;
        auto n = known(e.get(), "an end of a slice");
        if (!n)
          return std::nullopt;
        auto i = n->integer();
        if (!i || *i < 0 || *i > size) {
          error(Code::E0210, e->range,
                "slices of " + p.from[0].text + " lie between 0 and " + std::to_string(size) + ", and this is " +
                    n->text());
          return std::nullopt;
        }
        return i;
      };
      auto low = bound(p.value, 0), high = bound(p.high, size);
      if (!low || !high) {
        good = false;
      } else if (*low >= *high) {
        good = false;
        error(Code::E0210, p.range,
              "the slice " + std::to_string(*low) + ".." + std::to_string(*high) +
                  " is empty; its end is one behind its last position");
      } else if (a->countsSamples()) {
        good = false;
        error(Code::E0219, p.from[0].range, "samples have no order, so no slice is cut from them");
      } else if (*low != 0 || *high != size) {
        value = build.slice(value, a->name, *low, *high - *low);
      }
      break;
    }
    case Place::Rename:
    case Place::Split:
    case Place::Merge: {
      Group g;
      g.range = p.range;
      __int128 have = 1, want = 1;
      bool counts = false; // samples
      std::string from, to;
      for (const Ident &name : p.from)
        if (const AxisInfo *a = axis(name)) {
          g.from.push_back(a->name);
          have *= original.sizeOf(a->name);
          from += (from.empty() ? "" : " * ") + name.text;
          counts |= a->countsSamples();
          if (a->countsSamples() && p.kind != Place::Rename) {
            good = false;
            error(Code::E0219, name.range,
                  "the number of samples is the run's, so " + name.text + " is neither split nor merged");
          }
        }
      for (const Ident &name : p.to) {
        const AxisInfo *a = axisOf(name);
        if (!a) {
          good = false;
          continue;
        }
        if (isWalked(a->name)) {
          good = false;
          error(Code::E0219, name.range, "inside its repeat " + name.text + " is a position, not an axis");
          continue;
        }
        if (counts != a->countsSamples() && p.kind == Place::Rename) {
          good = false;
          std::string samples = counts ? p.from[0].text : name.text, other = counts ? name.text : p.from[0].text;
          error(Code::E0219, p.range,
                samples + " has as many samples as the run takes; declare `axis " + other + " like " + samples + "`");
          continue;
        }
        g.to.push_back({a->name, a->size});
        want *= a->size;
        if (want > (__int128(1) << 62))
          want = __int128(1) << 62;
        to += (to.empty() ? "" : " * ") + name.text;
      }
      if (!good || g.from.size() != p.from.size())
        break;
      if (have != want) {
        good = false;
        auto numbers = [](auto sizes) {
          std::string text;
          for (int64_t n : sizes)
            text += (text.empty() ? "" : " * ") + std::to_string(n);
          return text;
        };
        SmallVector<int64_t> a, b;
        for (StringAttr name : g.from)
          a.push_back(original.sizeOf(name));
        for (const ech::Axis &axis : g.to)
          b.push_back(axis.size);
        error(Code::E0214, p.range,
              from + " = " + numbers(a) + " cannot become " + to + " = " + numbers(b) + "; the sizes must agree");
        break;
      }
      groups.push_back(std::move(g));
      break;
    }
    case Place::Expand: {
      const AxisInfo *a = axisOf(p.to[0]);
      auto n = a && p.value ? size(*p.value, p.to[0].text) : std::optional<int64_t>(a ? a->size : 0);
      if (!a || !n) {
        good = false;
        break;
      }
      if (isWalked(a->name)) {
        good = false;
        error(Code::E0219, p.to[0].range, "inside its repeat " + p.to[0].text + " is a position, not an axis");
        break;
      }
      expansions.push_back({{a->name, *n}, p.range});
      break;
    }
    }
  }
  if (!good)
    return Val::poison();

  // One relabelling. A gathered axis whose name another axis takes, from a rename or from an index, gives way under a
  // name of its own.
  for (Gather &g : gathers) {
    bool taken = llvm::any_of(groups, [&](const Group &group) {
      return llvm::any_of(group.to, [&](const ech::Axis &a) { return a.name == g.axis; });
    });
    taken |= llvm::any_of(gathers, [&](const Gather &other) { return other.index.type().has(g.axis); });
    if (!taken)
      continue;
    auto other = builder.getStringAttr(g.axis.getValue() + "_gathered");
    groups.push_back({{g.axis}, {{other, original.sizeOf(g.axis)}}, g.range});
    g.axis = other;
  }
  if (!groups.empty()) {
    ech::Tensor type = ech::tensor(value);
    SmallVector<ech::Axis> result;
    SmallVector<Attribute> from, to;
    for (const Group &g : groups) {
      from.push_back(builder.getStrArrayAttr(refs(g.from)));
      to.push_back(
          builder.getStrArrayAttr(llvm::map_to_vector(g.to, [](const ech::Axis &a) { return a.name.getValue(); })));
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
          SourceRange range = bracket.range;
          for (const Group &g : groups)
            if (llvm::any_of(g.to, [&](const ech::Axis &t) { return t.name == name; }))
              range = g.range;
          return poison(Code::E0203, range, "the value would have axis " + written(name) + " twice");
        }
    // Back at its declared size a resized axis is the axis itself; a name for itself is no operation.
    if (type.withAxes(result) != type)
      value = build.relabel(value, builder.getArrayAttr(from), builder.getArrayAttr(to), type.withAxes(result));
  }

  if (!gathers.empty()) {
    SmallVector<StringRef> names;
    SmallVector<Value> indices;
    ech::Tensor rest = ech::tensor(value);
    for (const Gather &g : gathers) {
      names.push_back(g.axis);
      indices.push_back(g.index.value);
      rest = ech::without(rest, g.axis);
    }
    for (auto [i, g] : llvm::enumerate(gathers)) {
      if (!sizesAgree(g.index.type(), rest, g.range, "this gather"))
        return Val::poison();
      for (const Gather &h : ArrayRef(gathers).drop_front(i + 1))
        if (!sizesAgree(g.index.type(), h.index.type(), g.range, "this gather"))
          return Val::poison();
    }
    value = build.gather(value, names, indices);
  }

  for (const auto &[axis, range] : expansions) {
    ech::Tensor type = ech::tensor(value);
    if (type.has(axis.name))
      return poison(Code::E0203, range, "the value has an axis " + written(axis.name) + " already");
    // Slowest but for the batch, so that convolutions and norms find samples first as they stand in memory.
    SmallVector<ech::Axis> all(type.getAxes());
    bool samplesFirst = batchAxis && !all.empty() && all.front().name == batchAxis->name;
    all.insert(all.begin() + samplesFirst, axis);
    value = build.expand(value, type.withAxes(all));
  }
  return tensor(value, made, bracket.range, x.range);
}
