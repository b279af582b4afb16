// The functions that are built into the language.
//
// Each is one free function in the file of its family (Reductions.cpp, Windows.cpp, …), declared here, and one row of
// the table in BuiltIns.cpp, which names its arguments. It reads its arguments (Reader.h), checks their axes
// (AxisRules.h) and builds operations (ir/ech/Build.h), through the public part of the Elaborator. It reports what is
// wrong, and then its value is poison.
#pragma once
#include "frontend/ast/Ast.h"
#include "frontend/elaborate/Value.h"
#include "ir/ech/Ech.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace echelon::frontend {

class Elaborator;

/// The arguments of a call, by the names that the callee gives them.
struct Args {
  std::map<std::string, const Argument *> given;
  bool lifted = false; // the call is the operation of an outer(…), which pairs each element with each

  /// Null: the call does not give it.
  const Expr *operator[](const char *name) const {
    auto it = given.find(name);
    return it == given.end() ? nullptr : it->second->value.get();
  }
};

/// What makes the value of a call.
using BuiltInFunction = Val(Elaborator &elab, const CallExpr &call, const Args &args);

struct BuiltIn {
  std::vector<const char *> arguments;
  size_t required; // the first of them
  BuiltInFunction *function;
  bool isVariadic = false; // any number of values without a name, then the last argument by its name
};

/// By their names in the language.
const std::map<std::string, BuiltIn> &builtIns();

namespace builtin {
BuiltInFunction attention;                                              // Attention.cpp
BuiltInFunction elementwise, index, maximum, size, stopGradient, where; // Elementwise.cpp
BuiltInFunction outer;                                                  // Operators.cpp
BuiltInFunction dropout, survive;                                       // Random.cpp
BuiltInFunction count, crossEntropy, dot, normalize, reduction, top;    // Reductions.cpp
BuiltInFunction concat, conv, pool;                                     // Windows.cpp
} // namespace builtin

/// What built-in functions keep, in one step, for later calls and for the end of the step.
struct Remembered {
  /// A draw of dropout or survive.
  struct Chance {
    SourceRange range;
    bool isJudged = false;                                  // a number, looked at where it is given
    bool drops = false;                                     // else it is one to survive
    std::vector<std::pair<SourceRange, std::string>> calls; // around it, for notes
  };
  /// A reduction that took all axes, samples too.
  struct OverAll {
    SourceRange range;
    std::string message; // where its result enters a sample
  };

  llvm::DenseMap<mlir::Operation *, Chance> chances;
  llvm::DenseMap<mlir::Operation *, OverAll> overAll;
  llvm::DenseMap<mlir::Operation *, SourceRange> products; // of dot: where the user wrote them
  /// By value, block and form: calls that ask for several results of the same statistics share one operation.
  std::map<std::tuple<void *, void *, std::string>, ech::NormalizeOp> statistics;
};

/// At the end of a step: writes on each draw the chances that are known, and reports those that are none (Random.cpp).
void noteChances(Elaborator &elab, ech::StepOp step);

/// Keeps that a reduction without `over` took all axes of a value of this type, where samples are among them.
void noteOverAll(Elaborator &elab, const CallExpr &call, ech::Tensor type, mlir::Value result);
/// At the end of a step: reports those of them whose result enters values of single samples again (Samples.cpp).
void refuseMixedSamples(Elaborator &elab, ech::StepOp step);

} // namespace echelon::frontend
