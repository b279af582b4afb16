#include "tools/driver/search/PartProgram.h"

#include "llvm/ADT/STLExtras.h"

#include <tuple>

namespace echelon {

namespace {
using ActionKind = planner::Action::Kind;

/// Reads the calls of a pass, and of what comes after all passes, off the program of a part.
class Reader {
public:
  Reader(const StepCost &of, const std::string &samples) : of(of) {
    for (const std::string &term : of.step.terms) {
      isUpdate.push_back(term == "optimizer");
      isOfSamples.push_back(!samples.empty() && term == "messages over " + samples);
    }
  }

  std::optional<PartProgram> read(bool isOnePass) {
    const planner::Actions &all = of.step.stages.front();
    bool isFound = isOnePass;
    if (isOnePass)
      readPass(all);
    for (const planner::Action &action : all) {
      if (isOnePass)
        break;
      if (isLoop(action) && action.trips == kPartPasses && !isFound)
        readPass(action.body);
      else
        add(action, 1, Where::AfterAll);
      isFound |= isLoop(action) && action.trips == kPartPasses;
    }
    return isFound ? std::optional<PartProgram>(std::move(program)) : std::nullopt;
  }

private:
  static bool isLoop(const planner::Action &action) { return action.kind == ActionKind::Loop; }

  /// The first of two repeats is the forward pass's, the second one the backward pass's.
  void readPass(const planner::Actions &actions) {
    const auto repeats = llvm::count_if(actions, isLoop);
    program.hasSides = repeats == 2;
    int64_t behind = 0;
    for (const planner::Action &action : actions) {
      const bool isRepeat = isLoop(action);
      if (!program.hasSides)
        add(action, 1, Where::Backward);
      else if (isRepeat)
        add(action, 1, behind == 0 ? Where::Forward : Where::Backward);
      else
        add(action, 1, behind == 1 ? Where::Middle : Where::Ends);
      behind += isRepeat ? 1 : 0;
    }
  }

  void add(const planner::Action &action, double times, Where where) {
    if (isLoop(action)) {
      for (const planner::Actions *actions : {&action.ahead, &action.body})
        for (const planner::Action &inner : *actions)
          add(inner, times * double(action.trips), where);
      return;
    }
    PartCall call;
    call.times = times;
    call.where = where;
    if (action.kind == ActionKind::Work) {
      call.work = of.step.works[action.what];
      if (isUpdate[action.term])
        call.where = Where::Update;
    } else if (action.kind == ActionKind::Message) {
      call.isMessage = true;
      call.message = of.step.messages[action.what];
      call.isOfSamples = isOfSamples[action.term];
      call.isStarted = action.ticket >= 0;
      if (call.message.isOfUpdate)
        call.where = Where::AfterAll;
    } else {
      return;
    }
    program.calls.push_back(call);
  }

  const StepCost &of;
  std::vector<bool> isUpdate, isOfSamples; ///< by term
  PartProgram program;
};

/// What is `one` at the first number of samples, and `two` at the second.
double onLine(double one, double two, int64_t samples) {
  return one + double(samples - kLine[0]) * (two - one) / double(kLine[1] - kLine[0]);
}
int64_t onLine(int64_t one, int64_t two, int64_t samples) {
  return one + (samples - kLine[0]) * (two - one) / (kLine[1] - kLine[0]);
}

bool isAlike(const planner::Work &a, const planner::Work &b) {
  return std::tie(a.kind, a.kernel, a.precision) == std::tie(b.kind, b.kernel, b.precision);
}
bool isAlike(const planner::Message &a, const planner::Message &b) {
  return std::tie(a.kind, a.algorithm, a.group.ranks) == std::tie(b.kind, b.algorithm, b.group.ranks);
}

planner::Work onLine(planner::Work one, const planner::Work &two, int64_t samples) {
  for (double planner::Work::*number :
       {&planner::Work::flops, &planner::Work::bytes, &planner::Work::added, &planner::Work::exponentials})
    one.*number = onLine(one.*number, two.*number, samples);
  for (int64_t planner::Work::*number :
       {&planner::Work::m, &planner::Work::n, &planner::Work::k, &planner::Work::batch})
    one.*number = onLine(one.*number, two.*number, samples);
  return one;
}
} // namespace

std::optional<PartProgram> readPart(const StepCost &of, const std::string &samples, bool isOnePass) {
  return Reader(of, samples).read(isOnePass);
}

std::optional<PartPass> passOf(const PartPrograms &programs, int64_t perPass, const planner::Machine &machine) {
  const bool isLine = programs.size() == 2;
  const std::optional<PartProgram> &one = programs.front(), &two = programs.back();
  if (!one || !two || one->calls.size() != two->calls.size())
    return std::nullopt;
  PartPass pass;
  pass.hasSides = one->hasSides;
  pass.activations =
      isLine ? onLine(double(one->activations), double(two->activations), perPass) : double(one->activations);
  for (size_t i = 0; i < one->calls.size(); ++i) {
    PartCall call = one->calls[i];
    const PartCall &other = two->calls[i];
    if (call.isMessage != other.isMessage || call.times != other.times ||
        !(call.isMessage ? isAlike(call.message, other.message) : isAlike(call.work, other.work)))
      return std::nullopt;
    if (isLine) {
      call.work = onLine(call.work, other.work, perPass);
      call.message.bytes = onLine(call.message.bytes, other.message.bytes, perPass);
    }
    if (call.isMessage && call.isOfSamples)
      pass.sent.push_back(call);
    else if (!call.isMessage)
      pass.at(call.where) += call.times * machine.seconds(call.work);
    else if (!call.isStarted)
      pass.at(call.where) += call.times * machine.seconds(call.message);
  }
  return pass;
}

} // namespace echelon
