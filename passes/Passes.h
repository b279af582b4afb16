// The passes and their order.
#pragma once
#include "ir/ech/Ech.h"
#include "mlir/Pass/Pass.h"

namespace mlir {
class OpPassManager;
}

namespace echelon {

/// Whether a pattern of an `optimize` line takes a parameter. `*` stands for any characters, dots included: `*.gamma`,
/// `layer.*.wq`.
bool matchesPattern(llvm::StringRef pattern, llvm::StringRef path);

/// On a global norm: array of strings, the paths of the parameters whose gradients its operands are.
inline constexpr llvm::StringLiteral kParameters = "ech.parameters";

/// What the log calls the sum of several losses.
inline constexpr llvm::StringLiteral kTotalLoss = "total_loss";

/// What runs a program.
enum class Target { Cpu, Gpu };

/// What passes decide by.
struct PipelineOptions {
  Target target = Target::Cpu;
  int64_t loopBytes = 64000; ///< from how many bytes on a gradient of an iteration has a message of its own
};

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

/// How far the pipeline runs: to the end of a dialect's passes, but that Shaped is the program of Rt whose messages are
/// not proven yet, which is all that its figures need.
enum class Stage { Ech, Dist, Shaped, Rt };

/// The order of the passes, one line each.
void buildPipeline(mlir::OpPassManager &manager, Stage until, PipelineOptions options = {});
/// Its last passes: how a program reads whose arenas are planned.
void shapeProgram(mlir::OpPassManager &manager, Target target = Target::Cpu);

} // namespace echelon
