#include "passes/update/Rule.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace echelon;

const update::Rule *update::findRule(StringRef name) {
  for (const Rule *rule : {&kSgd, &kAdam, &kAdamW, &kLamb})
    if (rule->name == name)
      return rule;
  return nullptr;
}

run::OptimizeOp update::lineOf(ModuleOp module, StringRef path) {
  for (auto line : module.getOps<run::OptimizeOp>())
    if (llvm::any_of(ech::strings(line.getPatterns()),
                     [&](StringRef pattern) { return matchesPattern(pattern, path); }))
      return line;
  return {};
}
