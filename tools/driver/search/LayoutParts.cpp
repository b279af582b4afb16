// Bounds by the part of a rank.
#include "tools/driver/search/LayoutBounds.h"

#include "planner/timeline/Groups.h"

#include <algorithm>
#include <limits>

using namespace echelon::frontend;

namespace echelon {

LayoutBounds::Part LayoutBounds::partOf(const LayoutCandidate &candidate, Level level) const {
  const LayoutFrame &frame = space.frames[candidate.frame];
  Part part;
  part.core = cores[candidate.frame];
  if (level != Level::Shared) {
    part.hasSamples = frame.samples > 1 && frame.sampleAxes.size() == 1;
    part.stored = part.hasSamples ? candidate.stored : 0;
  }
  if (level == Level::Sending) {
    part.perPass = 1;
    return part;
  }
  if (level == Level::Own) {
    part.policy = candidate.policy;
    part.isOnePass = candidate.passes == 1;
  }
  const bool isOfLine = candidate.perPass >= kLine[0] || (level == Level::Shared && isSmooth());
  if (part.isOnePass || !isOfLine || uneven.count(part))
    part.perPass = candidate.perPass;
  return part;
}

void LayoutBounds::addQuestions(const LayoutCandidate &candidate, const Part &part, std::vector<Question> &to) const {
  const LayoutFrame &frame = space.frames[candidate.frame];
  LayoutCandidate own = candidate;
  own.policy = part.policy;
  own.stored = part.stored;
  PlannedLayout made = space.layoutOf(own), whole = made;
  made.mesh.clear();
  for (size_t i = 0; i < whole.mesh.size(); ++i) {
    const bool isOfSamples = llvm::is_contained(frame.sampleAxes, int(i));
    const bool isOfStages = int(i) == frame.stageAxis;
    if ((isOfStages && !part.isStaged) || (isOfSamples && !part.hasSamples))
      continue;
    made.mesh.push_back(whole.mesh[i]);
    if (isOfStages) {
      made.mesh.back().size = 2;
      made.mesh.back().chunks = 1;
      made.mesh.back().schedule = "gpipe";
      made.mesh.back().balanced = false;
      made.mesh.back().counts.clear();
      made.mesh.back().parts = {};
    }
    if (isOfSamples)
      made.mesh.back().size = 2;
    else
      made.mesh.back().stored.clear();
  }
  made.microBatches = part.isOnePass ? 1 : kPartPasses;
  made.batchRanks = part.hasSamples ? 2 : 1;
  size_t which = 0;
  for (int64_t perPass :
       part.perPass ? std::vector<int64_t>{part.perPass} : std::vector<int64_t>(kLine.begin(), kLine.end())) {
    made.batch = made.batchRanks * made.microBatches * perPass;
    to.push_back({part, which++, made, {}});
  }
}

void LayoutBounds::addPart(const Question &question, const Trial *asked) {
  const Part &part = question.part;
  const size_t which = question.which;
  PartPrograms &known = parts[part];
  known.resize(std::max(known.size(), which + 1));
  std::string samples;
  for (const MeshAxisSettings &axis : question.layout.mesh)
    if (asked && part.hasSamples &&
        llvm::any_of(axis.list, [&](const auto &entry) { return entry.axis == asked->compilation.facts.batchAxis; }))
      samples = axis.name;
  if (asked && part.isStaged)
    known[which].emplace();
  else if (asked)
    known[which] = readPart(asked->step, samples, part.isOnePass);
  if (known[which])
    known[which]->activations = asked->memory.activations;
}

void LayoutBounds::ask(std::vector<Question> &questions, Trials &trials) {
  trials.onAll(
      questions.size(), [&](Trial &trial, size_t i) { questions[i].price = trial.ask(questions[i].layout, false); },
      [&](Trial &trial, size_t i) {
        const bool isKnown = questions[i].price.kind != planner::Price::Kind::Refused;
        addPart(questions[i], isKnown ? &trial : nullptr);
      });
  for (const Question &question : questions)
    if (!question.part.perPass && !echelon::passOf(parts[question.part], kLine[1], machine))
      uneven.insert(question.part);
}

void LayoutBounds::askPart(const LayoutCandidate &candidate, const Part &part, Trials &trials) {
  if (parts.count(part))
    return;
  std::vector<Question> questions;
  addQuestions(candidate, part, questions);
  ask(questions, trials);
}

/// None where there is one stage, or where the iterations of two are not equally many.
std::optional<LayoutBounds::Part> LayoutBounds::stagedPartOf(const LayoutCandidate &candidate) const {
  const LayoutFrame &frame = space.frames[candidate.frame];
  if (!isShort || frame.stages == 1 || frame.iterations % 2 != 0)
    return std::nullopt;
  Part part;
  part.core = cores[candidate.frame];
  part.policy = candidate.policy;
  part.perPass = kLine[0];
  part.isStaged = true;
  return part;
}

/// Of a rank, with what is kept as two stages keep it of all their passes; what else there is shares in stages.
double LayoutBounds::activationsOf(const PartPass &pass, const LayoutCandidate &candidate) const {
  const LayoutFrame &frame = space.frames[candidate.frame];
  const double share = frame.isUneven() ? frame.most() : 1 / double(frame.stages), all = pass.activations;
  const std::optional<Part> staged = stagedPartOf(candidate);
  const auto known = staged ? parts.find(*staged) : parts.end();
  if (known == parts.end() || !known->second.front())
    return std::max(keptBytes(candidate), all * share);
  const double samples = double(candidate.perPass) / double(kLine[0]);
  const double besides = all / std::min(samples, 1.0); // more than what is not kept
  const double kept = 2 * samples * std::max(0.0, double(known->second.front()->activations) - besides) / kPartPasses;
  return share * (kept * double(std::min(candidate.passes, frame.stages)) + std::max(0.0, all - kept));
}

std::vector<double> LayoutBounds::tightened(const std::vector<size_t> &some, Level level, Trials &trials) {
  std::set<Part> seen;
  for (bool isNew = true; isNew;) { // what is no line is asked again, with the numbers of samples that there are
    std::vector<Question> questions;
    for (size_t i : some) {
      std::vector<Part> wanted = {partOf(space.candidates[i], level)};
      if (level == Level::Own)
        if (const std::optional<Part> staged = stagedPartOf(space.candidates[i]))
          wanted.push_back(*staged);
      for (const Part &part : wanted)
        if (!parts.count(part) && seen.insert(part).second)
          addQuestions(space.candidates[i], part, questions);
    }
    isNew = !questions.empty();
    ask(questions, trials);
  }
  std::vector<double> seconds;
  for (size_t i : some)
    seconds.push_back(secondsByPart(space.candidates[i], level));
  return seconds;
}

std::optional<double> LayoutBounds::secondsOfPass(const Part &part, int64_t perPass) const {
  const PartPass *pass = passOf(part, perPass);
  return pass ? std::optional(pass->all()) : std::nullopt;
}

const PartPass *LayoutBounds::passOf(const Part &part, int64_t perPass) const {
  auto [known, isNew] = passes.try_emplace({part, perPass});
  if (isNew)
    known->second = echelon::passOf(parts.at(part), perPass, machine);
  return known->second ? &*known->second : nullptr;
}

/// Seconds for each byte of a message, in whatever size it is sent, over the ranks that a frame splits samples over.
double LayoutBounds::secondsAByte(const planner::Message &message, size_t place) const {
  auto [known, isNew] = rates.try_emplace({place, int(message.kind), message.algorithm, message.isOfUpdate},
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
LayoutBounds::Exposed LayoutBounds::exposedOf(const PartPass &pass, const LayoutCandidate &candidate) const {
  const LayoutFrame &frame = space.frames[candidate.frame];
  const double share = frame.isUneven() ? frame.most() : 1 / double(frame.stages);
  Exposed made;
  for (const PartCall &sent : pass.sent) {
    const double seconds = sent.times * share * sent.message.bytes * secondsAByte(sent.message, candidate.frame);
    if (sent.where == Where::AfterAll) {
      made.after += seconds;
      continue;
    }
    made.queued += seconds;
    made.waited += sent.isStarted ? (1 - mostOverlap) * seconds : seconds;
  }
  return made;
}

/// What a policy computes again is added, and in one pass what gradients of several are added up in is taken off. Half
/// of what two samples take is less than what one does.
std::optional<PartPass> LayoutBounds::shared(const LayoutCandidate &candidate) const {
  const LayoutFrame &frame = space.frames[candidate.frame];
  const Part part = partOf(candidate, Level::Shared);
  const bool isLess = !part.perPass && candidate.perPass < kLine[0];
  const PartPass *known = passOf(part, isLess ? kLine[0] : candidate.perPass);
  if (!known)
    return std::nullopt;
  PartPass pass = *known;
  if (isLess)
    for (double &seconds : pass.seconds)
      seconds *= double(candidate.perPass) / double(kLine[0]);
  if (wholes.empty())
    return candidate.passes > 1 ? std::optional<PartPass>(pass) : std::nullopt;
  const double ranks = double(frame.samples * frame.tensor * frame.context);
  pass.at(Where::Backward) +=
      std::max(0.0, wholes[size_t(candidate.policy)].all - wholes.front().all) / ranks / double(candidate.passes);
  if (candidate.passes == 1) {
    constexpr double kMoved = 4; // times: what is added is written and read, the sum is read and written
    planner::Work adding;
    adding.bytes = kMoved * double(wholes.front().gradients) * frame.params * double(frame.stages);
    pass.at(Where::Backward) = std::max(0.0, pass.at(Where::Backward) - machine.seconds(adding));
  }
  return pass;
}

double LayoutBounds::secondsByPart(const LayoutCandidate &candidate, Level level) const {
  if (level != Level::Own) {
    std::optional<PartPass> pass = shared(candidate);
    if (!pass)
      return 0;
    if (level == Level::Sending)
      if (const PartPass *sending = passOf(partOf(candidate, level), 1))
        pass->sent = sending->sent;
    return secondsOf(*pass, candidate);
  }
  const PartPass *known = passOf(partOf(candidate, level), candidate.perPass);
  if (!known)
    return 0;
  if (isShort && leastBytes(candidate) + activationsOf(*known, candidate) > double(room))
    return std::numeric_limits<double>::infinity();
  return secondsOf(*known, candidate);
}

double LayoutBounds::secondsOf(const PartPass &pass, const LayoutCandidate &candidate) const {
  const LayoutFrame &frame = space.frames[candidate.frame];
  const double stages = double(frame.stages), passes = double(candidate.passes);
  const Exposed exposed = exposedOf(pass, candidate);
  // where there is one pass, what is sent after it is sent while others are still computed
  const double after = candidate.passes > 1 ? exposed.after : 0;
  const double queue = passes * exposed.queued + exposed.after;
  const double most = frame.isUneven() ? frame.most() : 1 / stages;
  const double each = pass.repeated() * (pass.hasSides ? most : 1 / stages) + exposed.waited;
  double seconds = std::max({passes * each + after, passes * pass.all() / stages, queue});
  if (frame.stages == 1)
    return std::max(seconds, passes * (pass.all() + exposed.waited) + after);
  if (!pass.hasSides)
    return seconds;
  // one pass goes through all stages, there and, but for gradients of weights, back; what computes the last part of it,
  // an iteration at least, does so for all passes
  const double parts = frame.isUneven() ? double(frame.iterations) : stages * double(candidate.chunks);
  const double through = candidate.isZeroBubble() ? pass.at(Where::Forward) : pass.repeated();
  seconds = std::max(seconds, through * (1 - 1 / parts) + passes * (pass.repeated() / parts + pass.at(Where::Middle)));
  if (frame.isUneven())
    return seconds;
  const double waits = candidate.waits(frame);
  const double fill = waits * pass.at(Where::Forward);
  const double drain = candidate.isZeroBubble() ? 0 : waits * pass.at(Where::Backward);
  return std::max({seconds, passes * (each + pass.at(Where::Middle)) + fill + drain + after,
                   passes * (each + pass.at(Where::Ends)) + after});
}

} // namespace echelon
