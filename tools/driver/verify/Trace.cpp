#include "tools/driver/verify/Trace.h"

#include "tools/driver/verify/Npy.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FormatVariadic.h"
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace fs = std::filesystem;

namespace echelon {

Trace readTrace(const std::string &log, const std::string &dump, int steps) {
  Trace trace;
  std::ifstream stream(log);
  for (std::string line; std::getline(stream, line);) {
    auto row = nlohmann::json::parse(line, nullptr, false);
    if (!row.is_object())
      continue;
    std::map<std::string, double> values;
    for (auto &[name, value] : row.items())
      if (value.is_number() && name != "step" && name != "lr" && !llvm::StringRef(name).ends_with("_time_s") &&
          name != "samples_per_s")
        values[name] = value.get<double>();
    if (row.contains("loss")) {
      trace.steps.emplace_back().reports = values;
      trace.steps.back().isSkipped = row.value("skipped", false);
    } else if (row.contains("eval_loss")) {
      for (const auto &[name, value] : values) // "last": beside an average, the parameters themselves
        trace.evaluation[(llvm::StringRef(row.value("eval", "")).starts_with("last") ? "last " : "") + name] = value;
    }
  }
  for (int step = 1; step <= std::min<int>(steps, trace.steps.size()); ++step) {
    std::string at = dump + "/" + llvm::formatv("step-{0,0+6}", step).str();
    std::error_code none;
    for (const auto &file : fs::directory_iterator(at + "/after", none)) {
      std::string stem = file.path().stem().string();
      llvm::StringRef path = stem;
      bool gradient = path.consume_front("gradient.");
      (gradient ? trace.steps[step - 1].gradient : trace.steps[step - 1].after)[path.str()] =
          readNpy(file.path().string());
    }
  }
  return trace;
}

static double largest(const std::vector<double> &values) {
  double most = 0;
  for (double v : values)
    most = std::max(most, std::abs(v));
  return most;
}

/// The largest magnitude of all tensors but those whose path starts with `left`.
static double largest(const std::map<std::string, std::vector<double>> &tensors, llvm::StringRef left) {
  double most = 0;
  for (const auto &[path, values] : tensors)
    if (left.empty() || !llvm::StringRef(path).starts_with(left))
      most = std::max(most, largest(values));
  return most;
}

/// Whether one of two tensors has the other's elements, or each of several workers has them, one after the other.
static bool isOfWorkers(size_t one, size_t other) {
  return one != 0 && other != 0 && (one % other == 0 || other % one == 0);
}
/// The least that `mask` has for element i of a tensor of `count`.
static double least(const std::vector<double> &mask, size_t i, size_t count) {
  double least = mask[i % mask.size()];
  for (size_t at = i; at < mask.size(); at += count)
    least = std::min(least, mask[at]);
  return least;
}

static void compareReports(const std::map<std::string, double> &one, const std::map<std::string, double> &many,
                           const std::string &when, Worst &worst) {
  for (auto &[name, value] : one) {
    auto other = many.find(name);
    // a difference of terms of the loss's size may be small itself
    worst.see(other == many.end() ? INFINITY : std::abs(value - other->second) / (std::abs(value) + 1e-3), name + when);
  }
}

Worst compareTraces(const Trace &one, const Trace &many, int64_t apart, Distances *each, double known,
                    double leastGradient) {
  Worst worst;
  worst.each = each;
  if (one.steps.size() != many.steps.size() || one.steps.empty()) {
    worst.see(INFINITY, "the number of steps logged");
    return worst;
  }
  auto fits = [&](const std::vector<double> &values, const std::vector<double> &other) {
    return other.size() == values.size() || other.size() == values.size() * size_t(apart);
  };
  // How far an element's gradient is above rounding, 0 to 1: its update is known as well as that, no better.
  std::map<std::string, std::vector<double>> live;
  for (size_t s = 0; s < one.steps.size() && worst.error < INFINITY; ++s) {
    const Trace::Step &a = one.steps[s], &b = many.steps[s];
    std::string step = " of step " + std::to_string(s + 1);
    compareReports(a.reports, b.reports, step, worst);
    if (a.gradient.size() != b.gradient.size() || a.after.size() != b.after.size() || a.gradient.empty())
      worst.see(INFINITY, "the number of tensors written" + step);
    if (a.isSkipped != b.isSkipped)
      worst.see(INFINITY, "whether step " + std::to_string(s + 1) + " is skipped");
    double mostGradient = largest(a.gradient, ""), mostStored = largest(a.after, "optimizer.");
    for (const auto &[path, values] : a.isSkipped ? Tensors() : a.gradient) {
      auto other = b.gradient.find(path);
      double measure = std::max(largest(values), leastGradient * mostGradient) + 1e-300;
      if (other == b.gradient.end() || !fits(values, other->second)) {
        worst.see(INFINITY, "the shape of the gradient of " + path + step);
        continue;
      }
      auto &moves = live.try_emplace(path, values.size(), 1.0).first->second;
      for (size_t i = 0; i < values.size(); ++i) {
        worst.see(std::abs(values[i] - other->second[i]) / measure, "gradient of " + path + step);
        double size = std::abs(values[i]) / measure;
        moves[i] = size > known ? std::min(moves[i], size / (100 * known)) : 0;
      }
    }
    for (const auto &[path, values] : a.after) {
      auto other = b.after.find(path);
      if (other == b.after.end() || !fits(values, other->second)) {
        worst.see(INFINITY, "the shape of " + path + step);
        continue;
      }
      // optimizer.m.PATH moves with PATH, optimizer.residual.PATH, which each worker has, with it
      const bool isMatrix = llvm::StringRef(path).starts_with("optimizer.powersgd.");
      const std::vector<double> *moves = nullptr;
      for (const auto &[parameter, mask] : live)
        if (path == parameter || llvm::StringRef(path).ends_with("." + parameter))
          if (!isMatrix && isOfWorkers(mask.size(), values.size()) && (!moves || path == parameter))
            moves = &mask;
      // A state may be 0 but for rounding; a residual is what packing loses of numbers that may be small differences.
      const bool isOwn = moves && !llvm::StringRef(path).starts_with("optimizer.residual.");
      double scale = std::max(largest(values), isOwn ? 0 : 1e-3 * mostStored) + 1e-300;
      for (size_t i = 0; i < values.size(); ++i)
        if (double weight = moves ? least(*moves, i, values.size()) : 1; weight > 0)
          worst.see(weight * std::abs(values[i] - other->second[i]) / scale,
                    path + " after step " + std::to_string(s + 1));
    }
  }
  compareReports(one.evaluation, many.evaluation, " of the evaluation", worst);
  return worst;
}

Distances ofAllSteps(const Distances &distances) {
  auto nameOf = [](const std::string &where) {
    if (const size_t at = where.find(" after step "); at != std::string::npos)
      return where.substr(0, at);
    return where.rfind("gradient of ", 0) == 0 ? where.substr(0, where.find(" of step ")) : "reports";
  };
  Distances most = distances, byName;
  for (auto [where, distance] : distances)
    if (double &so = byName[nameOf(where)]; !(distance <= so))
      so = distance;
  for (auto &[where, distance] : most)
    distance = byName[nameOf(where)];
  return most;
}

} // namespace echelon
