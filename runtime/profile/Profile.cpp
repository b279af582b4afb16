#include "runtime/profile/Profile.h"

#include "runtime/collectives/Collectives.h"
#include "runtime/profile/Limits.h"
#include "runtime/program/Clock.h"
#include "runtime/program/Rank.h"

#include <algorithm>
#include <cstdio>

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

} // namespace

Profile::Profile(Rank &r, int64_t steps, int threads)
    : rank(r), laps(r.program().profiled.size() + kAroundCount, r.transport().waitedTicks()),
      limits(measured(r, threads)), leftOut(warmUp(steps)) {
  rank.count(&laps);
}

void Profile::beginStep() {
  if (begun++ == leftOut) {
    laps.clear();
    firstSeconds = secondsNow();
    firstTicks = ticks();
  }
  beganAt = secondsNow();
  laps.start();
}

void Profile::lap(Around what) { laps.lap(rank.program().profiled.size() + size_t(what)); }

void Profile::endStep() {
  if (begun <= leftOut)
    return;
  stepSeconds += secondsNow() - beganAt;
  ++done;
}

/// (rank, entry, seconds · seconds waited · calls), of all measured steps.
std::vector<double> Profile::gathered() const {
  const double perTick = (secondsNow() - firstSeconds) / double(std::max<uint64_t>(ticks() - firstTicks, 1));
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
  ProfileSummary summary{limits, done, leftOut, stepSeconds / steps, rank.size(), {}};
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
    row.fastest = row.slowest = row.seconds;
    for (int r = 1; r < rank.size(); ++r) {
      const double there = all[kNumbers * (size_t(r) * entries + e)] / steps;
      row.fastest = std::min(row.fastest, there);
      row.slowest = std::max(row.slowest, there);
    }
    summary.rows.push_back(std::move(row));
  }
  return profileText(summary);
}

} // namespace echelon::runtime
