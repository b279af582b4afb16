#include "tools/echelon/Trace.h"

#include "tools/echelon/Npy.h"

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
    if (row.contains("loss"))
      trace.steps.emplace_back().reports = values;
    else if (row.contains("eval_loss"))
      trace.evaluation = values;
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

static void compareReports(const std::map<std::string, double> &one, const std::map<std::string, double> &many,
                           const std::string &when, Worst &worst) {
  for (auto &[name, value] : one) {
    auto other = many.find(name);
    // a difference of terms of the loss's size may be small itself
    worst.see(other == many.end() ? INFINITY : std::abs(value - other->second) / (std::abs(value) + 1e-3), name + when);
  }
}

namespace {

/// Compares step by step, and remembers which elements move by more than noise.
class Comparison {
public:
  Worst worst;

  void compareGradients(const Tensors &one, const Tensors &many, const std::string &when) {
    double most = 0; // of all tensors
    for (const auto &[path, values] : one)
      most = std::max(most, largest(values));
    for (const auto &[path, values] : one) {
      const std::vector<double> *other = sameShape(many, path, values);
      if (!other) {
        worst.see(INFINITY, "the shape of the gradient of " + path + when);
        continue;
      }
      double measure = std::max(largest(values), 1e-3 * most) + 1e-300;
      std::vector<bool> &moves = moving.try_emplace(path, values.size(), true).first->second;
      for (size_t i = 0; i < values.size(); ++i) {
        worst.see(std::abs(values[i] - (*other)[i]) / measure, "gradient of " + path + when);
        moves[i] = moves[i] && std::abs(values[i]) > 1e-5 * measure;
      }
    }
  }

  void compareStored(const Tensors &one, const Tensors &many, const std::string &when) {
    for (const auto &[path, values] : one) {
      const std::vector<double> *other = sameShape(many, path, values);
      if (!other) {
        worst.see(INFINITY, "the shape of " + path + " after" + when);
        continue;
      }
      const std::vector<bool> *moves = movesWith(path, values.size());
      double scale = largest(values) + 1e-300;
      for (size_t i = 0; i < values.size(); ++i)
        if (!moves || (*moves)[i])
          worst.see(std::abs(values[i] - (*other)[i]) / scale, path + " after" + when);
    }
  }

private:
  static const std::vector<double> *sameShape(const Tensors &tensors, const std::string &path,
                                              const std::vector<double> &like) {
    auto found = tensors.find(path);
    return found == tensors.end() || found->second.size() != like.size() ? nullptr : &found->second;
  }
  /// Those of the parameter that a stored tensor is or belongs to: optimizer.m.PATH moves with PATH. Null: of none.
  const std::vector<bool> *movesWith(llvm::StringRef path, size_t size) const {
    const std::vector<bool> *moves = nullptr;
    for (const auto &[parameter, mask] : moving)
      if (mask.size() == size && (path == parameter || (!moves && path.ends_with("." + parameter))))
        moves = &mask;
    return moves;
  }

  std::map<std::string, std::vector<bool>> moving; // by parameter: elements that were never noise
};

} // namespace

Worst compareTraces(const Trace &one, const Trace &many) {
  Comparison comparison;
  Worst &worst = comparison.worst;
  if (one.steps.size() != many.steps.size() || one.steps.empty()) {
    worst.see(INFINITY, "the number of steps logged");
    return worst;
  }
  for (size_t s = 0; s < one.steps.size() && worst.error < INFINITY; ++s) {
    const Trace::Step &a = one.steps[s], &b = many.steps[s];
    const std::string step = " step " + std::to_string(s + 1);
    compareReports(a.reports, b.reports, " of" + step, worst);
    if (a.gradient.size() != b.gradient.size() || a.after.size() != b.after.size() || a.gradient.empty())
      worst.see(INFINITY, "the number of tensors written of" + step);
    comparison.compareGradients(a.gradient, b.gradient, " of" + step);
    comparison.compareStored(a.after, b.after, step);
  }
  compareReports(one.evaluation, many.evaluation, " of the evaluation", worst);
  return worst;
}

} // namespace echelon
