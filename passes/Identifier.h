// Names in a C++ program.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include <string>

namespace echelon {

/// Letters, digits and `_` only, not a word of C++ or of the runtime that programs use bare.
std::string identifier(llvm::StringRef text);

/// An identifier that is not taken: `wanted`, else with a number from 2 on after it.
std::string uniqueName(llvm::StringRef wanted, llvm::function_ref<bool(llvm::StringRef)> isTaken);

/// The shortest beginning of a name, of at least one letter and not the whole (but of one letter), that is an
/// identifier and not taken; else the name with `_i` after it, and a number where that is taken. Of no name: i, j or
/// k.
std::string shortestName(llvm::StringRef name, llvm::function_ref<bool(llvm::StringRef)> isTaken);

/// The constants that a program may have: named sizes, and what they are divided by (mesh axes, time loops of a step).
/// Nothing in a function may hide one.
llvm::StringSet<> constantsOf(mlir::ModuleOp module);

} // namespace echelon
