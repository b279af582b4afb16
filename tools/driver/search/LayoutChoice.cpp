#include "tools/driver/search/LayoutChoice.h"

#include "frontend/fmt/Format.h"
#include "passes/cost/ProgramCost.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

using namespace echelon::frontend;

namespace echelon {

namespace {
/// "split head, ff over tp", "split layer over pp with interleaved(2)".
std::vector<std::string> splitLines(const MeshAxisSettings &axis) {
  std::vector<std::string> lines;
  std::string end = " over " + axis.name;
  if (!axis.schedule.empty())
    end += " with " + axis.schedule + (axis.chunks > 1 ? "(" + std::to_string(axis.chunks) + ")" : "");
  if (axis.ring.valid())
    end += " with ring";
  if (axis.balanced)
    end += " as balanced";
  else if (!axis.counts.empty() && axis.parts.valid()) {
    end += " as (";
    for (size_t i = 0; i < axis.counts.size(); ++i)
      end += (i ? ", " : "") + std::to_string(axis.counts[i]);
    end += ")";
  }
  // axes of one kind that stand beside each other share a line; more than one line says the rest but once
  for (size_t i = 0; i < axis.list.size();) {
    const auto &first = axis.list[i];
    std::string line = "split " + first.axis;
    size_t next = i + 1;
    for (; next < axis.list.size() && axis.list[next].padded == first.padded && axis.list[next].zigzag == first.zigzag;
         ++next)
      line += (axis.list[next].follows ? " then " : ", ") + axis.list[next].axis;
    line += i ? " over " + axis.name : end;
    line += first.padded ? " with padding" : "";
    line += first.zigzag ? " with zigzag" : "";
    lines.push_back(line);
    i = next;
  }
  return lines;
}

/// "store optimizer, gradients over dp": what is stored over the same mesh axes in one line.
std::vector<std::string> storeLines(const std::vector<MeshAxisSettings> &mesh) {
  std::map<std::string, std::vector<std::string>> whatOver; // by mesh axes
  for (const char *what : {"optimizer", "gradients", "params"}) {
    std::string over;
    for (const MeshAxisSettings &axis : mesh)
      if (axis.stored.count(what))
        over += (over.empty() ? "" : ", ") + axis.name;
    if (!over.empty())
      whatOver[over].push_back(what);
  }
  std::vector<std::string> lines;
  for (const auto &[over, what] : whatOver)
    lines.push_back("store " + llvm::join(what, ", ") + " over " +
                    (over.find(',') == over.npos ? over : "(" + over + ")"));
  return lines;
}

std::vector<std::string> linesOf(const std::vector<MeshAxisSettings> &mesh) {
  std::vector<std::string> lines;
  for (const MeshAxisSettings &axis : mesh)
    llvm::append_range(lines, splitLines(axis));
  llvm::append_range(lines, storeLines(mesh));
  return lines;
}

std::string meshText(const std::vector<MeshAxisSettings> &mesh) {
  std::string text = "mesh(";
  for (const MeshAxisSettings &axis : mesh)
    text += (text.size() > 5 ? ", " : "") + axis.name + " = " + std::to_string(axis.size);
  return text + ")";
}

std::string inWords(int64_t number, const char *one, const char *many) {
  return std::to_string(number) + " " + (number == 1 ? one : many);
}
} // namespace

std::string PlannedLayout::recomputeText() const { return recompute ? recompute->text() : ""; }

std::string PlannedLayout::layoutText() const {
  return meshText(mesh) + " { " + llvm::join(linesOf(mesh), "; ") + " }";
}

std::string PlannedLayout::batchText() const {
  return std::to_string(batch) +
         (microBatches > 1 ? " in micro batches of " + std::to_string(batch / batchRanks / microBatches) : "");
}

std::string PlannedLayout::text() const {
  return "layout " + layoutText() + "; batch " + batchText() + (recompute ? "; recompute " + recompute->text() : "");
}

void LayoutChoice::applyTo(RunSettings &settings, bool oneRank) const {
  settings.microBatches = best.microBatches;
  if (best.recompute) {
    const SourceRange clause = settings.recompute.range.valid() ? settings.recompute.range : settings.layoutRange;
    settings.recompute = *best.recompute;
    settings.recompute.range = clause;
    for (Path &name : settings.recompute.keep)
      name.range = clause;
  }
  settings.layoutBuilt = true;
  if (oneRank)
    return;
  settings.mesh = best.mesh;
  settings.clusterRanks = std::max(settings.clusterRanks, ranks);
}

std::string LayoutChoice::report() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "chosen\n  layout " << meshText(best.mesh) << " {\n";
  for (const std::string &line : linesOf(best.mesh))
    os << "    " << line << "\n";
  os << "  }\n  batch " << best.batchText() << "\n";
  if (best.recompute)
    os << "  recompute " << best.recompute->text() << "\n";
  os << "  of " << inWords(counted, "candidate", "candidates") << ": " << without << (without == 1 ? " has" : " have")
     << " no room, " << cut << " cannot be faster, " << refused << (refused == 1 ? " is" : " are")
     << " refused by the compiler; " << asked << (asked == 1 ? " was" : " were") << " compiled\n";
  if (!runnersUp.empty())
    os << "runners-up\n";
  for (const PlannedLayout &other : runnersUp) {
    os << "  " << inTime(other.seconds);
    if (best.seconds > 0)
      os << llvm::format(", %.3g %% more", 100 * (other.seconds / best.seconds - 1));
    os << ": " << other.text() << "\n";
    // where the time is lost, and won: the largest differences
    std::vector<std::pair<double, std::string>> differences;
    for (const auto &[term, seconds] : other.terms) {
      auto own = best.terms.find(term);
      differences.push_back({seconds - (own == best.terms.end() ? 0 : own->second), term});
    }
    for (const auto &[term, seconds] : best.terms)
      if (!other.terms.count(term))
        differences.push_back({-seconds, term});
    std::stable_sort(differences.begin(), differences.end(),
                     [](const auto &a, const auto &b) { return std::abs(a.first) > std::abs(b.first); });
    constexpr size_t kNamed = 3;
    std::vector<std::string> said;
    for (const auto &[difference, term] : differences)
      if (said.size() < kNamed && std::abs(difference) > 1e-3 * best.seconds)
        said.push_back(term + (difference < 0 ? " -" : " +") + inTime(std::abs(difference)));
    os << "    "
       << (said.empty() ? "as fast but for less than a part in a thousand of each term" : llvm::join(said, ", "))
       << "\n";
  }
  return text;
}

bool leavesLayoutOpen(const Train &train) {
  for (const Clause &clause : train.clauses)
    if (auto *layout = std::get_if<LayoutClause>(&clause.what))
      return layout->isAuto || llvm::any_of(layout->mesh, [](const MeshAxis &axis) { return !axis.size.has_value(); });
  return false;
}

std::string withChoice(const SourceManager &sources, const Train &train, const LayoutChoice &choice) {
  std::string text(sources.text(train.range.file));
  std::string layout = "layout " + meshText(choice.best.mesh) + " {\n";
  for (const std::string &line : linesOf(choice.best.mesh))
    layout += "    " + line + "\n";
  bool hasOn = false, hasRecompute = false;
  for (const Clause &clause : train.clauses) // lines that a search leaves as they are
    if (auto *said = std::get_if<LayoutClause>(&clause.what)) {
      for (const LayoutStatement &statement : said->statements)
        if (auto *offload = std::get_if<OffloadClause>(&statement))
          layout += "    " + std::string(sources.text(offload->range)) + "\n";
        else if (auto *collective = std::get_if<CollectiveClause>(&statement))
          layout += "    " + std::string(sources.text(collective->range)) + "\n";
    }
  for (const Clause &clause : train.clauses) {
    hasOn |= std::holds_alternative<OnClause>(clause.what);
    hasRecompute |= std::holds_alternative<RecomputeClause>(clause.what);
  }
  layout += "  }";
  const std::string recompute = choice.best.recompute ? "recompute " + choice.best.recompute->text() : "";
  for (size_t i = train.clauses.size(); i-- > 0;) { // from the end: the places before stay where they are
    const Clause &clause = train.clauses[i];
    std::string made;
    if (std::holds_alternative<LayoutClause>(clause.what)) {
      made = layout + (hasRecompute || recompute.empty() ? "" : "\n  " + recompute) +
             (hasOn || choice.ranks == 0 ? "" : "\n  on local(ranks = " + std::to_string(choice.ranks) + ")");
    } else if (std::holds_alternative<BatchClause>(clause.what)) {
      made = "batch " + choice.best.batchText();
    } else if (std::holds_alternative<RecomputeClause>(clause.what) && !recompute.empty()) {
      made = recompute;
    } else {
      continue;
    }
    text.replace(clause.range.offset, clause.range.length, made);
  }
  SourceManager written;
  Diagnostics diagnostics(written);
  const FileId id = written.add(sources.name(train.range.file), text);
  return format(written, id, diagnostics).value_or(text);
}

} // namespace echelon
