// Collectives by NCCL. Rank 0 makes the id of a communicator of all, which the host's transport hands out; each group
// gets a part of it. Nothing blocks: what NCCL does not get done within the deadline ends the rank.
//
// NCCL does what is put into one communicator one after the other, whatever the streams. So messages from one rank to
// another have a communicator of these two, which has no others: one that is sent before it is received stands in
// nobody's way.
#include "runtime/collectives/Collectives.h"
#include "runtime/cuda/Check.h"
#include "runtime/cuda/NcclSettings.h"
#include "runtime/cuda/Transport.h"
#include "runtime/launch/Fail.h"

#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

namespace echelon::cuda {

namespace {

using runtime::Algorithm;
using runtime::Collective;
using runtime::CollectiveCall;
using runtime::ElementType;
using runtime::Group;

/// To bring up a communicator takes longer than a message: all ranks start processes of their own and look for routes.
constexpr double kBringUpSeconds = 120;

ncclDataType_t typeOf(ElementType type) {
  switch (type) {
  case ElementType::Float32:
    return ncclFloat32;
  case ElementType::Float64:
    return ncclFloat64;
  case ElementType::BFloat16:
    return ncclBfloat16;
  case ElementType::Float16:
    return ncclFloat16;
  case ElementType::Int32:
    return ncclInt32;
  case ElementType::Int8:
    return ncclInt8;
  case ElementType::UInt8:
    return ncclUint8;
  }
  __builtin_unreachable();
}

ncclRedOp_t reductionOf(runtime::ReduceOp op) {
  return op == runtime::Sum ? ncclSum : op == runtime::Max ? ncclMax : ncclMin;
}

/// What a program says of collectives over a group, as rows of the tuner's (tuner/Tuner.cpp). What is NCCL's own
/// choice, and what it does by sends and receives, has none.
std::string rowsOf(runtime::Rank &host, const Group &group) {
  std::string rows;
  for (const runtime::CollectiveChoice &choice : host.program().choices)
    if (host.group(choice.group).id == group.id && choice.algorithm != Algorithm::native &&
        choice.kind != Collective::AllToAll)
      rows += std::string(rows.empty() ? "" : "; ") + nameOf(choice.kind) + " " + nameOf(choice.algorithm);
  for (const runtime::TunerRow &row : host.program().tuner)
    if (host.group(row.group).id == group.id)
      rows += std::string(rows.empty() ? "" : "; ") + nameOf(row.kind) + " " + row.algorithm + " " +
              (*row.protocol ? row.protocol : "any") + " " + std::to_string(row.channels) + " " +
              std::to_string(row.most);
  return rows;
}

/// NCCL asks the tuner about the communicators that are made from now on.
void tune(const std::string &rows) { setenv("ECHELON_TUNER", rows.c_str(), 1); }

class NcclTransport : public DeviceTransport {
public:
  explicit NcclTransport(runtime::Rank &host);
  ~NcclTransport() override;

  const char *name() const override { return "nccl"; }
  void put(const Group &group, const CollectiveCall &call, Algorithm, Stream stream) override;
  void put(const Group &group, const Shift &shift, Stream stream) override;
  void put(const Group &group, const Message &message, Stream stream) override;
  std::string failure() override;
  void abort() override;

private:
  ncclResult_t give(ncclComm_t comm, const Group &group, const CollectiveCall &call, Stream stream);
  void finish(ncclComm_t comm, ncclResult_t begun, const char *what, double seconds);
  void split(ncclComm_t &part, int color, int key);
  void connect(const Group &row);

  runtime::Rank &host;
  std::map<int, ncclComm_t> communicators;               // by the group's id; 0: all ranks
  std::map<std::tuple<int, int, int>, ncclComm_t> edges; // by the group's id, sender and receiver
  std::mutex mutex;                                      // abort() comes from another thread
  bool isAborted = false;
  double deadline;
};

NcclTransport::NcclTransport(runtime::Rank &host) : host(host), deadline(host.transport().deadline()) {
  // Communicators are used at the same time, each in a stream of its own: NCCL is to start them in the order of calls,
  // which is the same on all ranks.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  runtime::Transport &transport = host.transport();
  const auto isSet = [](const char *name) { return std::getenv(name) != nullptr; };
  for (const std::string &line : setForNccl(ncclSettings(transport.networkInterface(), isSet)))
    host.note(line);
  const runtime::Program &program = host.program();
  if (!program.choices.empty() ||
      !program.tuner.empty()) // NCCL looks for a plugin as it makes its first communicator, and never again
    setenv("NCCL_TUNER_PLUGIN", ECHELON_NCCL_TUNER, 0);
  tune(rowsOf(host, transport.world()));
  ncclUniqueId id{};
  if (host.rank() == 0)
    finish(nullptr, ncclGetUniqueId(&id), "ncclGetUniqueId", 0);
  runtime::broadcast(transport, transport.world(), reinterpret_cast<uint8_t *>(&id), int64_t(sizeof id), 0);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = "all";
  ncclComm_t &all = communicators[transport.world().id];
  finish(all, ncclCommInitRankConfig(&all, host.size(), id, host.rank(), &config), "ncclCommInitRank", kBringUpSeconds);
  runtime::barrier(transport, transport.world()); // ranks that are threads share what the tuner reads
  for (size_t i = 0; i < program.groups.size(); ++i) {
    const Group &group = host.group(int(i));
    if (group.size() == 1 || communicators.count(group.id))
      continue;
    tune(rowsOf(host, group));
    split(communicators[group.id], *std::min_element(group.ranks.begin(), group.ranks.end()), group.index);
  }
  tune("");
  for (const int row : host.program().rows)
    connect(host.group(row));
}

/// Ranks of one color get a part of all ranks' communicator. Collective.
void NcclTransport::split(ncclComm_t &part, int color, int key) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclComm_t all = communicators.at(host.transport().world().id);
  const ncclResult_t begun = ncclCommSplit(all, color, key, &part, &config);
  finish(color == NCCL_SPLIT_NOCOLOR ? all : part, begun, "ncclCommSplit", kBringUpSeconds);
  runtime::barrier(host.transport(), host.transport().world());
}

/// Communicators of neighbours in a row of ranks; the last one is the neighbour of the first. Pairs that share no rank
/// come from one split: every second one, the others, and in a row of odd length the last one with the first.
void NcclTransport::connect(const Group &row) {
  const int size = row.size(), own = row.index;
  for (int turn = 0; turn < 2 + size % 2; ++turn) {
    const auto hasTurn = [&](int pair) { return turn == (size % 2 == 1 && pair == size - 1 ? 2 : pair % 2); };
    const int pair = hasTurn(own) ? own : hasTurn((own + size - 1) % size) ? (own + size - 1) % size : -1;
    const int next = (pair + 1) % size;
    for (const auto &[from, to] : {std::pair(pair, next), std::pair(next, pair)}) {
      if (size == 2 && turn == 1) // the pair of the other turn: has both
        continue;
      ncclComm_t none = nullptr;
      ncclComm_t &part = pair < 0 ? none : edges[{row.id, from, to}];
      split(part, pair < 0 ? NCCL_SPLIT_NOCOLOR : row.ranks[size_t(pair)], own == from ? 0 : 1);
    }
  }
}

NcclTransport::~NcclTransport() {
  const auto destroy = [this](auto &all) {
    for (auto comm = all.rbegin(); comm != all.rend(); ++comm)
      if (!isAborted && comm->second)
        ncclCommDestroy(comm->second);
  };
  destroy(edges);
  destroy(communicators);
}

/// Waits until the host's side of a call is done: a communicator that does not block says "in progress" until then.
void NcclTransport::finish(ncclComm_t comm, ncclResult_t begun, const char *what, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  ncclResult_t result = begun;
  while (result == ncclInProgress) {
    if (Clock::now() > end)
      runtime::fail(std::string(what) + " by NCCL is not done after " + std::to_string(int(seconds)) + " s");
    std::this_thread::yield();
    if (const ncclResult_t asked = ncclCommGetAsyncError(comm, &result); asked != ncclSuccess)
      result = asked;
  }
  if (result != ncclSuccess)
    runtime::fail(std::string(what) + " by NCCL: " + ncclGetErrorString(result) + ": " + ncclGetLastError(comm));
}

ncclResult_t NcclTransport::give(ncclComm_t comm, const Group &group, const CollectiveCall &call, Stream stream) {
  const ncclDataType_t type = typeOf(call.type);
  const auto count = static_cast<size_t>(call.count);
  const ncclRedOp_t op = reductionOf(call.op);
  switch (call.kind) {
  case Collective::AllReduce:
    return ncclAllReduce(call.in, call.out, count, type, op, comm, stream);
  case Collective::Reduce:
    return ncclReduce(call.in, call.out, count, type, op, call.root, comm, stream);
  case Collective::ReduceScatter:
    return ncclReduceScatter(call.in, call.out, count, type, op, comm, stream);
  case Collective::AllGather:
    return ncclAllGather(call.in, call.out, count, type, comm, stream);
  case Collective::Broadcast:
    return ncclBroadcast(call.in, call.out, count, type, call.root, comm, stream);
  case Collective::AllToAll: {
    const size_t row = count * bytesOf(call.type);
    ncclResult_t result = ncclGroupStart();
    for (int peer = 0; peer < group.size(); ++peer)
      for (const ncclResult_t one :
           {ncclSend(static_cast<const char *>(call.in) + size_t(peer) * row, count, type, peer, comm, stream),
            ncclRecv(static_cast<char *>(call.out) + size_t(peer) * row, count, type, peer, comm, stream)})
        result = one == ncclSuccess || one == ncclInProgress ? result : one;
    const ncclResult_t end = ncclGroupEnd();
    return result == ncclSuccess ? end : result;
  }
  default:
    return ncclInvalidUsage;
  }
}

void NcclTransport::put(const Group &group, const CollectiveCall &call, Algorithm, Stream stream) {
  const std::lock_guard<std::mutex> guard(mutex);
  if (isAborted)
    return;
  ncclComm_t comm = communicators.at(group.id);
  finish(comm, give(comm, group, call, stream), nameOf(call.kind), deadline);
}

void NcclTransport::put(const Group &group, const Shift &shift, Stream stream) {
  const std::lock_guard<std::mutex> guard(mutex);
  if (isAborted)
    return;
  ncclComm_t comm = communicators.at(group.id);
  const ncclDataType_t type = typeOf(shift.type);
  const auto count = static_cast<size_t>(shift.count);
  const int next = (group.index + 1) % group.size(), before = (group.index + group.size() - 1) % group.size();
  ncclResult_t result = ncclGroupStart(); // both ways at once: none waits for the other
  for (const ncclResult_t one :
       {ncclSend(shift.from, count, type, next, comm, stream), ncclRecv(shift.to, count, type, before, comm, stream)})
    result = one == ncclSuccess || one == ncclInProgress ? result : one;
  const ncclResult_t end = ncclGroupEnd();
  finish(comm, result == ncclSuccess ? end : result, "send", deadline);
}

void NcclTransport::put(const Group &group, const Message &message, Stream stream) {
  const std::lock_guard<std::mutex> guard(mutex);
  if (isAborted)
    return;
  const bool isSend = message.side == Message::Send;
  const auto count = static_cast<size_t>(message.count);
  ncclComm_t comm = edges.at(isSend ? std::tuple(group.id, group.index, message.peer)
                                    : std::tuple(group.id, message.peer, group.index));
  const ncclDataType_t type = typeOf(message.type); // the sender is 0 of the two
  finish(comm,
         isSend ? ncclSend(message.data, count, type, 1, comm, stream)
                : ncclRecv(message.data, count, type, 0, comm, stream),
         isSend ? "send" : "receive", deadline);
}

std::string NcclTransport::failure() {
  const std::lock_guard<std::mutex> guard(mutex);
  if (isAborted)
    return "";
  const auto failureOf = [](const auto &all) -> std::string {
    for (const auto &[key, comm] : all) {
      ncclResult_t result = ncclSuccess;
      ncclCommGetAsyncError(comm, &result);
      if (result != ncclSuccess && result != ncclInProgress)
        return std::string("NCCL: ") + ncclGetErrorString(result) + ": " + ncclGetLastError(comm);
    }
    return "";
  };
  const std::string failure = failureOf(communicators);
  return failure.empty() ? failureOf(edges) : failure;
}

void NcclTransport::abort() {
  const std::lock_guard<std::mutex> guard(mutex);
  if (std::exchange(isAborted, true))
    return;
  for (const auto &[key, comm] : edges)
    ncclCommAbort(comm);
  for (const auto &[id, comm] : communicators)
    ncclCommAbort(comm);
}

} // namespace

std::unique_ptr<DeviceTransport> ncclTransport(runtime::Rank &host) { return std::make_unique<NcclTransport>(host); }

} // namespace echelon::cuda
