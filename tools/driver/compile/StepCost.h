// What a step takes on the spec's cluster, for `plan`.
#pragma once
#include "passes/cost/ProgramCost.h"
#include "planner/timeline/Timeline.h"
#include "tools/driver/compile/Compilation.h"

namespace echelon {

/// Additions and multiplications of a step's products, on all ranks, as the model has them: nothing is computed again,
/// masked scores count, and so do the two derivatives of each product, but for factors that no parameter has a share
/// in, such as the first layer's input. Of an elaborated module.
double stepProducts(mlir::ModuleOp module);

struct StepCost {
  planner::Machine machine;
  planner::Step step;
  planner::StepTime time;
  int64_t ranks = 1;
  int64_t samples = 0;    ///< of a step
  int64_t tokens = 0;     ///< of a sample, where the model has sequences; else 0
  double modelFlops = 0;  ///< of a step: its stepProducts
  double miniBatch = 0;   ///< under a sync policy: seconds of a worker's mini-batch
  double update = 0;      ///< and of an update, or of a meeting of workers that train by themselves, by step
  double miniBatches = 1; ///< that a step takes the time of
  std::string measuredIn; ///< the file that this machine was measured into; empty: it is none, or typical
  double dataSeconds = 0; ///< of the step: until the batch is in its place
  double peak = 0;        ///< flop/s of a device, in the precision of most of its products; 0: not said

  double samplesPerSecond() const { return time.seconds > 0 ? double(samples) / time.seconds : 0; }
  double tokensPerSecond() const { return samplesPerSecond() * double(std::max<int64_t>(tokens, 1)); }
  double utilisation() const {
    return peak > 0 && time.seconds > 0 ? modelFlops / (time.seconds * peak * double(ranks)) : 0;
  }
  /// Whether a device has room for so many bytes; nothing: the machine does not say what it has.
  std::optional<bool> fits(int64_t bytes) const;
  /// What it asks of the machine that lies outside of what was measured, a line each, the longest in all first.
  std::vector<std::string> outside() const;
  std::string text(int64_t bytes) const; ///< for people; `bytes`: that a rank takes
};

/// What a simulated step did when; `calls`: the operations that Span::call numbers.
struct StepRecord {
  planner::Record record;
  std::vector<mlir::Operation *> calls;
};

/// Of a compilation whose arenas are planned; `products`: its stepProducts. Messages are told what each takes.
/// `told`: gets what is done when, the data not counted; null: nobody wants to know.
StepCost stepCost(const Compilation &compilation, double products, ProgramCost &cost, StepRecord *told = nullptr);

} // namespace echelon
