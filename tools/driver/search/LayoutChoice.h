// What a search chose where a spec leaves its layout open, and what it left aside.
#pragma once
#include "frontend/resolve/RunSettings.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace echelon {

/// A layout with micro batches and recomputation, and what a step under it takes.
struct PlannedLayout {
  std::vector<frontend::MeshAxisSettings> mesh; ///< with places of the clause that leaves it open
  int64_t batchRanks = 1, microBatches = 1, batch = 1;
  std::optional<frontend::RecomputeSettings> recompute; ///< none: as the spec says
  double seconds = 0;
  int64_t bytes = 0;                   ///< of a rank
  std::map<std::string, double> terms; ///< seconds by term

  std::string recomputeText() const; ///< "none", "full", "keep (h)"; empty: as the spec says
  std::string layoutText() const;    ///< "mesh(dp = 2) { split batch over dp }"
  std::string batchText() const;     ///< "64 in micro batches of 8"
  std::string text() const;          ///< all of it in one line
};

struct LayoutChoice {
  PlannedLayout best;
  int64_t ranks = 1;
  std::vector<PlannedLayout> runnersUp;                                       ///< fastest first
  int64_t counted = 0, without = 0, refused = 0, cut = 0, fit = 0, asked = 0; ///< candidates; `fit` of those asked
  double seconds = 0;                                                         ///< that the search took

  void applyTo(frontend::RunSettings &settings, bool oneRank) const;
  std::string report() const; ///< for people
};

/// Whether a train block leaves its layout, or sizes of its mesh, to the compiler.
bool leavesLayoutOpen(const frontend::Train &train);

/// The text of a spec with every choice in it, in canonical form.
std::string withChoice(const frontend::SourceManager &sources, const frontend::Train &train,
                       const LayoutChoice &choice);

} // namespace echelon
