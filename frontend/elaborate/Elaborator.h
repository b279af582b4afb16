// Elaborates a model into one step (@train or @evaluate). One object a step; what both steps share is in Shared.
//
// Scopes are calls: the model's own, and one for each call of a block, entered and left as on a stack. Loops are the
// repeats around the place that is being elaborated; a loop's body is built in a block that is no operation's yet, so
// that the loop's operands (slices of outer values, of parameters) can be added when they are met.
//
// The public part is what built-in functions (BuiltIns.h) and operators build their values with.
#pragma once
#include "frontend/elaborate/BuiltIns.h"
#include "frontend/elaborate/Elaborate.h"
#include "frontend/elaborate/Reader.h"
#include "frontend/elaborate/Value.h"
#include "frontend/elaborate/Walk.h"
#include "ir/ech/Build.h"
#include "llvm/ADT/SetVector.h"
#include <deque>
#include <map>
#include <memory>
#include <set>

namespace echelon::frontend {

/// While a model is elaborated, on the operation that makes the value of a call and that the spec gives no name: the
/// call's. Where no assignment names it after all, it becomes the value's name.
inline constexpr llvm::StringLiteral kCalled = "ech.called";
/// On an operation without a name, while its block is elaborated: the path of the call that it is in, "layer.attn.".
inline constexpr llvm::StringLiteral kWithin = "ech.within";

/// What both steps share: one set of variables and inputs.
struct Shared {
  mlir::MLIRContext &context;
  const SourceManager &sources;
  const Program &program;
  const ElaborateOptions &options;
  Diagnostics &diagnostics;
  ModelFacts &facts;
  mlir::ModuleOp module;
  std::map<std::string, ech::VariableOp> variables;  // by path
  std::vector<std::string> wrongInputs;              // with an error in their declarations
  llvm::SetVector<mlir::Attribute> partialFunctions; // functions and where they stand, as in kPartialFunctions
  std::map<std::string, bool> likeBatch;             // names of axes: whether they count samples once more
  std::set<std::pair<const NextStatement *, std::string>> nextInTraining; // met by the training step, and the state
  bool isTrainingWhole = false; // read without an error, and without one of the parser
};

class Elaborator {
public:
  Elaborator(Shared &shared, bool training);
  /// Elaborates the model; what is wrong with it is told.
  void run();

  //===- values -------------------------------------------------------------------------------------------------===//

  Val eval(const Expr &e);
  /// The call of an outer(…): its function pairs each element of one operand with each of the other.
  Val evalLifted(const Expr &call);
  /// Whether the function that asks is that of evalLifted; it asks before it evaluates its arguments.
  bool takeLift() { return std::exchange(lift, false); }
  /// What a built-in function gives. `made`: of `index`, `size` and numbers only; `bounds`: of integers.
  Val tensor(mlir::Value value, bool made, SourceRange range, std::optional<Interval> bounds = std::nullopt);

  mlir::OpBuilder builder;
  ech::Build build; // where the next operation goes, and its place in the spec
  Reader read;      // arguments as what they are to be
  Remembered remembered;

  //===- errors and places (Elaborator.cpp) ---------------------------------------------------------------------===//

  /// Tells an error at `range`, or, inside the library, at the user's call; with notes at the calls around.
  frontend::Diagnostic &error(Code code, SourceRange range, std::string message);
  Val poison(Code code, SourceRange range, std::string message) {
    error(code, range, std::move(message));
    return Val::poison();
  }
  frontend::Diagnostic &warning(Code code, SourceRange range, std::string message);
  /// Where the user wrote it: what the library does is at the place of its call.
  SourceRange usersPlace(SourceRange range) const;
  mlir::Location location(SourceRange range) const;
  /// The innermost calls around this place that are not the library's, each with the text of a note.
  std::vector<std::pair<SourceRange, std::string>> callsAround(size_t most) const;
  /// Sets the place of what is built until it goes out of scope.
  struct At {
    Elaborator &elaborator;
    mlir::Location saved;
    At(Elaborator &elaborator, SourceRange range) : elaborator(elaborator), saved(elaborator.build.loc) {
      elaborator.build.loc = elaborator.location(range);
    }
    ~At() { elaborator.build.loc = saved; }
  };

  //===- axes (Axes.cpp) ----------------------------------------------------------------------------------------===//

  /// Null after an error.
  const AxisInfo *axisOf(const Ident &name);
  const AxisInfo *axisOf(const Expr &e, const char *what);
  /// `over = a`, `(a, b)`, `except(a)`; without `e`, all of `all`.
  std::optional<llvm::SmallVector<mlir::StringAttr>> axes(const Expr *e, llvm::ArrayRef<ech::Axis> all,
                                                          const char *what);
  /// `a` or `(a, b)`: axes as declared.
  std::optional<llvm::SmallVector<const AxisInfo *>> axisList(const Expr &e, const char *what);
  /// The declaration of an axis of a type; null where there is none.
  const AxisInfo *declared(mlir::StringAttr axis) const;
  std::string written(mlir::StringAttr axis) const; // the name that the axis has in this scope
  /// Whether a repeat around this place runs over the axis.
  bool isWalked(llvm::StringRef axis) const;
  /// Whether an axis is the batch, or like it.
  bool countsSamples(mlir::StringAttr axis) const;
  const AxisInfo *batch() const { return batchAxis; }

  //===- the step (Elaborator.cpp) ------------------------------------------------------------------------------===//

  bool isTraining() const { return training; }
  bool isInLibrary() const { return scope->isLibrary; }
  /// The key of a random value: the path of the call around it and `base`, numbered.
  std::string randomSite(const std::string &base);
  /// Keeps where a function stands that is inf or nan of some finite numbers, for the message of a loss that is.
  void notePartial(llvm::StringRef function, SourceRange range);

private:
  using Value = mlir::Value;
  using StringRef = llvm::StringRef;

  //===- scopes and loops ---------------------------------------------------------------------------------------===//

  /// A parameter or state, as one call sees it.
  struct Stored {
    std::string path;
    ech::Tensor type; // with the axes of its repeats in front
    size_t loops = 0; // around its declaration, `repeat along` counted
    SourceRange range, usersPlace;
    bool isNew = false; // in evaluation: training does not have it
    bool hasNext = false;
    SourceRange nextRange;
  };

  struct Scope {
    const Block *block = nullptr; // null: the model
    const File *file = nullptr;   // names are looked up from here
    const Body *body = nullptr;
    Scope *caller = nullptr;
    SourceRange callRange;  // of the call, in the caller
    std::string prefix;     // of parameters' paths: "" or "layer.attn."
    std::string callPrefix; // of this call, without its own repeats
    bool sharing = false;   // `with`: parameters exist already
    bool isLibrary = false; // its text is the library's: errors are told at the call
    std::map<std::string, Val> values;
    std::map<std::string, SourceRange> gone; // locals of a repeat that has ended
    std::map<std::string, const AxisInfo *> axes;
    std::map<std::string, Stored *> states;
    std::map<std::string, SourceRange> declared; // parameters, states, inputs
    std::map<std::string, SourceRange> reported; // losses and metrics
    std::map<const CallExpr *, std::string> callNames;
    std::map<std::string, SourceRange> given; // by formal: the argument, as it is in the caller
    std::optional<Val> result;
    bool mayReturn = false; // in what was left out for an error in it
  };

  struct Carried {
    std::string name;
    Val init;
    mlir::BlockArgument argument;
    bool read = false, assigned = false;
    SourceRange assignedAt; // first; of an assignment that gives other axes, and is followed by no right one, the first
    bool sameAxes = true;   // of what was assigned last, as before the repeat
  };
  struct Pending { // a loss or metric
    ech::ReportKind kind;
    std::string name;
    Value value; // the sum of those of all places
    mlir::Location loc;
    double places = 1; // iterations and calls that give one; those of nested repeats are more than an int64 holds
  };
  struct PendingWrite {
    Stored *target;
    Value value;
    mlir::Location loc;
  };
  struct Loop {
    const AxisInfo *axis = nullptr;
    bool along = false;
    Scope *scope = nullptr;
    mlir::Block *block = nullptr;
    std::deque<Carried> carried;
    llvm::SmallVector<Value> slices;          // outer values
    llvm::DenseMap<Value, Value> sliceInside; // outer value to block argument
    std::vector<Pending> reports;
    std::vector<PendingWrite> writes;
  };

  /// Whether the budget of operations, calls and nesting is used up; tells so once.
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
  void ifStatement(const IfStatement &s);
  /// Of a loop or branch that is wrong itself: nothing else is found wrong for want of what its body would have made.
  void leaveOut(const Body &body);
  void reportStatement(ech::ReportKind kind, const Ident *name, const Expr &value, SourceRange range);
  void assignStatement(const AssignStatement &s);
  void finish();
  void warnOfIdleParameters();

  /// Before anything is declared: what counts samples once more in a block takes no name that is declared anywhere, so
  /// that a name of the text means in a layout what it says.
  void nameAllAxes();
  /// Without a `size` there was an error in it.
  const AxisInfo *declareAxis(const Ident &name, std::optional<int64_t> size, const AxisInfo *like, bool isBatch,
                              bool isRepeat);
  void recordAxis(const AxisInfo &axis);
  /// The axes of a declaration, checked; nothing after an error.
  std::optional<llvm::SmallVector<ech::Axis>> declaredAxes(const std::vector<Ident> &names, const char *what,
                                                           bool batchAllowed);
  bool declareOnce(const Ident &name);
  /// Whether the compiler itself calls something by this name; tells so.
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

  //===- loops (Loops.cpp) --------------------------------------------------------------------------------------===//

  void repeatStatement(const RepeatStatement &s);
  void repeatAlongStatement(const RepeatAlongStatement &s);
  void loop(const AxisInfo *axis, bool along, const Body &body, SourceRange range, SourceRange end);
  struct Yielded {
    llvm::SmallVector<Value> carried, stacked, summed;
  };
  std::deque<Carried> carriedBy(const Body &body, const AxisInfo &axis);
  void dropUnassigned(Loop &loop);
  Yielded yieldOf(Loop &loop);
  ech::RepeatOp close(Loop &loop, std::unique_ptr<mlir::Block> block, mlir::OpBuilder::InsertPoint point,
                      const Yielded &yielded);
  void showResults(ech::RepeatOp op, const Loop &ended, llvm::ArrayRef<std::pair<std::string, Val>> locals,
                   std::map<std::string, Val> before);
  /// The value as seen inside the loops around this place: outer values at the position of `repeat along`.
  Value inside(const Val &v, SourceRange range);
  Value sliceInto(Loop &loop, Value outer);
  /// Brings a value to exactly this type (order of axes, integers to real numbers); null after an error.
  Value coerce(const Val &v, ech::Tensor type, Code code, SourceRange range, const std::string &what,
               bool carried = false);

  //===- calls (Calls.cpp) --------------------------------------------------------------------------------------===//

  std::optional<Args> bind(const std::vector<Argument> &arguments, const std::vector<std::string> &names,
                           const std::set<std::string> &required, const std::string &callee, SourceRange range,
                           const std::set<std::string> &takenAsAxes = {});
  Val call(const CallExpr &e);
  /// The arguments of a call that cannot be made, for the errors in them.
  void evaluateArguments(const CallExpr &e);
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
  Val look(const std::string &name, SourceRange range, bool *found);
  const AxisInfo *findAxis(const std::string &name) const;

  Shared &shared;
  bool training;
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
  Scope *scope = nullptr;
  std::deque<AxisInfo> axisStore;
  std::deque<Stored> storedStore;
  std::map<std::string, Stored *> stored; // by path
  std::map<std::string, Value> topReads;  // by path: values of parameters and states at the step's start
  struct Called {
    const Block *block;
    SourceRange range;
  };
  std::map<std::string, Called> calls; // by path: what was called there
  std::deque<Loop> loops;
  std::vector<Pending> reports;
  std::vector<PendingWrite> writes;
  const AxisInfo *batchAxis = nullptr;
  std::vector<SourceRange> openAxes;
  bool hasLoss = false;
  bool lift = false;  // the next function is that of an outer(…)
  unsigned depth = 0; // of recursion
  size_t callCount = 0;
  bool told = false;                      // that a budget is used up
  std::map<std::string, int> randomSites; // how often each name is under a path
};

} // namespace echelon::frontend
