// The functions of a program, as rt-cut-functions says which operation is in which.
#pragma once
#include "codegen/Printer.h"
#include "codegen/StepFunctions.h"
#include "codegen/Target.h"

namespace echelon::codegen {

/// What functions are printed with.
struct Text {
  SizeTable &sizes;
  const Structs &structs;
  const SourceLines &sources;
  Target &target;
  Probes *probes; ///< null: the program is not profiled
  Printer printer() const { return {sizes, structs, sources, target, probes}; }
};

/// The functions of a training step, and `step`, which calls them.
void printTraining(rt::FunctionOp train, const Text &text, llvm::raw_ostream &os);
/// A step that is one function of this name.
void printOnce(rt::FunctionOp step, const StepFunction &as, const Text &text, llvm::raw_ostream &os);
/// `evaluate_begin`, `evaluate_batch`, `evaluate_end`.
void printEvaluation(rt::FunctionOp evaluate, const Text &text, llvm::raw_ostream &os);

} // namespace echelon::codegen
