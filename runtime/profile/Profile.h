// Where the time of training steps goes, in a program that was built with --profile.
#pragma once

#include "runtime/profile/Laps.h"
#include "runtime/profile/Table.h"
#include "runtime/profile/Trace.h"

#include <optional>
#include <string>

namespace echelon::runtime {

class Rank;

/// What the training loop does around the program's own step.
enum class Around { Data, Log, Checks, Decision, Rest };

/// What it does between two steps, which the table says nothing of.
enum class Between { Evaluation, Snapshot };

class Profile {
public:
  /// Measures what the machine can do, on all ranks at once, and lets the rank's laps be counted. Collective. `steps`:
  /// how many the run has left. `threads`: of a rank's matrix products. `traceFile`: what happened when goes there;
  /// empty: nowhere. Ends the run where it cannot be written.
  Profile(Rank &rank, int64_t steps, int threads, const std::string &traceFile);
  ~Profile();
  Profile(const Profile &) = delete;

  /// `step`: from 1.
  void beginStep(int64_t step);
  void lap(Around what);
  /// The host did this while a device computed, up to here: for the trace.
  void mark(Around what);
  void endStep();
  /// Something after a step, which began then (Ticks.h) and ends now.
  void between(Between what, uint64_t began);

  /// Rank 0's text, others' empty; empty too where there was no step. Collective.
  std::string text() const;
  /// Writes the trace, if there is to be one; rank 0 gets a line that says what is in it. Collective.
  std::string writeTrace();

private:
  std::vector<double> gathered() const;
  double secondsPerTick() const;
  bool isTraced() const { return trace && done < Trace::kSteps && !trace->isFull(); }

  Rank &rank;
  Laps laps;
  Limits limits;
  int64_t leftOut, begun = 0, done = 0;
  double beganAt = 0, stepSeconds = 0; // by the clock on the wall: of the step, of all steps measured
  double firstSeconds = 0;
  uint64_t firstTicks = 0;
  std::optional<Trace> trace;
  std::string tracePath;
  FILE *traceFile = nullptr; // of rank 0
  uint64_t stepTicks = 0;    // when the step began
  int64_t firstTraced = 0, lastTraced = 0;
  double measuredAt = 0; // seconds: all ranks had measured the machine
};

} // namespace echelon::runtime
