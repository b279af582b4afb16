// A layout given by a command instead of the spec.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace echelon {

struct LayoutChoice {
  struct Axis {
    std::string name;
    int64_t size = 1;
    std::vector<std::string> list; // axes split over it, first choice first
    bool storesOptimizer = false;
  };
  std::vector<Axis> mesh;
  int64_t microBatches = 1;

  /// Samples a step come in multiples of this, whatever is split.
  int64_t batchMultiple() const;
  /// "a = 2 [batch], b = 2 [head, seq] stores optimizer, 2 micro batches"
  std::string text() const;
};

} // namespace echelon
