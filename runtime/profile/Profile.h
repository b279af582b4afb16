// Where the time of training steps goes, in a program that was built with --profile.
#pragma once

#include "runtime/profile/Laps.h"
#include "runtime/profile/Table.h"

#include <string>

namespace echelon::runtime {

class Rank;

/// What the training loop does around the program's own step.
enum class Around { Data, Log, Checks, Decision, Rest };

class Profile {
public:
  /// Measures what the machine can do, on all ranks at once, and lets the rank's laps be counted. Collective. `steps`:
  /// how many the run has left. `threads`: of a rank's matrix products.
  Profile(Rank &rank, int64_t steps, int threads);

  void beginStep();
  void lap(Around what);
  void endStep();

  /// Rank 0's text, others' empty; empty too where there was no step. Collective.
  std::string text() const;

private:
  std::vector<double> gathered() const;

  Rank &rank;
  Laps laps;
  Limits limits;
  int64_t leftOut, begun = 0, done = 0;
  double beganAt = 0, stepSeconds = 0; // by the clock on the wall: of the step, of all steps measured
  double firstSeconds = 0;
  uint64_t firstTicks = 0;
};

} // namespace echelon::runtime
