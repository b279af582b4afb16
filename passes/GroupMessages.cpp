// Messages of one kind over the same mesh axes that wait for nothing else become one.
//   1. In each block, take the messages of the update (gradients, parameters) in the order in which what they carry
//      comes to be, those of what is stored in parts (a layer's parameters, its gradients), and those that only reports
//      read.
//   2. How much a bucket holds the machine's links say, where the module has them, for all that is of one kind.
//   3. A message joins the last one of its kind unless one of them waits for the other, or the bucket is full. What a
//      repeat stacks up counts once, not once an iteration: the program's text does not depend on its depth.
//      A large value travels alone, as it lies, where a common message would have to be laid out part by part.
//   4. Bring the block into an order in which every value is made before it is read.
#include "ir/dist/Placed.h"
#include "ir/ech/Build.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
#include "passes/Passes.h"
#include "passes/Phase.h"
#include "passes/cost/Links.h"
#include "passes/cost/ProgramCost.h"
#include "passes/cost/StepProgram.h"
#include "planner/machine/Choice.h"
#include "planner/timeline/Groups.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <utility>

namespace echelon {
#define GEN_PASS_DEF_GROUPMESSAGES
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon;
using namespace echelon::dist;

namespace {

/// Operations of one block that become one.
struct Group {
  SmallVector<Operation *> members;
  int64_t bytes = 0;
};

bool isMessage(Operation *op) { return isa<ReduceScatterOp, AllToAllOp, AllReduceOp, AllGatherOp, ExchangeOp>(op); }
/// Whether the message takes its values in an order of their own, so that together they are copied in and out.
bool isRearranged(Operation *op) { return !isa<AllReduceOp>(op); }
/// Whether it puts together what is stored in parts, or cuts a gradient into them.
bool movesParts(Operation *op) {
  auto isInParts = [](Value v) { return isCut(stateOf(v)); };
  return isa<ReduceScatterOp, AllGatherOp>(op) &&
         (llvm::all_of(op->getOperands(), isInParts) || llvm::all_of(op->getResults(), isInParts));
}
bool readByReportsAlone(Operation *op) {
  return llvm::all_of(op->getUsers(), [](Operation *user) { return isa<ech::ReportOp>(user); });
}

/// Who waits for whom in a block, groups counted as one operation.
class Waiting {
public:
  explicit Waiting(Block &block) {
    for (Operation &op : block)
      numbers.try_emplace(&op, numbers.size());
    needs.resize(numbers.size());
    groups.resize(numbers.size());
    seenIn.resize(numbers.size());
    for (Operation &op : block)
      op.walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (Operation *def = operand.getDefiningOp())
            if (Operation *here = block.findAncestorOpInBlock(*def); here && here != &op)
              needs[numbers[&op]].push_back(numbers[here]);
      });
  }

  void join(Operation *op, Group *group) { groups[numbers[op]] = group; }

  bool waitsFor(ArrayRef<Operation *> later, ArrayRef<Operation *> earlier) {
    ++search;
    SmallVector<size_t> work;
    auto visit = [&](size_t number) {
      for (size_t need : needs[number])
        if (std::exchange(seenIn[need], search) != search)
          work.push_back(need);
    };
    SmallVector<size_t> wanted = llvm::map_to_vector(earlier, [&](Operation *op) { return numbers.lookup(op); });
    llvm::sort(wanted);
    for (Operation *op : later)
      visit(numbers.lookup(op));
    while (!work.empty()) {
      size_t number = work.pop_back_val();
      if (llvm::binary_search(wanted, number))
        return true;
      if (!groups[number]) {
        visit(number);
        continue;
      }
      for (Operation *op : groups[number]->members) {
        size_t member = numbers.lookup(op);
        if (llvm::binary_search(wanted, member))
          return true;
        if (std::exchange(seenIn[member], search) != search || member == number)
          visit(member);
      }
    }
    return false;
  }

private:
  DenseMap<Operation *, size_t> numbers;  // in the block's order
  std::vector<SmallVector<size_t>> needs; // by number: whose results it reads
  std::vector<Group *> groups;
  std::vector<int64_t> seenIn; // the last search that came by
  int64_t search = 0;
};

struct GroupMessages : echelon::impl::GroupMessagesBase<GroupMessages> {
  using GroupMessagesBase::GroupMessagesBase;

  void runOnOperation() override {
    if (bucketMegabytes < 1 || aloneKilobytes < 1) {
      getOperation().emitError("bucket-mb and alone-kb are at least 1");
      return signalPassFailure();
    }
    links = linksOf(getOperation());
    SmallVector<Block *> blocks;
    getOperation().walk([&](Operation *op) {
      if (auto repeat = dyn_cast<ech::RepeatOp>(op); repeat && !repeat.getTime() && !repeat.getAlong())
        repeated.insert(repeat.getAxis());
      for (Region &region : op->getRegions())
        for (Block &block : region)
          blocks.push_back(&block);
    });
    for (Block *block : blocks)
      group(*block);
    if (!told.empty())
      getOperation()->setAttr(kBuckets, Builder(&getContext()).getStrArrayAttr(llvm::to_vector_of<StringRef>(told)));
  }

  void group(Block &block) {
    MeshAttr mesh = meshOf(block.getParentOp());
    SmallVector<std::pair<int64_t, Operation *>> messages; // when it is ready, which
    DenseMap<Operation *, int64_t> ready;
    for (auto [i, op] : llvm::enumerate(block)) {
      int64_t when = i;
      if (isOfUpdate(&op) && isPure(&op)) { // as soon as what enters the update is there
        when = 0;
        for (Value operand : op.getOperands())
          if (Operation *def = operand.getDefiningOp())
            when = std::max(when, ready.lookup(def));
      }
      ready[&op] = when;
      if (isMessage(&op) && (isOfUpdate(&op) || readByReportsAlone(&op) || movesParts(&op)))
        messages.push_back({when, &op});
    }
    llvm::stable_sort(messages, llvm::less_first());

    if (messages.size() < 2)
      return;
    SmallVector<std::pair<Operation *, int64_t>> small;
    llvm::MapVector<Attribute, Kind> kinds;
    for (auto [when, op] : messages)
      if (const int64_t bytes = bytesToJoin(op, mesh); bytes >= 0) {
        small.push_back({op, bytes});
        kinds.try_emplace(keyOf(op), Kind{op, when}).first->second.add(op, bytes, when, mesh);
      }
    DenseMap<Attribute, int64_t> most; // bytes of a bucket
    for (auto &[key, kind] : kinds)
      most[key] = bucketBytes(kind);
    Waiting waiting(block);
    std::vector<std::unique_ptr<Group>> groups;
    DenseMap<Attribute, Group *> open;
    for (auto [op, bytes] : small) {
      const Attribute key = keyOf(op);
      Group *&last = open[key];
      bool joins = last && last->bytes + bytes <= most[key] && !waiting.waitsFor(op, last->members) &&
                   !waiting.waitsFor(last->members, op);
      if (!joins) {
        groups.push_back(std::make_unique<Group>());
        last = groups.back().get();
      }
      last->members.push_back(op);
      last->bytes += bytes;
      waiting.join(op, last);
    }
    bool changed = false;
    for (auto &group : groups)
      if (group->members.size() > 1) {
        merge(*group);
        changed = true;
      }
    if (changed)
      sortTopologically(&block);
  }

  /// Of a message that may join others; -1: it travels alone.
  int64_t bytesToJoin(Operation *op, MeshAttr mesh) {
    int64_t bytes = 0;
    for (Value operand : op->getOperands())
      bytes += bytesAnIteration(ech::tensor(operand), mesh);
    int64_t received = 0; // of a gather, the whole
    for (Value result : op->getResults())
      received += bytesAnIteration(ech::tensor(result), mesh);
    return isRearranged(op) && std::max(bytes, received) >= aloneKilobytes * 1000 ? -1 : bytes;
  }

  /// Messages that may become one.
  struct Kind {
    Operation *first;
    int64_t when; ///< the first is ready
    int64_t bytes = 0, whole = 0, values = 0;
    bool comeAtOnce = true;

    void add(Operation *op, int64_t anIteration, int64_t ready, MeshAttr mesh) {
      bytes += anIteration;
      for (Value operand : op->getOperands())
        whole += localBytes(ech::tensor(operand), mesh);
      values += op->getNumOperands();
      comeAtOnce &= ready == when;
    }
  };

  /// How much a message may hold that is put together of these, in bytes of an iteration.
  int64_t bucketBytes(const Kind &kind) {
    constexpr int64_t kMega = 1000000;
    const int64_t usual = bucketMegabytes * kMega;
    auto sum = dyn_cast<AllReduceOp>(kind.first); // what else is joined is small
    if (!links || !sum || bucketMegabytes.hasValue() || kind.bytes <= kMega)
      return usual;
    MeshAttr mesh = meshOf(sum);
    SmallVector<int> over;
    for (StringRef name : ech::strings(sum.getOver()))
      over.push_back(mesh.index(name));
    planner::Message message;
    message.bytes = double(kind.whole);
    message.group = planner::groupOf(sizesOf(mesh), {over.begin(), over.end()}, links->perNode);
    message.isOfUpdate = isOfUpdate(sum);
    if (StringRef said = sum.getAlgorithm(); said != "auto" && said != "native" && !said.ends_with("_summands"))
      message.algorithm = said.str();
    const double iterations = double(kind.whole) / double(kind.bytes);
    const auto bucket = planner::bucketOf(*links, message, {kind.values, kind.comeAtOnce, double(usual) * iterations});
    if (!bucket || bucket->bytes == double(usual) * iterations)
      return usual;
    const int64_t megabytes = std::max<int64_t>(int64_t(bucket->bytes / iterations) / kMega, 1);
    std::string line = "buckets of all_reduce over " + mesh.names(over) + " hold " + std::to_string(megabytes) +
                       " MB: " + inTime(bucket->seconds) + "; of " + std::to_string(bucketMegabytes) + " MB " +
                       inTime(bucket->secondsOtherwise);
    if (!llvm::is_contained(told, line))
      told.push_back(std::move(line));
    return megabytes * kMega;
  }

  int64_t bytesAnIteration(ech::Tensor type, MeshAttr mesh) {
    int64_t iterations = 1;
    for (const ech::Axis &a : type.getAxes())
      if (repeated.contains(a.name))
        iterations *= a.size;
    return localBytes(type, mesh) / std::max<int64_t>(1, iterations);
  }
  llvm::StringSet<> repeated; // axes of repeats
  std::optional<planner::Machine> links;
  SmallVector<std::string> told; // what buckets hold, where the links say so

  /// What messages share that travel together, the ranks that hold what they carry among it. The norm of all gradients
  /// goes without norms of the update, which are made of what it must have found finite first.
  Attribute keyOf(Operation *op) {
    Builder builder(&getContext());
    Operation *made = op->getOperand(0).getDefiningOp();
    const Place place = placeOf(stateOf(op->getOperand(0)));
    Attribute reduction = op->getAttr("reduction");
    return builder.getArrayAttr(
        {builder.getStringAttr(op->getName().getStringRef()), op->getAttr("over"), op->getAttr("algorithm"),
         reduction ? reduction : builder.getUnitAttr(), TypeAttr::get(ech::tensor(op->getOperand(0)).getElement()),
         place ? builder.getI64ArrayAttr({place->first, place->second}) : builder.getI64ArrayAttr({}),
         builder.getStringAttr(phaseOf(op)), builder.getBoolAttr(made && made->hasAttr(kParameters))});
  }

  /// "CLAUSE: USE" of many becomes "CLAUSE: USE, USE and 3 more", of gradients "CLAUSE: gradients of w1, b1 and 3
  /// more".
  static std::string whyOf(ArrayRef<Operation *> members) {
    SmallVector<StringRef> clauses, uses, parameters;
    auto add = [](SmallVectorImpl<StringRef> &list, StringRef one) {
      if (!one.empty() && !llvm::is_contained(list, one))
        list.push_back(one);
    };
    bool areGradients = true;
    for (Operation *op : members) {
      auto [clause, use] = op->getAttrOfType<StringAttr>("why").getValue().split(": ");
      add(clauses, clause);
      add(uses, use);
      areGradients &= use.consume_front("gradient of ") || use.consume_front("gradients of ");
      SmallVector<StringRef> names;
      use.split(" (").first.split(names, ", ");
      for (StringRef name : names)
        add(parameters, name);
    }
    std::string text = llvm::join(clauses, "; ");
    if (areGradients && parameters.size() > 1)
      return text + ": gradients of " + listed(parameters);
    return uses.empty() ? text : text + ": " + listed(uses);
  }

  /// Three of them, and how many more.
  static std::string listed(ArrayRef<StringRef> all) {
    constexpr size_t named = 3;
    std::string more = all.size() > named ? " and " + std::to_string(all.size() - named) + " more" : "";
    return llvm::join(all.take_front(named), ", ") + more;
  }

  static void merge(Group &group) {
    Operation *first = group.members.front();
    OperationState state(first->getLoc(), first->getName());
    for (Operation *op : group.members) {
      state.addOperands(op->getOperands());
      state.addTypes(op->getResultTypes());
    }
    state.addAttributes(first->getAttrs());
    OpBuilder builder(first);
    Operation *one = builder.create(state);
    one->setAttr("why", builder.getStringAttr(whyOf(group.members)));
    unsigned next = 0;
    for (Operation *op : group.members) {
      for (Value result : op->getResults())
        result.replaceAllUsesWith(one->getResult(next++));
      op->erase();
    }
  }
};
} // namespace
