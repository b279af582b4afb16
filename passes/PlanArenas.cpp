// rt-plan-arenas: every buffer gets its place.
//
// 1. Stored tensors, then inputs, one after the other in their arenas, aligned: parameters, states, then one moment of
//    all parameters after the other, so that each moment has the layout of the parameters.
//
//    state arena   | wq | wk | … | seen | m.wq | m.wk | … | v.wq | v.wk | … |
//
//    What one coordinate of a mesh axis alone holds stands behind what all hold, at one place with what others of them
//    hold; in each moment likewise.
//
//    Where the optimizer's state is offloaded, moments are the arena's end, which has pages of its own; what a GPU
//    has of it whole lies in a work buffer (cuda/StageOffloaded.h). Where parameters are, too, those of repeats come
//    before the moments, on such pages, and the others before them, behind states: then moments still lie as
//    parameters do.
//
//    state arena   | seen | … | wte || wq | wk | … | m.wte | m.wq | m.wk | … | v.wte | v.wq | v.wk | … |
//
// 2. A work buffer lives from the first operation that touches it to the last, in the order of execution; a use inside
//    of a loop in which the buffer was not made lasts as long as the loop, and a started collective as long as its
//    wait.
// 3. A buffer that an operation writes where it reads another for the last time, element by element, takes that one's
//    place.
// 4. Largest first, each buffer goes to the smallest gap that it fits, between those that it overlaps in time on the
//    same ranks.
#include "ir/dist/Offload.h"
#include "ir/dist/Placed.h"
#include "ir/rt/Offload.h"
#include "ir/run/Run.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/Moments.h"
#include "passes/Passes.h"
#include "passes/cuda/StageOffloaded.h"
#include "runtime/program/OffloadPiece.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace echelon {
#define GEN_PASS_DEF_PLANARENAS
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;

namespace {
constexpr int64_t kAlignment = 64; // bytes: a cache line, and what kernels like best
int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// The one coordinate that does something; nothing: ranks of several do.
dist::Place placeOf(Operation *op) {
  for (auto at = op->getParentOfType<rt::AtOp>(); at; at = at->getParentOfType<rt::AtOp>())
    if (!at.getExcept() && !at.getUntil())
      return std::pair(int(at.getMesh()), int64_t(at.getCoordinate()));
  return std::nullopt;
}
bool areApart(dist::Place a, dist::Place b) { return a && b && a->first == b->first && a->second != b->second; }

/// Memory that one or several buffers share, one after the other.
struct Block {
  int64_t bytes = 0, first = INT64_MAX, last = -1, offset = -1;
  dist::Place place; ///< of all that touches it
  SmallVector<rt::AllocOp> buffers;

  bool meets(const Block &other) const {
    return other.last >= first && last >= other.first && !areApart(place, other.place);
  }
};

class Plan {
public:
  explicit Plan(rt::FunctionOp function) : function(function) {}
  /// Offsets from `from` on; where they end.
  int64_t run(int64_t from);

private:
  void number(mlir::Block &block);
  void findLives();
  void share();
  int64_t place();

  rt::FunctionOp function;
  DenseMap<Operation *, std::pair<int64_t, int64_t>> time; // of an operation with all that is inside
  std::vector<Operation *> order;
  int64_t clock = 0;
  std::vector<std::unique_ptr<Block>> blocks;
  DenseMap<Operation *, Block *> blockOf;
};

void Plan::number(mlir::Block &block) {
  for (Operation &op : block) {
    int64_t start = clock++;
    order.push_back(&op);
    for (mlir::Block *inner : rt::blocksOf(&op))
      number(*inner);
    time[&op] = {start, clock++};
  }
}

void Plan::findLives() {
  function.walk([&](rt::AllocOp alloc) {
    if (alloc.getArena() != rt::Arena::Work)
      return;
    auto block = std::make_unique<Block>();
    block->bytes = std::max<int64_t>(rt::buffer(alloc).bytes(), 1);
    block->buffers.push_back(alloc);
    auto touch = [&](Operation *user) {
      const dist::Place there = placeOf(user);
      block->place = block->last < 0 || block->place == there ? there : std::nullopt;
      // as seen from where the buffer was made
      Operation *at = alloc->getBlock()->findAncestorOpInBlock(*user);
      assert(at && "what is waited for outside of a loop lies outside of it");
      block->first = std::min(block->first, time[at].first);
      block->last = std::max(block->last, time[at].second);
    };
    rt::forEachUser(alloc.getBuffer(), [&](Operation *user) {
      touch(user);
      if (auto started = dyn_cast<rt::CollectiveOp>(user); started && started.isStarted())
        for (Operation *wait : started.toWaitFor().getUsers()) // others that keep tickets there come before it
          touch(wait);
    });
    blockOf[alloc] = block.get();
    blocks.push_back(std::move(block));
  });
}

/// Buffers written where another one is read for the last time become one block with it. What is read in another way
/// at the same time, through a view, stays.
void Plan::share() {
  for (Operation *op : order) {
    auto touches = dyn_cast<rt::Touches>(op);
    if (!touches)
      continue;
    auto [start, end] = time[op];
    for (Value written : touches.writes())
      for (Value read : touches.reads()) {
        auto target = written.getDefiningOp<rt::AllocOp>(), source = read.getDefiningOp<rt::AllocOp>();
        if (!target || !source || target == source || !blockOf.count(target) || !blockOf.count(source))
          continue;
        Block *a = blockOf[target], *b = blockOf[source];
        if (llvm::any_of(touches.reads(), [&](Value other) {
              auto root = rt::allocOf(other);
              return other != read && root && blockOf.lookup(root) == b;
            }))
          continue;
        if (a == b || a->bytes != b->bytes || a->first != start || b->last != end || !touches.mayShare(written, read) ||
            target->getBlock() != source->getBlock())
          continue;
        b->last = a->last;
        if (a->place != b->place)
          b->place = {};
        for (rt::AllocOp moved : a->buffers) {
          blockOf[moved] = b;
          b->buffers.push_back(moved);
        }
        a->buffers.clear();
        break;
      }
  }
  llvm::erase_if(blocks, [](auto &block) { return block->buffers.empty() || block->last < 0; });
}

int64_t Plan::place() {
  std::vector<Block *> bySize;
  for (auto &block : blocks)
    bySize.push_back(block.get());
  llvm::stable_sort(bySize, [](Block *a, Block *b) { return a->bytes > b->bytes; });
  std::vector<Block *> placed; // by offset
  int64_t size = 0;
  for (Block *block : bySize) {
    int64_t wanted = aligned(block->bytes), at = 0, best = -1, bestGap = INT64_MAX;
    for (Block *other : placed) {
      if (!block->meets(*other))
        continue;
      int64_t gap = other->offset - at;
      if (gap >= wanted && gap < bestGap) {
        best = at;
        bestGap = gap;
      }
      at = std::max(at, other->offset + aligned(other->bytes));
    }
    block->offset = best >= 0 ? best : at;
    size = std::max(size, block->offset + wanted);
    placed.insert(llvm::upper_bound(placed, block, [](Block *a, Block *b) { return a->offset < b->offset; }), block);
  }
  return size;
}

/// A buffer that nothing touches, and the views of it.
void eraseWithViews(Operation *op) {
  for (Operation *view : llvm::make_early_inc_range(op->getUsers()))
    eraseWithViews(view);
  op->erase();
}

int64_t Plan::run(int64_t from) {
  number(function.getBody().front());
  findLives();
  share();
  int64_t size = place();
  Builder builder(function.getContext());
  for (auto &block : blocks)
    for (rt::AllocOp alloc : block->buffers)
      alloc.setOffsetAttr(builder.getI64IntegerAttr(from + block->offset));
  SmallVector<rt::AllocOp> unused;
  function.walk([&](rt::AllocOp alloc) {
    if (alloc.getArena() == rt::Arena::Work && !alloc.getOffset())
      unused.push_back(alloc);
  });
  for (rt::AllocOp alloc : unused)
    eraseWithViews(alloc);
  return size ? from + size : 0;
}

struct PlanArenas : echelon::impl::PlanArenasBase<PlanArenas> {
  using Variables = SmallVector<ech::VariableOp>;

  /// Stored tensors in the order of the state arena: parameters, copies of them, states, what the optimizer keeps by
  /// its names, each a list. Where workers train by themselves, what they share comes last, but for what is no moment
  /// where moments are offloaded, which comes first. Where parameters are offloaded, those that are not are a list
  /// before them, and so are moments.
  SmallVector<Variables> inOrder(ModuleOp module) {
    auto policy = run::only<run::SyncOp>(module);
    const bool isLocal = policy && policy.isLocal();
    const bool offloads = module->hasAttr(dist::kOffload);
    Variables first, params, copies, states, shared;
    llvm::MapVector<StringRef, Variables> moments;
    for (auto variable : module.getOps<ech::VariableOp>()) {
      const ech::VariableKind kind = variable.getKind();
      const StringRef moment = momentOf(variable).first;
      if (isLocal && isSharedByWorkers(variable))
        shared.push_back(variable);
      else if (isMoment(variable))
        moments[moment].push_back(variable);
      else
        (kind == ech::VariableKind::Param  ? params
         : kind == ech::VariableKind::Copy ? copies
                                           : states)
            .push_back(variable);
    }
    if (offloads) {
      auto *end = std::stable_partition(shared.begin(), shared.end(), [](ech::VariableOp v) { return !isMoment(v); });
      first.append(shared.begin(), end);
      shared.erase(shared.begin(), end);
    }
    SmallVector<Variables> order{first};
    auto add = [&](const Variables &list) { // those of resident parameters, then the others
      order.emplace_back();
      for (ech::VariableOp variable : list)
        if (!isOfOffloadedParam(variable))
          order.back().push_back(variable);
      order.emplace_back();
      for (ech::VariableOp variable : list)
        if (isOfOffloadedParam(variable))
          order.back().push_back(variable);
    };
    if (offloadedParams.empty())
      add(params);
    order.append({copies, states});
    if (!offloadedParams.empty())
      add(params);
    for (auto &[name, list] : moments) // as parameters lie
      add(list);
    order.push_back(shared);
    return order;
  }

  /// Gives the variables of a list their places from `begin` on; where they end.
  int64_t placeList(ArrayRef<ech::VariableOp> list, int64_t begin,
                    const llvm::StringMap<SmallVector<rt::AllocOp>> &allocs) {
    auto place = [&](ech::VariableOp variable, int64_t &at) {
      variable->setAttr(rt::kOffset, Builder(&getContext()).getI64IntegerAttr(at));
      for (rt::AllocOp alloc : allocs.lookup(variable.getSymName()))
        alloc.setOffset(at);
      at += bytesOf(variable);
    };
    llvm::MapVector<std::pair<int, int64_t>, Variables> apart; // by the coordinate that alone holds them
    for (ech::VariableOp variable : list)
      if (dist::Place holder = dist::placeOf(dist::stateOf(cast<ech::Tensor>(variable.getType()))))
        apart[*holder].push_back(variable);
      else
        place(variable, begin);
    int64_t end = begin;
    for (auto &[holder, variables] : apart) {
      int64_t at = begin;
      for (ech::VariableOp variable : variables)
        place(variable, at);
      end = std::max(end, at);
    }
    return end;
  }

  /// Of what is offloaded, parameters: those that loops read at their positions.
  void findOffloadedParams(const llvm::StringMap<SmallVector<rt::AllocOp>> &allocs) {
    if (!getOperation()->hasAttr(dist::kOffloadParams))
      return;
    auto isAtPosition = [](Operation *user) {
      auto view = dyn_cast<rt::ViewOp>(user);
      return view && llvm::any_of(view.getIndices(), [](Value index) {
               auto position = dyn_cast<BlockArgument>(index);
               auto loop = position ? dyn_cast<rt::ForOp>(position.getOwner()->getParentOp()) : rt::ForOp();
               return loop && !loop.getTime();
             });
    };
    for (auto variable : getOperation().getOps<ech::VariableOp>())
      for (rt::AllocOp alloc : allocs.lookup(variable.getSymName()))
        if (variable.getKind() == ech::VariableKind::Param && llvm::any_of(alloc->getUsers(), isAtPosition))
          offloadedParams.insert(variable.getSymName());
  }
  int64_t bytesOf(ech::VariableOp variable) {
    auto type = cast<ech::Tensor>(variable.getType());
    if (dist::MeshAttr mesh = dist::meshOf(getOperation()); mesh && type.getState())
      type = dist::localType(type, mesh);
    return aligned(rt::Buffer::dense(type.getAxes(), type.getElement()).bytes());
  }
  bool isOfOffloadedParam(ech::VariableOp variable) {
    return offloadedParams.contains(isMoment(variable) ? momentOf(variable).second : variable.getSymName());
  }
  bool isOffloaded(ech::VariableOp variable) {
    return getOperation()->hasAttr(dist::kOffload) && (isMoment(variable) || isOfOffloadedParam(variable));
  }
  InFlightDiagnostic refuseOffload() {
    auto lines = getOperation()->getAttrOfType<DictionaryAttr>(dist::kLines);
    auto line = lines ? lines.getAs<LocationAttr>(dist::kOffload) : LocationAttr();
    return emitError(line ? Location(line) : getOperation().getLoc()) << "E0410: ";
  }

  /// Every stored tensor has a place, read or not; where that ends.
  FailureOr<int64_t> placeState(const llvm::StringMap<SmallVector<rt::AllocOp>> &allocs) {
    ModuleOp module = getOperation();
    Builder builder(&getContext());
    const bool offloads = module->hasAttr(dist::kOffload);
    int64_t state = 0, offloaded = -1;
    for (const Variables &list : inOrder(module)) {
      const bool goesAway = llvm::any_of(list, [&](ech::VariableOp variable) { return isOffloaded(variable); });
      const bool isOfParams = !list.empty() && ech::VariableOp(list.front()).getKind() == ech::VariableKind::Param;
      if (isOfParams && !goesAway && !offloadedParams.empty()) { // they end where what is offloaded begins
        const int64_t bytes = placeList(list, 0, allocs);
        state = llvm::alignTo(state + bytes, runtime::kOffloadAlignment) - bytes;
      }
      if (goesAway && offloaded < 0)
        offloaded = state = llvm::alignTo(state, runtime::kOffloadAlignment);
      state = placeList(list, state, allocs);
    }
    if (!offloads)
      return state;
    if (module->hasAttr(dist::kOffloadParams) && offloadedParams.empty())
      return refuseOffload() << "no parameter of this model is of a repeat, and those of repeats alone are offloaded; "
                                "write offload optimizer";
    if (offloaded < 0)
      return refuseOffload() << "the optimizer keeps nothing that could be offloaded: plain sgd has no moments; leave "
                                "the line out";
    state = llvm::alignTo(state, runtime::kOffloadAlignment);
    module->setAttr(rt::kOffloaded, builder.getDenseI64ArrayAttr({offloaded, state - offloaded}));
    return state;
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Builder builder(&getContext());
    if (module->hasAttr(rt::kStaged))
      stageOffloaded(module);
    // Workers that arrive in real time update in the midst of a step.
    auto policy = run::only<run::SyncOp>(module);
    int64_t work = 0, ofStep = 0;
    for (auto function : module.getOps<rt::FunctionOp>()) {
      const bool isWithin = policy && policy.isLive() && function.getSymName() != "train";
      const int64_t bytes = Plan(function).run(isWithin ? ofStep : 0);
      work = std::max(work, bytes);
      if (function.getSymName() == "train")
        ofStep = aligned(bytes);
    }
    llvm::StringMap<SmallVector<rt::AllocOp>> allocs; // by the variable's or input's name
    module.walk([&](rt::AllocOp alloc) {
      if (alloc.getOf())
        allocs[*alloc.getOf()].push_back(alloc);
    });
    findOffloadedParams(allocs);
    const FailureOr<int64_t> state = placeState(allocs);
    if (failed(state))
      return signalPassFailure();
    int64_t input = 0;
    // an input has one for each state in which it is read
    for (auto in : module.getOps<ech::InputOp>()) {
      SmallVector<Attribute> places;
      llvm::MapVector<Attribute, int64_t> known;
      for (rt::AllocOp alloc : allocs[in.getSymName()]) {
        auto read = alloc->getAttrOfType<DictionaryAttr>(rt::kRead);
        auto [at, isNew] = known.insert({read, input});
        if (isNew) {
          NamedAttrList place(read);
          place.set("offset", builder.getI64IntegerAttr(input));
          places.push_back(place.getDictionary(&getContext()));
          input += aligned(rt::buffer(alloc).bytes());
        }
        alloc.setOffset(at->second);
      }
      in->setAttr(rt::kPlaces, builder.getArrayAttr(places));
    }
    module->setAttr(rt::kStateBytes, builder.getI64IntegerAttr(*state));
    module->setAttr(rt::kInputBytes, builder.getI64IntegerAttr(input));
    module->setAttr(rt::kWorkBytes, builder.getI64IntegerAttr(work));
  }

  llvm::StringSet<> offloadedParams; // by name
};
} // namespace
