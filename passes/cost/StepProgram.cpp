// Walks the program once for each stage of a pipeline: what the stage does not do is left out, and so are loops that do
// nothing there. Loops stay loops.
#include "passes/cost/StepProgram.h"
#include "ir/rt/Product.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/Phase.h"
#include "planner/timeline/Groups.h"
#include "runtime/program/Turns.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace echelon;
using planner::Action;
using planner::Actions;

namespace {

planner::Message::Kind messageKind(StringRef kind) {
  return llvm::StringSwitch<planner::Message::Kind>(kind)
      .Case("reduce_scatter", planner::Message::Kind::ReduceScatter)
      .Case("all_gather", planner::Message::Kind::AllGather)
      .Case("all_to_all", planner::Message::Kind::AllToAll)
      .Case("broadcast", planner::Message::Kind::Broadcast)
      .Case("send", planner::Message::Kind::Send)
      .Default(planner::Message::Kind::AllReduce);
}

/// What the machine is to take; empty: it chooses.
std::string algorithmOf(StringRef algorithm) {
  algorithm.consume_back("_summands");
  return algorithm == "automatic" || algorithm == "native" ? "" : algorithm.str();
}

planner::Precision precisionOf(Type type, bool isTf32) {
  if (type.isF64())
    return planner::Precision::Fp64;
  if (type.isBF16())
    return planner::Precision::Bf16;
  if (type.isF16())
    return planner::Precision::Fp16;
  return isTf32 ? planner::Precision::Tf32 : planner::Precision::Fp32;
}

bool isSame(const planner::Work &a, const planner::Work &b) {
  return std::tie(a.kind, a.kernel, a.precision, a.flops, a.bytes, a.added, a.exponentials, a.m, a.n, a.k, a.batch) ==
         std::tie(b.kind, b.kernel, b.precision, b.flops, b.bytes, b.added, b.exponentials, b.m, b.n, b.k, b.batch);
}
bool isSame(const planner::Message &a, const planner::Message &b) {
  const planner::Group &x = a.group, &y = b.group;
  return std::tie(a.kind, a.bytes, a.algorithm, a.isOfUpdate, x.ranks, x.nodes, x.perNode, x.beside, x.apart) ==
         std::tie(b.kind, b.bytes, b.algorithm, b.isOfUpdate, y.ranks, y.nodes, y.perNode, y.beside, y.apart);
}
template <typename T> size_t placeOf(std::vector<T> &list, const T &wanted) {
  auto known = llvm::find_if(list, [&](const T &each) { return isSame(each, wanted); });
  if (known == list.end())
    known = list.insert(known, wanted);
  return size_t(known - list.begin());
}

/// How long a scalar function takes, by an exponential, as the runtime's vectors have them in the cache. 0: an addition
/// or the like.
double exponentialsOf(StringRef function) {
  return llvm::StringSwitch<double>(function)
      .Case("exp", 1)
      .Cases({"sigmoid", "silu"}, 1.4)
      .Cases({"gelu_tanh", "silu_grad"}, 2.2)
      .Cases({"log", "tanh", "erf", "gelu", "gelu_tanh_grad"}, 3.3)
      .Cases({"sin", "cos", "gelu_grad"}, 5)
      .Case("pow", 15)
      .Default(0);
}

/// Of all loops in an operation.
double exponentialsIn(Operation *op) {
  double sum = 0;
  const auto add = [&](rt::FusedOp nest) {
    double points = 1, functions = 0;
    for (int64_t size : nest.getSizes())
      points *= double(size);
    for (auto scalar : nest.getBody().front().getOps<rt::ComputeOp>())
      functions += exponentialsOf(scalar.getFunction());
    sum += points * functions;
  };
  op->walk(add);
  return sum;
}

class Walk {
public:
  Walk(ModuleOp module, const StepPlace &place)
      : module(module), mesh(dist::meshOf(module)), sizes(sizesOf(mesh)), place(place) {
    step.terms = {"host", "bubble"};
  }

  planner::Step run(std::vector<Operation *> *toCalls) {
    SmallVector<rt::FunctionOp> functions;
    for (const std::string &name : place.functions)
      if (auto function = dyn_cast_or_null<rt::FunctionOp>(SymbolTable::lookupSymbolIn(module, name)))
        functions.push_back(function);
    for (rt::FunctionOp function : functions)
      function.walk([&](Operation *op) { findStages(op); });
    for (stage = 0; stage < stages(); ++stage) {
      Actions all;
      for (rt::FunctionOp function : functions)
        addAll(function.getBody().front(), all);
      step.stages.push_back(std::move(all));
    }
    if (toCalls)
      llvm::append_range(*toCalls, llvm::make_first_range(calls));
    return std::move(step);
  }

private:
  int64_t stages() const { return over < 0 ? 1 : sizes[size_t(over)]; }

  /// The mesh axis by whose coordinates ranks differ in what they do.
  void findStages(Operation *op) {
    if (over >= 0)
      return;
    if (auto turns = dyn_cast<rt::StagesOp>(op))
      over = int64_t(turns.getMesh());
    else if (auto at = dyn_cast<rt::AtOp>(op))
      over = int64_t(at.getMesh());
    else if (auto loop = dyn_cast<rt::ForOp>(op))
      if (auto own = loop.getOwn() ? loop.getOwn().getDefiningOp<rt::OffsetOp>() : rt::OffsetOp())
        over = own.getMesh().front();
  }

  int64_t tripsOf(rt::ForOp loop) {
    auto own = loop.getOwn() ? loop.getOwn().getDefiningOp<rt::OffsetOp>() : rt::OffsetOp();
    if (!own || !own.getTable())
      return std::max<int64_t>(int64_t(loop.getCount()), 1);
    const int64_t chunk = own.getTurn() ? chunks.lookup(own.getTurn()) : 0;
    return (*own.getTable())[stage + chunk * stages()];
  }
  static bool isChunk(Value number) {
    return llvm::any_of(number.getUsers(), [&](Operation *user) {
      auto at = dyn_cast<rt::AtOp>(user);
      auto own = dyn_cast<rt::OffsetOp>(user);
      return (at && at.getTurn() == number) || (own && own.getTurn() == number);
    });
  }

  void addAll(Block &block, Actions &to) {
    for (Operation &op : block)
      add(&op, to);
  }
  void add(Operation *op, Actions &to) {
    llvm::TypeSwitch<Operation *>(op)
        .Case<rt::ForOp, rt::AtOp, rt::StagesOp, rt::NextOp, rt::CollectiveOp, rt::SendOp, rt::ReceiveOp, rt::WaitOp,
              rt::RingAttentionOp, rt::RingAttentionGradOp>([&](auto known) { add(known, to); })
        .Default([&](Operation *other) {
          if (auto costed = dyn_cast<rt::Costed>(other))
            addWork(other, workOf(costed), to);
        });
  }

  void add(rt::ForOp loop, Actions &to) {
    const int64_t trips = tripsOf(loop);
    Block &body = loop.getBody().front();
    if (isChunk(loop.position())) { // each chunk has iterations of its own
      for (int64_t chunk = 0; chunk < trips; ++chunk) {
        chunks[loop.position()] = chunk;
        addAll(body, to);
      }
      return;
    }
    Action action;
    action.kind = Action::Kind::Loop;
    action.trips = trips;
    if (trips > 0) {
      addAll(body, action.body);
      if (loop.ahead())
        addAll(*loop.ahead(), action.ahead);
    }
    if (!action.body.empty() || !action.ahead.empty())
      to.push_back(std::move(action));
  }
  void add(rt::AtOp at, Actions &to) {
    const int64_t chunk = at.getTurn() ? chunks.lookup(at.getTurn()) : 0;
    if (at.isAt(int64_t(at.getMesh()) == over ? stage : 0, chunk, stages()))
      addAll(at.getBody().front(), to);
  }
  void add(rt::StagesOp op, Actions &to) {
    auto turns = std::make_shared<planner::Turns>();
    const auto count = int64_t(op.getCount()), ofStage = int64_t(op.getChunks());
    turns->chunks = size_t(ofStage);
    const runtime::StageOrder *schedule = runtime::stageOrderNamed(op.getSchedule().str());
    const SmallVector<Block *, 2> passes = rt::blocksOf(op);
    isInTurns = true;
    for (Block *pass : passes)
      for (int64_t chunk = 0; chunk < ofStage; ++chunk) {
        if (pass->getNumArguments() > 2)
          chunks[pass->getArgument(2)] = chunk;
        turns->bodies.emplace_back();
        addAll(*pass, turns->bodies.back());
      }
    isInTurns = false;
    for (const runtime::Turn &turn : schedule->turns(stage, stages(), count, ofStage))
      if (size_t(turn.pass) < passes.size())
        turns->order.push_back(size_t(turn.pass) * size_t(ofStage) + size_t(turn.chunk));
    Action action;
    action.kind = Action::Kind::Turns;
    action.turns = std::move(turns);
    to.push_back(std::move(action));
  }
  void add(rt::NextOp, Actions &to) {
    to.emplace_back();
    to.back().kind = Action::Kind::Next;
  }

  size_t term(const std::string &name) {
    auto known = llvm::find(step.terms, name);
    if (known == step.terms.end())
      known = step.terms.insert(known, name);
    return size_t(known - step.terms.begin());
  }
  size_t call(Operation *op) { return calls.try_emplace(op, calls.size()).first->second; }
  int64_t ticket(Value tickets) {
    return known.try_emplace(tickets.getAsOpaquePointer(), int64_t(known.size())).first->second;
  }

  planner::Work workOf(rt::Costed op, int64_t parts = 1) {
    const rt::Cost cost = op.cost();
    const rt::Product product = rt::productOf(op);
    planner::Work work;
    work.kernel = StringRef(cost.name).split(" of ").first.str();
    work.kind = llvm::StringSwitch<planner::Work::Kind>(cost.kind)
                    .Case("products", planner::Work::Kind::Product)
                    .Case("convolutions", planner::Work::Kind::Convolution)
                    .Case("attention", StringRef(cost.name).ends_with("_grad") ? planner::Work::Kind::AttentionGrad
                                                                               : planner::Work::Kind::Attention)
                    .Case("loops", planner::Work::Kind::Loop)
                    .Default(planner::Work::Kind::Kernel);
    if (work.kind == planner::Work::Kind::Loop && isOfUpdate(op))
      work.kernel = "update";
    work.flops = double(cost.flops) / double(parts);
    work.bytes = double(cost.bytes) / double(parts);
    if (op->hasAttr("adds") && work.kind == planner::Work::Kind::Product)
      work.added = double(rt::buffer(cost.about).bytes());
    work.exponentials = exponentialsIn(op) / double(parts);
    work.m = product.m;
    work.n = product.n / parts;
    work.k = product.k;
    work.batch = product.batch;
    work.precision = product.factors ? precisionOf(product.factors, place.isTf32) : planner::Precision::Fp32;
    return work;
  }
  /// Of a nest, the kernels that it is on a GPU.
  static int64_t callsOf(Operation *op) {
    auto nest = dyn_cast<rt::FusedOp>(op);
    if (!nest || nest.getLoops().empty())
      return 1;
    return std::max<int64_t>(1, llvm::range_size(nest.getLoops().front().getOps<rt::KernelOp>()));
  }
  static std::string termOf(Operation *op, const planner::Work &work) {
    if (isOfUpdate(op))
      return "optimizer";
    switch (work.kind) {
    case planner::Work::Kind::Product:
      return "products";
    case planner::Work::Kind::Convolution:
      return "convolutions";
    case planner::Work::Kind::Attention:
    case planner::Work::Kind::AttentionGrad:
      return "attention";
    case planner::Work::Kind::Loop:
      return "loops";
    case planner::Work::Kind::Kernel:
      return "kernels";
    }
    return "";
  }
  void addWork(Operation *op, const planner::Work &work, Actions &to) {
    if (work.flops == 0 && work.bytes == 0)
      return;
    Action action;
    action.what = placeOf(step.works, work);
    action.term = term(termOf(op, work));
    action.call = call(op);
    action.calls = callsOf(op);
    to.push_back(action);
  }

  Action messageAction(Operation *op, const planner::Message &message, StringRef axis) {
    Action action;
    action.kind = Action::Kind::Message;
    action.what = placeOf(step.messages, message);
    action.term = term("messages over " + axis.str());
    action.call = call(op);
    return action;
  }
  Action sendAction(Operation *op, int64_t bytes, const planner::Group &group, StringRef axis) {
    return messageAction(op, {planner::Message::Kind::Send, double(bytes), group, "", false, ""}, axis);
  }
  void add(rt::CollectiveOp op, Actions &to) {
    Action action = messageAction(op, messageOf(op, mesh, place.perNode), op.getAxis());
    if (op.isStarted())
      action.ticket = ticket(op.toWaitFor());
    action.joins = llvm::is_contained(op.getMesh(), over);
    to.push_back(action);
  }
  template <typename Op> void addNeighbor(Op op, bool isSent, Actions &to) {
    const int64_t axis = op.getMesh().front(), all = sizes[size_t(axis)];
    const int64_t here = axis == over ? stage : 0;
    const int64_t peer = (here + int64_t(op.getStep()) + all) % all;
    Action action = sendAction(op, rt::buffer(op.getBuffer()).bytes(),
                               planner::neighborsOf(sizes, axis, here, peer, place.perNode), op.getAxis());
    action.peer = peer;
    if (isInTurns)
      action.kind = isSent ? Action::Kind::Send : Action::Kind::Receive;
    else if (!isSent)
      return;
    if (Value kept = op.toWaitFor())
      action.ticket = ticket(kept);
    to.push_back(action);
  }
  void add(rt::SendOp op, Actions &to) { addNeighbor(op, true, to); }
  void add(rt::ReceiveOp op, Actions &to) { addNeighbor(op, false, to); }
  void add(rt::WaitOp op, Actions &to) {
    const bool isOfSend =
        llvm::any_of(op.getTicket().getUsers(), [](Operation *user) { return isa<rt::SendOp>(user); });
    if (isOfSend && isInTurns)
      return; // of a turn before; its channel tells when the next one can leave
    Action action;
    action.kind = Action::Kind::Wait;
    action.call = call(op);
    action.ticket = ticket(op.getTicket());
    action.all = !op.getPosition();
    to.push_back(action);
  }

  /// In each of as many hops as there are ranks a part is computed, while keys and values of the next one come; `home`:
  /// so do the derivatives of those before, which go one hop further than all parts.
  template <typename Op> void addRing(Op op, bool home, Actions &to) {
    const auto ranks = int64_t(op.getRanks()), bytes = rt::buffer(op.getK()).bytes() + rt::buffer(op.getV()).bytes();
    const planner::Work part = workOf(op, ranks);
    Action hop =
        sendAction(op, bytes, planner::neighborsOf(sizes, op.getMesh().front(), 0, 1, place.perNode), op.getAxis());
    hop.ticket = ticket(op.getY());
    Action wait, loop;
    wait.kind = Action::Kind::Wait;
    wait.call = hop.call;
    wait.ticket = hop.ticket;
    loop.kind = Action::Kind::Loop;
    loop.trips = ranks - 1;
    loop.body.assign(home ? 2 : 1, hop);
    addWork(op, part, loop.body);
    loop.body.push_back(wait);
    to.push_back(std::move(loop));
    addWork(op, part, to);
    if (home)
      to.insert(to.end(), {hop, wait});
  }
  void add(rt::RingAttentionOp op, Actions &to) { addRing(op, false, to); }
  void add(rt::RingAttentionGradOp op, Actions &to) { addRing(op, true, to); }

  ModuleOp module;
  dist::MeshAttr mesh;
  std::vector<int64_t> sizes;
  StepPlace place;
  planner::Step step;
  int64_t over = -1; ///< the mesh axis of stages
  int64_t stage = 0;
  bool isInTurns = false;
  llvm::DenseMap<Value, int64_t> chunks;       ///< of turns, and of loops over chunks
  llvm::DenseMap<const void *, int64_t> known; ///< tickets
  llvm::MapVector<Operation *, size_t> calls;  ///< Action::call of each
};

} // namespace

std::vector<int64_t> echelon::sizesOf(dist::MeshAttr mesh) {
  std::vector<int64_t> sizes;
  for (int m = 0; mesh && m < mesh.size(); ++m)
    sizes.push_back(mesh.sizeOf(m));
  return sizes;
}

planner::Step echelon::stepOf(ModuleOp module, const StepPlace &place, std::vector<Operation *> *calls) {
  return Walk(module, place).run(calls);
}

planner::Message echelon::messageOf(rt::CollectiveOp op, dist::MeshAttr mesh, int64_t perNode) {
  const std::vector<int64_t> axes(op.getMesh().begin(), op.getMesh().end());
  return {messageKind(op.getKind()),
          double(op.messageBytes()),
          planner::groupOf(sizesOf(mesh), axes, perNode),
          algorithmOf(op.getAlgorithm()),
          isOfUpdate(op),
          ""};
}

planner::Message echelon::messageOf(const MessageCost &cost, dist::MeshAttr mesh, int64_t perNode) {
  SmallVector<StringRef> names;
  StringRef(cost.axis).split(names, '+');
  std::vector<int64_t> axes;
  for (int m = 0; m < mesh.size(); ++m)
    if (llvm::is_contained(names, mesh.nameOf(m)))
      axes.push_back(m);
  planner::Message message;
  message.isOfUpdate = cost.phase == "update";
  message.kind = messageKind(cost.op);
  message.bytes = double(cost.bytes);
  message.algorithm = cost.op == "send" ? "" : algorithmOf(cost.algorithm);
  message.group = cost.op == "send" ? planner::neighborsOf(sizesOf(mesh), axes.front(), 0, 1, perNode)
                                    : planner::groupOf(sizesOf(mesh), axes, perNode);
  return message;
}
