// How often `checkpoint auto` writes snapshots, and what snapshots and failures cost a run under any clause, for
// `plan`.
#pragma once
#include "planner/snapshots/Interval.h"
#include "tools/driver/compile/StepCost.h"

namespace echelon {

struct SnapshotChoice {
  bool isAuto = false;
  int64_t everySteps = 0;  ///< 0: by the clock
  double everySeconds = 0; ///< of training between two of them
  double stepSeconds = 0;
  int64_t bytes = 0; ///< of a snapshot, all of it
  std::string lacks; ///< what is not known of the machine, so that nothing can be weighed; empty: all is
  // Where all is known:
  planner::Interruptions run;
  planner::Loss loss;
  int64_t nodes = 1;
  double mtbf = 0;                  ///< seconds, of a node
  double training = 0;              ///< seconds that all steps take; 0: how many there are is not said
  std::optional<double> likelihood; ///< that a node fails within them

  std::string text() const; ///< for people
};

/// Of a compilation whose arenas are planned and whose spec has `checkpoint`, and of its step.
SnapshotChoice snapshotChoice(const Compilation &compilation, const StepCost &step, const ProgramCost &program);

} // namespace echelon
