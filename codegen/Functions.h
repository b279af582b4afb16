// The functions of a program: one step cut by phase, the evaluation cut at its loop over batches.
#pragma once
#include "codegen/Printer.h"

namespace echelon::codegen {

/// `forward`, `backward`, `update`, and `step`, which calls them; with probes where there are any.
void printTraining(rt::FunctionOp train, Names &names, const SourceLines &sources, llvm::raw_ostream &os,
                   Probes *probes = nullptr);
/// `start`, run once.
void printStart(rt::FunctionOp start, Names &names, const SourceLines &sources, llvm::raw_ostream &os);
/// `evaluate_begin`, `evaluate_batch`, `evaluate_end`.
void printEvaluation(rt::FunctionOp evaluate, Names &names, const SourceLines &sources, llvm::raw_ostream &os);

} // namespace echelon::codegen
