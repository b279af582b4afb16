// What an optimizer is: how it makes the next value of a parameter. One file a rule, or a few of one kind, in this
// folder; Rule.cpp lists them.
#pragma once
#include "ir/ech/Build.h"
#include "ir/run/Run.h"

namespace echelon::update {

using mlir::Value;

/// The update of one parameter. What a rule builds is element-wise, over the parameter's own axes, and norms of such
/// values: ech.global_norm, or of a parameter of repeats sums over the axes that are not the repeats'.
class Update {
public:
  Update(ech::Build &build, run::OptimizeOp line, ech::VariableOp param) : build(build), line(line), param(param) {}
  virtual ~Update() = default;

  /// What the last step kept under this name; zeros before the first step.
  virtual Value kept(llvm::StringRef name) = 0;
  /// Keeps a value of the parameter's shape for the next step, and returns it.
  virtual Value keep(llvm::StringRef name, Value value) = 0;

  double number(llvm::StringRef name) { return line.number(name); }
  Value constant(double value) { return build.constant(value); }
  /// Gives a value the name that the program shows.
  Value named(llvm::StringRef name, Value value) {
    value.getDefiningOp()->setLoc(mlir::NameLoc::get(build.builder.getStringAttr(name), build.loc));
    return value;
  }

  ech::Build &build;
  run::OptimizeOp line;
  ech::VariableOp param;
  Value w, g;       ///< the parameter, and its gradient: clipped, with the weight decay of a rule that has none itself
  Value lr;         ///< the learning rate of the step
  double decay = 0; ///< what the rule's own weight decay takes; 0: nothing
};

/// What snapshots compare of a rule: {"betas", "0.9, 0.95"}.
using NamedValue = std::pair<std::string, std::string>;

struct Rule {
  llvm::StringLiteral name;
  /// Whether the rule decays weights itself; else `decay` times the parameter is added to the gradient before.
  bool decaysApart;
  Value (*next)(Update &);
  llvm::SmallVector<NamedValue> (*describe)(run::OptimizeOp);
  /// Whether weights, which decay takes, are updated in another way than gains and biases even where it is 0.
  bool setsWeightsApart = false;
};

extern const Rule kSgd;          // Sgd.cpp
extern const Rule kAdam, kAdamW; // Adam.cpp
extern const Rule kLamb;         // Lamb.cpp

/// The rule of this name; null: there is none.
const Rule *findRule(llvm::StringRef name);

/// The `optimize` line that takes a parameter, the first with a pattern for its path; null: none does.
run::OptimizeOp lineOf(mlir::ModuleOp module, llvm::StringRef path);

} // namespace echelon::update
