// `recompute` on its way to ech-differentiate: what the clause says, and the marks that it leaves on a model.
#pragma once
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include <optional>

namespace echelon::ech {

/// On the module: {policy = "every", every = 2, axis = "layer", place = loc(…)}; names = ["attn.q"] of `keep`.
inline constexpr llvm::StringLiteral kRecompute = "ech.recompute";
/// Unit, on a repeat: its derivative computes again what it does not keep.
inline constexpr llvm::StringLiteral kComputesAgain = "ech.computes_again";
/// On a repeat over groups of iterations and on its derivative, how many a group has: the repeat within counts on.
inline constexpr llvm::StringLiteral kOverGroups = "ech.over_groups";
/// String array, on an operation: the names of `recompute keep (NAMES)` that its value goes by.
inline constexpr llvm::StringLiteral kKeptAs = "ech.kept_as";
/// String array, on the module, behind the derivative: what such repeats keep, by name; for `plan`.
inline constexpr llvm::StringLiteral kKeptByRepeats = "ech.kept_by_repeats";

/// What the clause says.
struct Recompute {
  mlir::StringRef policy;   ///< "full", "every", "keep"
  int64_t every = 0;        ///< iterations of a group
  mlir::StringRef axis;     ///< that they are counted along
  mlir::ArrayAttr names;    ///< of `keep`; else null
  mlir::LocationAttr place; ///< null: unknown

  mlir::DictionaryAttr toAttribute(mlir::Builder &b) const;
  /// Nothing where the module does not have it: repeats keep all that their derivative reads.
  static std::optional<Recompute> of(mlir::ModuleOp module);
  /// An error at the clause.
  mlir::InFlightDiagnostic error(mlir::ModuleOp module) const;
};

} // namespace echelon::ech
