#include "frontend/resolve/RunSettings.h"
#include "frontend/ForeignWords.h"
#include "frontend/resolve/Machines.h"
#include "frontend/resolve/Resolver.h"

namespace echelon::frontend {

RunSettings resolveTrain(const Program &program, const Train &train, Diagnostics &diagnostics, bool oneRank) {
  return TrainResolver(program, train, diagnostics, oneRank).run();
}

RunSettings TrainResolver::run() {
  checkOnce();
  checkRequired();
  // The layout needs the cluster and the model, whatever the order of the clauses.
  auto pass = [&](auto wanted) {
    for (const Clause &clause : train.clauses)
      std::visit(
          [&](const auto &what) {
            using T = std::decay_t<decltype(what)>;
            constexpr int phase = std::is_same_v<T, ModelClause> || std::is_same_v<T, OnClause> ||
                                          std::is_same_v<T, BatchClause> || std::is_same_v<T, LengthClause>
                                      ? 0
                                  : std::is_same_v<T, LayoutClause> ? 1
                                  : std::is_same_v<T, SyncClause>   ? 2
                                                                    : 3;
            if (phase == wanted)
              take(what, clause);
          },
          clause.what);
  };
  takeDefaultCluster();
  pass(0);
  pass(1);
  finishLayout();
  pass(2);
  if (const int64_t samples = settings.samplesAStep(); settings.lengthSamples && samples)
    settings.steps = (settings.lengthSamples + samples - 1) / samples;
  pass(3);
  normalizeEvaluations();
  checkSchedules();
  checkMeetings();
  checkLength(settings, diagnostics);
  if (oneRank) {
    settings.mesh.clear();
    if (settings.sync)
      settings.sync->over.clear();
    settings.collectives.clear();
    settings.clusterRanks = 1;
  }
  return std::move(settings);
}

bool TrainResolver::oneOf(const Ident &word, const std::vector<std::string> &known, const std::string &what,
                          Code code) {
  for (const std::string &k : known)
    if (k == word.text)
      return true;
  std::string hint = foreignWord(word.text);
  if (hint.empty())
    hint = didYouMean(word.text, known);
  error(code, word.range,
        "unknown " + what + " " + quoted(word.text) +
            (hint.empty() ? (known.size() == 1 ? "; there is only " : "; known are ") + listed(known) : hint));
  return false;
}

void TrainResolver::wantKind(const Quantity &q, UnitKind kind, const std::string &what) {
  if (q.kind != kind)
    error(Code::E0403, q.range, what + " is " + describe(kind) + ", not " + describe(q.kind));
}

void TrainResolver::atLeastOne(const Count &count, const std::string &what) {
  if (count.value < 1)
    error(Code::E0404, count.range, what + " is at least 1, not " + std::to_string(count.value));
}

// Each clause once. Lines of `optimize` have patterns when there are several; lines of `evaluate` have names.
void TrainResolver::checkOnce() {
  std::map<std::string, const Clause *> seen;
  bool wholeOptimizer = false;
  for (const Clause &clause : train.clauses) {
    std::string key = clause.word.text;
    if (std::holds_alternative<OnNanClause>(clause.what))
      key = "on nan";
    if (auto *e = std::get_if<EvaluateClause>(&clause.what))
      key += e->name ? " " + e->name->text : "";
    if (auto *o = std::get_if<OptimizeClause>(&clause.what)) {
      if (!o->patterns.empty())
        continue;
      // A last line without patterns takes what the others leave.
      if (wholeOptimizer)
        error(Code::E0402, clause.word.range,
              "'optimize' is given twice for all parameters; say on (PATTERNS) which ones each line is for")
            .note(seen.at(key)->word.range, "it is given here first");
      wholeOptimizer = true;
      seen.emplace(key, &clause);
      continue;
    }
    if (std::holds_alternative<LengthClause>(clause.what)) {
      auto [it, fresh] = seen.emplace("length", &clause);
      if (!fresh)
        error(Code::E0409, clause.word.range,
              "the length is given twice; one of 'steps', 'epochs' and 'samples' says it, and 'until' may stand beside "
              "it")
            .note(it->second->word.range, "it is given here first");
      continue;
    }
    if (std::holds_alternative<FreezeClause>(clause.what) || std::holds_alternative<AdaptClause>(clause.what))
      continue; // several lines for several patterns
    auto [it, fresh] = seen.emplace(key, &clause);
    if (!fresh)
      error(Code::E0402, clause.word.range, quoted(key) + " is given twice in train " + train.name.text)
          .note(it->second->word.range, "it is given here first");
  }
}

void TrainResolver::checkRequired() {
  if (train.broken) // the clause may be one that could not be read
    return;
  bool model = false, data = false, batch = false, length = false, optimize = false;
  for (const Clause &clause : train.clauses) {
    model |= std::holds_alternative<ModelClause>(clause.what);
    data |= std::holds_alternative<DataClause>(clause.what);
    batch |= std::holds_alternative<BatchClause>(clause.what);
    length |= std::holds_alternative<LengthClause>(clause.what) || std::holds_alternative<UntilClause>(clause.what);
    optimize |= std::holds_alternative<OptimizeClause>(clause.what);
  }
  std::vector<std::string> missing;
  if (!model)
    missing.push_back("model");
  if (!data)
    missing.push_back("data");
  if (!batch)
    missing.push_back("batch");
  if (!length)
    missing.push_back("a length (steps, epochs, samples or until)");
  if (!optimize)
    missing.push_back("optimize");
  if (!missing.empty())
    error(Code::E0401, train.range, "train " + train.name.text + " lacks " + listed(missing));
}

void TrainResolver::take(const ModelClause &c, const Clause &clause) {
  settings.modelArguments = &c.arguments;
  settings.modelRange = clause.range;
  if (const std::string twice = program.ambiguity(program.main(), c.model, &File::models); !twice.empty()) {
    error(Code::E0103, c.model.range, twice);
    return;
  }
  settings.model = program.findModel(program.main(), c.model);
  if (settings.model || program.main().mayLack())
    return;
  std::vector<std::string> known = program.modelNames(program.main());
  std::string hint = didYouMean(c.model.text(), known);
  error(Code::E0113, c.model.range,
        "no model is called " + quoted(c.model.text()) +
            (hint.empty() && !known.empty() ? "; there is " + listed(known) : hint));
}

void TrainResolver::take(const OnClause &c, const Clause &clause) {
  const File &main = program.main();
  settings.onRange = clause.range;
  if (c.hasArguments) {
    takeDevices(nullptr); // not those of the cluster called `here`
    settings.clusterRanks = localRanks(c.cluster, c.arguments, clause.range, diagnostics).value_or(0);
    return;
  }
  if (const std::string twice = program.ambiguity(main, c.cluster, &File::clusters); !twice.empty()) {
    settings.clusterRanks = 0;
    error(Code::E0103, c.cluster.range, twice);
    return;
  }
  const Cluster *cluster = program.findCluster(main, c.cluster);
  if (!cluster) {
    settings.clusterRanks = 0;
    if (main.mayLack())
      return;
    std::vector<std::string> known = program.clusterNames(main);
    std::string hint = didYouMean(c.cluster.text(), known);
    error(Code::E0114, c.cluster.range,
          "no cluster is called " + quoted(c.cluster.text()) +
              (!hint.empty()   ? hint
               : known.empty() ? "; declare one, as in cluster " + c.cluster.last().text + " = local(ranks = 4)"
                               : "; there is " + listed(known)));
    return;
  }
  takeCluster(*cluster);
}

void TrainResolver::takeCluster(const Cluster &cluster) {
  settings.clusterRanks = clusterRanks(cluster, diagnostics).value_or(0);
  takeDevices(&cluster);
}

void TrainResolver::takeDevices(const Cluster *cluster) {
  const auto *nodes = cluster && cluster->nodes ? &*cluster->nodes : nullptr;
  const Device *device = nodes ? program.findDevice(*program.file(cluster->name.range.file), nodes->device) : nullptr;
  settings.cluster = cluster;
  settings.device = device;
  settings.nodeRanks = nodes ? nodes->devices : 0;
  const double bytes = device ? usableBytes(wholeDevice(program, *device)) : 0;
  settings.deviceBytes = bytes < 9e18 ? int64_t(bytes) : 0;
  settings.deviceName = device ? device->name.text : "";
}

/// The cluster called `here`, where no clause says another.
void TrainResolver::takeDefaultCluster() {
  settings.onRange = train.name.range;
  const Path path{{{"here", {}}}, {}};
  const std::string twice = program.ambiguity(program.main(), path, &File::clusters);
  auto saysWhere = [](const Clause &clause) { return std::holds_alternative<OnClause>(clause.what); };
  if (twice.empty()) {
    if (const Cluster *here = program.findCluster(program.main(), path))
      takeCluster(*here);
  } else {
    settings.clusterRanks = 0;
    if (std::none_of(train.clauses.begin(), train.clauses.end(), saysWhere))
      error(Code::E0103, train.name.range, "train " + train.name.text + " has no clause `on`, and " + twice);
  }
}

void TrainResolver::take(const BatchClause &c, const Clause &clause) {
  settings.batchRange = clause.range;
  atLeastOne(c.size, "the batch");
  settings.batch = std::max<int64_t>(c.size.value, 1);
  if (c.micro)
    atLeastOne(*c.micro, "the micro batch");
}

void TrainResolver::take(const LengthClause &c, const Clause &clause) {
  atLeastOne(c.count, "the number of " + clause.word.text);
  int64_t n = std::max<int64_t>(c.count.value, 1);
  settings.lengthRange = clause.range;
  if (!c.count.known || settings.steps || settings.lengthSamples || settings.lengthEpochs)
    return; // reported: as no count, or as given twice
  (c.unit == LengthClause::Steps    ? settings.steps
   : c.unit == LengthClause::Epochs ? settings.lengthEpochs
                                    : settings.lengthSamples) = n;
}

// Whether the model has the metric is known when it is elaborated: Compilation::checkUntil.
void TrainResolver::take(const UntilClause &c, const Clause &clause) {
  static const std::map<CompareExpr::Op, const char *> comparisons = {
      {CompareExpr::Lt, "<"}, {CompareExpr::Le, "<="}, {CompareExpr::Gt, ">"}, {CompareExpr::Ge, ">="}};
  auto *compare = dynCast<CompareExpr>(c.condition);
  auto *metric = compare ? dynCast<PathExpr>(compare->left) : nullptr;
  const std::optional<double> value = metric ? constant(*compare->right) : std::nullopt;
  if (!value || !comparisons.count(compare->op)) {
    error(Code::E0408, c.condition->range, "'until' compares a metric with a number, as in until accuracy > 93%");
    return;
  }
  if (std::none_of(train.clauses.begin(), train.clauses.end(),
                   [](const Clause &other) { return std::holds_alternative<EvaluateClause>(other.what); }))
    error(Code::E0401, clause.range,
          "'until' is looked at after each evaluation, and train " + train.name.text +
              " makes none: add a line as 'evaluate every 100 steps'");
  settings.until = {metric->path.text(), comparisons.at(compare->op), *value, clause.range, metric->range};
}

std::string UntilSettings::text() const { return metric + " " + comparison + " " + plain(value); }

double RunSettings::dollarsPerHour() const {
  if (!cluster || !cluster->price || !cluster->nodes)
    return 0;
  return cluster->price->value * double((ranks() + cluster->nodes->devices - 1) / cluster->nodes->devices);
}

void TrainResolver::take(const EvaluateClause &c, const Clause &clause) {
  EvaluationSettings e;
  e.range = clause.range;
  atLeastOne(c.every, "the number of steps between evaluations");
  e.everySteps = c.every.value;
  if (c.batches) {
    atLeastOne(*c.batches, "the number of batches");
    e.batches = c.batches->value;
    // Samples are counted up to 2^53.
    if (double(e.batches) * double(std::max<int64_t>(settings.batch, 1)) > 9007199254740992.0) {
      error(Code::E0704, c.batches->range, "the batches have more samples than can be counted, 2^53");
      e.batches = 1;
    }
  }
  if (c.name) {
    e.name = c.name->text;
    size_t inputs = 0;
    for (const Clause &other : train.clauses)
      if (auto *data = std::get_if<DataClause>(&other.what))
        inputs = data->inputs.size();
    e.source = source(cast<CallExpr>(*c.source), inputs, false);
    if (!e.source)
      return; // which is reported
  }
  settings.evaluations.push_back(std::move(e));
}

void TrainResolver::take(const SeedClause &c, const Clause &) { settings.seed = uint64_t(c.seed.value); }

void TrainResolver::take(const CheckpointClause &c, const Clause &) {
  settings.checkpoint.isAuto = c.isAuto;
  if (c.steps) {
    atLeastOne(*c.steps, "the number of steps between snapshots");
    settings.checkpoint.everySteps = c.steps->value;
  }
  if (c.period) {
    wantKind(*c.period, UnitKind::Seconds, "the time between snapshots");
    if (c.period->kind == UnitKind::Seconds && !(c.period->value > 0))
      error(Code::E0404, c.period->range, "the time between snapshots is more than 0");
    settings.checkpoint.everySeconds = c.period->value;
  }
  if (c.keep) {
    atLeastOne(*c.keep, "the number of snapshots to keep");
    settings.checkpoint.keep = c.keep->value;
  }
  settings.checkpoint.directory = c.folder ? *c.folder : "ckpt/" + train.name.text;
  if (c.folder && c.folder->empty())
    error(Code::E0404, c.folderRange, "the folder of the snapshots has no name");
}

} // namespace echelon::frontend
