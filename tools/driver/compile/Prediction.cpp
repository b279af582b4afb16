// What one call takes is what the simulated step spends on it, waiting included, by how often it is done: the same that
// a profile measures.
#include "tools/driver/compile/Prediction.h"

#include "frontend/resolve/MachineOf.h"
#include "ir/dist/State.h"
#include "ir/rt/Times.h"
#include "mlir/IR/Builders.h"
#include "passes/cost/CallName.h"
#include "passes/cost/StepProgram.h"
#include "tools/driver/compile/StepCost.h"
#include "llvm/Support/SaveAndRestore.h"

namespace echelon {

namespace {
/// Seconds that rank 0's device spends on each operation, by Action::call, in a step.
std::vector<double> secondsOfCalls(const StepRecord &told) {
  std::vector<double> seconds(told.calls.size());
  const std::vector<double> counts = told.record.counts();
  for (size_t i = 0; i < counts.size(); ++i) {
    const planner::Span &span = told.record.spans[i];
    const bool isOfDevice = span.kind == planner::Span::Kind::Call || span.kind == planner::Span::Kind::Wait;
    if (span.stage == 0 && isOfDevice && span.call != planner::kNoCall)
      seconds[span.call] += counts[i] * (span.end - span.begin);
  }
  return seconds;
}

/// How often the first stage does an operation in a step.
int64_t timesOf(mlir::Operation *op, dist::MeshAttr mesh) { return rt::timesOf(op, sizesOf(mesh)).of(0); }

/// What a message that is started takes is known where it is waited for, by a profile and so here: of a start nothing
/// is said, and each wait for its ticket has an equal share. Negative: nothing is said.
void moveToWaits(llvm::ArrayRef<mlir::Operation *> calls, std::vector<double> &seconds) {
  llvm::DenseMap<mlir::Value, llvm::SmallVector<size_t>> waits;
  for (size_t i = 0; i < calls.size(); ++i)
    if (auto wait = llvm::dyn_cast<rt::WaitOp>(calls[i]))
      waits[wait.getTicket()].push_back(i);
  for (size_t i = 0; i < calls.size(); ++i) {
    auto start = llvm::dyn_cast<rt::CollectiveOp>(calls[i]);
    if (!start || !start.isStarted())
      continue;
    const auto of = waits.lookup(start.toWaitFor());
    for (const size_t wait : of)
      seconds[wait] += seconds[i] / double(of.size());
    seconds[i] = -1;
  }
}

std::string machineText(const StepCost &cost) {
  if (cost.measuredIn.empty())
    return cost.machine.name + ", as the spec has it";
  return "this machine as measured " + (cost.machine.measured.empty() ? "once" : cost.machine.measured.front()) +
         ", in " + cost.measuredIn;
}
} // namespace

void predictCalls(Compilation &compilation) {
  const bool isGpu = compilation.options.machine == Machine::Cuda;
  frontend::RunSettings &settings = compilation.settings;
  const auto *cluster = settings.cluster && settings.cluster->nodes ? settings.cluster : nullptr;
  const bool isThere = cluster && frontend::machineOf(*compilation.program, settings).isOfGpus() == isGpu;
  if (compilation.options.machine == Machine::CudaHost || (!isThere && (isGpu || !compilation.here)))
    return;
  // cores are held against these here, where the spec's cluster is of GPUs
  llvm::SaveAndRestore keptCluster(settings.cluster, isThere ? settings.cluster : nullptr);
  llvm::SaveAndRestore keptRanks(settings.clusterRanks, isThere ? settings.clusterRanks : 0);
  mlir::ModuleOp module = *compilation.module;
  ProgramCost program = programCost(module);
  StepRecord told;
  const StepCost cost = stepCost(compilation, 0, program, &told);
  mlir::Builder b(compilation.context.get());
  module->setAttr(kPredictedBy, b.getStringAttr(machineText(cost)));
  module->setAttr(kPredictedStep, b.getF64FloatAttr(cost.time.seconds));
  if (cost.dataSeconds > 0)
    module->setAttr(kPredictedData, b.getF64FloatAttr(cost.dataSeconds));
  if (told.record.isFull())
    return;
  std::vector<double> seconds = secondsOfCalls(told);
  moveToWaits(told.calls, seconds);
  for (size_t i = 0; i < seconds.size(); ++i)
    if (const int64_t times = timesOf(told.calls[i], dist::meshOf(module)); times > 0 && seconds[i] >= 0)
      told.calls[i]->setAttr(kPredicted, b.getF64FloatAttr(seconds[i] / double(times)));
}

} // namespace echelon
