#include "tools/driver/search/LayoutBounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace echelon::frontend;

namespace echelon {

namespace {
using ActionKind = planner::Action::Kind;

/// Seconds that all shares of a work take at least. Where rates were measured at sizes, smaller shares may be faster:
/// then a product at the best of all rates, and nothing else.
double secondsOfShares(const planner::Machine &machine, planner::Work work) {
  using Kind = planner::Work::Kind;
  if (machine.device.curves.empty() && machine.device.grid.empty())
    return machine.seconds(work);
  if (work.kind == Kind::Loop || work.kind == Kind::Kernel)
    return 0;
  work.bytes = work.added = 0;
  double seconds = machine.seconds(work);
  if (auto curve = machine.device.curves.find("product"); curve != machine.device.curves.end()) {
    double rate = 0;
    for (const auto &[size, reached] : curve->second.points)
      rate = std::max(rate, reached);
    seconds = rate > 0 ? std::min(seconds, work.flops / rate) : 0;
  }
  return seconds;
}
} // namespace

void LayoutBounds::addWhole(size_t policy, const Trial &asked) {
  const StepCost &of = asked.step;
  Whole whole;
  auto add = [&](const planner::Actions &actions, double times, bool isRepeated, const auto &again) -> void {
    for (const planner::Action &action : actions) {
      if (action.kind == ActionKind::Loop) {
        again(action.ahead, times * double(action.trips), true, again);
        again(action.body, times * double(action.trips), true, again);
      }
      if (action.kind != ActionKind::Work)
        continue;
      const double seconds = times * secondsOfShares(of.machine, of.step.works[action.what]);
      whole.all += seconds;
      if (isRepeated && of.step.terms[action.term] != "optimizer")
        whole.repeated += seconds;
    }
  };
  add(of.step.stages.front(), 1, false, add);
  whole.params = asked.memory.params;
  whole.gradients = asked.memory.gradients;
  whole.optimizer = asked.memory.optimizer;
  whole.activations = asked.memory.activations;
  wholes.resize(std::max(wholes.size(), policy + 1));
  wholes[policy] = whole;
  machine = of.machine;
  perNode = asked.compilation.options.nodeRanks > 0 ? asked.compilation.options.nodeRanks : machine.perNode;
  mostOverlap = machine.isOfGpus() ? 1 : 0;
}

/// One rank, in one pass. Where a policy does not compile, none tells anything.
void LayoutBounds::ask(Trials &trials) {
  std::map<std::string, size_t> known;
  for (const LayoutFrame &frame : space.frames)
    cores.push_back(known.emplace(frame.core, known.size()).first->second);
  const size_t count = std::max<size_t>(1, space.policies.size());
  std::vector<planner::Price> prices(count);
  trials.onAll(
      count,
      [&](Trial &trial, size_t policy) {
        PlannedLayout alone;
        alone.batch = trial.resolved.batch;
        if (!space.policies.empty())
          alone.recompute = space.policies[policy];
        prices[policy] = trial.ask(alone, false);
      },
      [&](Trial &trial, size_t policy) {
        if (prices[policy].kind != planner::Price::Kind::Refused)
          addWhole(policy, trial);
      });
  if (llvm::any_of(prices, [](const planner::Price &price) { return price.kind == planner::Price::Kind::Refused; }))
    wholes.clear();
}

/// Stages with equally many iterations: the last one begins when the first pass has come to it, and, but for
/// zero_bubble, the first one ends when the last pass has come back; a forward pass is at least a fifth of both.
double LayoutBounds::leastSeconds(const LayoutCandidate &candidate) const {
  if (wholes.empty())
    return 0;
  const LayoutFrame &frame = space.frames[candidate.frame];
  const Whole &whole = wholes[size_t(candidate.policy)];
  const double ranks = double(frame.samples * frame.tensor * frame.context), stages = double(frame.stages);
  const double shared = whole.all / ranks / stages;
  if (frame.stages == 1)
    return shared;
  const double repeated = whole.repeated / ranks, ofPass = repeated / double(candidate.passes);
  if (frame.isUneven())
    return std::max(shared, repeated * frame.most());
  constexpr double kForward = 0.2;
  return std::max(shared,
                  repeated / stages + (candidate.isZeroBubble() ? kForward : 1) * candidate.waits(frame) * ofPass);
}

/// Of a rank: parameters, their gradients and the optimizer's state, cut as far as they can be.
double LayoutBounds::leastBytes(const LayoutCandidate &candidate) const {
  if (wholes.empty())
    return 0;
  const Whole &whole = wholes[size_t(candidate.policy)];
  const LayoutFrame &frame = space.frames[candidate.frame];
  double parts[] = {1, 1, 1}; // of the optimizer, gradients, parameters
  static const char *const kWhat[] = {"optimizer", "gradients", "params"};
  for (int what = 0; what < 3; ++what) {
    if (candidate.stored > what)
      parts[what] = double(frame.samples);
    for (const MeshAxisSettings &axis : frame.mesh)
      if (axis.stored.count(kWhat[what]))
        parts[what] *= double(axis.size);
  }
  return frame.params *
         (double(whole.optimizer) / parts[0] + double(whole.gradients) / parts[1] + double(whole.params) / parts[2]);
}

/// Of a rank: what a policy keeps for the backward pass more than the last one does, which keeps least. All ranks have
/// the arenas of one program: room for the iterations of the stage that has most of them, and for as many passes as are
/// under way in the first stage.
double LayoutBounds::keptBytes(const LayoutCandidate &candidate) const {
  if (wholes.size() < 2)
    return 0;
  const LayoutFrame &frame = space.frames[candidate.frame];
  const double kept = double(wholes[size_t(candidate.policy)].activations - wholes.back().activations);
  const double ofPass = std::max(0.0, kept) / double(frame.samples * candidate.passes * frame.tensor * frame.context);
  const double share = frame.isUneven() ? frame.most() : 1 / double(frame.stages);
  return ofPass * share * double(std::min(candidate.passes, frame.stages));
}

double LayoutBounds::likelyBytes(const LayoutCandidate &candidate) const {
  if (wholes.empty())
    return 0;
  const LayoutFrame &frame = space.frames[candidate.frame];
  const double parts = double(frame.samples * candidate.passes * frame.tensor * frame.context * frame.stages);
  return leastBytes(candidate) + double(wholes[size_t(candidate.policy)].activations) / parts *
                                     double(std::min(candidate.passes, frame.stages));
}

bool LayoutBounds::isWithoutRoom(const LayoutCandidate &candidate) const {
  return isShort && leastBytes(candidate) + keptBytes(candidate) > double(room);
}

} // namespace echelon
