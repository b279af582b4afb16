#include "runtime/program/NotFinite.h"

#include "runtime/collectives/Collectives.h"
#include "runtime/kernels/Check.h"
#include "runtime/launch/Fail.h"
#include "runtime/program/Assemble.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

namespace echelon::runtime {

namespace {

/// The first tensor on this rank that is not finite, in the order in which all ranks look at them: inputs, parameters
/// and what the optimizer keeps (which a step that is broken leaves as they were), gradients, other states.
struct FirstBroken {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t tensor = kNone, element = -1; // number in the order; -1: of a gradient, which is not kept
  std::string name;

  explicit FirstBroken(Rank &rank) {
    const Program &program = rank.program();
    rank.stateFromDevice();
    for (const Input &input : program.inputs)
      for (const InputPlace &place : input.places)
        look("input " + input.name, place.type, rank.input<std::byte>(place.offset),
             localCount(place.layout, program.mesh));
    lookAtStored(rank, false);
    const char *gradient = rank.training() ? rank.firstBrokenGradient() : nullptr;
    for (const Stored &stored : program.stored) // in the parameters' order, which is the same on all ranks
      if (stored.kind == Stored::Param)
        take("the gradient of " + stored.path, gradient && stored.path == gradient, -1);
    lookAtStored(rank, true);
  }

private:
  void take(const std::string &what, bool broken, int64_t at) {
    if (broken && tensor == kNone) {
      tensor = seen;
      element = at;
      name = what;
    }
    ++seen;
  }
  void look(const std::string &what, ElementType type, const std::byte *data, int64_t count) {
    const int64_t at = check_finite(type, data, count);
    take(what, at >= 0, at);
  }
  void lookAtStored(Rank &rank, bool states) {
    const Program &program = rank.program();
    const std::vector<TensorPiece> tensors = storedTensors(rank);
    for (size_t i = 0; i < tensors.size(); ++i)
      if ((program.stored[i].kind == Stored::State) == states)
        look(tensors[i].name, tensors[i].type, tensors[i].data,
             holdsSome(rank, *tensors[i].layout) ? localCount(*tensors[i].layout, program.mesh) : 0);
  }

  int64_t seen = 0;
};

/// The first of the ranks that hold the first such tensor.
int finderOf(Rank &rank, const FirstBroken &broken) {
  std::vector<int64_t> all(2 * size_t(rank.size()));
  const int64_t found[2] = {broken.tensor, broken.element};
  all_gather(rank.transport(), rank.transport().world(), reinterpret_cast<int32_t *>(all.data()),
             reinterpret_cast<const int32_t *>(found), 4, "loss");
  int finder = 0;
  for (int r = 1; r < rank.size(); ++r)
    if (all[2 * size_t(r)] < all[2 * size_t(finder)])
      finder = r;
  return finder;
}

std::string whatMayHelp(const Rank &rank, int64_t step) {
  const Program &program = rank.program();
  const std::string &partial = program.partialFunctions,
                    model = partial.empty() ? "the model" : "the model's " + partial;
  if (!rank.training())
    return partial.empty() ? "" : "; it may come from " + model;
  if (step == 1)
    return "; in the first step this may come from the data, " + model + " or the parameters' start values";
  char learningRate[32];
  std::snprintf(learningRate, sizeof(learningRate), "%.4g", program.learningRate(step - 1));
  return std::string("; a learning rate smaller than this step's ") + learningRate + " may help, or a warmup, or clip" +
         (partial.empty() ? "" : "; it may also come from " + model);
}

} // namespace

void failNotFinite(Rank &rank, const std::string &what, double value, int64_t step, int64_t savedAt,
                   const std::string &also) {
  const FirstBroken broken(rank);
  if (rank.rank() == finderOf(rank, broken)) {
    std::string message = what + " is " +
                          (std::isnan(value) ? "nan"
                           : value > 0       ? "inf"
                                             : "-inf") +
                          " at step " + std::to_string(step);
    if (broken.tensor == FirstBroken::kNone)
      message += ", though every tensor kept is finite";
    else
      message += "; the first tensor that is not finite is " + broken.name +
                 (broken.element < 0 ? "" : " (element " + std::to_string(broken.element) + " of this rank's)");
    if (rank.training())
      message += "; parameters and optimizer are as they were before this step";
    if (savedAt >= 0)
      message += "; the newest snapshot is that of step " + std::to_string(savedAt);
    fail(message + also + whatMayHelp(rank, step));
  }
  while (true) // the finder's message ends the run; this rank only waits for that
    barrier(rank.transport(), rank.transport().world());
}

} // namespace echelon::runtime
