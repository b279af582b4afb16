#include "tools/driver/history/TimeToTarget.h"

#include "frontend/ast/Train.h"
#include "frontend/resolve/Arguments.h"
#include "tools/driver/compile/StepCost.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <thread>

namespace echelon {

using frontend::RunSettings;

namespace {
/// The mesh axis whose size is left open: of several the one that splits the batch.
struct OpenAxis {
  std::string name;       ///< empty: none is
  int64_t beside = 1;     ///< ranks of the axes that have a size
  bool saysWhere = false; ///< `on` says how many ranks there are
};

OpenAxis openAxisOf(const frontend::Train &train, const std::string &batchAxis) {
  OpenAxis open;
  for (const frontend::Clause &clause : train.clauses) {
    open.saysWhere |= std::holds_alternative<frontend::OnClause>(clause.what);
    const auto *layout = std::get_if<frontend::LayoutClause>(&clause.what);
    if (!layout)
      continue;
    auto splitsBatch = [&](const std::string &name) {
      return llvm::any_of(layout->statements, [&](const frontend::LayoutStatement &statement) {
        const auto *split = std::get_if<frontend::SplitClause>(&statement);
        return split && llvm::any_of(split->over, [&](const auto &over) { return over.text == name; }) &&
               llvm::any_of(split->axes, [&](const std::vector<frontend::Ident> &chain) {
                 return llvm::any_of(chain, [&](const frontend::Ident &axis) { return axis.text == batchAxis; });
               });
      });
    };
    for (const frontend::MeshAxis &axis : layout->mesh)
      if (axis.size)
        open.beside *= std::max<int64_t>(axis.size->value, 1);
      else if (open.name.empty() || splitsBatch(axis.name.text))
        open.name = axis.name.text;
  }
  return open;
}

/// One row, with all but what the logs say of it.
struct Asked {
  DegreePlan plan;
  std::optional<RunSettings> settings;
};

Asked ask(CompileOptions options, const std::string &axis, int64_t size, std::optional<int64_t> batch) {
  options.warns = false;
  if (size)
    options.settings.push_back("layout." + axis + "=" + std::to_string(size));
  if (batch)
    options.settings.push_back("batch=" + std::to_string(*batch));
  Asked asked;
  asked.plan.size = size;
  asked.plan.batch = batch.value_or(0);
  Compilation compilation(options);
  if (!compilation.parse() || !compilation.resolve() || !compilation.elaborate() || !compilation.lower(Stage::Shaped)) {
    const std::string why = compilation.firstError();
    asked.plan.refused = why.empty() ? "it does not compile" : why;
    return asked;
  }
  ProgramCost cost = programCost(*compilation.module);
  asked.plan.stepSeconds = stepCost(compilation, 0, cost).time.seconds;
  asked.plan.batch = compilation.settings.batch;
  asked.plan.degree = degreeOf(compilation.settings);
  asked.settings = compilation.settings;
  return asked;
}

void takeSteps(DegreePlan &row, const TimeToTarget &all, const planner::Convergence &fit, int64_t every) {
  if (!row.refused.empty())
    return;
  double sum = 0;
  bool areAllReached = true;
  for (const RunRecord &record : all.records) {
    if (record.curve.degree != row.degree)
      continue;
    const std::optional<int64_t> at = planner::firstAt(record.curve, all.target);
    areAllReached &= at.has_value();
    if (!at)
      continue;
    row.measuredIn.push_back(record.file);
    sum += double(*at);
    row.steps.least = std::min(row.steps.least.value_or(double(*at)), double(*at));
    row.steps.most = std::max(row.steps.most.value_or(double(*at)), double(*at));
  }
  if (!row.measuredIn.empty() && areAllReached) {
    row.steps.steps = sum / double(row.measuredIn.size());
    return;
  }
  row.measuredIn.clear();
  row.steps = {};
  row.isBeyond = row.degree < fit.leastDegree() || row.degree > fit.mostDegree();
  if (row.isBeyond && !fit.knowsDegrees()) {
    row.isUnknown = true;
    return;
  }
  row.steps = fit.stepsTo(row.degree);
  for (std::optional<double> *steps : {&row.steps.steps, &row.steps.least, &row.steps.most})
    if (*steps) // evaluations tell it
      **steps = std::ceil(**steps / double(every)) * double(every);
}

/// The fastest of the rows of one batch, and the next; of rows that reach nothing, that whose step is shortest.
void choose(TimeToTarget &all) {
  auto isBetter = [&](size_t a, size_t b) {
    const DegreePlan &one = all.rows[a], &other = all.rows[b];
    if (one.refused.empty() != other.refused.empty())
      return one.refused.empty();
    if (one.isReached() != other.isReached())
      return one.isReached();
    return one.isReached() ? one.seconds() < other.seconds() : one.stepSeconds < other.stepSeconds;
  };
  std::vector<size_t> own, others;
  for (size_t i = 0; i < all.rows.size(); ++i)
    (all.rows[i].batch == all.batch ? own : others).push_back(i);
  std::stable_sort(own.begin(), own.end(), isBetter);
  std::stable_sort(others.begin(), others.end(), isBetter);
  all.chosen = own.front();
  if (own.size() > 1 && all.rows[own[1]].refused.empty())
    all.next = own[1];
  if (!others.empty() && all.rows[others.front()].isReached() &&
      (!all.rows[all.chosen].isReached() || isBetter(others.front(), all.chosen)))
    all.another = others.front();
}

std::string inWords(double number) { return frontend::plain(std::round(number)); }

/// What the figures rest on, and do not.
void addNotes(TimeToTarget &all, const planner::Convergence &fit, const RunSettings &settings) {
  const char *degrees = all.isByWorkers ? "workers" : "samples of a step";
  if (!all.isByWorkers && !all.axis.empty())
    all.notes.push_back("under `sync every step` the size of " + all.axis +
                        " changes no step's mathematics: all sizes need the same steps");
  if (!fit.knowsDegrees())
    all.notes.push_back(std::string("all logs have the same ") + degrees + ": of others they say nothing");
  else if (llvm::any_of(all.rows, [](const DegreePlan &row) { return row.refused.empty() && row.isBeyond; }))
    all.notes.push_back("* beyond the logs, which have from " + inWords(fit.leastDegree()) + " to " +
                        inWords(fit.mostDegree()) + " " + degrees + ": an extrapolation");
  const DegreePlan &chosen = all.rows[all.chosen];
  if (chosen.measuredIn.empty() && chosen.steps.steps && *chosen.steps.steps > double(fit.lastStep()))
    all.notes.push_back("the longest log ends after " + std::to_string(fit.lastStep()) +
                        " steps: what comes later is an extrapolation");
  if (chosen.steps.steps && settings.steps && *chosen.steps.steps > double(settings.steps))
    all.notes.push_back("the spec ends after " + std::to_string(settings.steps) + " steps, before that");
  if (!chosen.isReached() && fit.knowsDegrees())
    all.notes.push_back("by the fit the metric settles at " + frontend::plain(fit.floor()) +
                        ", or comes to the target later than in a thousand million steps");
  for (const frontend::OptimizerLine &line : settings.optimizers)
    if (line.schedule.kind != frontend::Schedule::Constant) {
      all.notes.push_back("the rate follows a schedule: a curve of another length, or with another rate, is another "
                          "curve");
      break;
    }
}
} // namespace

std::string TimeToTarget::setting() const {
  return axis.empty() ? "" : "layout." + axis + "=" + std::to_string(rows[chosen].size);
}

namespace {
/// All logs, or why one is of no use.
bool readAll(const std::vector<std::string> &logs, const RunSettings &settings, TimeToTarget &all, std::string &why) {
  for (const std::string &log : logs)
    if (!readRecord(log, settings, all.records.emplace_back(), why)) {
      why = "--history " + frontend::quoted(log) + ": " + why;
      return false;
    }
  return true;
}

/// The sizes of the open axis by which a part of the ranks, or all of them, have work.
std::vector<int64_t> sizesOf(const OpenAxis &axis, const RunSettings &settings) {
  if (axis.name.empty())
    return {0};
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const int64_t ranks = std::max<int64_t>(axis.saysWhere ? settings.clusterRanks : cores, axis.beside) / axis.beside;
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= ranks; ++size)
    if (ranks % size == 0)
      sizes.push_back(size);
  return sizes;
}

/// Rows of the spec's batch, then of those of the logs. Returns the settings of the first that compiles.
std::optional<RunSettings> askAll(const CompileOptions &options, const std::vector<int64_t> &sizes, TimeToTarget &all) {
  std::set<int64_t> batches;
  if (!all.isByWorkers)
    for (const RunRecord &record : all.records)
      if (record.samples != all.batch)
        batches.insert(record.samples);
  std::vector<std::optional<int64_t>> wanted = {std::nullopt};
  wanted.insert(wanted.end(), batches.begin(), batches.end());
  std::optional<RunSettings> settings;
  for (std::optional<int64_t> batch : wanted)
    for (int64_t size : sizes) {
      Asked asked = ask(options, all.axis, size, batch);
      if (!asked.plan.batch)
        asked.plan.batch = all.batch;
      if (!settings && !batch)
        settings = asked.settings;
      all.rows.push_back(std::move(asked.plan));
    }
  return settings;
}

/// Steps between the evaluations that `until` looks at.
int64_t everyOf(const RunSettings &settings) {
  const frontend::EvaluationSettings *evaluation = evaluationOf(settings);
  return evaluation ? std::max<int64_t>(evaluation->everySteps, 1) : 1;
}
} // namespace

std::optional<TimeToTarget> timeToTarget(const CompileOptions &options, const std::vector<std::string> &logs,
                                         std::string &why) {
  CompileOptions openOptions = options;
  openOptions.leavesLayoutOpen = true;
  Compilation first(openOptions);
  if (!first.parse() || !first.resolve() || !first.elaborate()) {
    first.printDiagnostics();
    return std::nullopt;
  }
  const RunSettings &open = first.settings;
  if (!open.until) {
    why = "--history tells when a target is reached, and the train block has none: say until, as in until accuracy > "
          "93%";
    return std::nullopt;
  }
  TimeToTarget all;
  const OpenAxis axis = options.oneRank ? OpenAxis() : openAxisOf(*first.train, first.facts.batchAxis);
  all.axis = axis.name;
  all.until = open.until->text();
  all.target = targetOf(*open.until);
  all.batch = open.batch;
  all.isByWorkers = isByWorkers(open);
  if (!readAll(logs, open, all, why))
    return std::nullopt;
  std::vector<planner::RunCurve> curves;
  for (const RunRecord &record : all.records)
    curves.push_back(record.curve);
  const planner::Convergence fit(curves, all.target);
  all.fits = fit.fits();
  all.floor = fit.floor();
  const std::optional<RunSettings> settings = askAll(options, sizesOf(axis, open), all);
  if (!settings) {
    why = "no size of " + (all.axis.empty() ? "the mesh" : all.axis) + " can be planned: " + all.rows.front().refused;
    return std::nullopt;
  }
  for (DegreePlan &row : all.rows)
    takeSteps(row, all, fit, everyOf(*settings));
  choose(all);
  addNotes(all, fit, *settings);
  return all;
}

namespace {
std::string rangeText(const planner::StepsTo &steps) {
  if (!steps.steps)
    return "";
  std::string text = inWords(*steps.steps);
  if (steps.least && (!steps.most || *steps.least != *steps.most))
    text += " (" + inWords(*steps.least) + " to " + (steps.most ? inWords(*steps.most) : "more than can be told") + ")";
  return text;
}

std::string nameOf(const TimeToTarget &all, const DegreePlan &row) {
  std::string name = all.axis.empty() ? "this layout" : all.axis + " = " + std::to_string(row.size);
  return name + (row.batch == all.batch ? "" : ", batch " + std::to_string(row.batch));
}

void printRow(const TimeToTarget &all, const DegreePlan &row, llvm::raw_ostream &os) {
  os << "  " << nameOf(all, row) << ": ";
  if (!row.refused.empty()) {
    os << "no plan: " << row.refused << "\n";
    return;
  }
  if (row.isReached())
    os << inTime(row.seconds()) << ": " << rangeText(row.steps) << (row.isBeyond ? "*" : "") << " steps of "
       << inTime(row.stepSeconds);
  else
    os << (row.isUnknown ? "of this the logs tell nothing" : "not reached") << "; a step takes "
       << inTime(row.stepSeconds);
  if (!row.measuredIn.empty())
    os << ", as in " << llvm::join(row.measuredIn, ", ");
  os << "\n";
}
} // namespace

std::string TimeToTarget::text() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "time to " << until << ", without evaluations, by " << records.size()
     << (records.size() == 1 ? " log of another run\n" : " logs of other runs\n");
  for (size_t i = 0; i < records.size(); ++i) {
    const RunRecord &record = records[i];
    const auto at = planner::firstAt(record.curve, target);
    os << "  " << record.file << ": ";
    if (isByWorkers)
      os << record.workers << (record.workers == 1 ? " worker, " : " workers, ");
    os << "batch " << (isByWorkers ? batch : record.samples) << ", " << (at ? "there after " : "not there after ")
       << (at ? *at : record.steps) << " steps of " << inTime(record.stepSeconds)
       << llvm::format("; the fit: R2 %.3f, off by %.2g near the target\n", fits[i].r2, fits[i].error);
  }
  for (const DegreePlan &row : rows)
    printRow(*this, row, os);
  const DegreePlan &best = rows[chosen];
  if (!axis.empty()) {
    os << "  chosen: " << nameOf(*this, best)
       << (best.isReached() ? "" : ", by the time of a step alone: the logs do not tell when it is there");
    if (next && best.isReached() && rows[*next].isReached())
      os << "; " << nameOf(*this, rows[*next])
         << llvm::format(" takes %.3g %% more", 100 * (rows[*next].seconds() / best.seconds() - 1));
    os << "\n";
  }
  if (another)
    os << "  sooner with another batch: " << nameOf(*this, rows[*another]) << ", " << inTime(rows[*another].seconds())
       << "\n";
  for (const std::string &note : notes)
    os << "  " << note << "\n";
  return text;
}

} // namespace echelon
