// Which parameters weight decay takes, line by line of `optimize`.
#pragma once
#include "frontend/Diagnostics.h"
#include "frontend/resolve/RunSettings.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>
#include <vector>

namespace echelon {

/// What an `optimize` line does to the parameters that are its own.
struct LineDecay {
  const frontend::OptimizerLine *line;
  std::string place;                        ///< "mlp.ech:15"
  std::string optimizer;                    ///< "adamw"
  std::vector<std::string> decayed, spared; ///< paths, in the order of their declarations
};

/// A pattern that ends in a name takes what it names at its word: with a decay in its line that decays, gain or not.
void decayWhatIsNamed(mlir::ModuleOp module, const frontend::RunSettings &plan);

std::vector<LineDecay> decayOf(mlir::ModuleOp module, const frontend::RunSettings &plan,
                               const frontend::SourceManager &sources);

/// Warns at each line whose decay takes no parameter.
void warnOfIdleDecay(const std::vector<LineDecay> &lines, frontend::Diagnostics &diagnostics);

/// A table for people. Four parameters and more of one name are told as a pattern.
std::string decayText(const std::vector<LineDecay> &lines);

} // namespace echelon
