#include "tools/driver/search/LayoutSpace.h"

#include "frontend/resolve/Arguments.h"
#include "planner/search/Factors.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace echelon::frontend;

namespace echelon {

namespace {
constexpr int64_t kMostChunks = 8;
const char *const kStored[] = {"optimizer", "gradients", "params"};

bool splits(const MeshAxisSettings &axis, const std::string &name) {
  return llvm::any_of(axis.list, [&](const auto &entry) { return entry.axis == name; });
}
} // namespace

double LayoutFrame::most() const {
  const int64_t all = std::max<int64_t>(iterations, 1);
  return double((all + stages - 1) / stages) / double(all);
}

LayoutSpace::LayoutSpace(const Compilation &model, int64_t ranks, std::set<Pinned> open)
    : model(model), relaxed(std::move(open)), ranks(ranks), batch(model.settings.batch) {
  place = model.settings.layoutRange;
  isRecomputeOpen = true;
  for (const Clause &each : model.train->clauses) {
    if (auto *layout = std::get_if<LayoutClause>(&each.what))
      clause = layout;
    if (auto *batch = std::get_if<BatchClause>(&each.what); batch && batch->micro && !isRelaxed(Pinned::MicroBatch))
      saidPerPass = batch->micro->value;
    if (auto *recompute = std::get_if<RecomputeClause>(&each.what)) {
      isRecomputeAuto = recompute->policy == RecomputeClause::Auto;
      isRecomputeOpen = isRecomputeAuto || isRelaxed(Pinned::Recompute);
    }
  }
  findAxes();
  hasRepeats = !iterations.empty();
  if (clause->isAuto)
    addWhole();
  else
    addPartial();
  if (frames.empty())
    tellWhy();
}

std::vector<std::pair<Pinned, std::string>> LayoutSpace::pinned() const {
  std::vector<std::pair<Pinned, std::string>> said;
  if (saidPerPass)
    said.push_back({Pinned::MicroBatch, "in micro batches of " + std::to_string(saidPerPass)});
  if (!isRecomputeOpen && hasRepeats)
    said.push_back({Pinned::Recompute, "recompute " + model.settings.recompute.text()});
  if (saysStore)
    said.push_back({Pinned::Store, "store"});
  std::string sizes;
  for (const MeshAxis &axis : clause->mesh)
    if (axis.size)
      sizes += (sizes.empty() ? "" : ", ") + axis.name.text + " = " + std::to_string(axis.size->value);
  if (!clause->isAuto && !sizes.empty())
    said.push_back({Pinned::Sizes, sizes});
  return said;
}

void LayoutSpace::enumerate(std::vector<RecomputeSettings> open) {
  policies = std::move(open);
  for (size_t i = 0; i < frames.size(); ++i)
    addCandidates(i);
  if (candidates.empty())
    tellWhy();
}

void LayoutSpace::tellWhy() {
  if (why.empty())
    why = "there is no way to share out a batch of " + std::to_string(batch) + " and the model's axes over " +
          std::to_string(ranks) + " ranks, all of which are to be used";
}

MeshAxisSettings::Entry LayoutSpace::entry(const std::string &axis, bool follows) const {
  return {axis, false, false, place, follows, {}};
}

/// Stages outermost, where messages are rare; what splits tensors innermost, on the fastest link; samples between them,
/// or outside of the stages where these are on a link of their own.
void LayoutSpace::addWhole() {
  auto slot = [&](const char *name, Role role, size_t list) {
    Slot made;
    made.axis.name = name;
    made.axis.size = 0;
    made.axis.range = place;
    made.role = role;
    made.list = list;
    return made;
  };
  const bool isOfNodes = model.settings.nodeRanks > 0 && model.settings.nodeRanks < ranks;
  auto add = [&](std::optional<size_t> list, std::optional<size_t> row, bool isInContext) {
    for (bool outside : {false, true}) {
      if (outside && (!row || !isOfNodes))
        continue;
      std::vector<Slot> slots;
      if (outside)
        slots.push_back(slot("dp", Role::Samples, 0));
      if (row)
        slots.push_back(slot("pp", Role::Stages, *row));
      if (!outside)
        slots.push_back(slot("dp", Role::Samples, 0));
      if (isInContext)
        slots.push_back(slot("cp", Role::Context, 0));
      if (list)
        slots.push_back(slot("tp", Role::Tensor, *list));
      addSizes(slots, false);
    }
  };
  for (size_t row = 0; row <= rows.size(); ++row)
    for (size_t list = 0; list <= lists.size(); ++list)
      for (bool isInContext : {false, true}) {
        if (isInContext && (!ring || batch >= ranks)) // samples are shared out first
          continue;
        add(list ? std::optional(list - 1) : std::nullopt, row ? std::optional(row - 1) : std::nullopt, isInContext);
      }
}

void LayoutSpace::addPartial() {
  std::vector<Slot> slots;
  for (const MeshAxisSettings &axis : model.settings.mesh) {
    Slot slot;
    slot.axis = axis;
    auto said = llvm::find_if(clause->mesh, [&](const MeshAxis &other) { return other.name.text == axis.name; });
    if (said == clause->mesh.end() || !said->size || isRelaxed(Pinned::Sizes))
      slot.axis.size = 0;
    if (isRelaxed(Pinned::Store))
      slot.axis.stored.clear();
    saysStore |= !slot.axis.stored.empty();
    slots.push_back(slot);
  }
  addRoles(std::move(slots), 0);
}

/// What the mesh axes are for which no line splits anything.
void LayoutSpace::addRoles(std::vector<Slot> slots, size_t from) {
  const std::string &samples = model.facts.batchAxis;
  while (from < slots.size() && (slots[from].role != Role::Said || !slots[from].axis.list.empty()))
    ++from;
  if (from == slots.size())
    return addSizes(slots, true);
  auto isTaken = [&](Role role) {
    return llvm::any_of(slots, [&](const Slot &slot) {
      return slot.role == role || (role == Role::Samples && splits(slot.axis, samples)) ||
             (role == Role::Stages &&
              llvm::any_of(slot.axis.list, [&](const auto &entry) { return iterations.count(entry.axis); }));
    });
  };
  auto as = [&](Role role, size_t list) {
    slots[from].role = role;
    slots[from].list = list;
    addRoles(slots, from + 1);
    slots[from].role = Role::Said;
  };
  if (!isTaken(Role::Samples))
    as(Role::Samples, 0);
  for (size_t list = 0; list < this->lists.size(); ++list)
    as(Role::Tensor, list);
  if (!isTaken(Role::Stages))
    for (size_t row = 0; row < rows.size(); ++row)
      as(Role::Stages, row);
}

void LayoutSpace::addSizes(const std::vector<Slot> &slots, bool keepsOnes) {
  int64_t said = 1;
  size_t open = 0;
  for (const Slot &slot : slots)
    if (slot.axis.size)
      said *= slot.axis.size;
    else
      ++open;
  if (ranks % said != 0) {
    why = "the sizes that the mesh says come to " + std::to_string(said) + " ranks, and " + std::to_string(ranks) +
          " ranks, all of which are to be used, are no multiple of that";
    return;
  }
  constexpr double kMostMeshes = 100'000;
  if (const double count = planner::factorizationsCount(ranks / said, open); count > kMostMeshes) {
    why = "there are " + plain(count) + " ways to share out " + std::to_string(ranks / said) + " ranks over " +
          std::to_string(open) + " mesh axes whose sizes are auto; say some of these sizes";
    return;
  }
  for (const std::vector<int64_t> &parts : planner::factorizationsOf(ranks / said, open)) {
    std::vector<int64_t> all;
    size_t next = 0;
    for (const Slot &slot : slots)
      all.push_back(slot.axis.size ? slot.axis.size : parts[next++]);
    addFrame(slots, all, keepsOnes);
  }
}

/// What a mesh axis splits, in the role that it has. False: its size does not go with that.
bool LayoutSpace::fill(LayoutFrame &frame, MeshAxisSettings &axis, const Slot &slot) const {
  const std::string &samples = model.facts.batchAxis;
  switch (slot.role) {
  case Role::Said:
    return true;
  case Role::Samples:
    axis.list.push_back(entry(samples));
    return true;
  case Role::Tensor:
    for (const std::string &name : lists[slot.list])
      if (sizes.at(name) % axis.size == 0 &&
          !(frame.context > 1 && ring && (name == ring->first || name == ring->second)))
        axis.list.push_back(entry(name));
    return !axis.list.empty();
  case Role::Stages:
    for (const std::string &name : rows[slot.list])
      axis.list.push_back(entry(name, !axis.list.empty()));
    return true;
  case Role::Context:
    if (sizes.at(ring->first) % axis.size || sizes.at(ring->second) % axis.size)
      return false;
    axis.list = {entry(ring->first), entry(ring->second)};
    axis.ring = place;
    return true;
  }
  return false;
}

void LayoutSpace::addFrame(const std::vector<Slot> &slots, const std::vector<int64_t> &sizesOfMesh, bool keepsOnes) {
  LayoutFrame frame;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (sizesOfMesh[i] == 1 && !keepsOnes)
      continue;
    MeshAxisSettings axis = slots[i].axis;
    axis.size = sizesOfMesh[i];
    if (slots[i].role == Role::Context)
      frame.context *= axis.size;
    if (!fill(frame, axis, slots[i]))
      return;
    frame.mesh.push_back(axis);
  }
  for (size_t i = 0; i < frame.mesh.size(); ++i) {
    MeshAxisSettings &axis = frame.mesh[i];
    if (splits(axis, model.facts.batchAxis)) {
      frame.samples *= axis.size;
      frame.sampleAxes.push_back(static_cast<int>(i));
    } else if (llvm::any_of(axis.list, [&](const auto &entry) { return iterations.count(entry.axis); })) {
      if (frame.stageAxis >= 0)
        return;
      frame.stages = axis.size;
      frame.stageAxis = static_cast<int>(i);
      int64_t all = 0;
      for (const auto &entry : axis.list)
        all += iterations.count(entry.axis) ? iterations.at(entry.axis) : 0;
      frame.iterations = all;
      if (all < axis.size)
        return;
      if (all % axis.size && !axis.parts.valid()) {
        axis.balanced = true;
        axis.parts = place;
      }
    } else if (!axis.ring.valid()) {
      frame.tensor *= axis.size;
    }
  }
  if (batch % frame.samples != 0)
    return;
  // messages within layers stay within a node, where the spec does not say otherwise
  const int64_t perNode = model.settings.nodeRanks;
  if (perNode && !keepsOnes && frame.tensor * frame.context > perNode)
    return;
  if (frame.mesh.empty()) { // one rank
    MeshAxisSettings axis;
    axis.name = "dp";
    axis.range = place;
    axis.list.push_back(entry(model.facts.batchAxis));
    frame.mesh.push_back(axis);
    frame.sampleAxes.push_back(0);
  }
  frame.params = paramsOf(frame);
  PlannedLayout text;
  for (size_t i = 0; i < frame.mesh.size(); ++i)
    if (int(i) != frame.stageAxis && !llvm::is_contained(frame.sampleAxes, int(i)))
      text.mesh.push_back(frame.mesh[i]);
  frame.core = text.layoutText();
  text.mesh = frame.mesh;
  if (seen.insert(text.layoutText()).second)
    frames.push_back(std::move(frame));
}

/// The part of all parameters that a rank has, where they are not stored in cuts.
double LayoutSpace::paramsOf(const LayoutFrame &frame) const {
  double held = 0, all = 0;
  for (const auto &param : params) {
    double parts = 1;
    for (const MeshAxisSettings &axis : frame.mesh)
      if (llvm::any_of(axis.list, [&](const auto &entry) { return llvm::is_contained(param.first, entry.axis); }))
        parts *= double(axis.size);
    // what no repeat has is on one stage alone
    if (llvm::none_of(param.first, [&](const std::string &name) { return iterations.count(name) != 0; }))
      parts *= double(frame.stages);
    held += param.second / parts;
    all += param.second;
  }
  return all > 0 ? held / all : 0;
}

void LayoutSpace::addCandidates(size_t index) {
  const LayoutFrame &frame = frames[index];
  const int64_t samples = batch / frame.samples;
  std::vector<int64_t> perPass;
  if (saidPerPass) {
    if (samples % saidPerPass)
      return;
    perPass = {saidPerPass};
  } else {
    for (int64_t each = 1; each < samples; each *= 2)
      if (samples % each == 0)
        perPass.push_back(each);
    perPass.push_back(samples);
    if (!model.settings.deviceBytes) // nothing is short, and the fewest passes are likely to be fast
      std::reverse(perPass.begin(), perPass.end());
  }
  struct Order {
    const char *schedule;
    int64_t chunks;
  };
  std::vector<Order> orders = {{"", 1}};
  if (frame.stageAxis >= 0 && frame.stages > 1) {
    const MeshAxisSettings &axis = frame.mesh[size_t(frame.stageAxis)];
    orders.clear();
    if (axis.schedule.empty()) {
      orders = {{"1f1b", 1}, {"zero_bubble", 1}};
      int64_t all = 0;
      for (const auto &entry : axis.list)
        all += iterations.at(entry.axis);
      for (int64_t chunks = 2; chunks <= kMostChunks && axis.list.size() == 1; ++chunks)
        if (all % (frame.stages * chunks) == 0 && !axis.parts.valid())
          orders.push_back({"interleaved", chunks});
    } else {
      orders.push_back({"", axis.chunks});
    }
  }
  const int mostStored = frame.samples > 1 && !saysStore ? 3 : 0;
  const int mostPolicy = std::max(1, int(policies.size()));
  std::vector<std::string> axes;
  for (const MeshAxisSettings &axis : frame.mesh) {
    PlannedLayout alone;
    alone.mesh = {axis};
    axes.push_back(alone.layoutText());
  }
  llvm::sort(axes);                       // all orders of mesh axes take the same memory
  constexpr int64_t kMostTurns = 1 << 22; // of all stages
  for (const Order &order : orders) {
    const std::string common = llvm::join(axes, " ") + order.schedule + std::to_string(order.chunks);
    const size_t group = groups.emplace(common, groups.size()).first->second;
    for (int64_t each : perPass) {
      if (frame.stages > 1 && samples / each > kMostTurns / (frame.stages * order.chunks))
        continue;
      for (int stored = 0; stored <= mostStored; ++stored)
        for (int policy = 0; policy < mostPolicy; ++policy)
          candidates.push_back({index, each, samples / each, stored, order.chunks, order.schedule, policy, group});
    }
  }
}

PlannedLayout LayoutSpace::layoutOf(const LayoutCandidate &candidate) const {
  const LayoutFrame &frame = frames[candidate.frame];
  PlannedLayout made;
  made.mesh = frame.mesh;
  made.batch = batch;
  made.batchRanks = frame.samples;
  made.microBatches = candidate.passes;
  if (!policies.empty())
    made.recompute = policies[size_t(candidate.policy)];
  if (*candidate.schedule) {
    MeshAxisSettings &axis = made.mesh[size_t(frame.stageAxis)];
    axis.schedule = candidate.schedule;
    axis.chunks = candidate.chunks;
    axis.scheduleRange = place;
  }
  for (int stored = 0; stored < candidate.stored; ++stored)
    for (int axis : frame.sampleAxes)
      if (made.mesh[size_t(axis)].size > 1)
        made.mesh[size_t(axis)].stored.emplace(kStored[stored], place);
  return made;
}

} // namespace echelon
