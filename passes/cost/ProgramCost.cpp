// Tables of communication and memory.
#include "passes/cost/ProgramCost.h"
#include "ir/dist/Offload.h"
#include "ir/dist/Placed.h"
#include "ir/ech/Build.h"
#include "ir/ech/SourcePlace.h"
#include "ir/rt/Chosen.h"
#include "ir/rt/Offload.h"
#include "ir/run/Run.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/Phase.h"
#include "passes/cost/HeldMemory.h"
#include "passes/cost/Links.h"
#include "passes/cost/StepProgram.h"
#include "runtime/launch/Printable.h"
#include "runtime/program/OffloadPiece.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace echelon;

static MessageCost costOf(rt::CollectiveOp op) {
  MessageCost message;
  message.op = op.getKind().str();
  message.axis = op.getAxis().str();
  message.ranks = op.getRanks();
  message.bytes = op.messageBytes();
  message.algorithm = op.getAlgorithm().str();
  if (auto choice = op->getAttrOfType<StringAttr>(rt::kChosen))
    message.choice = choice.str();
  message.reason = op.getWhy().str();
  return message;
}
static MessageCost costOf(rt::SendOp op) {
  MessageCost message;
  message.op = "send";
  message.axis = op.getAxis().str();
  message.ranks = 2;
  message.bytes = rt::buffer(op.getBuffer()).bytes();
  message.algorithm = "automatic";
  message.reason =
      (op.getWhy() + ": " + (static_cast<int64_t>(op.getStep()) > 0 ? "to the next stage" : "to the stage before"))
          .str();
  return message;
}

/// What a rank sends on in each hop: keys and values, and of derivatives what has been added up of theirs.
template <typename Op> static MessageCost costOfHop(Op op, StringRef what, int64_t hops) {
  MessageCost message;
  message.op = "send";
  message.axis = op.getAxis().str();
  message.ranks = 2;
  message.bytes = rt::buffer(op.getK()).bytes() + rt::buffer(op.getV()).bytes();
  message.count = hops;
  message.algorithm = "ring";
  message.reason = (op.getWhy() + ": " + what + " to the next rank").str();
  return message;
}

/// What a function's messages cost; equal ones are counted together.
static void addMessages(rt::FunctionOp function, ArrayRef<int64_t> meshSizes, std::vector<MessageCost> &messages) {
  auto add = [&](Operation *op, MessageCost message) {
    message.place = ech::sourcePlace(op->getLoc());
    message.phase = phaseOf(op).str();
    auto isEqual = [&](const MessageCost &known) {
      return known.op == message.op && known.axis == message.axis && known.bytes == message.bytes &&
             known.reason == message.reason && known.place == message.place && known.phase == message.phase;
    };
    auto known = llvm::find_if(messages, isEqual);
    if (known == messages.end())
      known = messages.insert(known, message);
    known->times.add(rt::timesOf(op, meshSizes), message.count);
    known->count = known->times.most();
  };
  function.walk([&](Operation *op) {
    if (auto collective = dyn_cast<rt::CollectiveOp>(op))
      add(op, costOf(collective));
    else if (auto send = dyn_cast<rt::SendOp>(op))
      add(op, costOf(send));
    else if (auto ring = dyn_cast<rt::RingAttentionOp>(op))
      add(op, costOfHop(ring, "keys and values", ring.getRanks() - 1));
    else if (auto ring = dyn_cast<rt::RingAttentionGradOp>(op)) {
      add(op, costOfHop(ring, "keys and values", ring.getRanks() - 1));
      add(op, costOfHop(ring, "derivatives of keys and values", ring.getRanks()));
    }
  });
}

MessageSum echelon::sumOf(ArrayRef<MessageCost> messages) {
  rt::ByStage counts, bytes;
  for (const MessageCost &message : messages) {
    counts.add(message.times);
    bytes.add(message.times, message.bytes);
  }
  const auto *most = llvm::max_element(bytes.numbers);
  return {counts.of(size_t(most - bytes.numbers.begin())), *most};
}

/// A piece of a rule's rows is of one size; what other operations touch is in memory whole, and what is let go in one
/// place together.
static std::optional<OffloadCost> offloadOf(ModuleOp module) {
  auto directory = module->getAttrOfType<StringAttr>(dist::kOffload);
  auto place = module->getAttrOfType<DenseI64ArrayAttr>(rt::kOffloaded);
  if (!directory || !place)
    return std::nullopt;
  OffloadCost cost{directory.str(),
                   place[0],
                   place[1],
                   runtime::kPieceBytes,
                   module->hasAttr(rt::kStaged),
                   module->hasAttr(dist::kOffloadParams)};
  if (cost.isOfGpu)
    cost.piece = std::min<int64_t>(cost.piece, llvm::alignTo(cost.bytes / 2, runtime::kOffloadAlignment));
  module.walk([&](rt::LetGoOp first) {
    int64_t bytes = 0;
    for (auto op = first; op; op = dyn_cast_or_null<rt::LetGoOp>(op->getNextNode()))
      bytes += rt::buffer(op.getBuffer()).bytes();
    cost.piece = std::max(cost.piece, bytes);
  });
  module.walk([&](rt::ForOp loop) { // what an iteration reads, while that of the next one comes
    int64_t bytes = 0;
    for (auto op : loop.getBody().getOps<rt::LetGoOp>())
      bytes += rt::buffer(op.getBuffer()).bytes();
    cost.piece = std::max(cost.piece, bytes);
  });
  return cost;
}

/// What one stage has alone; null of what all ranks have.
static PlacedCost *placedOf(ech::VariableOp variable, ech::Tensor type, dist::MeshAttr mesh, ProgramCost &cost) {
  const dist::Place place = mesh ? dist::placeOf(dist::stateOf(type)) : std::nullopt;
  if (!place)
    return nullptr;
  const std::string axis = mesh.nameOf(place->first).str();
  auto isIt = [&](const PlacedCost &known) { return known.axis == axis && known.stage == place->second; };
  auto at = llvm::find_if(cost.placed, isIt);
  if (at == cost.placed.end())
    at = cost.placed.insert(at, {axis, place->second, 0, 0, {}});
  if (variable.getKind() == ech::VariableKind::Param)
    at->names.push_back(variable.getSymName().str());
  return &*at;
}

/// Adds up what is stored; returns bytes of gradients among it.
static int64_t addVariables(ModuleOp module, ProgramCost &cost) {
  dist::MeshAttr mesh = dist::meshOf(module);
  int64_t handedIn = 0;
  cost.memory.optimizer = cost.offload ? cost.offload->resident() : 0;
  for (auto variable : module.getOps<ech::VariableOp>()) {
    auto place = variable->getAttrOfType<IntegerAttr>(rt::kOffset);
    if (cost.offload && place && place.getInt() >= cost.offload->from)
      continue;
    auto type = cast<ech::Tensor>(variable.getType());
    const int64_t elements = mesh && type.getState() ? dist::localCount(type, mesh) : type.count();
    const int64_t bytes = elements * rt::Buffer::dense({}, type.getElement()).elementBytes();
    const bool isParam = variable.getKind() == ech::VariableKind::Param;
    if (PlacedCost *placed = placedOf(variable, type, mesh, cost)) {
      (isParam ? placed->params : placed->optimizer) += bytes;
      continue;
    }
    (isParam ? cost.memory.params
     : variable.getKind() == ech::VariableKind::State || variable.getKind() == ech::VariableKind::Copy
         ? cost.memory.buffers
     : variable.getKind() == ech::VariableKind::HandedIn ? handedIn
                                                         : cost.memory.optimizer) += bytes;
  }
  llvm::sort(cost.placed, [](const PlacedCost &a, const PlacedCost &b) { return a.stage < b.stage; });
  const auto *most = std::max_element(cost.placed.data(), cost.placed.data() + cost.placed.size(),
                                      [](const PlacedCost &a, const PlacedCost &b) { return a.bytes() < b.bytes(); });
  if (!cost.placed.empty()) {
    cost.memory.params += most->params;
    cost.memory.optimizer += most->optimizer;
  }
  return handedIn;
}

ProgramCost echelon::programCost(ModuleOp module, bool saves) {
  ProgramCost cost;
  auto number = [&](StringRef name) {
    auto value = module->getAttrOfType<IntegerAttr>(name);
    return value ? value.getInt() : 0;
  };
  cost.stateBytes = number(rt::kStateBytes);
  cost.inputBytes = number(rt::kInputBytes);
  cost.workBytes = number(rt::kWorkBytes);
  cost.offload = offloadOf(module);
  const bool isInFile = cost.offload && !cost.offload->directory.empty();
  cost.copyBytes = saves && !isInFile ? cost.stateBytes : 0;
  const int64_t handedIn = addVariables(module, cost); // gradients that live from the step to the update
  dist::MeshAttr mesh = dist::meshOf(module);
  auto train = dyn_cast_or_null<rt::FunctionOp>(SymbolTable::lookupSymbolIn(module, "train"));
  if (train) {
    // gradients: what the backward pass writes and the update reads
    DenseSet<int64_t> counted;
    train.walk([&](rt::AllocOp alloc) {
      if (alloc.getArena() != rt::Arena::Work || !alloc.getOffset())
        return;
      bool made = false, used = false;
      rt::forEachUser(alloc.getBuffer(), [&](Operation *user) {
        made |= isOfBackward(user);
        used |= isOfUpdate(user);
      });
      if (made && used && counted.insert(*alloc.getOffset()).second)
        cost.memory.gradients += rt::buffer(alloc).bytes();
    });
    const std::vector<int64_t> sizes = sizesOf(mesh);
    addMessages(train, sizes, cost.messages);
    auto ofPolicy = [&](StringRef step, std::vector<MessageCost> &messages) {
      if (auto function = dyn_cast_or_null<rt::FunctionOp>(SymbolTable::lookupSymbolIn(module, step)))
        addMessages(function, sizes, messages);
    };
    ofPolicy("update", cost.messages);
    ofPolicy("meet", cost.meetingMessages);
    if (auto policy = run::only<run::SyncOp>(module))
      cost.meetsEvery = int64_t(policy.getEvery());
  }
  cost.pipeline = pipelineCost(module);
  if (auto lines = module->getAttrOfType<ArrayAttr>(kBuckets))
    for (StringRef line : ech::strings(lines))
      cost.buckets.push_back(line.str());
  cost.memory.gradients = std::min(cost.memory.gradients, cost.workBytes);
  cost.memory.activations = cost.workBytes - cost.memory.gradients;
  cost.memory.gradients += handedIn;
  const int64_t away = cost.offload ? cost.offload->bytes - cost.offload->resident() : 0;
  cost.memory.total = cost.stateBytes - away + cost.inputBytes + cost.workBytes + cost.copyBytes;
  cost.memory.buffers =
      cost.memory.total - cost.memory.params - cost.memory.optimizer - cost.memory.gradients - cost.memory.activations;
  if (module->hasAttr(kHeld)) { // what the program would take is not asked for
    HeldMemory held = heldMemory(module);
    held.optimizer = std::max(held.optimizer - double(away), 0.0);
    const int64_t buffers = cost.inputBytes + cost.copyBytes;
    cost.memory = {int64_t(held.params),
                   int64_t(held.gradients),
                   int64_t(held.optimizer),
                   int64_t(held.activations),
                   buffers,
                   int64_t(held.total()) + buffers};
  }
  return cost;
}

std::string echelon::inTime(double seconds) {
  const char *unit = " s";
  if (seconds < 1)
    for (const char *smaller : {" ms", " us", " ns"}) {
      seconds *= 1000;
      unit = smaller;
      if (seconds >= 1)
        break;
    }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.3g", seconds) << unit;
  return text;
}

/// `where`: of which ranks the sum is, if they send unequally much.
static void print(const std::vector<MessageCost> &messages, const char *where, llvm::raw_ostream &os) {
  if (messages.empty())
    os << "  none\n";
  const MessageSum sum = sumOf(messages);
  for (const MessageCost &m : messages) {
    std::string place = m.place.empty() ? "" : " (" + m.place + ")";
    os << llvm::format("  %4lld x %-14s over %-8s%12lld bytes  ", static_cast<long long>(m.count), m.op.c_str(),
                       m.axis.c_str(), static_cast<long long>(m.bytes))
       << m.reason << (StringRef(m.reason).contains(place) ? "" : place);
    if (m.seconds > 0)
      os << ", " << inTime(m.seconds) << " each";
    if (!m.choice.empty())
      os << ", by " << m.choice;
    os << "\n";
  }
  if (!messages.empty())
    os << llvm::format("  in all%s %lld messages, %lld bytes\n", where, static_cast<long long>(sum.count),
                       static_cast<long long>(sum.bytes));
}

std::string OffloadCost::text() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto megabytes = [](int64_t bytes) { return llvm::format("%.3f MB", static_cast<double>(bytes) / 1e6); };
  os << "  of the optimizer" << (params ? " and the parameters of repeats, " : ", ") << megabytes(bytes)
     << " are offloaded to " << (directory.empty() ? "the host's memory" : '"' + runtime::printable(directory) + '"')
     << (resident() == bytes ? ", all of it in the two pieces of " : ", of which two pieces of ") << megabytes(piece)
     << (resident() == bytes ? " that are " : " are ") << (isOfGpu ? "on the device" : "in memory");
  if (isOfGpu)
    os << "; the host has " << megabytes(ofHost()) << " of memory for them";
  os << "\n";
  return text;
}

std::string PlacedCost::text() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  constexpr size_t named = 3;
  os << llvm::format("  %.3f MB of params and %.3f MB of optimizer are on stage %lld of ", double(params) / 1e6,
                     double(optimizer) / 1e6, static_cast<long long>(stage))
     << axis << " alone: " << llvm::join(ArrayRef(names).take_front(named), ", ");
  if (names.size() > named)
    os << " and " << names.size() - named << " more";
  os << "\n";
  return text;
}

std::string ProgramCost::text() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "memory per rank\n";
  for (auto [name, bytes] : {std::pair("params", memory.params),
                             {"gradients", memory.gradients},
                             {"optimizer", memory.optimizer},
                             {"activations", memory.activations},
                             {"buffers", memory.buffers},
                             {"total", memory.total}})
    os << llvm::format("  %-12s%12.3f MB\n", name, static_cast<double>(bytes) / 1e6);
  if (copyBytes)
    os << llvm::format("  of the buffers, %.3f MB are a copy of params and optimizer, to write snapshots from\n",
                       static_cast<double>(copyBytes) / 1e6);
  for (const PlacedCost &each : placed)
    os << each.text();
  if (offload)
    os << offload->text();
  os << "communication per step\n";
  print(messages, pipeline ? ", on the stage that sends most," : "", os);
  for (const std::string &bucket : buckets)
    os << "  " << bucket << "\n";
  if (!meetingMessages.empty()) {
    os << "communication per meeting, every " << meetsEvery << (meetsEvery == 1 ? " step\n" : " steps\n");
    print(meetingMessages, "", os);
  }
  if (pipeline)
    os << pipeline->text();
  return text;
}
