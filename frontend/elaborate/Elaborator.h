// Elaborates a model into one step (@train or @evaluate). One object a step; what both steps share is in Shared.
//
// The public part is what built-in functions (BuiltIns.h) and operators build their values with.
#pragma once
#include "frontend/elaborate/BuiltIns.h"
#include "frontend/elaborate/Loops.h"
#include "frontend/elaborate/Reader.h"
#include "frontend/elaborate/Scopes.h"
#include "frontend/elaborate/Shared.h"
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace echelon::frontend {

/// While a model is elaborated, on the operation that makes the value of a call and that the spec gives no name: the
/// call's. Where no assignment names it after all, it becomes the value's name.
inline constexpr llvm::StringLiteral kCalled = "ech.called";
/// On an operation without a name, while its block is elaborated: the path of the call that it is in, "layer.attn.".
inline constexpr llvm::StringLiteral kWithin = "ech.within";

class Elaborator {
public:
  Elaborator(Shared &shared, bool training);
  /// Elaborates the model; reports what is wrong with it.
  void run();

  //===- values -------------------------------------------------------------------------------------------------===//

  Val eval(const Expr &e);
  /// The call of an outer(…): its function pairs each element of one operand with each of the other.
  Val callLifted(const CallExpr &e);
  /// What a built-in function gives. `made`: of `index`, `size` and numbers only; `bounds`: of integers.
  Val tensor(mlir::Value value, bool made, SourceRange range, std::optional<Interval> bounds = std::nullopt);

  Reader read;      // arguments, each as what it is to be
  ech::Build build; // operations
  Scopes scopes;    // names, and where the user wrote what is elaborated
  Loops loops;      // the repeats around this place
  Remembered remembered;

  //===- errors -------------------------------------------------------------------------------------------------===//

  frontend::Diagnostic &error(Code code, SourceRange range, std::string message) {
    return scopes.error(code, range, std::move(message));
  }
  frontend::Diagnostic &warning(Code code, SourceRange range, std::string message) {
    return scopes.warning(code, range, std::move(message));
  }
  Val poison(Code code, SourceRange range, std::string message) {
    error(code, range, std::move(message));
    return Val::poison();
  }

  //===- axes ---------------------------------------------------------------------------------------------------===//

  /// The declaration of an axis of a type; null where there is none.
  const AxisInfo *declared(mlir::StringAttr axis) const;
  /// Whether an axis is the batch, or like it.
  bool countsSamples(mlir::StringAttr axis) const;
  const AxisInfo *batch() const { return batchAxis; }

  //===- the step -----------------------------------------------------------------------------------------------===//

  bool isTraining() const { return training; }
  /// The key of a random value: the path of the call around it and `base`, numbered.
  std::string randomSite(const std::string &base);
  /// Notes where a function appears that is inf or nan of some finite numbers, for the message of a loss that is.
  void notePartial(llvm::StringRef function, SourceRange range);

private:
  using Value = mlir::Value;
  using StringRef = llvm::StringRef;

  Scope &here() const { return scopes.here(); }
  /// Whether the budget of operations, calls and nesting is used up; reports it once.
  bool exhausted(SourceRange range);

  //===- statements (Statements.cpp; what declares something: Declarations.cpp) ---------------------------------===//

  void bindModelArguments();
  void execute(const Body &body);
  void execute(const Statement &s);
  void axisStatement(const AxisStatement &s);
  void inputStatement(const InputStatement &s);
  void paramStatement(const ParamStatement &s);
  void stateStatement(const StateStatement &s);
  /// Computes what a state starts from in the step @train.start, which runs once, when parameters have their start
  /// values.
  void startFrom(const Stored &state, const Val &first, SourceRange range);
  void nextStatement(const NextStatement &s);
  void randomStatement(const RandomStatement &s);
  void repeatStatement(const RepeatStatement &s);
  void repeatAlongStatement(const RepeatAlongStatement &s);
  void ifStatement(const IfStatement &s);
  /// Of a loop or branch that is wrong itself: nothing else is found wrong for want of what its body would have made.
  void leaveOut(const Body &body);
  void reportStatement(ech::ReportKind kind, const Ident *name, const Expr &value, SourceRange range);
  void assignStatement(const AssignStatement &s);
  /// Of a value in a repeat, for `recompute keep`.
  void notePath(const Val &v, StringRef path);
  void finish();
  void warnOfIdleParameters();

  /// Before anything is declared: what counts samples once more in a block takes no name that is declared anywhere, so
  /// that a name of the text means in a layout what it says.
  void nameAllAxes();
  /// The name in types of an axis that a block declares: one that is no other declaration's, so that values which pass
  /// through several blocks have several axes. All calls of the block share it.
  std::string uniqueAxisName(const Ident &name, bool likeBatch);
  /// Without a `size` there was an error in it.
  const AxisInfo *declareAxis(const Ident &name, std::optional<int64_t> size, const AxisInfo *like, bool isBatch,
                              bool isRepeat);
  void recordAxis(const AxisInfo &axis);
  /// The axes of a declaration, checked; nothing after an error.
  std::optional<llvm::SmallVector<ech::Axis>> declaredAxes(const std::vector<Ident> &names, const char *what,
                                                           bool batchAllowed);
  bool declareOnce(const Ident &name);
  /// Whether the compiler itself calls something by this name; reports it.
  bool isOwnName(const std::string &path, const Ident &name, const char *what);
  struct Start {
    ech::Distribution kind;
    double a, b;
  };
  /// `axes`: of the parameter, where they could be read.
  std::optional<Start> startOf(const Method &method, const char *what, bool forParameters,
                               const llvm::SmallVectorImpl<ech::Axis> *axes = nullptr);
  /// Creates or, under `with`, finds the variable; puts its value at `name`.
  Stored *declareVariable(const Ident &name, ech::VariableKind kind, llvm::ArrayRef<ech::Axis> axes, Start start);
  Value readAtTop(StringRef symbol, ech::Tensor type, mlir::Location loc);

  //===- calls (Calls.cpp) --------------------------------------------------------------------------------------===//

  std::optional<Args> bind(const std::vector<Argument> &arguments, const std::vector<std::string> &names,
                           const std::set<std::string> &required, const std::string &callee, SourceRange range,
                           const std::set<std::string> &takenAsAxes = {}, bool isVariadic = false);
  /// What a name is that stands for no value, "; M is a model"; empty where it is nothing.
  std::string whatIsNamed(const Path &path) const;
  Val call(const CallExpr &e);
  /// The arguments of a call that cannot be made, for the errors in them.
  void evaluateArguments(const CallExpr &e);
  Val callBuiltIn(const CallExpr &e, const std::string &name, const BuiltIn &of, bool lifted);
  Val callBlock(const CallExpr &e, const Block &block);
  const AxisInfo *axisUnlessTold(const CallExpr &e, const Formal &formal);
  bool passArguments(const CallExpr &e, const Block &block, Scope &inner);
  bool choosePrefix(const CallExpr &e, const Block &block, Scope &inner);
  bool isBlock(const File &file, const Path &path) const;
  /// Whether `name(…)` means one thing where it would be.
  bool isCallable(const Ident &name) const;
  std::optional<std::string> sharedPrefix(const CallExpr &e, const Block &block);

  //===- expressions (Expressions.cpp) ---------------------------------------------------------------------------===//

  Val evalPath(const PathExpr &e);

  Shared &shared;
  bool training;
  mlir::OpBuilder builder;
  struct Counter : mlir::OpBuilder::Listener {
    llvm::DenseMap<mlir::Operation *, unsigned> order;
    mlir::StringAttr within; // the call that is elaborated; null: none
    void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override {
      order.try_emplace(op, order.size());
      if (within)
        op->setAttr(kWithin, within);
    }
  } counter;
  ech::StepOp step, starts; // starts: null where every state starts from a number
  mlir::Operation *lastRead = nullptr;
  std::deque<AxisInfo> axisStore;
  std::deque<Stored> storedStore;
  std::map<std::string, Stored *> stored; // by path
  std::map<std::string, Value> topReads;  // by path: values of parameters and states at the step's start
  struct Called {
    const Block *block;
    SourceRange range;
  };
  std::map<std::string, Called> calls; // by path: what was called there
  const AxisInfo *batchAxis = nullptr;
  std::vector<SourceRange> openAxes;
  bool hasLoss = false;
  unsigned depth = 0; // of recursion
  size_t callCount = 0;
  bool budgetReported = false;            // that a budget is used up
  std::map<std::string, int> randomSites; // how often each name is under a path
};

} // namespace echelon::frontend
