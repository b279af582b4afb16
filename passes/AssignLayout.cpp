// Every tensor gets its state on the mesh, every change of state an operation.
//   1. Read the mesh, its lists, and over which mesh axes something is stored in parts.
//   2. For each step: work through the operations, forward, backward and update, in order. The list rule says in which
//      state each takes its operands and leaves its results; where a value is in another state, a dist.convert with its
//      reason makes it (passes/layout).
//   3. Write into the variables how they are stored.
#include "ir/dist/Dist.h"
#include "passes/Passes.h"
#include "passes/layout/Assign.h"
#include "llvm/ADT/StringSet.h"

namespace echelon {
#define GEN_PASS_DEF_ASSIGNLAYOUT
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon;
using namespace echelon::layout;

namespace {
struct AssignLayout : echelon::impl::AssignLayoutBase<AssignLayout> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr mesh = readMesh(module);
    FailureOr<Stores> stores = Stores::read(module, mesh);
    if (failed(stores))
      return signalPassFailure();
    module->setAttr(dist::kMesh, mesh);

    Clauses clauses(module, mesh);
    bool good = cutSomething(*stores, mesh, clauses);
    if (!good)
      return signalPassFailure();
    SmallVector<std::pair<ech::VariableOp, dist::StateAttr>> stored;
    for (auto step : module.getOps<ech::StepOp>()) {
      Assign assign(module, mesh, *stores, clauses);
      if (stored.empty())
        for (auto variable : module.getOps<ech::VariableOp>())
          stored.push_back({variable, assign.stored(variable)});
      good = assign.run(step);
      if (!good) // @evaluate would say the same again
        break;
    }
    if (!good || !sendSomethingRound(mesh, clauses))
      return signalPassFailure();
    if (failed(checkStates(module, mesh)))
      return signalPassFailure();
    for (auto [variable, state] : stored)
      variable.setTypeAttr(TypeAttr::get(cast<Tensor>(variable.getType()).withState(state)));
  }

  /// Whether each `store` line cuts a parameter over each of its mesh axes, of several ranks.
  bool cutSomething(const Stores &stores, MeshAttr mesh, Clauses &clauses) {
    auto params = llvm::make_filter_range(getOperation().getOps<ech::VariableOp>(), [](ech::VariableOp variable) {
      return variable.getKind() == ech::VariableKind::Param;
    });
    bool good = true;
    auto check = [&](StringRef what, ArrayRef<int> over, auto stateOf) {
      for (int m : over) {
        auto isCutOver = [&](ech::VariableOp param) { return stateOf(cast<Tensor>(param.getType()))[m].isCut(); };
        if (mesh.sizeOf(m) == 1 || params.empty() || llvm::any_of(params, isCutOver))
          continue;
        good = false;
        emitError(clauses.place(m, {}, getOperation().getLoc()))
            << "store " << what << " over " << mesh.nameOf(m) << " cuts nothing: each parameter is split over "
            << mesh.nameOf(m) << " already, or has one element; leave it out";
      }
    };
    auto ofUpdate = [&](Tensor type) { return stores.ofUpdate(type, mesh); };
    check("optimizer", stores.optimizer, ofUpdate);
    check("gradients", stores.gradients, ofUpdate);
    check("params", stores.params, [&](Tensor type) { return stores.ofParam(type, mesh); });
    return good;
  }

  /// Whether the keys of some attention go round over each mesh axis, of several ranks, of which a line says so.
  bool sendSomethingRound(MeshAttr mesh, Clauses &clauses) {
    auto over = getOperation()->getAttrOfType<ArrayAttr>(dist::kRing);
    llvm::StringSet<> used;
    getOperation().walk([&](Operation *op) {
      if (auto ring = isa<ModuleOp>(op) ? StringAttr() : op->getAttrOfType<StringAttr>(dist::kRing))
        used.insert(ring.getValue());
    });
    bool good = true;
    for (StringRef name : over ? ech::strings(over) : SmallVector<StringRef>())
      if (const int m = mesh.index(name); mesh.sizeOf(m) > 1 && !used.contains(name)) {
        good = false;
        emitError(clauses.ringPlace(m, getOperation().getLoc()))
            << "E0410: `with ring` changes nothing: no attention is divided over " << name
            << " along its queries while its keys are split over " << name
            << ", too; split both axes, as in split seq, past over " << name << " with ring, or leave it out";
      }
    return good;
  }

  /// Without a mesh: one rank. A mesh axis of size 1 divides nothing.
  MeshAttr readMesh(ModuleOp module) {
    SmallVector<dist::MeshAxis> axes;
    if (auto mesh = module->getAttrOfType<MeshAttr>(dist::kMesh))
      axes.assign(mesh.getAxes().begin(), mesh.getAxes().end());
    for (dist::MeshAxis &axis : axes)
      if (axis.size == 1) {
        axis.list = ArrayAttr::get(&getContext(), {});
        axis.padded = DenseBoolArrayAttr::get(&getContext(), {});
        axis.maps = {};
      }
    return MeshAttr::get(&getContext(), axes);
  }
};
} // namespace
