// That the ranks of a program cannot wait for each other for ever, and that each message meets its own.
#pragma once
#include "ir/dist/Dist.h"
#include "passes/prove/Program.h"

namespace echelon::prove {

/// What was run.
struct Proof {
  int64_t ranks = 1, parties = 1;
  int64_t instructions = 0; ///< of all parties
  int64_t streams = 0;      ///< of a rank: one that computes, one a group
  struct Function {
    std::string name;
    /// Of its text, loops counted, on the stage of a pipeline that has most; of a loop that runs until data ends, an
    /// iteration's.
    int64_t messages = 0;
    int64_t started = 0; ///< that are not waited for at once, likewise
  };
  std::vector<Function> functions;
};

/// The programs of all parties of a function, and what they communicate over.
struct Programs {
  std::vector<Program> of; ///< by party
  Channels channels;
};
/// Of a module whose arenas are planned. `apart`: mesh axes that tell ranks apart.
Verdict programsOf(rt::FunctionOp function, llvm::ArrayRef<int64_t> meshSizes, llvm::ArrayRef<int64_t> apart,
                   Programs &programs);
/// Mesh axes by whose coordinates some message differs, ascending.
llvm::SmallVector<int64_t> axesApart(mlir::ModuleOp module);
llvm::SmallVector<int64_t> meshSizes(mlir::ModuleOp module);

Verdict prove(mlir::ModuleOp module, Proof &proof);

} // namespace echelon::prove
