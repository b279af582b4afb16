// Lays out one step: every type gets its state, conversions are where a state is not the one that is taken.
#pragma once
#include "passes/layout/Clauses.h"
#include "passes/layout/Store.h"
#include "llvm/ADT/SetVector.h"

namespace echelon::layout {

/// Works through a step in program order, as list_rule says; operations that make free values are rebuilt for each
/// state that is asked of them.
class Assign {
public:
  Assign(mlir::ModuleOp module, MeshAttr mesh, const Stores &stores, Clauses &clauses);

  /// False where something cannot be laid out; the user has been told.
  bool run(ech::StepOp step);

  /// The state in which a variable is stored, and that in which the update computes it.
  StateAttr stored(ech::VariableOp variable);
  StateAttr updated(ech::VariableOp variable);

private:
  // the walk
  void block(mlir::Block &block);
  void operation(mlir::Operation *op);
  void ordinary(mlir::Operation *op);
  void sendRound(mlir::Operation *attention);
  void relabel(ech::RelabelOp op);
  void repeat(ech::RepeatOp op);
  void checkStages(ech::RepeatOp op);
  int stagesInside(ech::RepeatOp pass);
  void yield(ech::YieldOp op);
  void globalNorm(ech::GlobalNormOp op);
  void perWorker(ech::PerWorkerOp op);
  void handIn(ech::HandInOp op);
  /// Which operations of the update work on cuts, and which gradients go into them.
  void labelUpdate(ech::StepOp step);
  /// Which sums of loops are cut in each iteration, since they go into gradients that are stored so.
  void labelSums();

  // values
  bool isFree(mlir::Value x) const { return free.contains(x); }
  mlir::Value now(mlir::Value x) const;
  StateAttr stateNow(mlir::Value x) const { return isFree(x) ? StateAttr() : dist::stateOf(now(x)); }
  /// x in state `to` for `user`. A pending sum that is not taken as such is resolved into `own` (null: its own state),
  /// once for this and later users.
  mlir::Value need(mlir::Value x, StateAttr to, mlir::Operation *user, StateAttr own = {});
  /// A free value, made in this state.
  mlir::Value produce(mlir::Value x, StateAttr state, mlir::Operation *user);
  /// A free value that is wanted in a state.
  struct Wanted {
    mlir::Value value;
    StateAttr state;
    mlir::Operation *user;
  };
  /// How its operation is made again for that.
  struct Again {
    StateAttr direct; ///< what the operation can make by itself; a conversion makes the state of it
    llvm::SmallVector<StateAttr> operands;
    ech::ReadOp read; ///< it only renames what this reads, and is read in the new names instead
  };
  llvm::SmallVector<Wanted> needsOf(const Wanted &wanted);
  mlir::Value make(const Wanted &wanted);
  Again againOf(const Wanted &wanted);
  mlir::Operation *anchorOf(const Wanted &wanted);
  mlir::Operation *anchorOf(mlir::Value x, mlir::Operation *user);
  /// What a conversion is for, as its reason says it, and where that is in the source.
  struct Use {
    std::string text;
    mlir::Location place;
  };
  /// In the update a gradient is called by its parameters, else a value by who reads it.
  Use useOf(mlir::Value x, mlir::Operation *user);
  mlir::Value convert(mlir::Value x, StateAttr to, mlir::Operation *anchor, mlir::Operation *user, const Use &use);
  /// x with the padding that the operand's operation would read across set to what changes nothing.
  mlir::Value masked(mlir::Value x, mlir::OpOperand &operand);
  void setState(mlir::Value x, StateAttr state);
  StateAttr own(mlir::Value x) { return dist::ownState(ech::tensor(x), mesh); }
  ech::VariableOp variableOf(llvm::StringRef name) { return symbols.lookup<ech::VariableOp>(name); }
  void refuse(mlir::Operation *op, const llvm::Twine &what, mlir::Location where);

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  MeshAttr mesh;
  StateAttr whole;
  const Stores &stores;
  Clauses &clauses;
  bool failed = false;  ///< the user has been told of something
  bool stopped = false; ///< and nothing can be said of what follows

  llvm::SetVector<mlir::Value> free;
  llvm::DenseMap<mlir::Value, ech::RepeatOp> slicesOfFree; // block argument -> its loop
  llvm::DenseMap<mlir::Value, mlir::Value> resolved;       // a value -> what later users take
  llvm::DenseMap<std::pair<mlir::Value, mlir::Attribute>, mlir::Value> produced;
  /// value, state, phase, block
  llvm::DenseMap<std::tuple<mlir::Value, mlir::Attribute, llvm::StringRef, mlir::Block *>, mlir::Value> shared;
  llvm::DenseMap<std::tuple<mlir::Value, mlir::Attribute, mlir::Attribute>, mlir::Value> masks; // value, axes, fill
  llvm::DenseMap<mlir::Operation *, StateAttr> updateCut;
  llvm::DenseMap<mlir::Value, StateAttr> gradientCut;
  llvm::DenseMap<mlir::Value, StateAttr> sumCut;           ///< what a loop stacks or adds up: its cut in each iteration
  llvm::DenseMap<mlir::Value, ech::VariableOp> gradientOf; ///< whose gradient it, or what comes out of the loop, is
  llvm::DenseMap<mlir::Value, llvm::SmallVector<ech::VariableOp, 1>> parametersOf; // whose gradient a value is
  llvm::SmallVector<mlir::Operation *> freeOperations;
  llvm::SmallVector<std::pair<ech::RepeatOp, unsigned>> loops; ///< each with the number of slices it came with
};

} // namespace echelon::layout
