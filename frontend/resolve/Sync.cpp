// `sync`: who hands in what, and when; or how often workers that train by themselves meet.
#include "frontend/resolve/Resolver.h"
#include <cmath>
#include <numeric>

namespace echelon::frontend {

namespace {
const std::map<std::string, std::vector<std::string>> kForms = {{"k_sync", {"k", "delay"}},
                                                                {"k_batch_sync", {"k", "delay"}},
                                                                {"async", {"staleness", "damp", "delay"}},
                                                                {"k_async", {"k", "staleness", "damp", "delay"}},
                                                                {"k_batch_async", {"k", "staleness", "damp", "delay"}},
                                                                {"local", {"steps", "outer"}}};
constexpr double kMostGradients = 1e6; // of an update: each is a step's work
const std::map<std::string, std::vector<std::string>> kDelays = {
    {"exponential", {"mean"}}, {"shifted", {"shift", "mean"}}, {"each", {}}};

std::vector<std::string> namesOf(const std::map<std::string, std::vector<std::string>> &table) {
  std::vector<std::string> names;
  for (const auto &row : table)
    names.push_back(row.first);
  return names;
}
} // namespace

/// A worker is a coordinate of these: outermost, and they split the samples and nothing else.
bool TrainResolver::takeWorkers(const SyncClause &c, const Clause &clause, SyncSettings &sync) {
  const size_t before = diagnostics.errorCount();
  const std::vector<MeshAxisSettings *> named = meshAxes(c.over);
  const std::string batch = batchAxis();
  std::string inside; // a mesh axis of a worker
  auto splits = [&](const MeshAxisSettings &axis) {
    return std::any_of(axis.list.begin(), axis.list.end(), [&](const auto &entry) { return entry.axis == batch; });
  };
  for (const MeshAxisSettings &axis : settings.mesh) {
    const bool isWorker = c.over.empty() ? splits(axis) : std::find(named.begin(), named.end(), &axis) != named.end();
    if (!isWorker) {
      inside = axis.name;
      continue;
    }
    const auto at = std::find_if(c.over.begin(), c.over.end(), [&](const Ident &i) { return i.text == axis.name; });
    const SourceRange range = at == c.over.end() ? clause.range : at->range;
    if (!splits(axis))
      error(Code::E0409, range,
            "the workers of sync are told apart by samples, and mesh axis " + axis.name + " splits no " + batch +
                "; say split " + batch + " over " + axis.name);
    else if (axis.list.size() > 1)
      error(Code::E0409, range,
            "mesh axis " + axis.name + " splits " +
                (axis.list.front().axis == batch ? axis.list.back().axis : axis.list.front().axis) + " beside " +
                batch + ", and a worker holds all of the model; let an axis inside of the workers split it");
    else if (axis.list.front().padded)
      error(Code::E0409, range, "each worker takes a mini-batch of equal size: split " + batch + " without padding");
    else if (!inside.empty())
      error(Code::E0409, range,
            "workers are coordinates of the outermost mesh axes, and " + axis.name + " is inside of " + inside +
                "; name " + axis.name + " before " + inside + " in the mesh");
    if (!axis.stored.empty())
      error(Code::E0409, axis.range,
            "store " + axis.stored.begin()->first + " over " + axis.name +
                " cuts what each worker needs whole; store over an axis inside of "
                "the workers")
          .note(clause.range, axis.name + " is an axis of workers by this");
    sync.over.push_back(axis.name);
    sync.workers *= axis.size;
  }
  if (oneRank && !hasLayout && settings.clusterRanks > 1)
    sync.workers = settings.clusterRanks;
  if (sync.over.empty() && named.empty() && diagnostics.errorCount() == before && !layoutOpen)
    error(Code::E0409, clause.range,
          "no mesh axis splits " + batch + ", so there are no workers; let one split it, or sync every step");
  return diagnostics.errorCount() == before;
}

void TrainResolver::takeDelay(Arguments &args, SyncSettings &sync) {
  const CallExpr *call = args.call("delay");
  if (!call || !oneOf({call->callee.text(), call->callee.range}, namesOf(kDelays), "delay", Code::E0405))
    return;
  sync.delay = call->callee.text();
  if (sync.delay == "each") {
    for (const Argument &argument : call->arguments) {
      const std::optional<double> value = !argument.name && argument.value ? constant(*argument.value) : std::nullopt;
      if (!value || !(*value > 0) || !std::isfinite(*value)) {
        error(Code::E0404, argument.range, "each(…) is a time above 0 for each worker");
        return;
      }
      sync.delayNumbers.push_back(*value);
    }
    if (!layoutOpen && int64_t(sync.delayNumbers.size()) != sync.workers)
      error(Code::E0404, call->range,
            "each(…) is a time for each worker: there are " + std::to_string(sync.workers) + ", and it has " +
                std::to_string(sync.delayNumbers.size()));
    return;
  }
  Arguments inner(sync.delay, call->range, call->arguments, kDelays.at(sync.delay), diagnostics);
  for (const std::string &name : kDelays.at(sync.delay))
    if (inner.require(name))
      sync.delayNumbers.push_back(inner.number(name, name == "shift" ? atLeast(0) : above(0)).value_or(1));
}

void TrainResolver::take(const SyncClause &c, const Clause &clause) {
  if (c.everyStep) {
    meshAxes(c.over);
    return;
  }
  const Method &m = *c.method;
  if (!oneOf(m.name, namesOf(kForms), "sync policy")) {
    meshAxes(c.over);
    return;
  }
  const size_t before = diagnostics.errorCount();
  SyncSettings sync;
  sync.range = clause.range;
  const bool hasWorkers = takeWorkers(c, clause, sync);
  const std::vector<std::string> &names = kForms.at(m.name.text);
  Arguments args(m.name.text, m.range, m.arguments, names, diagnostics);
  if (names[0] == "k" && args.require("k"))
    sync.k = args.whole("k", {1, kMostGradients}).value_or(1);
  sync.staleness = args.whole("staleness", atLeast(0));
  sync.damps = args.truth("damp").value_or(false);
  sync.policy = m.name.text == "async" ? "k_async" : m.name.text;
  takeDelay(args, sync);
  if (m.name.text == "local")
    takeLocal(args, sync);
  if (!hasWorkers)
    return;
  if (!layoutOpen && !sync.isLocal() && !sync.isBatch() && sync.k > sync.workers)
    error(Code::E0404, args.rangeOf("k"),
          "an update of " + m.name.text + " takes one gradient of each of k workers: k is at most " +
              std::to_string(sync.workers) + " here, not " + std::to_string(sync.k));
  const int64_t least = (sync.workers + sync.k - 1) / sync.k - 1;
  if (!layoutOpen && sync.staleness && *sync.staleness < least)
    error(Code::E0404, args.rangeOf("staleness"),
          "all " + std::to_string(sync.workers) + " workers start at the same parameters, and an update takes " +
              std::to_string(sync.k) + (sync.k == 1 ? " gradient" : " gradients") + ": the last one is " +
              std::to_string(least) + (least == 1 ? " update" : " updates") + " old, so staleness is at least " +
              std::to_string(least));
  if (oneRank && settings.batch % sync.workers != 0) // over as many ranks the layout's own check says so
    error(Code::E0308, settings.batchRange,
          "a batch of " + std::to_string(settings.batch) + " does not divide over the " + std::to_string(sync.workers) +
              " workers that one rank works for; " +
              std::to_string(settings.batch / sync.workers * sync.workers + sync.workers) + " would");
  if (diagnostics.errorCount() != before)
    return;
  if (sync.isLocal())
    sync.k = sync.workers;
  else if (sync.delay.empty() && oneRank) // that takes turns
    sync.drawArrivals();
  settings.sync = std::move(sync);
}

void TrainResolver::takeLocal(Arguments &args, SyncSettings &sync) {
  if (args.require("steps"))
    sync.every = args.whole("steps", atLeast(1)).value_or(1);
  const CallExpr *outer = args.call("outer");
  if (!outer ||
      !oneOf({outer->callee.text(), outer->callee.range}, {"sgd", "nesterov"}, "outer optimizer", Code::E0405))
    return;
  sync.outer = outer->callee.text();
  Arguments inner(sync.outer, outer->range, outer->arguments, {"lr", "momentum"}, diagnostics);
  if (inner.require("lr"))
    sync.rate = inner.number("lr", above(0)).value_or(1);
  sync.momentum = inner.number("momentum", belowOne()).value_or(0);
}

/// Between meetings there is no one model to evaluate or keep.
void TrainResolver::checkMeetings() {
  if (!settings.sync || !settings.sync->isLocal())
    return;
  const int64_t every = settings.sync->every;
  auto check = [&](int64_t steps, SourceRange range, const char *what) {
    if (steps % every)
      error(Code::E0409, range,
            std::string(what) + " every " + std::to_string(steps) + " steps falls between meetings of local(steps = " +
                std::to_string(every) + "), where each worker has parameters of its own; every " +
                std::to_string((steps + every - 1) / every * every) + " steps would do")
          .note(settings.sync->range, "workers meet as told here");
  };
  for (const EvaluationSettings &evaluation : settings.evaluations)
    check(evaluation.everySteps, evaluation.range, "an evaluation");
  for (const Clause &clause : train.clauses)
    if (std::holds_alternative<CheckpointClause>(clause.what)) {
      check(settings.checkpoint.everySteps, clause.range, "a snapshot");
      if (settings.checkpoint.everySeconds > 0)
        error(Code::E0409, clause.range,
              "a snapshot by the clock falls between meetings of local(steps = " + std::to_string(every) +
                  "); say checkpoint every N steps, a multiple of these");
    }
}

std::string SyncSettings::text() const {
  std::string arguments = isLocal() ? "steps = " + std::to_string(every) : std::to_string(k);
  if (!outer.empty())
    arguments += ", outer = " + outer + "(lr = " + plain(rate) + ", momentum = " + plain(momentum) + ")";
  if (staleness)
    arguments += ", staleness = " + std::to_string(*staleness);
  if (damps)
    arguments += ", damp = true";
  if (!delay.empty()) {
    arguments += ", delay = " + delay + "(";
    for (size_t i = 0; i < delayNumbers.size(); ++i)
      arguments += (i ? ", " : "") + plain(delayNumbers[i]);
    arguments += ")";
  }
  std::string axes;
  for (const std::string &axis : over)
    axes += (axes.empty() ? " over " : ", ") + axis;
  return policy + "(" + arguments + ")" + axes;
}

} // namespace echelon::frontend
