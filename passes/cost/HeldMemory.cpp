// A sweep over the program in the order of its text, once for each stage. A value that an inner loop touches is there
// for the whole loop, as in PlanArenas; of what is kept from pass to pass in slots, a stage has as many as its schedule
// uses there. Logits are there from the loss to its derivative alone: the pass over a micro batch that ends with the
// loss goes on with the derivative.
#include "passes/cost/HeldMemory.h"
#include "ir/dist/Dist.h"
#include "ir/dist/Placed.h"
#include "ir/rt/Rt.h"
#include "passes/Phase.h"
#include "runtime/program/Turns.h"
#include <limits>

using namespace mlir;
using namespace echelon;

namespace {

/// What values are to a framework, each with a constant of its own.
enum class Held { Gradients, Logits, Scores, Norms, Values, Else };

/// A buffer, or what a stage stores.
struct Item {
  rt::AllocOp alloc;
  Held as = Held::Else;
  int64_t first = 0, last = 0; ///< of the program's order
  double bytes = 0;
  bool hasSlots = false;
  bool isRead = false;  ///< by a cross entropy
  bool isRowed = false; ///< each of a stage's iterations has a row of it
  SmallVector<Operation *> users;
};

class Sweep {
public:
  explicit Sweep(ModuleOp module) : module(module), mesh(dist::meshOf(module)) {
    constants = module->getAttrOfType<DictionaryAttr>(kHeld);
  }

  HeldMemory run() {
    auto train = dyn_cast_or_null<rt::FunctionOp>(SymbolTable::lookupSymbolIn(module, "train"));
    if (train) {
      number(train.getBody().front());
      train.walk([&](rt::StagesOp op) { stages = stages ? stages : op; });
      findOwn(train);
      train.walk([&](rt::AllocOp alloc) { add(alloc); });
      findLogits(train);
      findScores(train);
      for (Item &item : items)
        finish(item);
      constexpr int64_t kNumber = 8; // bytes: a loss, which all ranks sum
      train.walk(
          [&](rt::CollectiveOp op) { isSplit |= !isOfBackward(op) && !isOfUpdate(op) && op.messageBytes() > kNumber; });
    }
    HeldMemory most;
    for (int64_t stage = 0; stage < count(); ++stage) {
      const HeldMemory here = of(stage);
      if (here.total() > most.total())
        most = here;
    }
    return most;
  }

private:
  int64_t count() { return stages && mesh ? mesh.sizeOf(int(stages.getMesh())) : 1; }
  double constant(StringRef name, double otherwise = 1) const {
    auto value = constants ? constants.getAs<FloatAttr>(name) : FloatAttr();
    return value ? value.getValueAsDouble() : otherwise;
  }

  void number(Block &block) {
    for (Operation &op : block) {
      const int64_t start = clock++;
      for (Block *inner : rt::blocksOf(&op))
        number(*inner);
      time[&op] = {start, clock++};
    }
  }

  void add(rt::AllocOp alloc) {
    if (alloc.getArena() != rt::Arena::Work)
      return;
    Item item;
    item.alloc = alloc;
    item.first = std::numeric_limits<int64_t>::max();
    item.bytes = double(rt::buffer(alloc).bytes());
    bool isOf[3] = {false, false, false}; // forward, backward, update
    rt::forEachUser(alloc.getBuffer(), [&](Operation *user) {
      item.users.push_back(user);
      isOf[isOfUpdate(user) ? 2 : isOfBackward(user) ? 1 : 0] = true;
      const auto [first, last] = time.lookup(alloc->getBlock()->findAncestorOpInBlock(*user));
      item.first = std::min(item.first, first);
      item.last = std::max(item.last, last);
    });
    if (item.users.empty())
      return;
    const bool isNorm = llvm::any_of(item.users, [](Operation *user) { return isa<rt::NormalizeOp>(user); });
    if (isOf[1] && isOf[2])
      item.as = Held::Gradients;
    else if (isOf[0] && isOf[1])
      item.as = isNorm ? Held::Norms : Held::Values;
    item.isRowed = isRowed(item);
    item.hasSlots = hasSlots(item);
    placeOf[alloc] = items.size();
    items.push_back(std::move(item));
  }

  /// Whether passes over several micro batches have it at once, each in a slot.
  bool hasSlots(Item &item) {
    if (!stages || int64_t(stages.getSlots()) < 2 || stages->isAncestor(item.alloc))
      return false;
    SmallPtrSet<Block *, 2> passes;
    for (Operation *user : item.users)
      for (Block *pass : rt::blocksOf(stages))
        if (pass->findAncestorOpInBlock(*user))
          passes.insert(pass);
    return passes.size() > 1 && item.as != Held::Gradients;
  }

  Item *itemOf(Value buffer) {
    rt::AllocOp root = rt::allocOf(buffer);
    auto known = root ? placeOf.find(root) : placeOf.end();
    return known == placeOf.end() ? nullptr : &items[known->second];
  }
  /// Elements of one micro batch.
  double elementsOf(Item &item) {
    const double slots = item.hasSlots ? double(int64_t(stages.getSlots())) : 1;
    return item.bytes / double(rt::buffer(item.alloc).elementBytes()) / slots;
  }

  /// What a cross entropy reads, and what is as large and made of it, or it of that: copies, and the derivative.
  void findLogits(rt::FunctionOp train) {
    SmallVector<Item *> found;
    auto take = [&](Value buffer, double elements) {
      Item *item = itemOf(buffer);
      if (!item || item->as == Held::Gradients || item->as == Held::Logits ||
          (elements && elementsOf(*item) != elements))
        return;
      item->as = Held::Logits;
      found.push_back(item);
    };
    train.walk([&](Operation *op) {
      if (auto whole = dyn_cast<rt::CrossEntropyOp>(op))
        take(whole.getX(), 0);
      else if (auto part = dyn_cast<rt::PartialOp>(op); part && part.getKind() == rt::PartialKind::CrossEntropy)
        take(part.getInputs().front(), 0);
      for (Item *item : found)
        item->isRead = true;
      spread(found, take);
    });
  }

  /// Goes on to what the operations of those that were found touch.
  void spread(SmallVector<Item *> &found, llvm::function_ref<void(Value, double)> take) {
    while (!found.empty()) {
      Item *item = found.pop_back_val();
      const double elements = elementsOf(*item);
      for (Operation *user : item->users)
        if (auto touches = dyn_cast<rt::Touches>(user)) {
          for (Value buffer : touches.writes())
            take(buffer, elements);
          for (Value buffer : touches.reads())
            take(buffer, elements);
        }
    }
  }

  /// What a softmax makes and reads, and what else is kept that is as large and made of it.
  void findScores(rt::FunctionOp train) {
    SmallVector<Item *> found;
    auto take = [&](Value buffer, double elements) {
      Item *item = itemOf(buffer);
      if (item && item->as == Held::Values && (!elements || elementsOf(*item) == elements)) {
        item->as = Held::Scores;
        found.push_back(item);
      }
    };
    train.walk([&](rt::SoftmaxOp op) {
      auto touches = cast<rt::Touches>(op.getOperation());
      for (Value buffer : touches.writes())
        take(buffer, 0);
      for (Value buffer : touches.reads())
        take(buffer, 0);
    });
    spread(found, take);
  }

  /// Of so many bytes for each logit in place of the program's, as long as the program has any; else of those.
  void finish(Item &item) {
    if (item.as != Held::Logits)
      return;
    const double each = constant("held_logits", 0), elements = elementsOf(item);
    if (item.hasSlots)
      item.bytes /= double(int64_t(stages.getSlots()));
    item.hasSlots = false;
    if (each > 0)
      item.bytes = item.isRead ? each * elements : 0;
    item.first = std::numeric_limits<int64_t>::max();
    item.last = 0;
    for (const Item &other : items)
      if (&other == &item || (each > 0 && other.as == Held::Logits))
        for (Operation *user : other.users) {
          item.first = std::min(item.first, time.lookup(user).first);
          item.last = std::max(item.last, time.lookup(user).second);
        }
  }

  bool isAt(Operation *op, int64_t stage) {
    for (auto at = op->getParentOfType<rt::AtOp>(); at; at = at->getParentOfType<rt::AtOp>()) {
      if (!stages || int64_t(at.getMesh()) != int64_t(stages.getMesh()))
        continue;
      bool isOne = false;
      for (int64_t chunk = 0; chunk < int64_t(stages.getChunks()); ++chunk)
        isOne |= at.isAt(stage, chunk, count());
      if (!isOne)
        return false;
    }
    return true;
  }

  /// Of what a loop over a stage's own iterations has a row of, how many rows the stage has, of all: stages may have
  /// more iterations and fewer.
  double rowsAt(int64_t stage) {
    if (!own)
      return 1;
    auto table = own.getOwn().getDefiningOp<rt::OffsetOp>().getTable();
    double rows = 0;
    for (int64_t chunk = 0; chunk < int64_t(stages.getChunks()); ++chunk)
      rows += double((*table)[size_t(stage + chunk * count())]);
    return rows / double(int64_t(own.getCount()) * int64_t(stages.getChunks()));
  }
  /// The first loop whose iterations are a stage's own, if they are not equally many.
  void findOwn(rt::FunctionOp train) {
    train.walk([&](rt::ForOp loop) {
      auto offset = loop.getOwn() ? loop.getOwn().getDefiningOp<rt::OffsetOp>() : rt::OffsetOp();
      if (!own && offset && offset.getTable())
        own = loop;
    });
  }
  bool isRowed(const Item &item) {
    return own && llvm::any_of(item.users, [&](Operation *user) {
             auto loop = user->getParentOfType<rt::ForOp>();
             return loop && loop.getOwn() == own.getOwn() && !loop->isAncestor(item.alloc);
           });
  }

  /// How many of the slots a stage uses, of all.
  double slotsAt(int64_t stage) {
    const auto all = int64_t(stages.getSlots());
    const runtime::StageOrder *order = runtime::stageOrderNamed(stages.getSchedule().str());
    int64_t most = 0;
    for (const runtime::Turn &turn :
         order->turns(stage, count(), int64_t(stages.getCount()), int64_t(stages.getChunks())))
      most = std::max(most, turn.slot + 1);
    return double(std::min(most, all)) / double(all);
  }

  double timesOf(Held as) const {
    switch (as) {
    case Held::Gradients:
      return constant("held_gradients");
    case Held::Scores:
      return constant("held_scores");
    case Held::Norms:
      return constant("held_norms");
    case Held::Values:
      return constant("held_values");
    case Held::Logits: // finish
    case Held::Else:
      return 1;
    }
    return 1;
  }

  void addStored(int64_t stage, HeldMemory &held) {
    for (auto variable : module.getOps<ech::VariableOp>()) {
      auto type = cast<ech::Tensor>(variable.getType());
      const dist::Place place = mesh ? dist::placeOf(dist::stateOf(type)) : std::nullopt;
      if (place && stages && place->first == int(stages.getMesh()) && place->second != stage)
        continue;
      const int64_t elements = mesh && type.getState() ? dist::localCount(type, mesh) : type.count();
      const bool isStacked = own && !type.getAxes().empty() && type.getAxes().front().name == own.getAxis();
      const double bytes = double(elements) * double(rt::Buffer::dense({}, type.getElement()).elementBytes()) *
                           (isStacked ? rowsAt(stage) : 1);
      if (variable.getKind() == ech::VariableKind::Param)
        held.params += bytes;
      else if (variable.getKind() == ech::VariableKind::HandedIn)
        held.gradients += bytes * constant("held_gradients");
      else
        held.optimizer += bytes;
    }
  }

  HeldMemory of(int64_t stage) {
    HeldMemory held;
    addStored(stage, held);
    const double slots = stages ? slotsAt(stage) : 1, rows = rowsAt(stage),
                 split = isSplit ? constant("held_split") : 1;
    std::vector<std::pair<int64_t, double>> changes; // bytes come, and go
    for (const Item &item : items) {
      if (llvm::none_of(item.users, [&](Operation *user) { return isAt(user, stage); }))
        continue;
      const double bytes = item.bytes * timesOf(item.as) * (item.hasSlots ? slots : 1) * (item.isRowed ? rows : 1);
      if (item.as == Held::Gradients) {
        held.gradients += bytes;
        continue;
      }
      const bool isOfPasses = item.as != Held::Logits && item.as != Held::Scores;
      changes.push_back({item.first, bytes * (isOfPasses ? split : 1)});
      changes.push_back({item.last + 1, -changes.back().second});
    }
    llvm::sort(changes);
    double now = 0;
    for (const auto &[when, bytes] : changes)
      held.activations = std::max(held.activations, now += bytes);
    return held;
  }

  ModuleOp module;
  dist::MeshAttr mesh;
  DictionaryAttr constants;
  rt::StagesOp stages;  ///< null: there is no pipeline
  rt::ForOp own;        ///< null: all stages have as many iterations
  bool isSplit = false; ///< the forward pass sends messages of more than a number
  int64_t clock = 0;
  DenseMap<Operation *, std::pair<int64_t, int64_t>> time;
  std::vector<Item> items;
  DenseMap<Operation *, size_t> placeOf;
};

} // namespace

HeldMemory echelon::heldMemory(ModuleOp module) { return Sweep(module).run(); }
