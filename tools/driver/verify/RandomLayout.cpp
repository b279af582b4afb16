#include "tools/driver/verify/RandomLayout.h"

#include <random>

namespace echelon {

RandomLayout randomLayout(const Compilation &elaborated, uint64_t seed) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u + 1);
  auto below = [&](uint64_t n) { return random() % n; };
  std::vector<std::string> names;
  const llvm::StringSet<> held = axesOfTensors(*elaborated.module);
  for (const frontend::AxisFacts &axis : elaborated.facts.axes)
    if (held.contains(axis.name) && !axis.isRepeat && !axis.isPrivate && !axis.isWalked)
      names.push_back(axis.name);
  static const std::vector<std::vector<int64_t>> kMeshes = {{2}, {2}, {4}, {2, 2}, {2, 2}, {3}};
  RandomLayout result;
  std::string mesh, lines;
  for (int64_t size : kMeshes[below(kMeshes.size())]) {
    std::string name = std::string(1, mesh.empty() ? 'a' : 'b');
    std::vector<std::string> pool = names;
    uint64_t wanted = below(5);
    bool stores = wanted == 0 || below(3) == 0;
    for (uint64_t i = 0; i < wanted && !pool.empty(); ++i) {
      size_t k = below(pool.size());
      lines += "split " + pool[k] + " over " + name + (below(8) == 0 ? " with padding; " : "; ");
      pool.erase(pool.begin() + static_cast<int64_t>(k));
    }
    if (stores)
      lines += "store optimizer over " + name + "; ";
    mesh += (mesh.empty() ? "" : ", ") + name + " = " + std::to_string(size);
    result.batchMultiple *= size;
  }
  result.layout = "mesh(" + mesh + ") { " + lines + "}";
  result.microBatches = below(4) == 0 ? 2 : 1;
  result.batchMultiple *= result.microBatches;
  return result;
}

} // namespace echelon
