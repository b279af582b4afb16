// ShardView of pieces, whole or cut into flat rows.
#include "passes/lower/ShardView.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;
using dist::Hold;

namespace {
std::string partAxis(MeshAttr mesh, int m) { return ("@" + mesh.nameOf(m)).str(); }
} // namespace

ShardView::ShardView(Lowering &l, Tensor part, ArrayRef<int> over, Location loc)
    : l(l), part(part), over(over), loc(loc) {
  for (int m : over)
    (dist::stateOf(part)[m].hold == Hold::Flat ? flats : divides).push_back(m);
}

SmallVector<Axis> ShardView::axesOf(ArrayRef<Axis> whole) const {
  SmallVector<Axis> axes = divided(whole);
  if (flats.empty())
    return axes;
  SmallVector<Axis> one(above(axes));
  one.push_back({flatName(), levels(axes).back()});
  return one;
}

int64_t ShardView::ranks() const {
  int64_t n = 1;
  for (int m : over)
    n *= l.mesh.sizeOf(m);
  return n;
}

SmallVector<Axis> ShardView::counters(ArrayRef<int> of) const {
  SmallVector<Axis> axes;
  for (int m : of)
    axes.push_back({l.b.getStringAttr(partAxis(l.mesh, m)), l.mesh.sizeOf(m)});
  return axes;
}

std::optional<size_t> ShardView::cutAxis(ArrayRef<Axis> whole) const {
  for (auto [i, a] : llvm::enumerate(whole))
    if (ArrayRef<int>(nest(a.name)) == over)
      return i;
  return std::nullopt;
}

Value ShardView::seen(Value whole) const {
  ArrayRef<Axis> axes = rt::buffer(whole).getAxes();
  Value padded = byParts(longer(axes) == SmallVector<Axis>(axes) ? whole : copied(whole, longer(axes)));
  Value parts = asParts(padded, axes);
  return flats.empty() ? parts : flattened(parts, divided(axes));
}

Value ShardView::exact(Value whole) const {
  ArrayRef<Axis> axes = rt::buffer(whole).getAxes();
  if (!interleavings(axes).empty())
    return {};
  if (flats.empty())
    return longer(axes) == SmallVector<Axis>(axes) ? asParts(whole, axes) : Value();
  if (!divides.empty() || !rt::buffer(whole).isDense() || levels(axes)[0] % ranks() != 0)
    return {};
  return flattened(whole, axes);
}

void ShardView::join(Value parts, Value whole) const {
  ArrayRef<Axis> axes = rt::buffer(whole).getAxes();
  Type element = rt::buffer(whole).getElement();
  if (!flats.empty())
    parts = unflattened(parts, divided(axes));
  SmallVector<Axis> needed = longer(axes);
  Value padded = needed == SmallVector<Axis>(axes) ? whole : l.alloc(needed, element, loc);
  if (interleavings(axes).empty()) {
    l.copy(asParts(padded, axes), parts, loc);
  } else {
    Value together = inParts(parts, needed);
    if (!together) {
      together = l.alloc(needed, element, loc);
      l.copy(asParts(together, axes), parts, loc);
    }
    placeRuns(together, padded);
  }
  if (padded != whole)
    l.copy(whole, inside(padded, axes), loc);
}

SmallVector<ShardView::Interleaving> ShardView::interleavings(ArrayRef<Axis> whole) const {
  SmallVector<Interleaving> list;
  for (const Axis &a : whole) {
    int64_t outer = 1;
    for (const dist::Divider &divider : dist::dividers(part, a.name, l.mesh)) {
      if (!llvm::is_contained(over, divider.mesh))
        continue;
      if (!divider.map.isBlocks() && divider.size > 1)
        list.push_back({a.name, outer, divider.size, divider.map});
      outer *= divider.size;
    }
  }
  return list;
}

/// Chunks of unequal sizes, one by one: what is behind a smaller one is padding.
void ShardView::interleaveUnequal(const Interleaving &how, Value inOrder, Value byParts, bool toParts) const {
  const dist::OwnerMap &map = how.map;
  if (toParts)
    l.fill(byParts, 0, loc);
  for (int64_t chunk = 0; chunk < how.size * map.chunks; ++chunk) {
    const int64_t size = map.sizes[chunk], place = chunk % how.size * map.chunks + chunk / how.size;
    if (size == 0)
      continue;
    Value from = l.range(inOrder, how.axis, map.before(chunk), size, loc);
    Value to = l.range(byParts, how.axis, place * map.largest(), size, loc);
    if (toParts)
      l.copy(to, from, loc);
    else
      l.copy(from, to, loc);
  }
}

void ShardView::interleave(const Interleaving &how, Value inOrder, Value byParts, bool toParts) const {
  if (!how.map.isEqual())
    return interleaveUnequal(how, inOrder, byParts, toParts);
  const int64_t chunk = rt::buffer(inOrder).sizeOf(how.axis) / (how.outer * how.size * how.map.chunks);
  // (the slower parts, the coordinates, a chunk) in place of the axis
  auto seen = [&](Value base, int64_t first, int64_t step) {
    Buffer type = rt::buffer(base);
    SmallVector<Axis> axes;
    SmallVector<int64_t> strides;
    for (auto [axis, stride] : llvm::zip(type.getAxes(), type.getStrides())) {
      if (axis.name != how.axis) {
        axes.push_back(axis);
        strides.push_back(stride);
        continue;
      }
      axes.push_back(l.axisBeside("part", how.outer, type.getAxes()));
      axes.push_back(l.axisBeside("coordinate", how.size, type.getAxes()));
      axes.push_back({axis.name, chunk});
      strides.push_back(how.size * how.map.chunks * chunk * stride);
      strides.push_back(step * chunk * stride);
      strides.push_back(stride);
    }
    return l.view(base, first * chunk * type.strideOf(how.axis),
                  Buffer::get(l.b.getContext(), axes, type.getElement(), strides), loc);
  };
  for (int64_t k = 0; k < how.map.chunks; ++k) {
    const dist::OwnerMap::Chunk held = how.map.chunk(k, how.size);
    Value from = seen(inOrder, held.first, held.step), to = seen(byParts, k, how.map.chunks);
    if (toParts)
      l.copy(to, from, loc);
    else
      l.copy(from, to, loc);
  }
}

Value ShardView::byParts(Value whole) const {
  ArrayRef<Axis> axes = rt::buffer(whole).getAxes();
  for (const Interleaving &how : interleavings(axes)) {
    Value to = l.alloc(axes, rt::buffer(whole).getElement(), loc);
    interleave(how, whole, to, /*toParts=*/true);
    whole = to;
  }
  return whole;
}

void ShardView::placeRuns(Value byParts, Value whole) const {
  ArrayRef<Axis> axes = rt::buffer(whole).getAxes();
  const SmallVector<Interleaving> list = interleavings(axes);
  for (const Interleaving &how : llvm::reverse(list)) {
    Value to = &how == list.begin() ? whole : l.alloc(axes, rt::buffer(whole).getElement(), loc);
    interleave(how, to, byParts, /*toParts=*/false);
    byParts = to;
  }
}

Value ShardView::inParts(Value parts, ArrayRef<Axis> whole) const {
  Buffer type = rt::buffer(parts);
  if (!flats.empty() || longer(whole) != SmallVector<Axis>(whole))
    return {};
  SmallVector<int64_t> strides;
  for (const Axis &a : whole) {
    int64_t size = type.sizeOf(a.name), stride = type.strideOf(a.name), expected = stride * size;
    SmallVector<int> cuts = nest(a.name);
    for (int m : llvm::reverse(cuts)) {
      if (type.strideOf(partAxis(l.mesh, m)) != expected)
        return {};
      expected *= l.mesh.sizeOf(m);
    }
    strides.push_back(stride);
  }
  return l.view(parts, 0, Buffer::get(l.b.getContext(), whole, type.getElement(), strides), loc);
}

SmallVector<Axis> ShardView::divided(ArrayRef<Axis> whole) const {
  SmallVector<Axis> axes(whole);
  for (Axis &a : axes)
    for (const dist::Divider &divider : dist::dividers(part, a.name, l.mesh))
      if (llvm::is_contained(over, divider.mesh))
        a.size = divider.map.stored(a.size, divider.size);
  return axes;
}

SmallVector<int> ShardView::nest(StringRef axis) const {
  SmallVector<int> list;
  for (int m : dist::over(part, axis, l.mesh))
    if (llvm::is_contained(over, m))
      list.push_back(m);
  return list;
}

int64_t ShardView::partsOf(StringRef axis) const {
  int64_t n = 1;
  for (int m : nest(axis))
    n *= l.mesh.sizeOf(m);
  return n;
}

SmallVector<Axis> ShardView::longer(ArrayRef<Axis> whole) const {
  SmallVector<Axis> axes = divided(whole);
  for (Axis &a : axes)
    a.size *= partsOf(a.name);
  return axes;
}

Value ShardView::inside(Value padded, ArrayRef<Axis> axes) const {
  for (const Axis &a : axes)
    if (rt::buffer(padded).sizeOf(a.name) != a.size)
      padded = l.range(padded, a.name, 0, a.size, loc);
  return padded;
}

Value ShardView::copied(Value whole, ArrayRef<Axis> needed) const {
  Value padded = l.alloc(needed, rt::buffer(whole).getElement(), loc);
  l.fill(padded, 0, loc);
  l.copy(inside(padded, rt::buffer(whole).getAxes()), whole, loc);
  return padded;
}

SmallVector<int64_t> ShardView::levels(ArrayRef<Axis> axes) const {
  SmallVector<int64_t> counts{1};
  for (const Axis &a : inRow(axes))
    counts[0] *= a.size;
  for (int m : flats)
    counts.push_back((counts.back() + l.mesh.sizeOf(m) - 1) / l.mesh.sizeOf(m));
  return counts;
}

Value ShardView::dense(Value v, ArrayRef<Axis> axes) const {
  return l.view(v, 0, Buffer::dense(axes, rt::buffer(v).getElement()), loc);
}

Value ShardView::flattened(Value parts, ArrayRef<Axis> one) const {
  SmallVector<int64_t> counts = levels(one);
  SmallVector<Axis> axes = counters(divides);
  SmallVector<Axis> all = axes;
  llvm::append_range(all, one);
  llvm::append_range(axes, above(one));
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
  SmallVector<Axis> last(above(one));
  last.push_back(axes.back());
  return ordered(row, counters(over), last);
}

Value ShardView::unflattened(Value parts, ArrayRef<Axis> one) const {
  SmallVector<int64_t> counts = levels(one);
  SmallVector<Axis> axes = counters(divides);
  llvm::append_range(axes, above(one));
  llvm::append_range(axes, counters(flats));
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
  llvm::append_range(axes, inRow(one));
  return dense(row, axes);
}

Value ShardView::ordered(Value v, SmallVector<Axis> axes, ArrayRef<Axis> last) const {
  llvm::append_range(axes, last);
  SmallVector<int64_t> strides;
  for (const Axis &a : axes)
    strides.push_back(rt::buffer(v).strideOf(a.name));
  return l.view(v, 0, Buffer::get(l.b.getContext(), axes, rt::buffer(v).getElement(), strides), loc);
}

Value ShardView::asParts(Value padded, ArrayRef<Axis> whole) const {
  Buffer from = rt::buffer(padded);
  SmallVector<Axis> axes = counters(divides), one = divided(whole);
  SmallVector<int64_t> strides(axes.size(), 0);
  for (const Axis &a : one) {
    int64_t stride = from.strideOf(a.name), step = stride * a.size;
    SmallVector<int> cuts = nest(a.name);
    for (int m : llvm::reverse(cuts)) {
      strides[llvm::find(divides, m) - divides.begin()] = step;
      step *= l.mesh.sizeOf(m);
    }
    axes.push_back(a);
    strides.push_back(stride);
  }
  return l.view(padded, 0, Buffer::get(l.b.getContext(), axes, from.getElement(), strides), loc);
}
