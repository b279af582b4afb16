#include "tools/echelon/RandomLayout.h"

#include <algorithm>
#include <random>

namespace echelon {

int64_t LayoutChoice::batchMultiple() const {
  int64_t n = microBatches;
  for (const Axis &axis : mesh)
    n *= axis.size;
  return n;
}

std::string LayoutChoice::text() const {
  std::string s;
  for (const Axis &axis : mesh) {
    s += (s.empty() ? "" : ", ") + axis.name + " = " + std::to_string(axis.size) + " [";
    for (const std::string &name : axis.list)
      s += (&name == &axis.list.front() ? "" : ", ") + name;
    s += axis.storesOptimizer ? "] stores optimizer" : "]";
  }
  return microBatches > 1 ? s + ", " + std::to_string(microBatches) + " micro batches" : s;
}

LayoutChoice randomLayout(const Compilation &elaborated, uint64_t seed) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u + 1);
  auto below = [&](uint64_t n) { return random() % n; };
  std::vector<std::string> names;
  for (const frontend::AxisFacts &axis : elaborated.facts.axes)
    if (!axis.isRepeat && !axis.isPrivate && !axis.isWalked)
      names.push_back(axis.name);
  static const std::vector<std::vector<int64_t>> kMeshes = {{2}, {2}, {4}, {2, 2}, {2, 2}, {3}};
  LayoutChoice choice;
  for (int64_t size : kMeshes[below(kMeshes.size())]) {
    LayoutChoice::Axis axis;
    axis.name = std::string("m") + std::to_string(choice.mesh.size());
    axis.size = size;
    std::vector<std::string> pool = names;
    uint64_t wanted = below(5);
    axis.storesOptimizer = wanted == 0 || below(3) == 0;
    for (uint64_t i = 0; i < wanted && !pool.empty(); ++i) {
      size_t k = below(pool.size());
      axis.list.push_back(pool[k]);
      pool.erase(pool.begin() + static_cast<int64_t>(k));
    }
    choice.mesh.push_back(axis);
  }
  choice.microBatches = below(4) == 0 ? 2 : 1;
  return choice;
}

} // namespace echelon
