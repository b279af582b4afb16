// 1. Of each parameter that stands outside of the repeats of stages: which stage reads it, and what is made of it and
// of
//    its gradient outside of passes (Readers.h).
// 2. Where that is one stage, and nothing of it goes elsewhere, all of these values are `whole at` that stage. Its sum
//    over the micro batches is the gradient.
// 3. The norm of all gradients is a sum over the stages then.
#include "passes/pipeline/PlaceParameters.h"
#include "ir/dist/Placed.h"
#include "ir/run/Run.h"
#include "passes/Phase.h"
#include "passes/layout/Clauses.h"
#include "passes/pipeline/Readers.h"
using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::pipeline;

namespace {
class Placer {
public:
  Placer(ModuleOp module, MeshAttr mesh, int stages)
      : module(module), mesh(mesh), stages(stages), builder(module.getContext()),
        clause(layout::Clauses(module, mesh).text(stages, cast<StringAttr>(mesh.getAxes()[stages].list[0]))) {}

  void place(ech::VariableOp param) {
    Readers readers(module, mesh, stages, param);
    const std::optional<int64_t> stage = readers.stage();
    if (!stage)
      return;
    const Entry there = placedEntry(mesh.getAxes()[stages].name, *stage);
    auto placed = [&](Type type) -> Type {
      auto tensor = cast<Tensor>(type);
      return tensor.withState(stateOf(tensor).with(stages, there));
    };
    for (ech::VariableOp variable : readers.variables())
      variable.setTypeAttr(TypeAttr::get(placed(variable.getType())));
    llvm::SetVector<Operation *> messages;
    for (Value value : readers.values()) {
      if (llvm::is_contained(readers.sums(), value))
        continue;
      value.setType(placed(value.getType()));
      if (isa<AllReduceOp, SliceOp>(value.getDefiningOp()))
        messages.insert(value.getDefiningOp());
    }
    for (Value sum : readers.sums())
      takeAlone(sum, placed(sum.getType()), param);
    for (Operation *message : messages)
      withoutStages(message);
  }

  /// Which stage counts a gradient is in its type; the sum is over all.
  void countApart(ech::GlobalNormOp norm);

private:
  void takeAlone(Value sum, Type type, ech::VariableOp param);
  void withoutStages(Operation *message);

  ModuleOp module;
  MeshAttr mesh;
  int stages;
  OpBuilder builder;
  std::string clause; ///< that makes stages
};

/// What one stage has added up is all of the sum.
void Placer::takeAlone(Value sum, Type type, ech::VariableOp param) {
  builder.setInsertionPointAfterValue(sum);
  auto alone = SliceOp::create(builder, sum.getLoc(), type, sum, builder.getStrArrayAttr(mesh.nameOf(stages)),
                               builder.getStringAttr(clause + ": " + layout::gradientInSource(param)));
  setPhase(alone, "update");
  sum.replaceAllUsesExcept(alone.getResult(), alone);
}

/// A message, or what makes a share of a sum, over the other mesh axes that it names.
void Placer::withoutStages(Operation *message) {
  SmallVector<StringRef> over = ech::strings(message->getAttrOfType<ArrayAttr>("over"));
  if (!llvm::is_contained(over, mesh.nameOf(stages)))
    return;
  llvm::erase(over, mesh.nameOf(stages));
  if (over.empty()) {
    message->replaceAllUsesWith(message->getOperands());
    message->erase();
    return;
  }
  message->setAttr("over", builder.getStrArrayAttr(over));
  if (auto algorithm = message->getAttrOfType<StringAttr>("algorithm");
      algorithm && !algorithm.getValue().ends_with("_summands")) {
    const SmallVector<int> rest = llvm::map_to_vector(over, [&](StringRef name) { return mesh.index(name); });
    message->setAttr("algorithm", builder.getStringAttr(algorithmOf(module, "all_reduce", rest)));
  }
  auto [clauses, use] = message->getAttrOfType<StringAttr>("why").getValue().split(": ");
  SmallVector<StringRef> each;
  clauses.split(each, "), ");
  std::string text;
  for (StringRef one : each)
    if (!one.contains((" over " + mesh.nameOf(stages) + " ").str()))
      text += (text.empty() ? "" : ", ") + one.str() + (one.contains('(') && !one.ends_with(")") ? ")" : "");
  message->setAttr("why", builder.getStringAttr(text + ": " + use));
}

void Placer::countApart(ech::GlobalNormOp norm) {
  if (llvm::none_of(norm.getOperands(), [&](Value v) { return placedAt(stateOf(v)[stages]); }))
    return;
  auto over = norm->getAttrOfType<ArrayAttr>(kInside);
  SmallVector<StringRef> names = over ? ech::strings(over) : SmallVector<StringRef>();
  if (llvm::is_contained(names, mesh.nameOf(stages)))
    return;
  names.push_back(mesh.nameOf(stages));
  llvm::sort(names, [&](StringRef a, StringRef b) { return mesh.index(a) < mesh.index(b); });
  norm->setAttr(kInside, builder.getStrArrayAttr(names));
  if (!norm->hasAttr(ech::kWhy))
    norm->setAttr(ech::kWhy, builder.getStringAttr(clause + ": inside " + layout::nameInSource(norm)));
}

} // namespace

void echelon::pipeline::placeParameters(ModuleOp module, MeshAttr mesh, int stages) {
  if (run::only<run::SyncOp>(module)) // workers hand on gradients of all parameters in one row
    return;
  Placer placer(module, mesh, stages);
  for (auto variable : module.getOps<ech::VariableOp>())
    if (variable.getKind() == ech::VariableKind::Param)
      placer.place(variable);
  module.walk([&](ech::GlobalNormOp norm) { placer.countApart(norm); });
}
