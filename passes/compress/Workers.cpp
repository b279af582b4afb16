#include "passes/compress/Workers.h"

#include "ir/ech/Build.h"
#include "passes/Phase.h"
#include "passes/StaysPending.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::compress;

namespace {

/// Names that no tensor, variable or mesh of the module has.
class FreeNames {
public:
  explicit FreeNames(ModuleOp module) {
    auto add = [&](Type type) {
      if (auto tensor = dyn_cast_or_null<ech::Tensor>(type))
        for (StringRef axis : tensor.names())
          taken.insert(axis);
    };
    module.walk([&](Operation *op) {
      if (auto variable = dyn_cast<ech::VariableOp>(op))
        add(variable.getType());
      for (Type type : op->getResultTypes())
        add(type);
    });
    if (auto mesh = module->getAttrOfType<dist::MeshAttr>(dist::kMesh))
      for (const dist::MeshAxis &axis : mesh.getAxes())
        for (StringRef name : ech::strings(axis.list))
          taken.insert(name);
  }
  std::string like(StringRef wanted) const {
    std::string name = wanted.str();
    for (int number = 2; taken.contains(name); ++number)
      name = (wanted + "_" + Twine(number)).str();
    return name;
  }

private:
  llvm::StringSet<> taken;
};

Workers named(ModuleOp module) {
  Workers workers;
  const FreeNames names(module);
  workers.axis = names.like("worker");
  workers.all = names.like("workers");
  workers.flat = names.like("flat");
  workers.kept = names.like("kept");
  workers.byte = names.like("byte");
  workers.bit = names.like("bit");
  workers.factor = names.like("factor");
  return workers;
}

/// Mesh axes that split the batch, outermost first.
SmallVector<int> axesOfBatch(ModuleOp module, ech::StepOp step, dist::MeshAttr mesh) {
  const StringRef batch = ech::batchAxisOf(module);
  SmallVector<int> found;
  step.walk([&](ech::ReadOp read) {
    ech::Tensor type = ech::tensor(read.getValue());
    if (type.has(batch))
      found = dist::over(type.withState(dist::ownState(type, mesh)), batch, mesh);
  });
  return found;
}

} // namespace

Workers echelon::compress::workersOf(ModuleOp module, run::CompressOp clause, ech::StepOp step) {
  Workers workers = named(module);
  if (auto given = module->getAttrOfType<DenseI64ArrayAttr>(ech::kWorkers)) {
    workers.count = given[0];
    workers.ofHop = given[1];
    return workers;
  }
  workers.of = module->getAttrOfType<dist::MeshAttr>(dist::kMesh);
  if (!workers.of)
    return workers;
  SmallVector<int> outside;
  for (int m : axesOfBatch(module, step, workers.of)) {
    if (!ech::has(clause.getOver(), workers.of.nameOf(m))) {
      outside.push_back(m);
      continue;
    }
    workers.mesh.append(outside);
    workers.mesh.push_back(m);
    outside.clear();
    workers.ofHop *= workers.of.sizeOf(m);
  }
  for (int m : workers.mesh)
    workers.count *= workers.of.sizeOf(m);
  return workers;
}

Workers echelon::compress::workersOf(ModuleOp module, run::SyncOp policy) {
  Workers workers = named(module);
  workers.of = module->getAttrOfType<dist::MeshAttr>(dist::kMesh);
  for (int m = 0; workers.of && m < workers.of.size(); ++m)
    if (ech::has(policy.getOver(), workers.of.nameOf(m))) {
      workers.mesh.push_back(m);
      workers.count *= workers.of.sizeOf(m);
    }
  workers.ofHop = workers.count;
  return workers;
}

Workers echelon::compress::partsOf(ModuleOp module, run::CompressOp clause, ech::StepOp step, const Workers &workers) {
  const Workers inside = workersOf(module, clause, step); // policies' mesh axes split no batch any more
  if (inside.count == 1)
    return workers;
  Workers parts = workers;
  parts.mesh.append(inside.mesh);
  parts.count *= inside.count;
  parts.ofHop *= inside.ofHop;
  if (workers.of) // with the workers' axis on it
    parts.of = module->getAttrOfType<dist::MeshAttr>(dist::kMesh);
  const FreeNames names(module);
  parts.axis = names.like("part");
  parts.all = names.like("parts");
  return parts;
}

int64_t echelon::compress::workersApart(ModuleOp module) {
  auto mesh = module->getAttrOfType<dist::MeshAttr>(dist::kMesh);
  auto policy = run::only<run::SyncOp>(module);
  int64_t count = 1;
  for (int m = 0; mesh && policy && m < mesh.size(); ++m)
    count *= ech::has(policy.getOver(), mesh.nameOf(m)) ? mesh.sizeOf(m) : 1;
  return count;
}

run::CompressOp echelon::compress::clauseBetweenWorkers(ModuleOp module) {
  auto clause = run::only<run::CompressOp>(module);
  auto policy = run::only<run::SyncOp>(module);
  return clause && policy && (!policy.isLocal() || clause.getDeltas()) ? clause : run::CompressOp();
}

Value echelon::compress::meanOverWorkers(ech::Build &build, ModuleOp module, Value own) {
  const int64_t count = workersApart(module);
  if (count == 1)
    return own;
  const StringRef axis = module->getAttrOfType<StringAttr>(ech::kWorkerAxis).getValue();
  Value each = build.perWorker(own, axis, count, /*isApart=*/true);
  return build.mul(build.sum(each, {axis}), build.constant(1.0 / double(count)));
}

void echelon::compress::listWorkers(ModuleOp module, const Workers &workers) {
  if (!workers.of)
    return;
  Builder b(module.getContext());
  SmallVector<dist::MeshAxis> axes(workers.of.getAxes());
  // Mesh axes nest by the place that an axis has in their lists: one place for all of them keeps the order of the
  // batch.
  size_t place = 0;
  for (int m : workers.mesh)
    place = std::max(place, axes[m].list.size());
  const FreeNames names(module);
  for (int m : workers.mesh) {
    SmallVector<Attribute> list(axes[m].list.getValue());
    while (list.size() < place)
      list.push_back(b.getStringAttr(names.like(("no_axis_" + Twine(list.size())).str())));
    list.push_back(b.getStringAttr(workers.axis));
    SmallVector<bool> padded(axes[m].padded.asArrayRef());
    padded.resize(list.size(), false);
    axes[m].list = b.getArrayAttr(list);
    axes[m].padded = b.getDenseBoolArrayAttr(padded);
    if (axes[m].maps) {
      SmallVector<Attribute> maps(axes[m].maps.getValue());
      maps.resize(list.size(), dist::MapAttr::get(module.getContext(), dist::OwnerMap()));
      axes[m].maps = b.getArrayAttr(maps);
    }
  }
  module->setAttr(dist::kMesh, dist::MeshAttr::get(module.getContext(), axes));
  auto name = [&](int m) { return workers.of.nameOf(m); };
  if (run::only<run::CompressOp>(module))
    module->setAttr(kEqualShares, b.getStrArrayAttr(llvm::map_to_vector(workers.mesh, name)));
}

bool echelon::compress::isSummed(ech::Tensor param, const Workers &workers) {
  if (!workers.of)
    return true;
  dist::StateAttr own = dist::ownState(param, workers.of);
  return llvm::all_of(workers.mesh, [&](int m) { return own[m].hold == dist::Hold::Whole; });
}

void echelon::compress::markLinear(Value gradient, StringRef batch, ArrayAttr meshAxes) {
  SmallVector<Value> work{gradient};
  llvm::DenseSet<Operation *> seen;
  while (!work.empty()) {
    auto result = dyn_cast<OpResult>(work.pop_back_val());
    Operation *op = result ? result.getOwner() : nullptr;
    if (!op || !isOfBackward(op))
      continue;
    if (auto loop = dyn_cast<ech::RepeatOp>(op)) {
      ech::YieldOp yield = loop.yield();
      work.push_back(yield->getOperand(result.getResultNumber())); // finals, stacks, sums: as the yield has them
      continue;
    }
    if (ech::tensor(result).has(batch) || !seen.insert(op).second ||
        llvm::any_of(op->getOperands(), [&](Value v) { return ech::tensor(v).has(batch); }))
      continue;
    op->setAttr(kStaysPending, meshAxes);
    llvm::append_range(work, op->getOperands());
  }
}
