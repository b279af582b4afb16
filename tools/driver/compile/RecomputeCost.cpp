#include "tools/driver/compile/RecomputeCost.h"

#include "ir/ech/Build.h"
#include "ir/ech/Recompute.h"
#include "passes/cost/ProgramCost.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

namespace echelon {

namespace {

/// Floating-point operations of a training step, iterations of loops counted, before it is laid out.
double operationsOf(mlir::ModuleOp module) {
  double count = 0;
  auto train = mlir::SymbolTable::lookupSymbolIn(module, "train");
  if (!train)
    return 0;
  train->walk([&](ech::Costed op) {
    double times = 1;
    for (auto loop = op->getParentOfType<ech::RepeatOp>(); loop; loop = loop->getParentOfType<ech::RepeatOp>())
      times *= double(loop.getCount());
    count += times * double(op.flops());
  });
  return count;
}

/// The spec as the options have it, as far as a stage; null where it does not compile.
std::unique_ptr<Compilation> compiled(CompileOptions options, Stage until) {
  options.anyMemory = true;
  options.warns = false;
  options.dumpStages.clear();
  auto made = std::make_unique<Compilation>(std::move(options));
  const bool isGood = made->parse() && made->resolve() && made->elaborate() && made->lower(until);
  return isGood ? std::move(made) : nullptr;
}

} // namespace

std::string RecomputeCost::sentence() const {
  if (policy == "none")
    return "";
  std::string text, names;
  for (const std::string &name : kept)
    names += (names.empty() ? "" : ", ") + name;
  const double saved = workBytesOfNone ? 1 - double(workBytes) / double(workBytesOfNone) : 0;
  llvm::raw_string_ostream(text) << "recompute " << policy << ": repeats keep " << (names.empty() ? "nothing" : names)
                                 << (policy.rfind("every", 0) == 0 ? " of each group" : "")
                                 << " for the backward pass; it computes the rest again, "
                                 << llvm::format("%.3g%%", 100 * operationsAgain)
                                 << " more operations in a step; a rank's work takes " << workBytes << " bytes, not "
                                 << workBytesOfNone << llvm::format(" (%.3g%% saved)", 100 * saved);
  return text;
}

std::optional<RecomputeCost> recomputeCost(const Compilation &compilation, int64_t workBytes) {
  RecomputeCost cost;
  cost.policy = compilation.settings.recompute.text();
  cost.workBytes = cost.workBytesOfNone = workBytes;
  if (compilation.settings.recompute.policy.empty())
    return cost;
  if (auto kept = (*compilation.module)->getAttrOfType<mlir::ArrayAttr>(ech::kKeptByRepeats))
    for (llvm::StringRef name : ech::strings(kept))
      cost.kept.push_back(name.str());
  CompileOptions options = compilation.options;
  auto own = compiled(options, Stage::Ech);
  options.keepsAll = true;
  auto none = compiled(options, Stage::Ech), planned = compiled(options, Stage::Shaped);
  if (!own || !none || !planned)
    return std::nullopt;
  const double before = operationsOf(*none->module);
  cost.operationsAgain = before > 0 ? operationsOf(*own->module) / before - 1 : 0;
  cost.workBytesOfNone = programCost(*planned->module).workBytes;
  return cost;
}

} // namespace echelon
