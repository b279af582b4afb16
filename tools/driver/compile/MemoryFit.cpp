// A plan that is larger than the memory of the cluster's devices is refused, with the nearest one that fits: first the
// optimizer's state stored in cuts, then micro batches, halved until it fits, then both. What fits is found by
// compiling it.
#include "tools/driver/compile/Compilation.h"
#include "tools/driver/compile/LayoutText.h"
#include "tools/driver/compile/Units.h"

#include "passes/cost/ProgramCost.h"

#include <algorithm>

using namespace echelon::frontend;

namespace echelon {

namespace {

std::pair<const char *, int64_t> largestPart(const MemoryCost &memory) {
  std::vector<std::pair<const char *, int64_t>> parts = {{"parameters", memory.params},
                                                         {"gradients", memory.gradients},
                                                         {"the optimizer's state", memory.optimizer},
                                                         {"activations", memory.activations},
                                                         {"buffers", memory.buffers}};
  return *std::max_element(parts.begin(), parts.end(), [](auto &a, auto &b) { return a.second < b.second; });
}

/// Bytes a rank of the spec under other options; 0 when these do not compile.
int64_t bytesUnder(CompileOptions options) {
  options.anyMemory = true;
  options.dumpStages.clear();
  Compilation other(std::move(options));
  if (!other.parse() || !other.resolve() || !other.elaborate() || !other.lower(Stage::Shaped))
    return 0;
  return programCost(*other.module).memory.total;
}

/// What is told of memory that a device has, and keeps.
std::string ofMemory(const frontend::RunSettings &settings) {
  const auto &memory = settings.device->memory;
  return memory && double(settings.deviceBytes) < memory->value
             ? " for tensors, of " + inBytes(static_cast<int64_t>(memory->value))
             : "";
}
} // namespace

/// What could still be stored in parts over the mesh axes that split the batch: the optimizer's state first, which
/// costs no message.
std::vector<std::string> Compilation::storeLines() const {
  std::vector<std::string> lines;
  std::string what;
  for (const std::string stored : {"optimizer", "gradients", "params"}) {
    std::string axes;
    for (const MeshAxisSettings &axis : settings.mesh)
      if (llvm::any_of(axis.list, [&](const auto &entry) { return entry.axis == facts.batchAxis; }) &&
          !axis.stored.count(stored))
        axes += (axes.empty() ? "" : ", ") + axis.name;
    if (axes.empty())
      continue;
    what += (what.empty() ? "" : ", ") + stored;
    lines.push_back("store " + what + " over " + axes);
  }
  return lines;
}

std::string Compilation::whatFits() const {
  std::vector<std::pair<std::string, std::string>> layouts = {{"", options.layout}}; // the line added, the layout
  if (!options.oneRank)
    for (const std::string &line : storeLines())
      if (std::string text = layoutWith(sources, *train, line); !text.empty())
        layouts.push_back({line, text});
  int64_t samples = settings.batch / settings.batchRanks(facts.batchAxis);
  for (int64_t micro = settings.microBatches; micro <= samples; micro *= 2)
    for (const auto &[line, layout] : layouts) {
      bool same = micro == settings.microBatches;
      if ((same && line.empty()) || samples % micro)
        continue;
      CompileOptions tried = options;
      tried.train = train->name.text;
      tried.layout = layout;
      tried.microBatches = micro;
      int64_t bytes = bytesUnder(tried);
      if (!bytes || bytes > memoryLimit())
        continue;
      std::string batch =
          same ? ""
               : "batch " + std::to_string(settings.batch) + " in micro batches of " + std::to_string(samples / micro);
      return line + (line.empty() || batch.empty() ? "" : " and ") + batch + " would take " + inBytes(bytes);
    }
  return "no way to store the optimizer's state or to split the batch over time makes it fit; split more axes over "
         "more ranks";
}

int64_t Compilation::memoryLimit() const {
  const double within = settings.recompute.within;
  if (within <= 0 || (settings.deviceBytes && double(settings.deviceBytes) <= within))
    return settings.deviceBytes;
  return within < 9e18 ? static_cast<int64_t>(within) : 0;
}

bool Compilation::checkMemory() {
  const int64_t limit = memoryLimit();
  if (!limit || options.anyMemory)
    return true;
  MemoryCost memory = programCost(*module).memory; // without the copy: snapshots are written without it, too
  if (memory.total <= limit)
    return true;
  auto [part, bytes] = largestPart(memory);
  const bool isOfClause = limit != settings.deviceBytes;
  const std::string under =
      recomputeChoice ? " under recompute " + settings.recompute.text() + ", which takes least" : "";
  SourceRange place = settings.layoutRange.valid() ? settings.layoutRange : settings.batchRange;
  diagnostics.error(Code::E0314, isOfClause ? settings.recompute.range : place,
                    "a rank would take " + inBytes(memory.total) + under +
                        (isOfClause
                             ? ", and recompute auto is to stay within " + inBytes(limit)
                             : ", and a " + settings.deviceName + " has " + inBytes(limit) + ofMemory(settings)) +
                        "; the largest part is " + part + ", " + inBytes(bytes) + "; " + whatFits());
  return false;
}

} // namespace echelon
