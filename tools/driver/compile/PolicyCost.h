// What a sync policy makes of a step's time: how long updates take under the delays of its workers, beside those of
// `sync every step`.
#pragma once
#include "frontend/resolve/RunSettings.h"
#include "passes/cost/PolicyTimes.h"

#include <optional>
#include <string>

namespace echelon {

struct StepCost;
class Compilation;

/// The mini-batches, one after the other, that the wall clock sees of a step of the program: of the rank that has most,
/// where arrivals are drawn, since nobody waits for their clock; in the mean of the policy, where they are real and all
/// workers take equally long; all of them on one rank that works for all workers.
double miniBatchesInTurn(const frontend::RunSettings &settings);

/// The delays that a clause states, in units of what `plan` says of a mini-batch.
Delays delaysOf(const frontend::SyncSettings &sync);

/// A step by the arithmetic of one policy.
struct ExpectedStep {
  double miniBatches = 1; ///< that its time is in the mean, without the update
  double seconds = 0;     ///< with it
  double samples = 0;     ///< that it applies
  std::string formula;    ///< "E[X_(k:P)], the k-th of P workers"
};

struct PolicyCost {
  std::string policy; ///< "k_async(2, delay = exponential(1)) over dp"
  std::string delays; ///< "exponential(1)"; "none: all take equally long"
  double miniBatch = 0, update = 0;
  double inTurn = 1;    ///< mini-batches, one after the other, of which the wall clock sees a step made
  double staleness = 0; ///< mean, of the gradients applied
  bool isLocal = false; ///< workers train by themselves: the update is a step's part of a meeting
  bool isDrawn = false; ///< no clock on the wall waits for the delays
  ExpectedStep own;
  std::optional<ExpectedStep> everyStep; ///< nothing: one rank works for all, or
  std::string refused;                   ///< what the compiler says of the spec without the policy

  std::string text() const; ///< for people
};

/// Of a spec, where it has a sync policy; it is compiled without it, too. `trace`: of a run, whose delays take the
/// place of those that the clause states; empty: there is none. False: `why` says what is wrong with it.
bool policyCost(const Compilation &compilation, const StepCost &step, const std::string &trace,
                std::optional<PolicyCost> &policy, std::string &why);

} // namespace echelon
