// The cuts of `store`.
#include "passes/layout/Store.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::layout;

FailureOr<Stores> Stores::read(ModuleOp module, MeshAttr mesh) {
  Stores stores;
  auto clauses = module->getAttrOfType<DictionaryAttr>(kStore);
  auto list = [&](StringRef what, SmallVector<int> &over) {
    auto names = clauses ? clauses.getAs<ArrayAttr>(what) : ArrayAttr();
    if (!names)
      return success();
    for (StringRef name : ech::strings(names)) {
      const int m = mesh.index(name);
      if (m < 0)
        return LogicalResult(module.emitError()
                             << "store " << what << " over " << name << ": the mesh has no such axis");
      over.push_back(m);
    }
    llvm::sort(over);
    return success();
  };
  if (failed(list("optimizer", stores.optimizer)) || failed(list("gradients", stores.gradients)) ||
      failed(list("params", stores.params)))
    return failure();
  module.walk([&](ech::RepeatOp loop) {
    if (!loop.getTime() && !loop.getSlices().empty())
      stores.repeated.insert(loop.getAxisAttr());
  });
  return stores;
}

StateAttr Stores::ofUpdate(Tensor type, MeshAttr mesh) const {
  SmallVector<int> over(optimizer);
  llvm::append_range(over, gradients);
  llvm::append_range(over, params);
  llvm::sort(over);
  over.erase(std::unique(over.begin(), over.end()), over.end());
  return cut(type, over, mesh);
}

StateAttr Stores::cut(Tensor type, ArrayRef<int> over, MeshAttr mesh) const {
  const bool isBySlice = !gradients.empty() || !params.empty();
  ArrayRef<ech::Axis> axes = type.getAxes();
  auto isOfLoop = [&](const ech::Axis &axis) { return isBySlice && repeated.contains(axis.name); };
  const size_t above = llvm::find_if_not(axes, isOfLoop) - axes.begin();
  StateAttr state = ownState(type, mesh);
  int64_t count = 1;
  for (const ech::Axis &axis : axes.drop_front(above))
    count *= axis.size;
  if (count <= 1)
    return state;
  bool flat = false;
  for (int m : over) { // cuts nest in mesh order
    if (state[m].hold != Hold::Whole || mesh.sizeOf(m) == 1)
      continue;
    Tensor laid = type.withState(state);
    const ech::Axis *first = llvm::find_if(axes, [&](const ech::Axis &axis) {
      return !isOfLoop(axis) && (localSize(laid, axis.name, mesh) > 1 || isPadded(laid, axis.name, mesh));
    });
    flat |= first == axes.end() || isPadded(laid, first->name, mesh) ||
            localSize(laid, first->name, mesh) % mesh.sizeOf(m) != 0;
    if (flat)
      state = state.with(m, Hold::Flat, above ? axes[above - 1].name : StringAttr());
    else
      state = state.with(m, Hold::Cut, first->name);
  }
  return state;
}

StateAttr echelon::layout::stateOfSlice(Tensor whole, StringAttr axis) {
  StateAttr state = stateOf(whole);
  const int place = whole.position(axis);
  for (int m = 0; m < state.size(); ++m)
    if (state[m].hold == Hold::Flat) {
      if (place >= int(axesAboveFlat(whole)))
        return {};
      if (state[m].axis == axis)
        state = state.with(m, Hold::Flat, place ? whole.getAxes()[place - 1].name : StringAttr());
    } else if (state[m].hold == Hold::Split && state[m].axis == axis) {
      state = state.with(m, Hold::Whole); // on the coordinate of the iteration
    } else if (state[m].isPart() && state[m].axis == axis) {
      return {};
    }
  return state;
}

StateAttr echelon::layout::stateOfStack(StateAttr each, StringAttr axis, MeshAttr mesh) {
  if (const int m = stagesOf(mesh, axis); m >= 0)
    each = each.with(m, Hold::Split, axis);
  for (int m = 0; m < each.size(); ++m)
    if (each[m].hold == Hold::Flat && !each[m].axis)
      each = each.with(m, Hold::Flat, axis);
  return each;
}

StateAttr echelon::layout::withoutCuts(StateAttr state) {
  for (int m = 0; m < state.size(); ++m)
    if (state[m].isCut())
      state = state.with(m, Hold::Whole);
  return state;
}
