#include "runtime/profile/Table.h"
#include "runtime/launch/Printable.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace echelon::runtime {

namespace {

constexpr double kShown = 0.001; // of the step: rows below it are summed up in one line
const char *const kOther = "other", *const kMessages = "messages", *const kWaiting = "waiting";

template <class... T> std::string formatted(const char *format, T... values) {
  char text[160];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

bool isArithmetic(const ProfileRow &row, const Limits &limits) {
  return row.flops * limits.memory > row.bytes * limits.peakFlops;
}

/// "  23.1 %     2.853".
std::string timeColumns(double seconds, const ProfileSummary &summary) {
  return formatted("%6.2f %% %10.4f", 100 * seconds / summary.stepSeconds, 1e3 * seconds);
}

std::string limitColumn(double bound, double seconds) {
  return bound > 0 && seconds > 0 ? formatted("%6.0f %%", 100 * bound / seconds) : "       -";
}

/// 0 where a rate would say nothing: while a message waits for long, others may move its bytes.
double ratedBound(const ProfileRow &row, const Limits &limits) {
  return row.waited > row.seconds / 2 ? 0 : boundOf(row, limits);
}

std::string rowText(const ProfileRow &row, const ProfileSummary &summary) {
  const double own = row.seconds - row.waited;
  std::string text = timeColumns(row.seconds, summary) + formatted(" %7.4g", row.calls);
  const double bound = ratedBound(row, summary.limits);
  const bool rated = bound > 0 && own > 0;
  const bool arithmetic = isArithmetic(row, summary.limits);
  text += rated && arithmetic ? formatted(" %8.2f", 1e-9 * row.flops / own) : "        -";
  text += rated && !arithmetic ? formatted(" %8.2f", 1e-9 * row.bytes / own) : "        -";
  text += " " + limitColumn(bound, own);
  if (summary.ranks > 1)
    text += formatted(" %8.4f %9.4f-%.4f", 1e3 * row.waited, 1e3 * row.fastest, 1e3 * row.slowest);
  return text + "  " + printable(row.line) + (row.line.empty() ? "" : "  ") + printable(row.op) + "\n";
}

struct Sum {
  std::string kind;
  double seconds = 0, bound = 0, bounded = 0; // bounded: seconds of what has a bound
};

std::vector<Sum> sumsByKind(const ProfileSummary &summary) {
  std::vector<Sum> sums;
  auto add = [&](const std::string &kind, double seconds, double bound) {
    if (seconds <= 0)
      return;
    auto at = std::find_if(sums.begin(), sums.end(), [&](const Sum &s) { return s.kind == kind; });
    if (at == sums.end())
      at = sums.insert(sums.end(), {kind});
    at->seconds += seconds;
    at->bound += bound;
    at->bounded += bound > 0 ? seconds : 0;
  };
  for (const ProfileRow &row : summary.rows) {
    add(row.kind, row.seconds - row.waited, ratedBound(row, summary.limits));
    add(kWaiting, row.waited, 0);
  }
  std::sort(sums.begin(), sums.end(), [](const Sum &a, const Sum &b) { return a.seconds > b.seconds; });
  return sums;
}

std::string headText(const ProfileSummary &summary) {
  const Limits &limits = summary.limits;
  std::string text = "profile of " + std::to_string(summary.steps) + (summary.steps == 1 ? " step" : " steps");
  if (summary.leftOut)
    text += ", the first " + std::to_string(summary.leftOut) + " left out";
  if (summary.ranks > 1)
    text += "; rank 0 of " + std::to_string(summary.ranks);
  text += formatted(": %.4f ms a step\n", 1e3 * summary.stepSeconds);
  text += formatted("a rank's limits, measured%s: %.1f GFLOP/s of fused multiply-adds, memory %.1f GB/s, copies %.1f "
                    "GB/s\n",
                    summary.ranks > 1 ? " on all ranks at once" : "", limits.peakFlops, limits.memory, limits.copies);
  text += "   share  ms a step   calls  GFLOP/s     GB/s of limit";
  if (summary.ranks > 1)
    text += "   waited       over ranks ";
  return text + "  line  operation\n";
}

} // namespace

double boundOf(const ProfileRow &row, const Limits &limits) {
  if (row.kind == kMessages)
    return 1e-9 * row.bytes / limits.copies;
  return 1e-9 * std::max(row.flops / limits.peakFlops, row.bytes / limits.memory);
}

std::string profileText(const ProfileSummary &summary) {
  std::vector<ProfileRow> rows = summary.rows;
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ProfileRow &a, const ProfileRow &b) { return a.seconds > b.seconds; });
  std::string text = headText(summary);
  double all = 0, named = 0, small = 0, laps = 0;
  int hidden = 0;
  for (const ProfileRow &row : rows) {
    all += row.seconds;
    laps += row.calls;
    named += row.kind == kOther ? 0 : row.seconds;
    if (row.seconds >= kShown * summary.stepSeconds) {
      text += rowText(row, summary);
    } else if (row.calls > 0) {
      small += row.seconds;
      ++hidden;
    }
  }
  if (hidden)
    text += timeColumns(small, summary) + "  " + std::to_string(hidden) + " more, each below 0.1 % of the step\n";
  text += "   share  ms a step of limit  kind\n";
  double bound = 0;
  for (const Sum &sum : sumsByKind(summary)) {
    text += timeColumns(sum.seconds, summary) + " " + limitColumn(sum.bound, sum.bounded) + "  " + sum.kind + "\n";
    bound += sum.bound;
  }
  text += timeColumns(all, summary) + " " + limitColumn(bound, summary.stepSeconds) + "  all\n";
  return text + formatted("accounted for: %.2f %% of the step; %.0f probes took %.2f %% of it",
                          100 * named / summary.stepSeconds, laps,
                          100 * laps * summary.limits.lap / summary.stepSeconds);
}

namespace {
/// "   0.0501    0.3027    0.3528   1.17"; without a prediction only what was measured.
std::string heldAgainst(double predicted, double seconds) {
  if (predicted < 0)
    return formatted("        -          - %10.4f      -", 1e3 * seconds);
  std::string text = formatted("%9.4f %10.4f %10.4f", 1e3 * (seconds - predicted), 1e3 * predicted, 1e3 * seconds);
  return text + (predicted > 0 ? formatted(" %6.2f", seconds / predicted) : "      -");
}

struct Parts {
  double predicted = 0, seconds = 0;
  int count = 0;

  void add(const ProfileRow &row) {
    predicted += row.predicted;
    seconds += row.seconds;
    ++count;
  }
};
} // namespace

std::string predictionText(const ProfileSummary &summary) {
  std::vector<ProfileRow> rows;
  for (const ProfileRow &row : summary.rows)
    if (row.calls > 0)
      rows.push_back(row);
  const auto lost = [](const ProfileRow &row) { return row.seconds - row.predicted; };
  std::stable_sort(rows.begin(), rows.end(), [&](const ProfileRow &a, const ProfileRow &b) {
    const bool isKnown = a.predicted >= 0, isOther = b.predicted >= 0;
    return isKnown != isOther ? isKnown : isKnown ? lost(a) > lost(b) : a.seconds > b.seconds;
  });
  std::string text =
      formatted("predicted: %.4f ms a step; measured: %.4f ms, %.2f times that", 1e3 * summary.predictedStep,
                1e3 * summary.stepSeconds, summary.stepSeconds / summary.predictedStep);
  text += "; by " + printable(summary.predictedBy) + "\n  lost ms  predicted   measured  ratio  line  operation\n";
  Parts known, near;
  double unknown = 0, small = 0;
  int hidden = 0;
  for (const ProfileRow &row : rows) {
    const bool isKnown = row.predicted >= 0;
    isKnown ? known.add(row) : void(unknown += row.seconds);
    if (std::abs(isKnown ? lost(row) : row.seconds) >= kShown * summary.stepSeconds) {
      text += heldAgainst(row.predicted, row.seconds) + "  " + printable(row.line) + (row.line.empty() ? "" : "  ") +
              printable(row.op) + "\n";
    } else if (isKnown) {
      near.add(row);
    } else {
      small += row.seconds;
      ++hidden;
    }
  }
  if (near.count)
    text += heldAgainst(near.predicted, near.seconds) + "  " + std::to_string(near.count) +
            " more, each off by less than 0.1 % of the step\n";
  if (hidden)
    text += heldAgainst(-1, small) + "  " + std::to_string(hidden) + " more, each below 0.1 % of the step\n";
  text += heldAgainst(known.predicted, known.seconds) + "  all that is predicted\n";
  return text +
         formatted("not predicted: %.4f ms, %.2f %% of the step", 1e3 * unknown, 100 * unknown / summary.stepSeconds);
}

} // namespace echelon::runtime
