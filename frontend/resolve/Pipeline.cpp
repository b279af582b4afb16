// Which iterations of repeats the stages of a pipeline have.
#include "frontend/resolve/Pipeline.h"
#include "passes/pipeline/DealOut.h"
#include <algorithm>
#include <numeric>

namespace echelon::frontend {

namespace {
/// "as (3, 2, 2)": as equally many iterations each as there can be.
std::string nearlyEqual(int64_t iterations, int64_t chunks) {
  std::string text;
  for (int64_t c = 0; c < chunks; ++c)
    text += (c ? ", " : "") + std::to_string(iterations / chunks + (c < iterations % chunks));
  return "as (" + text + ")";
}

/// "layer = 30"; of repeats in a row "encoder + decoder = 6 + 6".
std::string iterationsOf(const std::vector<const MeshAxisSettings::Entry *> &stages,
                         const std::vector<int64_t> &sizes) {
  std::string names, numbers;
  for (size_t i = 0; i < stages.size(); ++i) {
    names += (i ? " + " : "") + stages[i]->axis;
    numbers += (i ? " + " : "") + std::to_string(sizes[i]);
  }
  return names + " = " + numbers;
}

/// How many of the repeats' iterations the stages have: as many as are said, or equally many.
bool checkParts(const MeshAxisSettings &mesh, const std::vector<const MeshAxisSettings::Entry *> &stages,
                const std::vector<int64_t> &sizes, Diagnostics &diagnostics) {
  const int64_t chunks = mesh.size * mesh.chunks;
  int64_t iterations = 0;
  for (int64_t size : sizes)
    iterations += size;
  const std::string what = iterationsOf(stages, sizes), ranks = mesh.name + " = " + std::to_string(mesh.size);
  const std::string into = mesh.chunks > 1 ? "cannot divide " + what + " into " + std::to_string(mesh.chunks) +
                                                 " chunks for each of " + ranks + " stages"
                                           : "cannot split " + what + " over " + ranks;
  auto error = [&](const SourceRange &range, const std::string &why) {
    diagnostics.error(Code::E0312, range, into + why);
    return false;
  };
  const SourceRange &place = mesh.chunks > 1 ? mesh.scheduleRange : stages.front()->range;
  if (iterations < chunks) {
    const int64_t fewer = std::max<int64_t>(1, iterations / mesh.size);
    return error(place, "; each has one iteration or more: use " +
                            (iterations < mesh.size ? mesh.name + " = " + std::to_string(iterations)
                             : fewer > 1            ? "interleaved(" + std::to_string(fewer) + ")"
                                                    : "1f1b"));
  }
  if (!mesh.parts.valid() && iterations % chunks != 0)
    return error(place,
                 ", each with equally many iterations; say " + nearlyEqual(iterations, chunks) + ", or as balanced");
  if (mesh.balanced || !mesh.parts.valid())
    return true;
  if (int64_t(mesh.counts.size()) != chunks)
    return false;
  int64_t sum = 0;
  for (int64_t n : mesh.counts)
    if (__builtin_add_overflow(sum, n, &sum))
      sum = INT64_MAX;
  if (sum != iterations)
    return error(mesh.parts, " as given: these are " + std::to_string(sum) + " in all; say " +
                                 nearlyEqual(iterations, chunks) + ", or as balanced");
  return true;
}

/// That nothing but one repeat, or repeats in a row, is split over a mesh axis of stages.
bool checkRow(const MeshAxisSettings &mesh, const std::vector<MeshAxisSettings::Entry *> &stages,
              Diagnostics &diagnostics) {
  for (const MeshAxisSettings::Entry &entry : mesh.list) {
    const bool isStage = std::any_of(stages.begin(), stages.end(), [&](auto *stage) { return stage == &entry; });
    const MeshAxisSettings::Entry *stage = stages.front() == &entry ? stages.back() : stages.front();
    if (isStage && (&entry == stages.front() || entry.follows))
      continue;
    diagnostics
        .error(Code::E0318, entry.range,
               mesh.name + " splits " + stage->axis +
                   ", the axis of a repeat, into stages of a pipeline, and splits nothing else; " +
                   (isStage ? "where one repeat comes behind the other, say split " + stage->axis + " then " +
                                  entry.axis + " over " + mesh.name
                            : "split " + entry.axis + " over another mesh axis"))
        .note(stage->range, "the stages");
    return false;
  }
  return true;
}

/// That `then` stands between axes of repeats.
bool checkThen(const MeshAxisSettings &mesh, const std::map<std::string, int64_t> &sizes,
               const std::set<std::string> &repeats, Diagnostics &diagnostics) {
  for (size_t i = 0; i < mesh.list.size(); ++i) {
    if (!mesh.list[i].follows)
      continue;
    for (const std::string &axis : {mesh.list[i].axis, mesh.list[i - 1].axis})
      if (!repeats.count(axis) && sizes.count(axis)) {
        diagnostics.error(Code::E0409, mesh.list[i].range,
                          "'then' puts the iterations of repeats in a row, and " + axis +
                              " is not the axis of a repeat; write a comma");
        return false;
      }
  }
  return true;
}

/// That nobody who is at another turn has a part of what a stage needs.
void checkStored(const MeshAxisSettings &mesh, Diagnostics &diagnostics) {
  for (const auto &[what, range] : mesh.stored)
    if (what != "optimizer" && mesh.size > 1)
      diagnostics.error(Code::E0409, range,
                        "cannot store " + what + " over " + mesh.name +
                            ", whose coordinates are stages of a pipeline: a stage would wait for others in the middle "
                            "of its turns, and each has its own layers already; store " +
                            what + " over a mesh axis that splits samples, or the optimizer alone over " + mesh.name);
}

/// What is said of stages where another axis is split.
void checkWithoutStages(const MeshAxisSettings &mesh, const MeshAxisSettings::Entry &other, bool isKnown,
                        RunSettings &settings, Diagnostics &diagnostics) {
  if (!mesh.schedule.empty())
    diagnostics.error(Code::E0409, mesh.scheduleRange,
                      mesh.schedule + " is an order in which the stages of a pipeline work, and " + other.axis +
                          " is not the axis of a repeat; leave it out");
  if (mesh.parts.valid() && isKnown) {
    settings.layoutBuilt = false;
    settings.notBuilt.push_back({mesh.parts, "uneven split of " + other.axis + ", which is not the axis of a repeat,",
                                 "leave `as` out; the parts are equal"});
  }
}

} // namespace

void checkPipeline(MeshAxisSettings &mesh, const std::map<std::string, int64_t> &sizes,
                   const std::set<std::string> &repeats, RunSettings &settings, Diagnostics &diagnostics) {
  std::vector<MeshAxisSettings::Entry *> stages;
  const MeshAxisSettings::Entry *other = nullptr;
  for (MeshAxisSettings::Entry &entry : mesh.list)
    if (repeats.count(entry.axis))
      stages.push_back(&entry);
    else
      other = &entry;
  const bool isOtherKnown = other && sizes.count(other->axis);
  if (isOtherKnown && !checkThen(mesh, sizes, repeats, diagnostics))
    return;
  if (stages.empty()) {
    if (other)
      checkWithoutStages(mesh, *other, isOtherKnown, settings, diagnostics);
    return;
  }
  if (mesh.schedule.empty())
    mesh.schedule = "1f1b";
  for (const MeshAxisSettings::Entry *stage : stages)
    if (stage->padded) {
      diagnostics.error(Code::E0409, stage->range,
                        "stages of a pipeline need no padding, as they may have unequally many iterations; say as (…), "
                        "or as balanced, and leave 'with padding' out for " +
                            stage->axis);
      return;
    }
  if (stages.front()->zigzag)
    diagnostics.error(Code::E0318, stages.front()->range,
                      "each stage of a pipeline has iterations in a row; leave 'with zigzag' out for " +
                          stages.front()->axis);
  checkStored(mesh, diagnostics);
  if (!checkRow(mesh, stages, diagnostics))
    return;
  std::vector<int64_t> iterations;
  for (const MeshAxisSettings::Entry *stage : stages)
    if (auto size = sizes.find(stage->axis); size != sizes.end())
      iterations.push_back(size->second);
  if (iterations.size() != stages.size())
    return;
  const bool fits = checkParts(mesh, {stages.begin(), stages.end()}, iterations, diagnostics);
  if (mesh.size == 1) { // one rank has all iterations
    mesh.chunks = 1;
    mesh.counts.clear();
    mesh.balanced = false;
  } else if (fits && !mesh.balanced) {
    const int64_t places = mesh.size * mesh.chunks;
    if (mesh.counts.empty())
      mesh.counts.assign(size_t(places), std::accumulate(iterations.begin(), iterations.end(), int64_t(0)) / places);
    const auto counts = pipeline::dealtOut(iterations, mesh.counts);
    for (size_t i = 0; i < stages.size(); ++i)
      stages[i]->counts = counts[i];
  }
}

} // namespace echelon::frontend
