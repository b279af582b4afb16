#include "tools/driver/compile/StepCost.h"

#include "frontend/resolve/MachineOf.h"
#include "ir/dist/State.h"
#include "ir/ech/Reverse.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/cost/StepProgram.h"
#include "tools/driver/compile/PolicyCost.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <algorithm>
#include <numeric>

namespace echelon {

double stepProducts(mlir::ModuleOp module) {
  auto train = mlir::dyn_cast_or_null<ech::StepOp>(mlir::SymbolTable::lookupSymbolIn(module, "train"));
  double flops = 0;
  if (!train)
    return flops;
  ech::Reverse reverse;
  reverse.follow(train.getBody().front(), [&](ech::ReadOp read) {
    auto variable = mlir::SymbolTable::lookupNearestSymbolFrom<ech::VariableOp>(read, read.getSourceAttr());
    return variable && variable.getKind() == ech::VariableKind::Param;
  });
  train->walk([&](ech::Costed op) {
    if (!llvm::isa<ech::DotOp, ech::ConvOp, ech::AttentionOp>(op))
      return;
    // one forward, and one more for each factor that a derivative flows to: two, of attention for two products
    const auto derived = llvm::count_if(op->getOperands(), [&](mlir::Value v) { return reverse.isActive(v); });
    double times = 1 + double(std::min<int64_t>(derived, 2));
    for (auto loop = op->getParentOfType<ech::RepeatOp>(); loop; loop = loop->getParentOfType<ech::RepeatOp>())
      times *= double(loop.getCount());
    flops += times * double(op.flops());
  });
  return flops;
}

namespace {
/// Words of a sample: of the longest input of whole numbers that has more than one.
int64_t tokensOf(const frontend::ModelFacts &facts) {
  int64_t most = 0;
  for (const frontend::InputFacts &input : facts.inputs) {
    int64_t count = 1;
    for (const auto &[axis, size] : input.axes)
      if (axis != facts.batchAxis)
        count *= size;
    if (input.element == frontend::InputStatement::Int && count > 1)
      most = std::max(most, count);
  }
  return most;
}

/// The precision in which most is multiplied.
planner::Precision precisionOf(const planner::Step &step) {
  std::map<planner::Precision, double> flops;
  for (const planner::Actions &stage : step.stages) {
    const planner::Counts counts = planner::countsOf(step, stage);
    for (size_t i = 0; i < step.works.size(); ++i)
      if (step.works[i].kind != planner::Work::Kind::Loop && step.works[i].kind != planner::Work::Kind::Kernel)
        flops[step.works[i].precision] += step.works[i].flops * double(counts.works[i]);
  }
  auto most = std::max_element(flops.begin(), flops.end(), [](auto &a, auto &b) { return a.second < b.second; });
  return most == flops.end() ? planner::Precision::Fp32 : most->first;
}

void addTerm(StepCost &cost, const std::string &name, double seconds) {
  cost.step.terms.push_back(name);
  cost.time.terms.push_back(seconds);
  cost.time.seconds += seconds;
}

/// Under a sync policy a step takes the time of so many mini-batches, one after the other, and of an update; or of one,
/// and its part of a meeting. The terms become those of that.
void takePolicy(const Compilation &compilation, StepPlace place, planner::Issue issue, double input, StepCost &cost) {
  const frontend::SyncSettings &sync = *compilation.settings.sync;
  mlir::ModuleOp module = *compilation.module;
  auto partOf = [&](std::vector<std::string> functions) {
    place.functions = std::move(functions);
    const planner::Step step = stepOf(module, place);
    std::pair<planner::StepTime, std::vector<std::string>> part(planner::timeOf(step, cost.machine, issue), step.terms);
    return part;
  };
  const auto batch =
      partOf(sync.isLocal() ? std::vector<std::string>{"train"} : std::vector<std::string>{"train", "hand_in"});
  const auto update =
      partOf(sync.isLocal() ? std::vector<std::string>{"hand_in", "meet", "take"} : std::vector<std::string>{"update"});
  cost.miniBatch = batch.first.seconds + input;
  cost.update = update.first.seconds / double(sync.isLocal() ? sync.every : 1);
  cost.miniBatches = miniBatchesInTurn(compilation.settings);
  std::map<std::string, double> seconds;
  for (size_t i = 0; i < batch.second.size(); ++i)
    seconds[batch.second[i]] += batch.first.terms[i] * cost.miniBatches;
  for (size_t i = 0; i < update.second.size(); ++i)
    seconds[sync.isLocal() ? "meetings" : update.second[i]] +=
        update.first.terms[i] * (cost.update / std::max(update.first.seconds, 1e-300));
  cost.time.seconds = 0;
  for (size_t i = 0; i < cost.step.terms.size(); ++i) {
    cost.time.terms[i] = seconds[cost.step.terms[i]];
    cost.time.seconds += cost.time.terms[i];
    seconds.erase(cost.step.terms[i]);
  }
  seconds["data"] += input * cost.miniBatches;
  for (const auto &[name, all] : seconds)
    if (all > 0)
      addTerm(cost, name, all);
}

std::string grouped(double number) {
  std::string digits = std::to_string(static_cast<int64_t>(number + 0.5));
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}
} // namespace

StepCost stepCost(const Compilation &compilation, double products, ProgramCost &cost, StepRecord *told) {
  StepCost made;
  made.machine = frontend::machineOf(*compilation.program, compilation.settings, compilation.here.get());
  if (const auto *cluster = compilation.settings.cluster; compilation.here && (!cluster || !cluster->nodes))
    made.measuredIn = compilation.hereFile;
  const int64_t perNode = compilation.options.nodeRanks > 0 ? compilation.options.nodeRanks : made.machine.perNode;
  // where cores compute, they also issue calls and move what is sent
  const planner::Issue issue = made.machine.isOfGpus() ? planner::Issue{true, 1} : planner::Issue{false, 0};
  StepPlace place = {perNode, compilation.settings.precision.compute == "tf32"};
  made.step = stepOf(*compilation.module, place, told ? &told->calls : nullptr);
  made.time = planner::timeOf(made.step, made.machine, issue, told ? &told->record : nullptr);
  made.dataSeconds = issue.isAhead ? 0 : made.machine.inputSeconds(double(cost.inputBytes));
  if (compilation.settings.sync)
    takePolicy(compilation, place, issue, made.dataSeconds, made);
  else if (made.dataSeconds > 0)
    addTerm(made, "data", made.dataSeconds);
  made.ranks = std::max<int64_t>(compilation.settings.ranks(), 1);
  made.samples = compilation.settings.samplesAStep();
  made.tokens = tokensOf(compilation.facts);
  made.modelFlops = products; // of a worker's mini-batch under a policy
  if (const auto &sync = compilation.settings.sync)
    made.modelFlops *= double(sync->k);
  made.peak = made.machine.device.peak(precisionOf(made.step));
  if (dist::MeshAttr mesh = dist::meshOf(*compilation.module))
    for (std::vector<MessageCost> *messages : {&cost.messages, &cost.meetingMessages})
      for (MessageCost &message : *messages)
        message.seconds = made.machine.seconds(messageOf(message, mesh, perNode));
  return made;
}

std::optional<bool> StepCost::fits(int64_t bytes) const {
  const double usable = machine.usableBytes();
  if (usable <= 0)
    return std::nullopt;
  return double(bytes) <= usable;
}

std::string StepCost::text(int64_t bytes) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "step on ";
  if (machine.isTypical)
    os << "this machine, by typical figures of a core that nobody has measured here; echelon calibrate measures it\n";
  else if (!measuredIn.empty())
    os << "this machine, as measured " << (machine.measured.empty() ? "once" : machine.measured.front()) << "; spread "
       << llvm::format("%.3g", 100 * machine.spread) << " %: " << frontend::printable(measuredIn) << "\n";
  else
    os << machine.name << ": " << machine.nodes << (machine.nodes == 1 ? " node of " : " nodes of ") << machine.perNode
       << " x " << machine.device.name << "\n";
  os << "  " << inTime(time.seconds) << ", " << grouped(tokensPerSecond()) << (tokens ? " tokens/s" : " samples/s");
  if (peak > 0)
    os << ", " << llvm::format("%.3g", 100 * utilisation()) << " % of the devices' peak (MFU)";
  os << "\n";
  std::vector<size_t> order(time.terms.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return time.terms[a] > time.terms[b]; });
  for (size_t i : order) {
    const double part = time.terms[i] / time.seconds;
    if (part < 0.0005)
      continue;
    os << "  " << llvm::left_justify(step.terms[i], 24);
    constexpr double kWidth = 40;
    os << llvm::right_justify(inTime(time.terms[i]), 10) << llvm::format("%7.1f %%  ", 100 * part)
       << std::string(static_cast<size_t>(part * kWidth + 0.5), '#') << "\n";
  }
  if (step.stages.size() > 1 && time.bubble > 0) {
    auto [least, most] = std::minmax_element(time.busy.begin(), time.busy.end());
    os << "  stages work " << inTime(*least) << " (stage " << least - time.busy.begin() << ") to " << inTime(*most)
       << " (stage " << most - time.busy.begin() << ") in their turns, and wait "
       << llvm::format("%.3g", 100 * time.bubble) << " % of that\n";
  }
  if (const double usable = machine.usableBytes(); usable > 0)
    os << "  a rank takes " << llvm::format("%.3g of %.3g GB", double(bytes) / 1e9, usable / 1e9)
       << " that a device has\n";
  if (machine.spread > 0)
    os << "  between " << inTime(time.seconds * (1 - machine.spread / 2)) << " and "
       << inTime(time.seconds * (1 + machine.spread / 2)) << " by the spread of what was measured\n";
  const std::vector<std::string> beyond = outside();
  constexpr size_t kMost = 4;
  for (size_t i = 0; i < std::min(beyond.size(), kMost); ++i)
    os << "  outside of what was measured: " << beyond[i] << "\n";
  if (beyond.size() > kMost)
    os << "  outside of what was measured: " << beyond.size() - kMost << " more\n";
  return text;
}

namespace {
std::string textOf(const planner::Work &work) {
  const bool isProduct = work.kind == planner::Work::Kind::Product;
  if (isProduct && work.m > 0)
    return frontend::printable(work.kernel) + " " + std::to_string(work.m) + " x " + std::to_string(work.n) + " x " +
           std::to_string(work.k);
  if (work.kind == planner::Work::Kind::Attention || work.kind == planner::Work::Kind::AttentionGrad)
    return frontend::printable(work.kernel) + " of " + std::to_string(work.n) + " keys";
  return frontend::printable(work.kernel) + " of " + grouped(work.bytes) + " bytes";
}
std::string textOf(const planner::Message &message) {
  return std::string(nameOf(message.kind)) + " of " + grouped(message.bytes) + " bytes over " +
         std::to_string(message.group.ranks) + " ranks";
}
} // namespace

std::vector<std::string> StepCost::outside() const {
  std::vector<std::pair<double, std::string>> found;
  std::map<std::string, double> seconds;
  for (const planner::Actions &stage : step.stages) {
    const planner::Counts counts = planner::countsOf(step, stage);
    for (size_t i = 0; i < step.works.size(); ++i)
      if (counts.works[i] && machine.isOutside(step.works[i]))
        seconds[textOf(step.works[i])] += time.workSeconds[i] * double(counts.works[i]);
    for (size_t i = 0; i < step.messages.size(); ++i)
      if (counts.messages[i] && machine.isOutside(step.messages[i]))
        seconds[textOf(step.messages[i])] += time.messageSeconds[i] * double(counts.messages[i]);
  }
  constexpr double kCounts = 0.01; // of the step: what is less is not told
  for (const auto &[text, all] : seconds)
    if (all >= kCounts * time.seconds)
      found.push_back({all, text + ", " + inTime(all)});
  std::stable_sort(found.begin(), found.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<std::string> lines;
  for (auto &[all, text] : found)
    lines.push_back(std::move(text));
  return lines;
}

} // namespace echelon
