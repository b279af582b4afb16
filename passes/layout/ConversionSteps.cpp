// A conversion as a sequence of messages.
#include "passes/layout/Rule.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::layout;

/// The runs of `axis` that the coordinates hold, without padding.
static std::vector<Interval> held(Tensor type, StringRef axis, MeshAttr mesh, ArrayRef<int64_t> coordinates) {
  std::vector<Interval> list = runs(type, axis, mesh, coordinates);
  const int64_t size = type.sizeOf(axis);
  for (Interval &run : list)
    run = {std::min(run.begin, size), std::min(run.end, size)};
  return list;
}

/// Whether these runs, in any order, hold all positions of one.
static bool holdsRun(std::vector<Interval> runs, Interval wanted) {
  llvm::sort(runs, [](const Interval &a, const Interval &b) { return a.begin < b.begin; });
  for (const Interval &run : runs)
    if (run.begin <= wanted.begin)
      wanted.begin = std::max(wanted.begin, run.end);
  return wanted.begin >= wanted.end;
}

/// Calls `visit` with each choice of coordinates over the mesh axes `free`, the others as in `at`.
static bool everywhere(MeshAttr mesh, ArrayRef<int> free, SmallVector<int64_t> &at, function_ref<bool()> visit) {
  if (free.empty())
    return visit();
  for (at[free.front()] = 0; at[free.front()] < mesh.sizeOf(free.front()); ++at[free.front()])
    if (!everywhere(mesh, free.drop_front(), at, visit))
      return false;
  return true;
}

static bool axisHolds(Tensor from, Tensor to, StringRef axis, ArrayRef<int> group, MeshAttr mesh) {
  SmallVector<int> involved = over(from, axis, mesh);
  for (int m : over(to, axis, mesh))
    if (!llvm::is_contained(involved, m))
      involved.push_back(m);
  SmallVector<int> together = llvm::filter_to_vector(involved, [&](int m) { return llvm::is_contained(group, m); });
  SmallVector<int> apart = llvm::filter_to_vector(involved, [&](int m) { return !llvm::is_contained(group, m); });
  SmallVector<int64_t> at(mesh.size(), 0);
  return everywhere(mesh, apart, at, [&] {
    std::vector<Interval> all; // of a group: the same for each of its ranks
    SmallVector<int64_t> each(at);
    everywhere(mesh, together, each, [&] {
      llvm::append_range(all, held(from, axis, mesh, each));
      return true;
    });
    return everywhere(mesh, together, each, [&] {
      return llvm::all_of(held(to, axis, mesh, each), [&](Interval run) { return holdsRun(all, run); });
    });
  });
}

/// Where these local positions of some runs lie, as far as the runs go.
static std::vector<Interval> placesIn(ArrayRef<Interval> runs, ArrayRef<Interval> local, int64_t size) {
  std::vector<Interval> list;
  for (const Interval &wanted : local) {
    int64_t first = 0; // local position of the run
    for (const Interval &run : runs) {
      const int64_t shift = run.begin - first, end = first + run.end - run.begin;
      Interval part{std::max(wanted.begin, first) + shift, std::min({wanted.end, end, size - shift}) + shift};
      first = end;
      if (part.begin >= part.end)
        continue;
      if (!list.empty() && list.back().end == part.begin)
        list.back().end = part.end;
      else
        list.push_back(part);
    }
  }
  return list;
}

/// Whether the parts into which further mesh axes cut a piece lie in it where a message, which knows nothing of the
/// cuts that are there, takes them: on all ranks at the same local positions. Of blocks they do where they hold it.
static bool isCutWithin(Tensor piece, Tensor part, StringRef axis, MeshAttr mesh) {
  const SmallVector<int> all = over(part, axis, mesh), before = over(piece, axis, mesh);
  SmallVector<Divider> cuts = dividers(part, axis, mesh);
  if (before.empty() || all.size() == before.size() ||
      llvm::all_of(cuts, [](const Divider &d) { return d.map.isBlocks(); }))
    return true;
  llvm::erase_if(cuts, [&](const Divider &divider) { return llvm::is_contained(before, divider.mesh); });
  int64_t whole = localSize(part, axis, mesh);
  for (const Divider &divider : cuts)
    whole *= divider.size;
  SmallVector<int64_t> at(mesh.size(), 0);
  return everywhere(mesh, all, at, [&] {
    const std::vector<Interval> taken = runtime::runsOf(whole, cuts, at), there = runs(part, axis, mesh, at);
    const int64_t size = part.sizeOf(axis), own = localSize(part, axis, mesh);
    return placesIn(runs(piece, axis, mesh, at), taken, size) == placesIn(there, Interval{0, own}, size);
  });
}

/// The same of a message that cuts some axes, and puts others together.
static bool isWithin(Tensor type, StateAttr from, StateAttr to, MeshAttr mesh) {
  Tensor source = type.withState(from), result = type.withState(to);
  return llvm::all_of(type.names(), [&](StringRef axis) {
    const bool isCut = over(source, axis, mesh).size() < over(result, axis, mesh).size();
    return isCut ? isCutWithin(source, result, axis, mesh) : isCutWithin(result, source, axis, mesh);
  });
}

bool echelon::layout::holds(Tensor type, StateAttr from, StateAttr to, ArrayRef<int> group, MeshAttr mesh) {
  Tensor source = type.withState(from), result = type.withState(to);
  SmallVector<int> before = flatCuts(source), after = flatCuts(result);
  if (!before.empty() || !after.empty()) { // a flat cut lives inside one local piece
    for (int m = 0; m < mesh.size(); ++m)
      if (from[m] != to[m] && (from[m].hold == Hold::Split || from[m].hold == Hold::Cut || to[m].hold == Hold::Split ||
                               to[m].hold == Hold::Cut))
        return false;
    // what stays flat lies outside what comes or goes
    int outermost = mesh.size();
    for (int m = 0; m < mesh.size(); ++m)
      if (from[m] != to[m] && (from[m].hold == Hold::Flat || to[m].hold == Hold::Flat))
        outermost = std::min(outermost, m);
    for (int m : before)
      if (from[m] == to[m] && m > outermost)
        return false;
    return llvm::all_of(before, [&](int m) { return from[m] == to[m] || llvm::is_contained(group, m); });
  }
  return llvm::all_of(type.names(), [&](StringRef axis) { return axisHolds(source, result, axis, group, mesh); });
}

/// Whether a cut along an axis comes or goes: flat cuts, which lie inside a local piece, go before it and come after
/// it.
static bool changesAxes(StateAttr from, StateAttr to) {
  auto along = [](const Entry &entry) { return entry.hold == Hold::Split || entry.hold == Hold::Cut; };
  for (int m = 0; m < from.size(); ++m)
    if (from[m] != to[m] && (along(from[m]) || along(to[m])))
      return true;
  return false;
}

static void findSteps(Tensor type, StateAttr from, StateAttr to, MeshAttr mesh, SmallVector<Step> &steps) {
  if (from == to)
    return;
  if (changesAxes(from, to)) {
    StateAttr bare = from, next = to; // without flat cuts; what is still to be scattered into one stays a sum
    for (int m = 0; m < mesh.size(); ++m) {
      if (from[m].hold == Hold::Flat)
        bare = bare.with(m, Hold::Whole);
      if (to[m].hold == Hold::Flat)
        next = next.with(m, from[m].hold == Hold::Sum ? Hold::Sum : Hold::Whole);
    }
    if (bare != from || next != to) {
      findSteps(type, from, bare, mesh, steps);
      findSteps(type, bare, next, mesh, steps);
      return findSteps(type, next, to, mesh, steps);
    }
  }
  StateAttr now = from;
  auto remaining = [&](function_ref<bool(const Entry &, const Entry &)> which) {
    SmallVector<int> result;
    for (int m = 0; m < mesh.size(); ++m)
      if (now[m] != to[m] && which(now[m], to[m]))
        result.push_back(m);
    return result;
  };
  // Goes on over these mesh axes at once, if that is legal; `middle` is what they become on the way.
  auto take = [&](StringRef kind, ArrayRef<int> over, bool local, std::optional<Hold> middle = {}) {
    if (over.empty())
      return false;
    StateAttr next = now;
    for (int m : over)
      next = middle ? next.with(m, *middle) : next.with(m, to[m]);
    if (failed(checkState(type, next, mesh)) || !holds(type, now, next, local ? ArrayRef<int>() : over, mesh) ||
        !isWithin(type, now, next, mesh))
      return false;
    steps.push_back({kind, SmallVector<int>(over), next});
    now = next;
    return true;
  };
  auto takeEach = [&](StringRef kind, ArrayRef<int> over, bool local) {
    return llvm::any_of(over, [&](int m) { return take(kind, m, local); });
  };
  while (now != to) {
    auto slices = remaining([](auto &a, auto &) { return a.hold == Hold::Whole; });
    auto scatters = remaining([](auto &a, auto &b) { return a.hold == Hold::Sum && b.isPart(); });
    auto swaps = remaining([](auto &a, auto &b) { return a.isPart() && b.isPart(); });
    auto reductions = remaining([](auto &a, auto &b) { return a.hold == Hold::Sum && b.hold == Hold::Whole; });
    auto gathers = remaining([](auto &a, auto &b) { return a.isPart() && b.hold == Hold::Whole; });
    llvm::erase_if(slices, [&](int m) { // an outer flat cut first
      return to[m].hold == Hold::Flat &&
             llvm::any_of(scatters, [&](int outer) { return outer < m && to[outer].hold == Hold::Flat; });
    });
    if (take("slice", slices, true) || takeEach("slice", slices, true) || takeEach("reduce_scatter", scatters, false) ||
        takeEach("all_to_all", swaps, false) || take("all_reduce", reductions, false) ||
        take("all_gather", gathers, false) || takeEach("all_gather", gathers, false))
      continue;
    auto shares = remaining([](auto &a, auto &b) { return a.isPart() && b.hold == Hold::Sum; });
    if (take("all_gather", shares, false, Hold::Whole) || // then one coordinate's
        llvm::any_of(shares, [&](int m) { return take("all_gather", m, false, Hold::Whole); }))
      continue;
    if (take("all_gather", flatCuts(type.withState(now)), false, Hold::Whole)) // an exchange knows axes alone
      continue;
    if (take("all_reduce", scatters, false, Hold::Whole)) // nor does it sum
      continue;
    SmallVector<int> group = remaining([](auto &, auto &) { return true; });
    auto suffices = [&] { // gathered whole, then each rank takes its part
      StateAttr whole = now;
      for (int m : group)
        whole = whole.with(m, Hold::Whole);
      return holds(type, now, to, group, mesh) && isWithin(type, now, whole, mesh) && isWithin(type, whole, to, mesh);
    };
    for (int m = 0; m < mesh.size() && !suffices(); ++m)
      if (!llvm::is_contained(group, m) && (now[m].isPart() || to[m].isPart()))
        group.push_back(m);
    llvm::sort(group);
    steps.push_back({"exchange", group, to});
    now = to;
  }
}

SmallVector<Step> echelon::layout::stepsOf(Tensor type, StateAttr from, StateAttr to, MeshAttr mesh) {
  SmallVector<Step> steps;
  findSteps(type, from, to, mesh, steps);
  return steps;
}
