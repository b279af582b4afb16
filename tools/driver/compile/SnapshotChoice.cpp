// What a step waits for a snapshot is the copy that each rank makes of what it has of the state; what the disk takes
// after that is the whole of it, which rank 0 gathers and writes.
#include "tools/driver/compile/SnapshotChoice.h"

#include "ir/ech/Ech.h"
#include "ir/rt/Rt.h"
#include "ir/run/Run.h"
#include "mlir/IR/Builders.h"
#include "tools/driver/compile/Units.h"
#include "llvm/Support/Format.h"

#include <algorithm>
#include <cmath>

namespace echelon {

namespace {
constexpr int64_t kMostSteps = 1000000000000000; // what is counted exactly as a double, with room to spare
constexpr double kUsual = 600; // seconds between snapshots where nothing is known: that much work may be lost
constexpr double kStart = 300; // seconds until a failure is seen and all ranks have started again, without reading
constexpr double kFromDevice = 20e9; // bytes/s from a GPU to its host's memory, which a PCIe 4 x16 slot reaches

/// Bytes of what a snapshot keeps, each number once.
int64_t snapshotBytes(mlir::ModuleOp module) {
  int64_t bytes = 0;
  for (auto variable : module.getOps<ech::VariableOp>()) {
    if (variable.getKind() == ech::VariableKind::Copy || variable.getKind() == ech::VariableKind::HandedIn)
      continue;
    auto type = llvm::cast<ech::Tensor>(variable.getType());
    bytes += type.count() * rt::Buffer::dense({}, type.getElement()).elementBytes();
  }
  return bytes;
}

double copySeconds(const planner::Machine &machine, double bytes) {
  if (machine.isOfGpus())
    return bytes / kFromDevice;
  planner::Work copy;
  copy.kind = planner::Work::Kind::Loop;
  copy.bytes = 2 * bytes; // read and written
  return machine.seconds(copy);
}

std::string lacking(const planner::Machine &machine) {
  if (machine.isTypical)
    return "nobody knows how often this machine fails";
  std::string text;
  if (machine.mtbf <= 0)
    text = "no mtbf, as in mtbf 100_000 h per node";
  if (machine.storage <= 0)
    text += std::string(text.empty() ? "" : ", and ") + "no storage, as in storage 100 GB/s";
  return text.empty() ? "" : "cluster " + machine.name + " says " + text;
}

std::string percent(double part) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.3g %%", 100 * part);
  return text;
}

int64_t timesOf(double seconds, double of) { return std::max<int64_t>(1, std::llround(seconds / of)); }
} // namespace

SnapshotChoice snapshotChoice(const Compilation &compilation, const StepCost &step, const ProgramCost &program) {
  const auto &clause = compilation.settings.checkpoint;
  const planner::Machine &machine = step.machine;
  SnapshotChoice made;
  made.isAuto = clause.isAuto;
  made.stepSeconds = step.time.seconds;
  made.bytes = snapshotBytes(*compilation.module);
  made.lacks = lacking(machine);
  const bool isKnown = made.lacks.empty() && made.stepSeconds > 0;
  if (isKnown) {
    made.nodes = (step.ranks + machine.perNode - 1) / machine.perNode;
    made.mtbf = machine.mtbf;
    made.run.between = machine.mtbf / double(made.nodes);
    // rank 0 has one node's way to the others and to the disks
    const double rate =
        made.nodes > 1 && machine.network ? std::min(machine.storage, machine.network->bandwidth) : machine.storage;
    const bool isBeside = program.copyBytes > 0; // else it is written in the step
    made.run.write = double(made.bytes) / rate;
    made.run.wait = isBeside ? copySeconds(machine, double(program.stateBytes)) : made.run.write;
    if (!isBeside)
      made.run.write = 0;
    made.run.restart = kStart + double(made.bytes) / machine.storage;
  }
  made.everySteps = clause.everySteps;
  if (clause.isAuto) {
    const auto &sync = compilation.settings.sync;
    const int64_t meets = sync && sync->isLocal() ? sync->every : 1; // snapshots are of workers that have met
    if (isKnown)
      made.everySteps =
          std::min(planner::stepsBetweenSnapshots(made.run, made.stepSeconds * double(meets)), kMostSteps / meets) *
          meets;
    else if (meets > 1)
      made.everySteps = timesOf(kUsual, std::max(made.stepSeconds, 1e-6) * double(meets)) * meets;
  }
  made.everySeconds = made.everySteps ? double(made.everySteps) * made.stepSeconds
                      : clause.isAuto ? kUsual
                                      : clause.everySeconds;
  if (isKnown) {
    made.loss = planner::lossOf(made.run, made.everySeconds);
    made.training = double(compilation.settings.steps) * made.stepSeconds;
    if (made.training > 0)
      made.likelihood = planner::failureProbability(made.training, made.nodes, made.mtbf);
  }
  return made;
}

std::string SnapshotChoice::text() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "snapshots every "
     << (everySteps ? std::to_string(everySteps) + (everySteps == 1 ? " step, " : " steps, ") : "")
     << inHours(everySeconds);
  if (isAuto)
    os << ", by checkpoint auto" << (lacks.empty() ? "" : ", since " + lacks);
  os << "\n";
  if (mtbf <= 0)
    return text;
  os << "  one is " << inBytes(bytes) << "; a step waits " << inTime(run.wait) << " for it";
  if (run.write > 0)
    os << ", and it is on disk " << inTime(run.write) << " later";
  os << "\n  " << nodes << (nodes == 1 ? " node fails" : " nodes fail") << " every " << inHours(run.between)
     << " on average";
  if (likelihood)
    os << ", at least once in the " << inHours(training) << " of this run with a probability of "
       << percent(*likelihood);
  os << "; " << inHours(run.restart) << " later training goes on\n";
  os << "  " << percent(loss.goodput) << " of all time is training that is kept; " << percent(loss.snapshots)
     << " goes to snapshots, " << percent(loss.failures) << " to failures\n";
  return text;
}

/// The interval becomes part of the program.
void Compilation::placeSnapshots() {
  auto checkpoint = run::only<run::CheckpointOp>(*module);
  if (!settings.checkpoint.isAuto || !checkpoint)
    return;
  ProgramCost program = programCost(*module, true);
  const StepCost step = stepCost(*this, 0, program);
  auto made = std::make_shared<SnapshotChoice>(echelon::snapshotChoice(*this, step, program));
  mlir::Builder b(context.get());
  checkpoint.setStepsAttr(b.getI64IntegerAttr(made->everySteps));
  checkpoint.setSecondsAttr(b.getF64FloatAttr(made->everySteps ? 0 : made->everySeconds));
  snapshotChoice = std::move(made);
}

} // namespace echelon
