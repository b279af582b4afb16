// From laid-out tensors to buffers: what every group of operations needs to be lowered.
//
// Each tensor value gets one buffer. Where a value is only on its way to a place that exists already (a destination:
// the next state, the carried value of a loop, a slice of what a loop stacks up, a part of a message), it is computed
// there.
#pragma once
#include "ir/dist/State.h"
#include "ir/ech/Build.h"
#include "ir/rt/Rt.h"
#include "mlir/IR/Builders.h"
#include "passes/lower/ValueNames.h"
#include "llvm/ADT/StringMap.h"
#include <functional>

namespace echelon::lower {

using ech::strings;

using dist::MeshAttr;
using ech::Axis;
using ech::Tensor;
using mlir::Location;
using mlir::Operation;
using mlir::Value;
using rt::Buffer;

/// Where a value goes: overwriting what is there, or added to it.
struct Destination {
  Value buffer;
  bool adds = false;
};

class Lowering {
public:
  Lowering(mlir::ModuleOp module, MeshAttr mesh);

  /// The body of one step, at the insertion point.
  mlir::LogicalResult step(ech::StepOp step, rt::FunctionOp into);

  mlir::OpBuilder b;
  MeshAttr mesh; ///< null: one rank

  //===- types and places -------------------------------------------------------------------------------------------//
  Tensor local(Value v) { return local(ech::tensor(v)); }
  Tensor local(Tensor type) { return mesh && type.getState() ? ofTurn(dist::localType(type, mesh), type) : type; }
  Buffer bufferType(Value v) { return Buffer::dense(local(v).getAxes(), local(v).getElement()); }
  /// A number that follows from mesh coordinates: a sum of factors times these, or a table of it.
  struct Terms {
    llvm::SmallVector<int64_t> mesh, factors;
    rt::SizeAttr of; ///< the axis that is cut, on one rank; null: several
    int64_t plus = 0;
    llvm::SmallVector<int64_t> table = {}; ///< where it is no such sum: one number for each of the coordinates
  };
  /// Positions of an axis in storage that are logical positions in a row, on each rank: local `at` is `begin`.
  struct Segment {
    int64_t at, size;
    Terms begin;
    std::string name;
  };
  /// The segments of `axis` that a rank stores, in order: one where it is split into blocks, or whole.
  llvm::SmallVector<Segment> segmentsOf(Tensor type, llvm::StringRef axis);
  /// The same of what these mesh axes make of `size` positions.
  llvm::SmallVector<Segment> segments(int64_t size, llvm::ArrayRef<dist::Divider> dividers, llvm::StringRef name,
                                      mlir::StringAttr axis);
  /// First logical position of a segment, an index; null where it is 0 on all ranks.
  Value beginOf(const Segment &segment);
  Value endOf(const Segment &segment);
  /// How far logical positions of a segment are beyond local ones; null: nowhere.
  Value shiftOf(const Segment &segment);
  /// In a loop nest over `axis`, the logical position of its element.
  Value placeAlong(mlir::OpBuilder &in, Location loc, Tensor type, llvm::StringRef axis);
  /// Makes logical positions of local ones in each element of a buffer of integers, or the other way round: then -1 of
  /// those that this rank does not hold.
  void translate(Value to, Value from, llvm::ArrayRef<Segment> segments, bool toLogical, Location loc);
  /// A number that follows from mesh coordinates, an index, made at the start of the function.
  Value offset(const Terms &terms, int64_t plus, const llvm::Twine &name);
  /// Where this rank's flat cut begins in the local piece that it is cut from.
  Value flatOffset(Tensor type);
  /// The difference of two offsets, an index; null where it is 0.
  Value offsetBetween(Tensor a, llvm::StringRef axisA, Tensor b, llvm::StringRef axisB);
  int64_t ranksOver(llvm::ArrayRef<int64_t> meshAxes);
  /// An axis of memory that the lowering adds to others: its name is `wanted`, or where one of them has that, another.
  Axis axisBeside(llvm::StringRef wanted, int64_t size, llvm::ArrayRef<Axis> others);
  /// The position in the enclosing repeat over an axis, an index; null when there is none.
  Value positionOf(llvm::StringRef axis) { return positions.lookup(axis); }

  //===- buffers ----------------------------------------------------------------------------------------------------//
  /// The place of a value, named after its operation where the user gave no name.
  Location locOf(Value v);
  /// The buffer that holds a value; free values are written into one on demand.
  Value read(Value v);
  /// The same, dense; in the order of axes given where one is given. A copy where it does not lie so.
  Value dense(Value v);
  Value denseAs(Value buffer, llvm::ArrayRef<Axis> order, Location loc);
  /// A new buffer of the step's work.
  Value alloc(Buffer type, Location loc);
  Value alloc(llvm::ArrayRef<Axis> axes, mlir::Type element, Location loc) {
    return alloc(Buffer::dense(axes, element), loc);
  }
  /// Where to write a result: its destination, if it has one that can be written now, else a new buffer. Never adds.
  Value result(Value v, bool mustBeDense = true);
  /// The same; may be a destination to which the value is to be added.
  Destination target(Value v);
  /// Whether a message sums v in `buffer` because the sum goes there.
  bool isDestinationOfMessage(Value v, Value buffer);
  /// Whether a place that exists waits for a value, and can be written where the value is made.
  bool hasDestination(Value v) { return static_cast<bool>(findDestination(v).buffer); }
  /// The same in another order of axes: where the value's own differs, the value becomes a view of what is returned.
  Value resultAs(Value v, llvm::ArrayRef<Axis> order);
  /// Whether an operation is a sum of two of which one was added to the other, or both to where the sum goes, as they
  /// were computed: then it is done.
  bool isAddedUp(Operation *op);
  /// Of a buffer for all chunks of a stage, the one of this turn.
  Value chunkOf(Value buffer, Tensor type, Location loc);
  /// Says that a value is what a buffer holds.
  void bind(Value v, Value buffer) { buffers[v] = buffer; }
  /// Part of a buffer, or other axes for it.
  Value view(Value base, int64_t offset, Buffer type, Location loc, mlir::ValueRange indices = {},
             llvm::ArrayRef<int64_t> factors = {});
  /// The slice at one position of an axis (a number, or an index with `at` added), without the axis.
  Value slice(Value base, llvm::StringRef axis, int64_t at, Location loc, Value index = {});
  /// Positions [at, at + size) of an axis.
  Value range(Value base, llvm::StringRef axis, int64_t at, int64_t size, Location loc, Value index = {},
              int64_t factor = 1);
  /// Of dense rows of `count` elements, one for each rank over mesh axes (ascending), this rank's.
  Value ownRow(Value rows, int64_t count, llvm::ArrayRef<int> over, Location loc);
  /// This rank's part of a value that it holds whole, or more of.
  Value pieceOf(Value x, Tensor from, Tensor to, Location loc);
  /// Copies, or adds, with axes matched by name; element types are converted.
  void copy(Value to, Value from, Location loc, bool adds = false);
  void fill(Value to, double value, Location loc);
  /// One loop nest over `axes`: `build` makes the element of `to` from those of `from`, and `mode` says what becomes of
  /// it ("store", "sum", "add").
  void loop(Location loc, Value to, mlir::ValueRange from, llvm::ArrayRef<Axis> axes, llvm::StringRef mode,
            llvm::function_ref<Value(mlir::OpBuilder &, mlir::ValueRange)> build);

  //===- calls ------------------------------------------------------------------------------------------------------//
  rt::SizeAttr size(llvm::ArrayRef<Axis> axes) { return rt::SizeAttr::get(b.getContext(), axes); }
  mlir::DenseI64ArrayAttr list(llvm::ArrayRef<int64_t> numbers) { return b.getDenseI64ArrayAttr(numbers); }
  mlir::UnitAttr flag(bool is) { return is ? b.getUnitAttr() : mlir::UnitAttr(); }
  /// A number known when the program runs; one that is there already serves again.
  Value number(rt::Number kind, mlir::Type type, Location loc, std::optional<int64_t> of = {},
               std::optional<double> by = {});
  /// 1 at coordinate 0 of a mesh axis, which holds what is shared out as a sum, else 0.
  /// The one number of a sum's share of what all hold alike: 1 on coordinate 0, 0 on others; of workers 1 / n on each.
  std::optional<double> equalShare(int meshAxis);
  Value isFirst(int meshAxis, Location loc);
  /// That a collective is started only.
  struct Start {
    Value tickets, position; // of a loop's rt.tickets; none: a ticket of its own
  };
  /// A collective in place (in == out) or not, over mesh axes. `algorithm` "auto": what a clause says of all such
  /// collectives over these mesh axes. `runs`: pieces of a row in the buffer that has one for each rank. Returns what
  /// rt.wait takes; null where it is not started only.
  Value collective(llvm::StringRef kind, Value in, Value out, int64_t count, llvm::StringRef reduction,
                   llvm::ArrayRef<int64_t> meshAxes, llvm::StringRef algorithm, llvm::StringRef why, Location loc,
                   std::optional<Start> start = {}, int64_t runs = 1);

  //===- what groups of operations register -------------------------------------------------------------------------//
  using Rule = std::function<mlir::LogicalResult(Lowering &, Operation *)>;
  template <typename Op, typename F> void add(F rule) {
    rules[Op::getOperationName()] = [rule](Lowering &l, Operation *op) { return rule(l, llvm::cast<Op>(op)); };
  }
  mlir::LogicalResult lower(Operation *op);
  /// Gives the values of messages of several a place in the message, before the block is lowered.
  void reserveMessages(mlir::Block &block);
  mlir::LogicalResult refuse(Operation *op, const llvm::Twine &what);
  /// Whether a destination's memory may be written where `producer` stands: nobody reads what it holds there or later.
  bool isFreeAt(Value holder, Operation *producer, Value produced);
  /// Whether a write of the step stands behind the check that its losses and gradients are finite.
  bool waitsForCheck(ech::WriteOp write);

  llvm::DenseMap<Value, Value> buffers;
  llvm::DenseMap<Value, Location> places;                      ///< of values whose own location does not name them
  llvm::DenseMap<mlir::OpOperand *, Destination> destinations; ///< of uses that have a place of their own
  llvm::DenseSet<Value> added;      ///< values that were added to their destination as they were computed
  llvm::StringMap<Value> positions; ///< of the enclosing repeats
  struct Loop {
    std::string axis;
    int64_t count;
    bool time;
  };
  rt::StagesOp turns; ///< the stages of a pipeline that are being lowered; null outside
  /// Of a stage's iterations those that its turns do, where it has several chunks of them. What a turn makes along
  /// their axis is of one chunk; of what is there for all, a turn sees its own.
  struct Chunks {
    mlir::ArrayAttr axes; ///< of the repeats; null: there is one chunk
    int64_t count = 1, buffers = 1;
    Value turn;   ///< which one
    Value buffer; ///< in which of several buffers a turn leaves what it sends

    bool have(llvm::StringRef axis) const { return axes && ech::has(axes, axis); }
    /// That of a value; empty: none.
    llvm::StringRef axisOf(Tensor type) const {
      auto *at = llvm::find_if(type.getAxes(), [&](const Axis &axis) { return have(axis.name.getValue()); });
      return at == type.getAxes().end() ? llvm::StringRef() : at->name.getValue();
    }
  };
  Chunks chunks;
  llvm::SmallVector<Value> sends;   ///< tickets of what this region of theirs sends
  llvm::SmallVector<Loop> loopAxes; ///< enclosing repeats, outermost first
  /// What remains to be done when a started message is waited for, by its token.
  llvm::DenseMap<Value, std::function<mlir::LogicalResult(Operation *wait)>> started;
  llvm::StringMap<Value> stored;                   ///< buffers of variables and inputs
  llvm::StringMap<llvm::SmallVector<Value>> reads; ///< of variables and inputs, in the step's own block
  mlir::ModuleOp module;
  mlir::SymbolTable symbols; ///< variables and inputs
  rt::FunctionOp function;
  bool evaluates = false; ///< in @evaluate

private:
  /// A view of a buffer that is no view itself; one that is there already in this block serves again.
  Value viewOnce(Value base, int64_t offset, Buffer type, Location loc, mlir::ValueRange indices,
                 llvm::ArrayRef<int64_t> factors);
  /// Where v goes; `written`, which becomes v where it lies, is what is written there first.
  Destination findDestination(Value v, Value written);
  Destination findDestination(Value v) { return findDestination(v, v); }
  /// Of a part that is only there to be gathered: this rank's row of where the whole goes.
  Destination destinationInWhole(Value v, dist::AllGatherOp gather);
  /// Of a value that is only there to be one of two terms.
  Destination destinationOfTerm(Value v);
  /// Whether a stage has a part of these positions, several chunks of them.
  bool isInChunks(Tensor type) const {
    const llvm::StringRef axis = chunks.axisOf(type);
    return !axis.empty() && !dist::over(type, axis, mesh).empty();
  }
  Tensor ofTurn(Tensor local, Tensor type) const;
  llvm::StringMap<Rule> rules;
  Value runsOf(Value x, llvm::StringRef axis, llvm::ArrayRef<dist::Divider> dividers, Location loc);
  Terms termsOf(Tensor type, llvm::StringRef axis);
  llvm::StringMap<Value> offsets;                 ///< of this function
  llvm::DenseMap<mlir::Attribute, Value> numbers; ///< the same
};

/// What a value is called: as the spec says, after the result that it is ("rstd"), after what a repeat yields; empty:
/// it has no name.
std::string nameOf(Value v);

/// The axes of a buffer around some that lie together: before, of, after them.
struct Around {
  llvm::SmallVector<Axis> outer, n, inner;
};
/// Axes of `x` around `over`; nothing where these do not lie together.
std::optional<Around> around(Buffer x, llvm::ArrayRef<llvm::StringRef> over);
/// x dense with `over` together, and its axes around them.
Value withMiddle(Lowering &l, Value v, llvm::ArrayRef<llvm::StringRef> over, Around &axes);

// One function a file of this folder: the rules of its operations.
void addStructure(Lowering &l);
void addRepeats(Lowering &l);
void addTurns(Lowering &l);
void addLoops(Lowering &l);
void addContractions(Lowering &l);
void addReductions(Lowering &l);
void addPartials(Lowering &l);
void addNorms(Lowering &l);
void addViews(Lowering &l);
void addIndexing(Lowering &l);
void addWindows(Lowering &l);
void addAttention(Lowering &l);
void addMessages(Lowering &l);

} // namespace echelon::lower
