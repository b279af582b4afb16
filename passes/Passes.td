// The passes, in pipeline order. Each is one promise, one .cpp of its name, one test test/passes/NAME.mlir.
// A new pass: its entry here, its line in Pipeline.cpp.
#ifndef ECHELON_PASSES
#define ECHELON_PASSES

include "mlir/Pass/PassBase.td"

class EchelonPass<string flag> : Pass<flag, "::mlir::ModuleOp"> {
  let dependentDialects = ["::echelon::ech::EchDialect"];
}

//===------------------------------------------------------------------------------------------------------------===//
// ech: what is computed
//===------------------------------------------------------------------------------------------------------------===//

def Simplify : EchelonPass<"ech-simplify"> {
  let summary = "values that are equal by definition are computed once, and dead ones not at all";
  let description = [{
    x * 1, x + 0, 0 * x, -(-x), casts of casts, expansions into element-wise operations, relabels that change nothing;
    loop results that nobody reads, slices nobody uses, loop-invariant stacked values. Then upstream's CSE within a phase.
    Locations stay those of the first computation.
  }];
}

//===------------------------------------------------------------------------------------------------------------===//
// dist: who holds what, what moves
//===------------------------------------------------------------------------------------------------------------===//

//===------------------------------------------------------------------------------------------------------------===//
// rt: one operation per runtime call
//===------------------------------------------------------------------------------------------------------------===//

#endif
