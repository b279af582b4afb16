// What a rank does in a pass, read off the program of a part of a layout.
#pragma once
#include "planner/machine/Machine.h"
#include "tools/driver/compile/StepCost.h"
#include <array>
#include <optional>
#include <vector>

namespace echelon {

/// So many samples of a pass are asked for: what more take is on the line through these two. With one, and so without
/// an axis, programs are others.
constexpr std::array<int64_t, 2> kLine = {2, 4};
/// Passes of a part that has several: no model has as many of anything else.
constexpr int64_t kPartPasses = 97;

/// Where in a step something is: in a pass before and behind its repeats, in the forward one, between that and the
/// backward one, in this; in the update; after all passes.
enum class Where { Ends, Forward, Middle, Backward, Update, AfterAll };
constexpr size_t kPlaces = 6;

/// A work, or a message, of a part's program.
struct PartCall {
  bool isMessage = false, isOfSamples = false, isStarted = false;
  Where where = Where::Ends;
  double times = 1;
  planner::Work work;
  planner::Message message;
};

struct PartProgram {
  std::vector<PartCall> calls;
  int64_t activations = 0;
  bool hasSides = false; ///< a forward and a backward repeat: what stands between them is the last stage's
};

/// Of one number of samples, or of both of kLine; nothing: it does not compile.
using PartPrograms = std::vector<std::optional<PartProgram>>;

/// Seconds of a pass, and of what comes after all passes.
struct PartPass {
  std::array<double, kPlaces> seconds = {};
  std::vector<PartCall> sent; ///< over the ranks of samples
  double activations = 0;     ///< bytes
  bool hasSides = false;

  double at(Where where) const { return seconds[size_t(where)]; }
  double &at(Where where) { return seconds[size_t(where)]; }
  double repeated() const { return at(Where::Forward) + at(Where::Backward); }
  double all() const { return repeated() + at(Where::Ends) + at(Where::Middle); }
};

/// `samples`: the mesh axis that splits them; empty: none. Nothing: it has no loop over passes.
std::optional<PartProgram> readPart(const StepCost &of, const std::string &samples, bool isOnePass);

/// A pass of so many samples. Nothing: one of the programs does not compile, or they differ in more than sizes.
std::optional<PartPass> passOf(const PartPrograms &programs, int64_t perPass, const planner::Machine &machine);

} // namespace echelon
