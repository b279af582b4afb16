#include "tools/driver/search/LayoutBounds.h"

#include "planner/timeline/Groups.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace echelon::frontend;

namespace echelon {

namespace {
constexpr int64_t kPasses = 97; ///< of a part that has several: no model has as many of anything else
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

/// Waits of a pipeline's stages: equally many iterations each, in chunks.
double waitsOf(const LayoutFrame &frame, const LayoutCandidate &candidate) {
  return double(frame.stages - 1) / double(frame.stages * candidate.chunks);
}
bool isZeroBubble(const LayoutCandidate &candidate) { return llvm::StringRef(candidate.schedule) == "zero_bubble"; }

/// The part of all iterations that the stage with most of them has at least.
double mostOf(const LayoutFrame &frame) {
  const double iterations = double(std::max<int64_t>(frame.iterations, 1));
  return std::ceil(iterations / double(frame.stages)) / iterations;
}
bool isUneven(const LayoutFrame &frame) {
  return frame.stages > 1 && frame.mesh[size_t(frame.stageAxis)].parts.valid();
}
} // namespace

//===- the whole --------------------------------------------------------------------------------------------------===//

void LayoutBounds::addWhole(const Trial &asked) {
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
  wholes.push_back(whole);
  machine = of.machine;
  perNode = asked.compilation.options.nodeRanks > 0 ? asked.compilation.options.nodeRanks : machine.perNode;
  mostOverlap = machine.isOfGpus() ? 1 : 0;
}

void LayoutBounds::prepare() {
  std::map<std::string, size_t> known;
  cores.clear();
  for (const LayoutFrame &frame : space.frames)
    cores.push_back(known.emplace(frame.core, known.size()).first->second);
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
  if (isUneven(frame))
    return std::max(shared, repeated * mostOf(frame));
  constexpr double kForward = 0.2;
  return std::max(shared, repeated / stages + (isZeroBubble(candidate) ? kForward : 1) * waitsOf(frame, candidate) *
                                                  ofPass);
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

/// How many passes the first stage keeps values of at once, at least.
int64_t LayoutBounds::passesUnderWay(const LayoutFrame &frame, const LayoutCandidate &candidate) const {
  return std::min(candidate.passes, frame.stages);
}

/// Of a rank: what a policy keeps for the backward pass more than the last one does, which keeps least.
double LayoutBounds::keptBytes(const LayoutCandidate &candidate) const {
  if (wholes.size() < 2 || isUneven(space.frames[candidate.frame]))
    return 0;
  const LayoutFrame &frame = space.frames[candidate.frame];
  const double kept = double(wholes[size_t(candidate.policy)].activations - wholes.back().activations);
  const double samples = double(frame.samples * candidate.passes);
  return std::max(0.0, kept) / (samples * double(frame.tensor * frame.context)) *
         double(passesUnderWay(frame, candidate)) / double(frame.stages);
}

bool LayoutBounds::isWithoutRoom(const LayoutCandidate &candidate) const {
  return isShort && leastBytes(candidate) + keptBytes(candidate) > double(room);
}

//===- the part of a rank -----------------------------------------------------------------------------------------===//

LayoutBounds::Part LayoutBounds::partOf(const LayoutCandidate &candidate) const {
  const LayoutFrame &frame = space.frames[candidate.frame];
  Part part;
  part.core = cores[candidate.frame];
  part.policy = candidate.policy;
  part.perPass = candidate.perPass;
  part.isOnePass = candidate.passes == 1;
  part.hasSamples = frame.samples > 1 && frame.sampleAxes.size() == 1;
  part.stored = part.hasSamples ? candidate.stored : 0;
  return part;
}

PlannedLayout LayoutBounds::layoutOfPart(const LayoutCandidate &candidate) const {
  const LayoutFrame &frame = space.frames[candidate.frame];
  const Part part = partOf(candidate);
  PlannedLayout made = space.layoutOf(candidate), whole = made;
  made.mesh.clear();
  for (size_t i = 0; i < whole.mesh.size(); ++i) {
    const bool isOfSamples = llvm::is_contained(frame.sampleAxes, int(i));
    if (int(i) == frame.stageAxis || (isOfSamples && !part.hasSamples))
      continue;
    made.mesh.push_back(whole.mesh[i]);
    if (isOfSamples)
      made.mesh.back().size = 2;
    else
      made.mesh.back().stored.clear();
  }
  made.microBatches = part.isOnePass ? 1 : kPasses;
  made.batchRanks = part.hasSamples ? 2 : 1;
  made.batch = made.batchRanks * made.microBatches * candidate.perPass;
  return made;
}

/// Reads a pass off the program of a part.
class LayoutBounds::Reader {
public:
  Reader(const StepCost &of, const std::string &samples) : of(of) {
    for (size_t t = 0; t < of.step.terms.size(); ++t) {
      isUpdate.push_back(of.step.terms[t] == "optimizer");
      isOfSamples.push_back(!samples.empty() && of.step.terms[t] == "messages over " + samples);
    }
  }

  std::optional<Pass> read(bool isOnePass) {
    const planner::Actions &all = of.step.stages.front();
    if (isOnePass) {
      readPass(all);
      return std::move(pass);
    }
    bool isFound = false;
    for (const planner::Action &action : all) {
      if (action.kind == ActionKind::Loop && action.trips == kPasses && !isFound) {
        isFound = true;
        readPass(action.body);
      } else {
        addUpdate({action}, 1);
      }
    }
    return isFound ? std::optional<Pass>(std::move(pass)) : std::nullopt;
  }

private:
  static bool isLoop(const planner::Action &action) { return action.kind == ActionKind::Loop; }

  /// The first of two repeats is the forward pass's, the second one the backward pass's.
  void readPass(const planner::Actions &actions) {
    std::vector<double> repeats;
    double before = 0, between = 0;
    for (const planner::Action &action : actions) {
      double seconds = 0;
      add({action}, 1, seconds);
      if (isLoop(action) && seconds > 0)
        repeats.push_back(seconds);
      else if (repeats.size() == 1)
        between += seconds;
      else
        before += seconds;
    }
    for (double seconds : repeats)
      pass.backward += seconds;
    if (repeats.size() == 2) {
      pass.forward = repeats[0];
      pass.backward = repeats[1];
      pass.first = before;
      pass.last = between;
    } else { // where stages would begin is not known
      pass.first = 0;
      pass.last = 0;
      pass.backward += before + between;
      pass.isWhole = true;
    }
  }

  void add(const planner::Actions &actions, double times, double &seconds) {
    for (const planner::Action &action : actions) {
      if (isLoop(action)) {
        add(action.ahead, times * double(action.trips), seconds);
        add(action.body, times * double(action.trips), seconds);
      } else if (action.kind == ActionKind::Work) {
        (isUpdate[action.term] ? pass.update : seconds) += times * of.time.workSeconds[action.what];
      } else if (action.kind == ActionKind::Message) {
        const planner::Message &message = of.step.messages[action.what];
        if (isOfSamples[action.term])
          pass.sent.push_back({message, times, !message.isOfUpdate, action.ticket >= 0});
        else if (action.ticket < 0 && !message.isOfUpdate)
          seconds += times * of.time.messageSeconds[action.what];
      }
    }
  }

  void addUpdate(const planner::Actions &actions, double times) {
    const size_t from = pass.sent.size();
    double other = 0;
    add(actions, times, other);
    for (size_t i = from; i < pass.sent.size(); ++i)
      pass.sent[i].isInPass = false;
  }

  const StepCost &of;
  std::vector<bool> isUpdate, isOfSamples; ///< by term
  Pass pass;
};

void LayoutBounds::addPart(const Part &part, const Trial *asked) {
  std::optional<Pass> &known = parts[part];
  if (!asked)
    return;
  std::string samples;
  for (const MeshAxisSettings &axis : asked->compilation.settings.mesh)
    if (part.hasSamples && llvm::any_of(axis.list, [&](const auto &entry) {
          return entry.axis == asked->compilation.facts.batchAxis;
        }))
      samples = axis.name;
  known = Reader(asked->step, samples).read(part.isOnePass);
  if (known)
    known->activations = asked->memory.activations;
}

/// Seconds for each byte of a message, in whatever size it is sent, over the ranks that a frame splits samples over.
double LayoutBounds::secondsABytes(const planner::Message &message, size_t place) const {
  auto [known, isNew] =
      rates.try_emplace({place, int(message.kind), message.algorithm, message.isOfUpdate},
                        std::numeric_limits<double>::infinity());
  if (!isNew)
    return known->second;
  const LayoutFrame &frame = space.frames[place];
  std::vector<int64_t> sizes;
  for (const MeshAxisSettings &axis : frame.mesh)
    sizes.push_back(axis.size);
  planner::Message asked = message;
  asked.group = planner::groupOf(sizes, {frame.sampleAxes.front()}, perNode);
  constexpr double kLeast = 1024, kMost = 1024.0 * 1024 * 1024 * 1024;
  for (asked.bytes = kLeast; asked.bytes <= kMost; asked.bytes *= 2)
    known->second = std::min(known->second, machine.seconds(asked) / asked.bytes);
  return known->second;
}

/// Stages have equal shares of what is sent.
LayoutBounds::Exposed LayoutBounds::exposedOf(const Pass &pass, const LayoutCandidate &candidate) const {
  const LayoutFrame &frame = space.frames[candidate.frame];
  const double share = isUneven(frame) ? mostOf(frame) : 1 / double(frame.stages);
  Exposed made;
  for (const Sent &sent : pass.sent) {
    const double seconds = sent.times * share * sent.message.bytes * secondsABytes(sent.message, candidate.frame);
    if (!sent.isInPass) {
      made.after += seconds;
      continue;
    }
    made.queued += seconds;
    made.waited += sent.isStarted ? (1 - mostOverlap) * seconds : seconds;
  }
  return made;
}

double LayoutBounds::secondsByPart(const LayoutCandidate &candidate) const {
  const std::optional<Pass> &known = parts.at(partOf(candidate));
  if (!known)
    return 0;
  const Pass &pass = *known;
  const LayoutFrame &frame = space.frames[candidate.frame];
  const double stages = double(frame.stages), passes = double(candidate.passes);
  if (isShort && leastBytes(candidate) + std::max(keptBytes(candidate), double(pass.activations) / stages) >
                     double(room))
    return std::numeric_limits<double>::infinity();
  const Exposed exposed = exposedOf(pass, candidate);
  // where there is one pass, what is sent after it is sent while others are still computed
  const double after = candidate.passes > 1 ? exposed.after : 0;
  const double queue = passes * exposed.queued + exposed.after;
  if (frame.stages == 1)
    return std::max(passes * (pass.all() + exposed.waited) + after, queue);
  if (isUneven(frame)) {
    const double work = pass.isWhole ? pass.backward / stages : pass.repeated() * mostOf(frame);
    return std::max({passes * pass.all() / stages, passes * (work + exposed.waited) + after, queue});
  }
  if (pass.isWhole)
    return std::max(passes * (pass.backward / stages + exposed.waited) + after, queue);
  const double each = pass.repeated() / stages + exposed.waited, waits = waitsOf(frame, candidate);
  const double fill = waits * pass.forward, drain = isZeroBubble(candidate) ? 0 : waits * pass.backward;
  return std::max({passes * (each + pass.last) + fill + drain + after, passes * (each + pass.first) + after,
                   passes * pass.all() / stages + after, queue});
}

} // namespace echelon
