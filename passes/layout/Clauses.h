// The layout clauses behind states and messages: their text, their place in the spec, and what is wrong with them.
#pragma once
#include "passes/layout/Rule.h"

namespace echelon::layout {

class Clauses {
public:
  Clauses(mlir::ModuleOp module, MeshAttr mesh) : module(module), mesh(mesh) {}

  /// "split seq over tp (gpt.ech:40)"; without an axis "store optimizer over dp (gpt.ech:41)".
  std::string text(int m, mlir::StringAttr axis) const;
  /// Where the clause stands; `otherwise` where that is not known.
  mlir::Location place(int m, mlir::StringAttr axis, mlir::Location otherwise) const;
  /// Why a value changes from one state to another for a use: "dot (gpt.ech:12)".
  std::string why(StateAttr from, StateAttr to, llvm::StringRef use) const;
  /// Why an operation divided inside communicates.
  std::string whyInside(llvm::ArrayRef<mlir::StringAttr> divided, llvm::ArrayRef<int> inside,
                        mlir::Operation *op) const;

  /// Why keys and values of attention go round: "split seq, past over cp with ring (gpt.ech:40): attention
  /// (gpt.ech:12)".
  std::string whyRing(int m, mlir::Operation *attention) const;
  /// Where `with ring` stands.
  mlir::Location ringPlace(int m, mlir::Location otherwise) const;

  /// "cannot split ff = 6 over tp = 4; pad ff to 8, or use tp = 3 or 6" at the clause, once an axis and mesh axis.
  /// False where the state is legal.
  bool complain(Tensor type, StateAttr state, mlir::Operation *user);
  /// Warns, at the clause, of a parameter that is split and gathered for each use, because its mesh axis lists samples
  /// before the parameter's axis; once an axis and mesh axis. `now`: the states of the operands.
  void warnOfGathers(mlir::Operation *op, llvm::ArrayRef<StateAttr> now, const Decision &decision);

private:
  bool complainOfMap(Tensor laid, mlir::Operation *user);
  /// Whether a clause of the spec lists the axis: passes list others.
  bool isWritten(int m, mlir::StringAttr axis) const;
  bool isRow(int m) const;
  /// All that the clauses split over a mesh axis: "split head, seq over tp (gpt.ech:40)".
  std::string splits(int m) const;
  /// Of an axis that a pass lists for workers.
  std::string ofWorkers(int m) const;

  mlir::ModuleOp module;
  MeshAttr mesh;
  llvm::SmallDenseSet<std::pair<int, mlir::StringAttr>> told, gathered;
};

/// "dot (gpt.ech:12)".
std::string nameInSource(mlir::Operation *op);
/// "gradient of w1 (gpt.ech:14)"; "gradients of w1, w2 (gpt.ech:14)" where one value is that of several.
std::string gradientInSource(llvm::ArrayRef<ech::VariableOp> parameters);

} // namespace echelon::layout
