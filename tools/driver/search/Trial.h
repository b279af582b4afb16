// One layout after the other on the same spec: compiled up to where arenas are planned, and asked what it takes.
#pragma once
#include "planner/search/BestFirst.h"
#include "tools/driver/compile/StepCost.h"
#include "tools/driver/search/LayoutChoice.h"

namespace echelon {

class Trial {
public:
  explicit Trial(const CompileOptions &options);

  /// The model, before any layout.
  bool elaborate();
  /// Refused where it does not compile. `evaluates`: with the spec's evaluations, whose memory is counted too.
  planner::Price ask(const PlannedLayout &layout, bool evaluates = true);
  /// Names of all values that `recompute keep` can name, in the order of the model.
  std::vector<std::string> namesToKeep();
  /// The first thing that the compilation was told of.

  Compilation compilation;
  frontend::RunSettings resolved; ///< before any layout; `recompute auto` as if there were no such clause
  bool isGood = false;
  int64_t room = 0; ///< bytes that a rank may take; 0: any
  StepCost step;    ///< of the layout that was asked last
  MemoryCost memory;
  std::vector<std::string> kept; ///< of the names of `recompute keep` those that repeats keep a value for

private:
  bool lower();
};

} // namespace echelon
