// The repeats around the place that is being elaborated.
//
// A loop's body is built in a block that is no operation's yet, so that the loop's operands (slices of outer values, of
// parameters) can be added when they are met. Loops.cpp has an example.
#pragma once
#include "frontend/elaborate/Scopes.h"
#include "ir/ech/Build.h"
#include <deque>
#include <memory>

namespace echelon::frontend {

class Loops {
public:
  Loops(Scopes &scopes, ech::Build &build) : scopes(scopes), build(build) {}

  /// Builds `repeat axis` (or `repeat along axis`) around what `execute` elaborates, the statements of `body`. The
  /// scope then has what the repeat carried and, of `repeat along`, stacks of those locals that are read after its
  /// `end`.
  void repeat(const AxisInfo &axis, bool along, const Body &body, SourceRange range, SourceRange end,
              llvm::function_ref<void()> execute);

  size_t depth() const { return loops.size(); }
  bool isWalked(llvm::StringRef axis) const;
  /// Whether the innermost loop is around this place of the scope itself, not around its call.
  bool isInside(const Scope &scope) const { return !loops.empty() && loops.back().scope == &scope; }
  /// Whether the innermost loop is a `repeat along`.
  bool isAlong() const { return !loops.empty() && loops.back().along; }
  /// The axes along which parameters that are declared here are stacked.
  llvm::SmallVector<ech::Axis> stackingAxes() const;

  /// What the scope has under a name, as seen inside the loops; poison where it has nothing.
  Val look(const std::string &name, SourceRange range, bool *found);
  /// Notes an assignment to a name of the scope; reports one that is carried and has not been read before.
  void noteAssigned(const Ident &name, const Val &v);
  /// The value as seen inside the loops around this place: outer values at the position of `repeat along`.
  mlir::Value inside(const Val &v, SourceRange range);
  /// Brings a value to exactly this type (order of axes, integers to real numbers); null after an error.
  mlir::Value coerce(const Val &v, ech::Tensor type, Code code, SourceRange range, const std::string &what,
                     bool carried = false);

  struct Pending { // a loss or metric
    ech::ReportKind kind;
    std::string name;
    mlir::Value value; // the sum of those of all places
    mlir::Location loc;
    double places = 1; // iterations and calls that give one; those of nested repeats are more than an int64 holds
  };
  struct PendingWrite {
    Stored *target;
    mlir::Value value;
    mlir::Location loc;
  };
  /// Of the innermost loop; outside of loops, of the step.
  std::vector<Pending> &reports() { return loops.empty() ? stepReports : loops.back().reports; }
  std::vector<PendingWrite> &writes() { return loops.empty() ? stepWrites : loops.back().writes; }

private:
  struct Carried {
    std::string name;
    Val init;
    mlir::BlockArgument argument;
    bool read = false, assigned = false;
    SourceRange assignedAt; // first; of an assignment that gives other axes, and is followed by no right one, the first
    bool sameAxes = true;   // of what was assigned last, as before the repeat
  };
  struct Loop {
    const AxisInfo *axis = nullptr;
    bool along = false;
    Scope *scope = nullptr;
    mlir::Block *block = nullptr;
    std::deque<Carried> carried;
    llvm::SmallVector<mlir::Value> slices;                // outer values
    llvm::DenseMap<mlir::Value, mlir::Value> sliceInside; // outer value to block argument
    std::vector<Pending> reports;
    std::vector<PendingWrite> writes;
  };
  struct Yielded {
    llvm::SmallVector<mlir::Value> carried, stacked, summed;
  };

  std::deque<Carried> carriedBy(const Body &body, const AxisInfo &axis);
  void dropUnassigned(Loop &loop);
  Yielded yieldOf(Loop &loop);
  ech::RepeatOp close(Loop &loop, std::unique_ptr<mlir::Block> block, mlir::OpBuilder::InsertPoint point,
                      const Yielded &yielded);
  void showResults(ech::RepeatOp op, const Loop &ended, llvm::ArrayRef<std::pair<std::string, Val>> locals,
                   std::map<std::string, Val> before);
  mlir::Value sliceInto(Loop &loop, mlir::Value outer);

  Scopes &scopes;
  ech::Build &build;
  std::deque<Loop> loops;
  std::vector<Pending> stepReports;
  std::vector<PendingWrite> stepWrites;
};

} // namespace echelon::frontend
