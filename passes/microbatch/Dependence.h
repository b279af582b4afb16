// What each value of a step is when its samples come one part after the other (micro batches, the held-out set's
// batches): the question that ech-split-time answers before it moves anything.
//
//   s = w * 2                          Invariant    computed once, before the passes
//   h = dot(x, s, over = in)           PerSample    in each pass, of its samples
//   n = sum(h ^ 2, over = batch)       PartialSum   in each pass; the loop over passes adds them up
//   l = sqrt(n)                        AfterTotals  once, after the last pass
//   y = h / l                          an error: a pass needs a total that is known only after it
#pragma once
#include "ir/ech/Build.h"
#include "llvm/ADT/SetVector.h"

namespace echelon {

enum class Dependence {
  Invariant,   // depends on no sample: the same in each pass
  PerSample,   // belongs to samples of this pass
  PartialSum,  // a sum over the samples of this pass: its total is the sum over passes
  AfterTotals, // made of totals: known after the last pass
};

/// A loop that has to be cut in two, because `op` in it needs the total of `value`.
struct Cut {
  ech::RepeatOp loop;
  mlir::Value value; // as it is seen in the loop's body; or a result of the loop
  bool before;       // the total can be computed first; else what follows from it has to be computed after
  mlir::Operation *op;
};

/// How a step is split.
struct Time {
  llvm::StringRef batchAxis;
  int64_t passes;            // micro batches; 0: as many as the run says (evaluation)
  mlir::ArrayAttr likeBatch; // names that the samples have as well; may be null
  llvm::StringRef policy;    // of sync: the parts are the workers' mini-batches; else empty
  bool evaluation() const { return passes == 0; }
};

/// Dependences of all values of a step, of those in its loops too.
class Dependences {
public:
  Dependences(ech::StepOp step, const Time &time) : step(step), time(time), last(&step.getBody().front().back()) {}

  /// Decides; a mistake is told at the operation's place. Values that a pass needs as totals and that depend on no
  /// parameter are collected in `early`: they can be computed before, and are Invariant once they are `settled`. A
  /// total that is needed inside a loop makes a `cut`.
  mlir::LogicalResult decide();
  Dependence of(mlir::Value value) const { return dependences.lookup(value); }
  bool isInside(mlir::Operation *op) const { return inside.contains(op); }
  bool hasBatch(mlir::Value value) const { return ech::tensor(value).has(time.batchAxis); }
  /// A maximum or minimum over samples: the total is that of the passes' own. Null for every other value.
  ech::ReduceOp extreme(mlir::Value value) const;
  /// Whether a Invariant operand enters a sum of partial values: a pass contributes its share.
  bool isShared(mlir::OpOperand &operand) const {
    return shared.contains(&operand) && of(operand.get()) == Dependence::Invariant;
  }

  /// Says that `op` needs what a pass does not have.
  mlir::LogicalResult refuse(mlir::Operation *op);

  llvm::SetVector<mlir::Value> early;   // found by the last `decide`
  std::optional<Cut> cut;               // of the last `decide`; those before come first, then those deepest inside
  llvm::SetVector<mlir::Value> settled; // Invariant by now
  /// The operations at the step's top level that these values come from, in order; stops at settled ones.
  llvm::SetVector<mlir::Operation *> sources(mlir::ArrayRef<mlir::Value> values) const;

private:
  mlir::LogicalResult decide(mlir::Block &block, bool nested);
  mlir::LogicalResult decide(mlir::Operation *op, bool nested);
  mlir::LogicalResult decideRepeat(ech::RepeatOp op, bool nested);
  mlir::LogicalResult decideAsOne(ech::RepeatOp op, bool nested, mlir::ArrayRef<mlir::Value> incoming);
  mlir::LogicalResult decideInside(ech::RepeatOp op);
  bool takesOtherSamples(mlir::Operation *op) const;
  bool isOfPass(mlir::Operation *op) const;
  mlir::LogicalResult checkAlongBatch(mlir::Operation *op);
  /// Whether an axis that counts a step's samples under another name begins here: evaluation has no such.
  bool countsSamplesAgain(mlir::Operation *op) const;
  /// `op` needs the total of `value` in the middle of a pass.
  mlir::LogicalResult needTotal(mlir::Operation *op, mlir::Value value);
  void needCut(ech::RepeatOp loop, mlir::Value value, bool before, mlir::Operation *op);
  /// Whether one pass has all samples: its sums are the totals.
  bool hasAllSamples() const { return time.passes == 1 && time.policy.empty(); }
  /// The total of `value` is known in the only pass: what it is made of stays there.
  void keepInPass(mlir::Value value);
  bool touchesSamples(mlir::Operation *op) const;
  bool comesFromParameters(mlir::Value value) const;
  /// Whether a total can be computed before the passes that need it.
  bool isKnownFirst(mlir::Value value) const { return !time.evaluation() && !comesFromParameters(value); }
  bool isLinear(mlir::Operation *op);
  bool staysPending(mlir::Operation *op) const;
  void set(mlir::Value value, Dependence kind);
  bool leavesLoop(mlir::Value value) const;

  mutable ech::StepOp step; // MLIR has no const handles
  const Time &time;
  mlir::Operation *last; // of the step as it was: what is built after it is not looked at
  llvm::DenseMap<mlir::Value, Dependence> dependences;
  llvm::DenseSet<mlir::Operation *> inside;
  llvm::DenseSet<mlir::OpOperand *> shared;
  llvm::DenseSet<mlir::Value> ofPass; // totals that the only pass needs
};

} // namespace echelon
