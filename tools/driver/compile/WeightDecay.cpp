// The elaborated model says which parameters are weights; the lines of `optimize` say how much, and may say of whom.
#include "tools/driver/compile/WeightDecay.h"

#include "ir/ech/Decimal.h"
#include "ir/ech/Ech.h"
#include "passes/Passes.h"
#include "llvm/Support/Path.h"

#include <algorithm>

using namespace echelon::frontend;

namespace echelon {

namespace {

bool isMatched(const Pattern &pattern, llvm::StringRef path) { return matchesPattern(pattern.text, path); }

/// The line that takes a parameter.
const OptimizerLine *lineOf(const RunSettings &plan, llvm::StringRef path) {
  for (const OptimizerLine &line : plan.optimizers)
    if (line.patterns.empty() ||
        llvm::any_of(line.patterns, [&](const Pattern &pattern) { return isMatched(pattern, path); }))
      return &line;
  return nullptr;
}

bool isNamed(const OptimizerLine &line, llvm::StringRef path) {
  return llvm::any_of(line.patterns,
                      [&](const Pattern &pattern) { return pattern.text.back() != '*' && isMatched(pattern, path); });
}

/// `*.gamma` of `layer.norm.gamma`; empty where a path has one word.
std::string patternOf(llvm::StringRef path) {
  const size_t dot = path.rfind('.');
  return dot == llvm::StringRef::npos ? "" : ("*" + path.substr(dot)).str();
}

/// Paths as they are, but for patterns that take four or more of them and no parameter besides.
std::vector<std::string> shortened(const std::vector<std::string> &paths, const std::vector<std::string> &all) {
  std::vector<std::string> result;
  for (const std::string &path : paths) {
    const std::string pattern = patternOf(path);
    auto isTaken = [&](const std::string &other) { return matchesPattern(pattern, other); };
    const auto count = pattern.empty() ? 0 : std::count_if(paths.begin(), paths.end(), isTaken);
    if (count < 4 || count != std::count_if(all.begin(), all.end(), isTaken)) {
      result.push_back(path);
      continue;
    }
    const std::string text = pattern + " (" + std::to_string(count) + ")";
    if (!llvm::is_contained(result, text))
      result.push_back(text);
  }
  return result;
}

/// "    takes   a, b, c\n", further lines of it under the first.
std::string row(const std::string &title, const std::vector<std::string> &names) {
  constexpr size_t kWidth = 120;
  std::string text, line = title;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name = names[i] + (i + 1 < names.size() ? "," : "");
    if (line.size() + 1 + name.size() > kWidth && line.size() > title.size()) {
      text += line + "\n";
      line = std::string(title.size(), ' ');
    }
    line += (line.size() > title.size() ? " " : "") + name;
  }
  return text + line + (names.empty() ? "nothing\n" : "\n");
}

} // namespace

void decayWhatIsNamed(mlir::ModuleOp module, const RunSettings &plan) {
  for (auto variable : module.getOps<ech::VariableOp>()) {
    if (variable.getKind() != ech::VariableKind::Param)
      continue;
    const OptimizerLine *line = lineOf(plan, variable.getSymName());
    if (line && line->decay != 0 && isNamed(*line, variable.getSymName()))
      variable.setDecayed(true);
  }
}

std::vector<LineDecay> decayOf(mlir::ModuleOp module, const RunSettings &plan, const SourceManager &sources) {
  std::vector<LineDecay> lines;
  for (const OptimizerLine &line : plan.optimizers) {
    const std::string file = llvm::sys::path::filename(sources.name(line.range.file)).str();
    lines.push_back({&line, file + ":" + std::to_string(line.range.line), line.rule, {}, {}});
  }
  for (auto variable : module.getOps<ech::VariableOp>()) {
    if (variable.getKind() != ech::VariableKind::Param)
      continue;
    const OptimizerLine *line = lineOf(plan, variable.getSymName());
    for (LineDecay &entry : lines)
      if (entry.line == line)
        (variable.getDecayed() && line->decay != 0 ? entry.decayed : entry.spared)
            .push_back(variable.getSymName().str());
  }
  return lines;
}

void warnOfIdleDecay(const std::vector<LineDecay> &lines, Diagnostics &diagnostics) {
  for (const LineDecay &entry : lines)
    if (entry.line->decay != 0 && entry.decayed.empty() && !entry.spared.empty())
      diagnostics.warning(Code::E0410, entry.line->range,
                          "decay = " + shortestDecimal(entry.line->decay) +
                              " changes nothing: no parameter of this line is a weight; name those that are to decay "
                              "all the same, as in on (" +
                              entry.spared.front() + ")");
}

std::string decayText(const std::vector<LineDecay> &lines) {
  std::string text = "weight decay\n";
  if (llvm::none_of(lines, [](const LineDecay &entry) { return entry.line->decay != 0; }))
    return text + "  none\n";
  std::vector<std::string> all;
  for (const LineDecay &entry : lines) {
    all.insert(all.end(), entry.decayed.begin(), entry.decayed.end());
    all.insert(all.end(), entry.spared.begin(), entry.spared.end());
  }
  for (const LineDecay &entry : lines) {
    const double decay = entry.line->decay;
    text += "  " + entry.optimizer + (decay == 0 ? " without decay" : ", decay = " + shortestDecimal(decay)) + " (" +
            printable(entry.place) + ")\n";
    if (decay != 0)
      text += row("    takes   ", shortened(entry.decayed, all));
    text += row("    leaves  ", shortened(entry.spared, all));
  }
  return text;
}

} // namespace echelon
