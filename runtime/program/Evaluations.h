// The evaluations of a run: which are due, and what each finds.
#pragma once

#include "runtime/program/Inputs.h"
#include "runtime/program/Log.h"
#include "runtime/program/Train.h"

#include <functional>
#include <vector>

namespace echelon::runtime {

class Evaluations {
public:
  Evaluations(Rank &r, const Prepared &p, InputLoader &l) : rank(r), program(r.program()), prepared(p), loader(l) {}

  bool isAnyDue(int64_t step) const;
  /// Runs those that are due after `step`, or all of them; all, too, where one of them ends the run. `log`: rank 0's.
  /// `check` is called behind each, where a loss that is not finite ends the run. False: there was none.
  bool run(int64_t step, bool all, RunLog *log, const std::function<void()> &check);
  /// Whether one has found what the run was to come to.
  bool isUntilReached() const { return untilReached; }
  /// What they have taken so far.
  double seconds() const { return spent; }

private:
  void evaluate(size_t index, int64_t step, bool ofLast, RunLog *log, const std::function<void()> &check);
  void readBatches(const Evaluation &evaluation, const DataStream &stream);
  void decideUntil(const NamedValues &values);

  Rank &rank;
  const Program &program;
  const Prepared &prepared;
  InputLoader &loader;
  double spent = 0;
  bool untilReached = false;
};

} // namespace echelon::runtime
