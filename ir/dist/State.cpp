// Pieces, sizes and legal states.
#include "ir/dist/State.h"
#include "ir/dist/Placed.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;

MeshAttr echelon::dist::meshOf(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  return module ? module->getAttrOfType<MeshAttr>(kMesh) : MeshAttr();
}
StateAttr echelon::dist::stateOf(Tensor type) { return dyn_cast_or_null<StateAttr>(type.getState()); }
StateAttr echelon::dist::stateOf(Value value) { return stateOf(ech::tensor(value)); }

StateAttr echelon::dist::wholeState(MeshAttr mesh) {
  SmallVector<Entry> entries;
  for (const MeshAxis &axis : mesh.getAxes())
    entries.push_back({axis.name, Hold::Whole, {}});
  return StateAttr::get(mesh.getContext(), entries);
}

bool echelon::dist::isCut(StateAttr state) {
  return llvm::any_of(state.getEntries(), [](const Entry &entry) { return entry.isCut(); });
}
SmallVector<StringRef> echelon::dist::storedOver(ModuleOp module, StringRef meshAxis) {
  SmallVector<StringRef> stored;
  auto clauses = module->getAttrOfType<DictionaryAttr>(kStore);
  for (StringRef what : {"optimizer", "gradients", "params"})
    if (auto over = clauses ? clauses.getAs<ArrayAttr>(what) : ArrayAttr(); over && ech::has(over, meshAxis))
      stored.push_back(what);
  return stored;
}

int echelon::dist::stagesOf(MeshAttr mesh, StringRef axis) {
  for (int m = 0; mesh && m < mesh.size(); ++m)
    if (mesh.place(m, axis) >= 0)
      return m;
  return -1;
}

StateAttr echelon::dist::ownState(Tensor type, MeshAttr mesh) {
  StateAttr state = wholeState(mesh);
  for (int m = 0; m < mesh.size(); ++m)
    if (StringRef axis = mesh.firstListed(m, type); !axis.empty())
      state = state.with(m, Hold::Split, StringAttr::get(mesh.getContext(), axis));
  return state;
}

SmallVector<int> echelon::dist::over(Tensor type, StringRef axis, MeshAttr mesh) {
  SmallVector<int> result;
  StateAttr state = stateOf(type);
  if (!state)
    return result;
  for (int m = 0; m < state.size(); ++m)
    if (state[m].hold == Hold::Split && state[m].axis == axis)
      result.push_back(m);
  if (result.size() > 1) { // one has no order
    const SmallVector<int> order = mesh.nest(axis);
    llvm::sort(result, [&](int a, int b) { return llvm::find(order, a) < llvm::find(order, b); });
  }
  for (int m = 0; m < state.size(); ++m)
    if (state[m].hold == Hold::Cut && state[m].axis == axis)
      result.push_back(m);
  return result;
}

static SmallVector<int> having(Tensor type, Hold hold) {
  SmallVector<int> result;
  if (StateAttr state = stateOf(type))
    for (int m = 0; m < state.size(); ++m)
      if (state[m].hold == hold)
        result.push_back(m);
  return result;
}
SmallVector<int> echelon::dist::flatCuts(Tensor type) { return having(type, Hold::Flat); }
size_t echelon::dist::axesAboveFlat(Tensor type) {
  SmallVector<int> flats = flatCuts(type);
  const StringAttr last = flats.empty() ? StringAttr() : stateOf(type)[flats.front()].axis;
  return last ? type.position(last) + 1 : 0;
}
SmallVector<int> echelon::dist::sums(Tensor type) { return having(type, Hold::Sum); }

int64_t echelon::dist::parts(Tensor type, StringRef axis, MeshAttr mesh) {
  int64_t n = 1;
  for (int m : over(type, axis, mesh))
    n *= mesh.sizeOf(m);
  return n;
}
int64_t echelon::dist::localSize(Tensor type, StringRef axis, MeshAttr mesh) {
  int64_t size = type.sizeOf(axis);
  for (const Divider &divider : dividers(type, axis, mesh))
    size = divider.map.stored(size, divider.size);
  return size;
}
int64_t echelon::dist::paddedSize(Tensor type, StringRef axis, MeshAttr mesh) {
  return localSize(type, axis, mesh) * parts(type, axis, mesh);
}
bool echelon::dist::isPadded(Tensor type, StringRef axis, MeshAttr mesh) {
  return paddedSize(type, axis, mesh) != type.sizeOf(axis);
}
SmallVector<int64_t> echelon::dist::localShape(Tensor type, MeshAttr mesh) {
  SmallVector<int64_t> shape;
  for (StringRef axis : type.names())
    shape.push_back(localSize(type, axis, mesh));
  return shape;
}
int64_t echelon::dist::localCount(Tensor type, MeshAttr mesh) {
  const SmallVector<int64_t> shape = localShape(type, mesh);
  const size_t above = axesAboveFlat(type);
  int64_t slices = 1, n = 1;
  for (auto [i, size] : llvm::enumerate(shape))
    (i < above ? slices : n) *= size;
  for (int m : flatCuts(type))
    n = llvm::divideCeil(n, mesh.sizeOf(m));
  return slices * n;
}
int64_t echelon::dist::localBytes(Tensor type, MeshAttr mesh) {
  return localCount(type, mesh) * std::max<int64_t>(1, type.getElement().getIntOrFloatBitWidth() / 8);
}
Tensor echelon::dist::localType(Tensor type, MeshAttr mesh) {
  SmallVector<ech::Axis> axes;
  for (const ech::Axis &axis : type.getAxes())
    axes.push_back({axis.name, localSize(type, axis.name, mesh)});
  if (!flatCuts(type).empty()) {
    axes.resize(axesAboveFlat(type));
    int64_t slices = 1;
    for (const ech::Axis &axis : axes)
      slices *= axis.size;
    axes.push_back({StringAttr::get(type.getContext(), "flat"), localCount(type, mesh) / slices});
  }
  return type.withAxes(axes).withState({});
}

SmallVector<int64_t> echelon::dist::coordinates(MeshAttr mesh, int64_t rank) {
  SmallVector<int64_t> result(mesh.size());
  for (int m = mesh.size() - 1; m >= 0; --m) {
    result[m] = rank % mesh.sizeOf(m);
    rank /= mesh.sizeOf(m);
  }
  return result;
}
SmallVector<Divider> echelon::dist::dividers(Tensor type, StringRef axis, MeshAttr mesh) {
  SmallVector<Divider> list;
  for (int m : over(type, axis, mesh))
    list.push_back({m, mesh.sizeOf(m),
                    stateOf(type)[m].hold == Hold::Split ? mesh.mapOf(m, axis, type.sizeOf(axis)) : OwnerMap()});
  return list;
}
std::vector<Interval> echelon::dist::runs(Tensor type, StringRef axis, MeshAttr mesh, ArrayRef<int64_t> coordinates) {
  return runtime::runsOf(paddedSize(type, axis, mesh), dividers(type, axis, mesh), coordinates);
}
std::optional<OwnerMap> echelon::dist::unequalMap(Tensor type, StringRef axis, MeshAttr mesh) {
  for (const Divider &divider : dividers(type, axis, mesh))
    if (!divider.map.isEqual())
      return divider.map;
  return std::nullopt;
}
bool echelon::dist::isInBlocks(Tensor type, StringRef axis, MeshAttr mesh) {
  return llvm::all_of(dividers(type, axis, mesh), [](const Divider &divider) { return divider.map.isBlocks(); });
}

LogicalResult echelon::dist::checkState(Tensor type, StateAttr state, MeshAttr mesh,
                                        function_ref<InFlightDiagnostic()> emitError) {
  auto fail = [&](auto say) {
    if (emitError) {
      InFlightDiagnostic diagnostic = emitError();
      say(diagnostic);
    }
    return failure();
  };
  if (state.size() != mesh.size())
    return fail(
        [&](auto &d) { d << "the state has " << state.size() << " entries, the mesh " << mesh.size() << " axes"; });
  Tensor laid = type.withState(state);
  for (int m = 0; m < mesh.size(); ++m) {
    const Entry &entry = state[m];
    if (entry.over != mesh.getAxes()[m].name)
      return fail([&](auto &d) {
        d << "the state names mesh axis " << entry.over.getValue() << " where the mesh has " << mesh.nameOf(m);
      });
    const std::optional<int64_t> at = placedAt(entry);
    if (at && *at >= mesh.sizeOf(m))
      return fail([&](auto &d) {
        d << "mesh axis " << mesh.nameOf(m) << " = " << mesh.sizeOf(m) << " has no coordinate " << *at;
      });
    if (entry.axis && !at && !type.has(entry.axis))
      return fail([&](auto &d) {
        d << "the tensor has no axis " << entry.axis.getValue() << " to split over " << mesh.nameOf(m);
      });
    if (entry.hold == Hold::Flat && entry.axis != state[flatCuts(laid).front()].axis)
      return fail([&](auto &d) { d << "flat cuts leave the same axes alone, over each mesh axis"; });
  }
  for (const ech::Axis &axis : type.getAxes()) {
    SmallVector<int> divided = over(laid, axis.name, mesh);
    int64_t n = parts(laid, axis.name, mesh);
    bool padded = isInBlocks(laid, axis.name, mesh) && llvm::any_of(divided, [&](int m) {
                    return state[m].hold == Hold::Split && mesh.isPadded(m, axis.name);
                  });
    bool cut = llvm::any_of(divided, [&](int m) { return state[m].hold == Hold::Cut; });
    if (std::optional<OwnerMap> unequal = unequalMap(laid, axis.name, mesh)) {
      if (divided.size() > 1)
        return fail([&](auto &d) {
          d << axis.name.getValue() << " is divided into chunks of unequal sizes, and by nothing else";
        });
      if (unequal->total() != axis.size)
        return fail([&](auto &d) {
          const OwnerMap map = mesh.mapOf(divided.front(), axis.name);
          d << axis.name.getValue() << " = " << axis.size << " is not the " << map.total() << " positions of "
            << spell(map);
        });
      continue;
    }
    if (axis.size % n != 0 && (!padded || cut))
      return fail([&](auto &d) {
        d << axis.name.getValue() << " = " << axis.size << " does not divide by " << mesh.names(divided) << " = " << n;
      });
    int64_t left = axis.size;
    for (const Divider &divider : dividers(laid, axis.name, mesh)) {
      if (!divider.map.isBlocks() && left % (divider.map.chunks * divider.size) != 0)
        return fail([&](auto &d) {
          d << axis.name.getValue() << " = " << left << " does not divide into the "
            << divider.map.chunks * divider.size << " chunks of " << spell(divider.map) << " over "
            << mesh.nameOf(divider.mesh) << " = " << divider.size;
        });
      left = llvm::divideCeil(left, divider.size);
    }
  }
  return success();
}

bool echelon::dist::isLegal(StringRef kind, const Entry &from, const Entry &to) {
  if (from.over != to.over || from == to)
    return false;
  if (kind == "slice") // of a sum to which one coordinate alone adds, that one has the whole
    return (from.hold == Hold::Whole && !placedAt(from)) || (from.hold == Hold::Sum && placedAt(to));
  if (kind == "reduce_scatter")
    return from.hold == Hold::Sum && to.isPart();
  if (kind == "all_reduce" || kind == "broadcast")
    return from.hold == Hold::Sum && to.hold == Hold::Whole;
  if (kind == "all_reduce max" || kind == "all_reduce min" || kind == "collect")
    return from.hold == Hold::Own && to.hold == Hold::Whole;
  if (kind == "all_gather")
    return from.isPart() && to.hold == Hold::Whole;
  if (kind == "all_to_all")
    return from.isPart() && to.isPart();
  if (kind == "exchange")
    return from.hold != Hold::Sum && to.hold != Hold::Sum;
  return false;
}

static StringRef algorithmSaid(ModuleOp module, StringRef kind, ArrayRef<int> over) {
  MeshAttr mesh = meshOf(module);
  if (auto clauses = module->getAttrOfType<ArrayAttr>(kAlgorithms))
    for (auto clause : clauses.getAsRange<DictionaryAttr>()) {
      auto op = clause.getAs<StringAttr>("op"), algorithm = clause.getAs<StringAttr>("algorithm");
      auto axes = clause.getAs<ArrayAttr>("over");
      if (op && algorithm && axes && op.getValue() == kind && axes.size() == over.size() &&
          llvm::all_of(over, [&](int m) { return ech::has(axes, mesh.nameOf(m)); }))
        return algorithm.getValue();
    }
  return "auto";
}
StringRef echelon::dist::algorithmOf(ModuleOp module, StringRef kind, ArrayRef<int> over) {
  const StringRef said = algorithmSaid(module, kind, over);
  return said == kHierarchical ? "auto" : said;
}
bool echelon::dist::isHierarchical(ModuleOp module, ArrayRef<int> over) {
  return algorithmSaid(module, "all_reduce", over) == kHierarchical;
}
