// Elaborates a model into one step (@train or @evaluate). One object a step; what both steps share is in Shared.
//
// Scopes are calls: the model's own, and one for each call of a block, entered and left as on a stack. Loops are the
// repeats around the place that is being elaborated; a loop's body is built in a block that is no operation's yet, so
// that the loop's operands (slices of outer values, of parameters) can be added when they are met.
#pragma once
#include "frontend/elaborate/Elaborate.h"
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

  //===- errors and places --------------------------------------------------------------------------------------===//

  /// Tells an error at `range`, or, inside the library, at the user's call; with notes at the calls around.
  frontend::Diagnostic &error(Code code, SourceRange range, std::string message);
  Val poison(Code code, SourceRange range, std::string message) {
    error(code, range, std::move(message));
    return Val::poison();
  }
  /// Where the user wrote it: what the library does is at the place of its call.
  SourceRange usersPlace(SourceRange range) const;
  mlir::Location location(SourceRange range) const;
  /// Sets the place of what is built until it goes out of scope.
  struct At {
    Elaborator &elaborator;
    mlir::Location saved;
    At(Elaborator &elaborator, SourceRange range) : elaborator(elaborator), saved(elaborator.build.loc) {
      elaborator.build.loc = elaborator.location(range);
    }
    ~At() { elaborator.build.loc = saved; }
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
  bool isWalked(StringRef axis) const;

  //===- calls (Calls.cpp) --------------------------------------------------------------------------------------===//

  struct Args {
    std::map<std::string, const Argument *> given;
    const Expr *operator[](const char *name) const {
      auto it = given.find(name);
      return it == given.end() ? nullptr : it->second->value.get();
    }
  };
  using Handler = Val (Elaborator::*)(const CallExpr &, const Args &);
  struct Builtin {
    std::vector<const char *> names;
    size_t required;
    Handler handler;
  };
  static const std::map<std::string, Builtin> &builtins();
  friend std::map<std::string, std::vector<std::string>> builtInFunctions();
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

  //===- expressions (Expressions.cpp; names of axes: Axes.cpp) -------------------------------------------------===//

  Val eval(const Expr &e);
  Val evalPath(const PathExpr &e);
  Val arithmetic(const ArithmeticExpr &e, bool lifted);
  Val compare(const CompareExpr &e, bool lifted);
  Val logic(const LogicExpr &e, bool lifted);
  Val power(const PowerExpr &e, bool lifted);
  Val tensor(Value value, bool made, SourceRange range, std::optional<Interval> bounds = std::nullopt);
  Val look(const std::string &name, SourceRange range, bool *found);
  /// A tensor of real numbers (an integer tensor or a number is made one); nothing after an error.
  std::optional<Val> realTensor(const Expr &e, const char *what);
  std::optional<Val> realTensor(const Val &v, SourceRange range, const char *what);
  std::optional<Val> anyTensor(const Val &v, SourceRange range);
  std::optional<Number> known(const Expr *e, const char *what);
  std::optional<int64_t> whole(const Expr &e, const char *what, int64_t low, int64_t high);
  std::optional<int64_t> size(const Expr &e, const std::string &what);
  std::optional<bool> flag(const Expr *e, bool otherwise, const char *what);
  const AxisInfo *axisOf(const Ident &name);
  const AxisInfo *axisOf(const Expr &e, const char *what);
  const AxisInfo *findAxis(const std::string &name) const;
  /// `over = a`, `(a, b)`, `except(a)`; without `e`, all of `all`.
  std::optional<llvm::SmallVector<mlir::StringAttr>> axes(const Expr *e, llvm::ArrayRef<ech::Axis> all,
                                                          const char *what);
  /// `a` or `(a, b)`: axes as declared.
  std::optional<llvm::SmallVector<const AxisInfo *>> axisList(const Expr &e, const char *what);
  /// Names as `Build` takes them.
  static llvm::SmallVector<StringRef> refs(llvm::ArrayRef<mlir::StringAttr> names);
  std::string written(mlir::StringAttr axis) const; // the name that the axis has in this scope

  //===- element-wise (Elementwise.cpp) -------------------------------------------------------------------------===//

  Val apply(ech::Function f, llvm::ArrayRef<Val> operands, SourceRange range, const std::string &spelling, bool lifted);
  bool axesFit(llvm::ArrayRef<Val> operands, SourceRange range, const std::string &spelling, bool lifted);
  std::string otherArgMax(const Val &places, const Val &other) const;
  Val foldTwo(char op, const Val &a, const Val &b, SourceRange range);
  /// A number worked out when compiling; poison, told, where it is none.
  Val finite(const Number &n, SourceRange range);
  Val elementwise(const CallExpr &e, const Args &a);
  Val maximum(const CallExpr &e, const Args &a); // max, min: of two values, or over axes
  Val whereCall(const CallExpr &e, const Args &a);
  Val outer(const CallExpr &e, const Args &a);
  Val sizeCall(const CallExpr &e, const Args &a);
  Val indexCall(const CallExpr &e, const Args &a);
  Val stopGradient(const CallExpr &e, const Args &a);
  Val raise(const Val &base, const Val &exponent, SourceRange range, bool lifted);
  /// Keeps where a function stands that is inf or nan of some finite numbers, for the message of a loss that is.
  void notePartial(StringRef function, SourceRange range);
  /// Reports a number that is 0 or infinite as an element of a tensor.
  void checkElement(const Number &n, SourceRange range);
  Value constantLike(const Val &v, bool integer, SourceRange range);
  bool lift = false; // inside outer(…)

  //===- contractions and reductions (Reductions.cpp) -----------------------------------------------------------===//

  Val dot(const CallExpr &e, const Args &a);
  std::string axesToRunAlong(ech::Tensor type);
  Val reduction(const CallExpr &e, const Args &a);
  std::optional<Value> maskOf(const Expr &where, const Val &given, Val &x);
  Value meanOf(Value x, Value mask, llvm::ArrayRef<StringRef> over);
  Value extremeOf(ech::Reduction kind, Value x, Value mask, llvm::ArrayRef<mlir::StringAttr> over);
  Value allowsAny(Value mask, llvm::ArrayRef<StringRef> over);
  Value exponentialOf(const std::string &name, Value x, Value mask, llvm::ArrayRef<StringRef> over);
  Val crossEntropy(const CallExpr &e, const Args &a);
  void warnOfFurtherAxes(const CallExpr &e, const Args &a, const Val &logits, const Val &labels,
                         const AxisInfo &classes);
  Val top(const CallExpr &e, const Args &a);
  Val normalize(const CallExpr &e, const Args &a);
  Val countCall(const CallExpr &e, const Args &a);
  bool has(ech::Tensor type, llvm::ArrayRef<mlir::StringAttr> names, SourceRange range, const std::string &what);
  /// False: `what` runs along samples, which has been reported.
  bool haveOrder(llvm::ArrayRef<mlir::StringAttr> axes, SourceRange range, const std::string &what);
  /// Whether an axis is the batch, or like it.
  bool isOfSamples(mlir::StringAttr axis) const;
  /// Keeps that a reduction without `over` took all axes of a value of this type, where samples are among them.
  void noteOverAll(const CallExpr &e, ech::Tensor type, Value result);
  /// Of those, the ones whose result enters values of single samples again.
  void refuseMixedSamples();
  /// Whether each row of the mask, over these axes, allows something, whatever the run.
  bool neverEmpty(Value mask, llvm::ArrayRef<StringRef> over) const;
  bool sizesAgree(ech::Tensor a, ech::Tensor b, SourceRange range, const std::string &what);

  //===- places (Places.cpp) ------------------------------------------------------------------------------------===//

  Val index(const IndexExpr &e);
  class BracketAction;

  //===- windows, attention, randomness -------------------------------------------------------------------------===//

  Val conv(const CallExpr &e, const Args &a);
  Val pool(const CallExpr &e, const Args &a);
  Val attention(const CallExpr &e, const Args &a);
  std::optional<const AxisInfo *> queryAxis(const Args &args, ech::Tensor q, ech::Tensor k, const AxisInfo &past);
  Val concat(const CallExpr &e, const Args &a);
  Val dropout(const CallExpr &e, const Args &a);
  Val survive(const CallExpr &e, const Args &a);
  /// `chance` is that to keep, and `given` where the call says it: as one to drop, where it `drops`.
  mlir::Value keepBelow(const std::string &site, ech::Tensor type, mlir::Value chance, const Expr &given, bool isJudged,
                        bool drops);
  void noteChances();
  void warnOfIdleParameters();
  std::optional<llvm::SmallVector<int64_t>> numbers(const Expr *e, size_t count, int64_t otherwise, int64_t low,
                                                    const char *what);
  std::string randomSite(const std::string &base);

  Shared &shared;
  bool training;
  mlir::OpBuilder builder;
  ech::Build build;
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
  struct Chance {
    SourceRange range;
    bool isJudged = false;                                  // a number, looked at where it is given
    bool drops = false;                                     // else it is one to survive
    std::vector<std::pair<SourceRange, std::string>> calls; // around it, for notes
  };
  struct OverAll {
    SourceRange range;
    std::string message; // where its result enters a sample
  };
  llvm::DenseMap<mlir::Operation *, OverAll> overAll;  // reductions that took all axes, samples too
  llvm::DenseMap<mlir::Operation *, SourceRange> dots; // where they stand
  llvm::DenseMap<mlir::Operation *, Chance> chances;   // of draws
  std::deque<Loop> loops;
  std::vector<Pending> reports;
  std::vector<PendingWrite> writes;
  std::map<std::tuple<void *, void *, std::string>, ech::NormalizeOp> normalized;
  const AxisInfo *batchAxis = nullptr;
  std::vector<SourceRange> openAxes;
  bool hasLoss = false;
  bool inSize = false; // a size is being worked out
  unsigned depth = 0;  // of recursion
  size_t callCount = 0;
  bool told = false;                      // that a budget is used up
  std::map<std::string, int> randomSites; // how often each name is under a path
};

} // namespace echelon::frontend
