#include "tools/driver/history/MeasuredDelays.h"

#include "tools/driver/history/JsonField.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

namespace echelon {

namespace {
/// Seconds by rank and step.
using Computed = std::map<int64_t, std::map<int64_t, double>>;

Computed computedOf(const nlohmann::json &events) {
  Computed computed;
  for (const nlohmann::json &event : events) {
    if (!event.is_object() || textIn(event, "ph") != "X")
      continue;
    const std::string kind = textIn(event, "cat");
    if (kind == "messages" || kind == "step" || kind == "between steps" || kind == "log" || kind == "other")
      continue;
    const auto arguments = event.find("args");
    const int64_t rank = countIn(event, "pid");
    const double took = numberIn(event, "dur");
    if (arguments == event.end() || !arguments->is_object() || rank < 0 || !(took >= 0 && took < 1e15))
      continue;
    if (const int64_t step = countIn(*arguments, "step"); step >= 0)
      computed[rank][step] += 1e-6 * took;
  }
  return computed;
}

struct Spread {
  double mean = 0, deviation = 0;
};

Spread spreadOf(const std::vector<double> &values) {
  Spread spread;
  for (double value : values)
    spread.mean += value / double(values.size());
  for (double value : values)
    spread.deviation += (value - spread.mean) * (value - spread.mean) / double(values.size());
  spread.deviation = std::sqrt(spread.deviation);
  return spread;
}

/// Times in units of their mean.
void fit(const Computed &computed, int64_t workers, const std::string &file, MeasuredDelays &found) {
  std::vector<double> all, means;
  double within = 0;
  for (const auto &rank : computed) {
    std::vector<double> own;
    for (const auto &step : rank.second)
      own.push_back(step.second);
    const Spread spread = spreadOf(own);
    means.push_back(spread.mean);
    within += spread.deviation * spread.deviation / double(computed.size());
    all.insert(all.end(), own.begin(), own.end());
  }
  const Spread spread = spreadOf(all), between = spreadOf(means);
  llvm::raw_string_ostream os(found.text);
  os << "as measured in " << file << ", of " << all.size() << " mini-batches of " << means.size() << " ranks: ";
  const bool isWorking = *std::min_element(means.begin(), means.end()) > 0; // each of them
  if (int64_t(means.size()) == workers && workers > 1 && isWorking && between.deviation * between.deviation > within) {
    for (double mean : means)
      found.delays.constants.push_back(mean / spread.mean);
    os << "each(";
    for (size_t i = 0; i < means.size(); ++i)
      os << (i ? ", " : "") << llvm::format("%.3g", found.delays.constants[i]);
    os << ")";
    return;
  }
  const double part = std::min(spread.deviation / spread.mean, 1.0);
  found.delays = Delays::shifted(1 - part, part);
  os << llvm::format("shifted(%.3g, %.3g)", 1 - part, part);
}
} // namespace

bool readDelays(const std::string &file, const frontend::RunSettings &settings, MeasuredDelays &found,
                std::string &why) {
  if (!settings.sync) {
    why = "delays count under a sync policy, and the train block has none";
    return false;
  }
  std::ifstream stream(file);
  if (!stream) {
    why = std::strerror(errno);
    return false;
  }
  const auto trace = nlohmann::json::parse(stream, nullptr, false);
  const bool isTrace = trace.is_object() && trace.contains("traceEvents") && trace["traceEvents"].is_array();
  const Computed computed = isTrace ? computedOf(trace["traceEvents"]) : Computed();
  size_t draws = 0;
  double all = 0;
  for (const auto &rank : computed) {
    draws += rank.second.size();
    for (const auto &step : rank.second)
      all += step.second;
  }
  constexpr size_t kLeast = 5;
  if (!isTrace)
    why = "it is no trace, which run --trace writes";
  else if (draws < kLeast)
    why = "it has " + std::to_string(draws) + " steps of all ranks, of which " + std::to_string(kLeast) + " are needed";
  else if (all <= 0)
    why = "nothing in it takes any time";
  else
    fit(computed, settings.sync->workers, file, found);
  return why.empty();
}

} // namespace echelon
