#include "passes/prove/Prove.h"
#include "ir/dist/State.h"
#include "ir/ech/Build.h"
#include "ir/rt/Times.h"
#include "ir/run/Run.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/prove/Alone.h"
#include "passes/prove/Meeting.h"
#include "passes/prove/Walk.h"
#include <set>

using namespace mlir;
using namespace echelon;
using namespace echelon::prove;

SmallVector<int64_t> prove::meshSizes(ModuleOp module) {
  SmallVector<int64_t> sizes;
  if (dist::MeshAttr mesh = dist::meshOf(module))
    for (const dist::MeshAxis &axis : mesh.getAxes())
      sizes.push_back(axis.size);
  return sizes;
}

SmallVector<int64_t> prove::axesApart(ModuleOp module) {
  std::set<int64_t> axes;
  module.walk([&](rt::Communicates op) {
    for (int64_t axis : op.readsCoordinates())
      axes.insert(axis);
  });
  module.walk([&](rt::AtOp op) { axes.insert(static_cast<int64_t>(op.getMesh())); });
  module.walk([&](rt::StagesOp op) { axes.insert(static_cast<int64_t>(op.getMesh())); });
  module.walk([&](rt::ForOp op) {
    if (op.getOwn())
      if (auto own = op.getOwn().getDefiningOp<rt::OffsetOp>())
        axes.insert(own.getMesh().begin(), own.getMesh().end());
  });
  return {axes.begin(), axes.end()};
}

Verdict prove::programsOf(rt::FunctionOp function, ArrayRef<int64_t> meshSizes, ArrayRef<int64_t> apart,
                          Programs &programs) {
  const Parties parties(meshSizes, apart);
  for (int party = 0; party < parties.size(); ++party) {
    Walk walk(parties, party, programs.channels);
    if (Verdict refused = walk.run(function))
      return refused;
    programs.of.push_back(std::move(walk.program));
  }
  return std::nullopt;
}

namespace {
/// Who runs a function, under a sync policy: a worker by itself, or all.
struct Policy {
  SmallVector<int64_t> workerAxes;
  bool isLive = false, isAsync = false, isLocal = false;

  explicit Policy(ModuleOp module) {
    auto policy = run::only<run::SyncOp>(module);
    dist::MeshAttr mesh = dist::meshOf(module);
    if (!policy || !mesh)
      return;
    for (StringRef axis : ech::strings(policy.getOver()))
      workerAxes.push_back(mesh.index(axis));
    isLive = policy.isLive();
    isAsync = policy.isAsync();
    isLocal = policy.isLocal();
  }

  /// Which and how many mini-batches a worker computes is not known to the others; nor is how many batches it evaluates
  /// on.
  bool isOfOneWorker(rt::FunctionOp function, const Start &start) const {
    if (!isLocal && llvm::is_contained({"train", "hand_in", "read"}, function.getSymName()))
      return true;
    for (auto loop = start.op->getParentOfType<rt::ForOp>(); loop; loop = loop->getParentOfType<rt::ForOp>())
      if (loop.getCount() == 0)
        return true;
    return false;
  }
  Verdict check(rt::FunctionOp function, const Program &program) const {
    for (const Start &start : program.starts)
      for (const rt::Span &along : start.is.over)
        if (llvm::is_contained(workerAxes, along.axis) && isOfOneWorker(function, start))
          return Refusal{start.op,
                         described(start) + " goes to other workers, which need not run @" +
                             function.getSymName().str() + " as often",
                         {}};
    return std::nullopt;
  }
};

void gather(const Program &program, Between &between) {
  for (const Instruction &instruction : program.instructions) {
    if (instruction.kind == Instruction::Make)
      continue;
    between.reads.insert(between.reads.end(), instruction.reads.begin(), instruction.reads.end());
    between.writes.insert(between.writes.end(), instruction.writes.begin(), instruction.writes.end());
  }
}

class Module {
public:
  Module(ModuleOp module, Proof &proof)
      : module(module), proof(proof), policy(module), sizes(meshSizes(module)), apart(axesApart(module)) {}
  Verdict run();

private:
  Verdict function(rt::FunctionOp function, const Programs &programs, const Between &between);

  ModuleOp module;
  Proof &proof;
  const Policy policy;
  const SmallVector<int64_t> sizes, apart;
};

Verdict Module::run() {
  for (int64_t size : sizes)
    proof.ranks *= size;
  auto groups = module->getAttrOfType<ArrayAttr>(rt::kGroups);
  proof.streams = 1 + static_cast<int64_t>(groups ? groups.size() : 0);
  std::vector<std::pair<rt::FunctionOp, Programs>> all;
  for (auto function : module.getOps<rt::FunctionOp>()) {
    if (function.getBody().getNumArguments()) // a rule, which rt.invoke runs: it touches what it is given
      continue;
    all.emplace_back(function, Programs());
    if (Verdict refused = programsOf(function, sizes, apart, all.back().second))
      return refused;
  }
  Between between;
  between.leaves = policy.isLive && !policy.isAsync;
  if (policy.isLive)
    for (auto &[function, programs] : all)
      if (llvm::is_contained({"hand_in", "update", "read"}, function.getSymName()))
        for (const Program &program : programs.of)
          gather(program, between);
  for (auto &[function, programs] : all)
    if (Verdict refused = this->function(function, programs, between))
      return refused;
  return std::nullopt;
}

Verdict Module::function(rt::FunctionOp function, const Programs &programs, const Between &between) {
  for (const Program &program : programs.of) {
    Verdict refused = checkAlone(program, between);
    if (!refused)
      refused = policy.check(function, program);
    if (refused)
      return refused;
    proof.instructions += static_cast<int64_t>(program.instructions.size());
  }
  proof.parties = static_cast<int64_t>(programs.of.size());
  Proof::Function did{function.getSymName().str()};
  rt::ByStage messages, started;
  function.walk([&](rt::Communicates op) {
    const rt::ByStage times = rt::timesOf(op, sizes);
    messages.add(times);
    started.add(times, op.isStarted());
  });
  did.messages = messages.most();
  did.started = started.most();
  proof.functions.push_back(did);
  return checkTogether(programs.of, programs.channels);
}
} // namespace

Verdict prove::prove(ModuleOp module, Proof &proof) { return Module(module, proof).run(); }
