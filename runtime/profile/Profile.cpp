#include "runtime/profile/Profile.h"

#include "runtime/collectives/Collectives.h"
#include "runtime/launch/Fail.h"
#include "runtime/profile/Limits.h"
#include "runtime/program/Clock.h"
#include "runtime/program/Rank.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

namespace echelon::runtime {

namespace {

/// Steps that warm caches and libraries up: a tenth of the run, ten at most.
int64_t warmUp(int64_t steps) { return steps < 2 ? 0 : std::clamp<int64_t>(steps / 10, 1, 10); }

struct AroundRow {
  const char *op, *kind;
};
/// In the order of Around.
constexpr AroundRow kAround[] = {{"the batch is read and put in place", "data"},
                                 {"log", "log"},
                                 {"losses are looked at", "log"},
                                 {"decision to stop or save", "messages"},
                                 {"between the last operation and the end of the step", "other"}};
constexpr size_t kAroundCount = sizeof kAround / sizeof kAround[0];
constexpr size_t kNumbers = 3; // of an entry in what ranks gather

Limits measured(Rank &rank, int threads) {
  const size_t all = size_t(32) << 20;
  const size_t floats = std::max<size_t>(all / size_t(rank.size()), size_t(4) << 20);
  Limits limits;
  barrier(rank.transport(), rank.transport().world());
  if (rank.device()) {
    limits = rank.device()->limits();
  } else {
    limits.peakFlops = peakFlops() * threads;
    limits.memory = memoryBandwidth(floats);
    limits.copies = copyBandwidth(floats);
  }
  const uint64_t nothing = 0;
  Laps scratch(1, nothing);
  const int laps = 1000;
  limits.lap = fastest(
                   [&] {
                     for (int i = 0; i < laps; ++i)
                       scratch.lap(0);
                   },
                   1e-3) /
               laps;
  if (FILE *file = std::fopen("/proc/self/clear_refs", "w")) { // memory that this took is not the run's peak
    std::fputs("5", file);
    std::fclose(file);
  }
  barrier(rank.transport(), rank.transport().world());
  return limits;
}

/// Why nothing stands beside what was measured.
std::string whyUnpredicted(Rank &rank) {
  return std::string("nothing was predicted beside it: ") +
         (rank.device() ? "the spec says no cluster of GPUs, or they are emulated"
                        : "nobody has measured this machine; echelon calibrate does");
}

/// In the order of Between.
constexpr const char *kBetween[] = {"evaluation after step", "snapshot after step"};

/// The program's operations, what is around them, what is between steps, and a step.
std::vector<Traced> tracedEntries(const Rank &rank) {
  std::vector<Traced> entries;
  for (const ProfiledOp &op : rank.program().profiled)
    entries.push_back({op.op, op.line, op.kind,
                       op.group >= 0 && !rank.program().device ? Traced::Groups + op.group : Traced::Operations});
  for (const AroundRow &row : kAround)
    entries.push_back({row.op, "", row.kind, Traced::Host});
  if (rank.program().device) // the operations are the device's; meanwhile
    entries.back().name = "the step is launched and waited for";
  for (const char *name : kBetween)
    entries.push_back({name, "", "between steps", Traced::Steps});
  entries.push_back({"step", "", "step", Traced::Steps});
  return entries;
}

} // namespace

Profile::Profile(Rank &r, int64_t steps, int threads, const std::string &path)
    : rank(r), laps(r.program().profiled.size() + kAroundCount, r.transport().waitedTicks()),
      limits(measured(r, threads)), leftOut(warmUp(steps)), tracePath(path) {
  rank.count(&laps);
  measuredAt = secondsNow();
  if (path.empty())
    return;
  trace.emplace(tracedEntries(rank));
  if (rank.rank() == 0 && !(traceFile = std::fopen(path.c_str(), "we")))
    fail("cannot write \"" + path + "\": " + std::strerror(errno));
  // The machines of a run have clocks of their own; on one machine rank 0's moment is everyone's.
  if (rank.transport().ranksHere() == rank.size() && rank.size() > 1)
    broadcast(rank.transport(), rank.transport().world(), &measuredAt, 1, 0, "trace");
}

Profile::~Profile() {
  if (traceFile)
    std::fclose(traceFile);
}

void Profile::beginStep(int64_t step) {
  if (begun++ == leftOut) {
    laps.clear();
    firstSeconds = secondsNow();
    firstTicks = ticks();
  }
  beganAt = secondsNow();
  stepTicks = ticks();
  laps.start();
  if (begun <= leftOut || !isTraced())
    return;
  trace->beginStep(step);
  laps.traceTo(&*trace);
  firstTraced = firstTraced ? firstTraced : step;
  lastTraced = step;
}

void Profile::lap(Around what) { laps.lap(rank.program().profiled.size() + size_t(what)); }

void Profile::mark(Around what) { laps.mark(rank.program().profiled.size() + size_t(what)); }

void Profile::endStep() {
  if (begun <= leftOut)
    return;
  stepSeconds += secondsNow() - beganAt;
  ++done;
  if (laps.traced())
    trace->add(rank.program().profiled.size() + kAroundCount + std::size(kBetween), stepTicks, ticks());
  laps.traceTo(nullptr);
}

void Profile::between(Between what, uint64_t began) {
  if (done > 0 && isTraced())
    trace->add(rank.program().profiled.size() + kAroundCount + size_t(what), began, ticks());
}

double Profile::secondsPerTick() const {
  return (secondsNow() - firstSeconds) / double(std::max<uint64_t>(ticks() - firstTicks, 1));
}

/// (rank, entry, seconds · seconds waited · calls), of all measured steps.
std::vector<double> Profile::gathered() const {
  const double perTick = secondsPerTick();
  std::vector<double> own;
  for (const Laps::Sum &sum : laps.all()) {
    own.push_back(double(sum.ticks) * perTick);
    own.push_back(double(sum.waited) * perTick);
    own.push_back(double(sum.calls));
  }
  std::vector<double> all(own.size() * size_t(rank.size()));
  all_gather(rank.transport(), rank.transport().world(), all.data(), own.data(), int64_t(own.size()), "profile");
  return all;
}

std::string Profile::text() const {
  if (done == 0) // the same on all ranks
    return begun == 0 || rank.rank() != 0
               ? ""
               : "no profile: the run ended within the first " + std::to_string(leftOut) + " steps, which are left out";
  const std::vector<double> all = gathered();
  if (rank.rank() != 0)
    return "";
  const std::vector<ProfiledOp> &ops = rank.program().profiled;
  const size_t entries = laps.all().size();
  const double steps = double(done);
  const Prediction &prediction = rank.program().prediction;
  ProfileSummary summary{limits,         done, leftOut, stepSeconds / steps, rank.size(), {}, prediction.machine,
                         prediction.step};
  for (size_t e = 0; e < entries; ++e) {
    ProfileRow row;
    const double calls = all[kNumbers * e + 2] / steps;
    if (e < ops.size())
      row = {ops[e].op, ops[e].line, ops[e].kind, 0, 0, 0, calls * double(ops[e].flops), calls * double(ops[e].bytes)};
    else
      row = {kAround[e - ops.size()].op, "", kAround[e - ops.size()].kind};
    row.seconds = all[kNumbers * e] / steps;
    row.waited = std::min(all[kNumbers * e + 1] / steps, row.seconds);
    row.calls = calls;
    if (e < ops.size() && ops[e].predicted >= 0)
      row.predicted = calls * ops[e].predicted;
    else if (e == ops.size() + size_t(Around::Data))
      row.predicted = prediction.data;
    row.fastest = row.slowest = row.seconds;
    for (int r = 1; r < rank.size(); ++r) {
      const double there = all[kNumbers * (size_t(r) * entries + e)] / steps;
      row.fastest = std::min(row.fastest, there);
      row.slowest = std::max(row.slowest, there);
    }
    summary.rows.push_back(std::move(row));
  }
  return profileText(summary) + "\n" + (summary.predictedBy.empty() ? whyUnpredicted(rank) : predictionText(summary));
}

std::string Profile::writeTrace() {
  if (!trace)
    return "";
  const bool isWritten = trace->write(rank, traceFile, {firstTicks, firstSeconds - measuredAt, secondsPerTick()});
  if (!traceFile)
    return "";
  const bool isClosed = std::fclose(std::exchange(traceFile, nullptr)) == 0;
  if (!isWritten || !isClosed)
    fail("cannot write \"" + tracePath + "\": " + std::strerror(errno));
  if (firstTraced == 0)
    return "no trace: no step was measured";
  return "trace of steps " + std::to_string(firstTraced) + " to " + std::to_string(lastTraced) + " in " + tracePath +
         ": ui.perfetto.dev opens it";
}

} // namespace echelon::runtime
