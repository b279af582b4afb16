// NCCL on the host. An operation of several ranks runs when each of them has it first in its stream: one that a rank
// lacks, or an order that differs between ranks, hangs as it would on devices, and the wait that meets it says what is
// first everywhere. Operations of a group enter their stream as one task, so a rank may send and receive at once:
//
//   rank 0   send to 1, then receive from 1     both send first, and neither is received: a hang
//   rank 1   send to 0, then receive from 0
//
// With both in a group, each rank's task is first in its stream, both messages have both ends, and they go.
//
// Of one communicator a rank does one thing after the other, in the order of calls, though in several streams.
#include "runtime/cuda/host/Communicators.h"
#include "runtime/cuda/host/Memory.h"
#include "runtime/cuda/host/NcclTuner.h"
#include "runtime/cuda/host/Reduction.h"

#include <algorithm>
#include <cstring>

namespace echelon::cuda::host {

bool Call::isUnderWay() const {
  const uint64_t given = stream->clock[static_cast<size_t>(stream->id)]; // tasks, of which these are left:
  const bool isFirst = !stream->queue.empty() && given - stream->queue.size() + 1 == number;
  return hasBegun || (isFirst && (!before || before->isOver));
}

bool Meeting::isComplete() const {
  return std::all_of(places.begin(), places.end(),
                     [](const Place &place) { return place.call && place.call->isUnderWay(); });
}

namespace {

//===-- meetings -------------------------------------------------------------------------------------------------===//

/// Brings a rank to its place in a meeting; whoever comes first makes it, and the last one takes it off the list.
template <typename Key>
std::shared_ptr<Meeting> come(std::map<Key, std::shared_ptr<Meeting>> &meetings, const Key &key, size_t places,
                              size_t place, const Operation &operation, const std::shared_ptr<Call> &call) {
  std::shared_ptr<Meeting> meeting = meetings[key];
  if (!meeting) {
    meeting = meetings[key] = std::make_shared<Meeting>();
    meeting->what = operation.what;
    meeting->first = operation.member->rank;
    meeting->places.resize(places);
  }
  if (meeting->what != operation.what)
    stop("rank " + std::to_string(operation.member->rank) + " calls " + operation.what + " where rank " +
         std::to_string(meeting->first) + " calls " + meeting->what);
  meeting->places[place] = {call, operation.in, operation.out};
  if (++meeting->came == static_cast<int>(places))
    meetings.erase(key);
  return meeting;
}

std::shared_ptr<Meeting> meet(const Operation &operation, const std::shared_ptr<Call> &call) {
  Member &member = *operation.member;
  Circle &circle = *member.circle;
  if (operation.peer < 0)
    return come(circle.collectives, member.collectives++, size_t(circle.size), size_t(member.rank), operation, call);
  const auto [from, to] =
      operation.isSend ? std::pair(member.rank, operation.peer) : std::pair(operation.peer, member.rank);
  const uint64_t number = (operation.isSend ? member.sends : member.receives)[operation.peer]++;
  return come(circle.messages, std::tuple(from, to, number), 2, operation.isSend ? 0 : 1, operation, call);
}

/// Operations of one rank as a task of its stream. Each launch of a graph meets anew.
void give(std::vector<Operation> operations) {
  const std::shared_ptr<Member> member = operations[0].member;
  const cudaStream_t stream = operations[0].stream;
  Task task;
  task.what = operations.size() == 1
                  ? operations[0].what
                  : "a group of " + std::to_string(operations.size()) + ", first " + operations[0].what;
  announcedFor(stream, task.what);
  task.what += " (rank " + std::to_string(member->rank) + " of " + std::to_string(member->circle->size) + ")";
  task.mayBeIsolated = false; // it touches other ranks' memory
  for (const Operation &x : operations)
    for (const Range &range : {Range{static_cast<const char *>(x.in), x.inBytes, false},
                               Range{static_cast<const char *>(x.out), x.outBytes, true}})
      if (range.bytes > 0)
        task.touches.push_back(range);
  task.given = [=](CUstream_st &into, Task &own) {
    const auto call = std::make_shared<Call>(Call{&into, into.clock[static_cast<size_t>(into.id)] + 1, member->last});
    member->last = call;
    std::vector<std::shared_ptr<Meeting>> meetings;
    for (const Operation &operation : operations)
      meetings.push_back(meet(operation, call));
    own.ready = [=] {
      return member->isAborted || std::all_of(meetings.begin(), meetings.end(), [](const auto &meeting) {
               return meeting->isDone || meeting->isComplete();
             });
    };
    own.run = [=] {
      if (member->isAborted)
        return;
      call->hasBegun = true;
      for (size_t i = 0; i < meetings.size(); ++i)
        if (!meetings[i]->isDone) {
          operations[i].run(*meetings[i]);
          meetings[i]->isDone = true;
        }
      call->isOver = true;
      call->before.reset();
    };
  };
  put(streamOf(stream), std::move(task));
}

//===-- groups ---------------------------------------------------------------------------------------------------===//

struct Group {
  int depth = 0;
  std::vector<Operation> operations;
};
thread_local Group group;

/// One task for each communicator and stream, as NCCL launches a kernel for each.
void giveGroup() {
  std::vector<Operation> left = std::exchange(group.operations, {});
  while (!left.empty()) {
    const auto isOther = [first = left[0]](const Operation &x) {
      return x.member != first.member || x.stream != first.stream;
    };
    const auto rest = std::stable_partition(left.begin(), left.end(), [&](const Operation &x) { return !isOther(x); });
    std::vector<Operation> together(left.begin(), rest);
    left.erase(left.begin(), rest);
    give(std::move(together));
  }
}

//===-- operations -----------------------------------------------------------------------------------------------===//

ncclResult_t submit(Operation operation) {
  if (group.depth > 0)
    group.operations.push_back(std::move(operation));
  else
    give({std::move(operation)});
  return ncclSuccess;
}

/// Success, or why nothing can be called so: `other` is a root or peer.
ncclResult_t refusal(ncclComm_t comm, ncclDataType_t type, cudaStream_t stream, int other, ncclRedOp_t op = ncclSum) {
  if (!comm)
    return refused(ncclInvalidArgument, "no communicator");
  if (bytesOf(type) == 0 || !nameOf(op))
    return refused(ncclInvalidArgument, "a type of elements or a reduction that programs do not have");
  ncclResult_t state;
  ncclCommGetAsyncError(comm, &state);
  if (state == ncclInProgress)
    return refused(ncclInvalidUsage, "the communicator is not made yet");
  if (state != ncclSuccess)
    return state;
  if (other < 0 || other >= comm->member->circle->size)
    return refused(ncclInvalidArgument, "no rank " + std::to_string(other));
  if (streamOf(stream).device != comm->member->device)
    return refused(ncclInvalidArgument, "a stream of another device than the communicator's");
  return ncclSuccess;
}

std::string described(const char *verb, size_t count, ncclDataType_t type) {
  return std::string(verb) + " of " + std::to_string(count) + " " + nameOf(type);
}

std::vector<const void *> inputs(const Meeting &meeting) {
  std::vector<const void *> all;
  for (const Meeting::Place &place : meeting.places)
    all.push_back(place.in);
  return all;
}

/// Writes to ranks for which `to` holds what the inputs make; `from(rank)` is the first element of its share.
template <typename To, typename From>
void reduceInto(const Meeting &meeting, ncclRedOp_t op, ncclDataType_t type, size_t count, const To &to,
                const From &from) {
  withElement(type, [&](auto zero) {
    using T = decltype(zero);
    // Only then the results, since they may lie where inputs do.
    std::vector<std::vector<T>> shares;
    for (size_t rank = 0; rank < meeting.places.size(); ++rank)
      if (rank == 0 || from(rank) != from(rank - 1))
        shares.push_back(reduce<T>(op, inputs(meeting), from(rank), count));
    for (size_t rank = 0; rank < meeting.places.size(); ++rank)
      if (to(rank))
        std::memcpy(meeting.places[rank].out, shares[shares.size() > 1 ? rank : 0].data(), count * sizeof(T));
  });
}

constexpr auto kEverybody = [](size_t) { return true; };
constexpr auto kTheStart = [](size_t) { return size_t(0); };

ncclResult_t message(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream,
                     bool isSend) {
  if (const ncclResult_t error = refusal(comm, type, stream, peer); error != ncclSuccess)
    return error;
  const size_t bytes = count * bytesOf(type);
  const int own = comm->member->rank;
  Operation operation = {comm->member,
                         stream,
                         described("a message", count, type) + " from rank " + std::to_string(isSend ? own : peer) +
                             " to rank " + std::to_string(isSend ? peer : own),
                         isSend ? data : nullptr,
                         isSend ? bytes : 0,
                         isSend ? nullptr : data,
                         isSend ? 0 : bytes,
                         [=](const Meeting &m) {
                           if (bytes > 0)
                             std::memmove(m.places[1].out, m.places[0].in, bytes);
                         },
                         peer,
                         isSend};
  return submit(std::move(operation));
}

} // namespace
} // namespace echelon::cuda::host

using namespace echelon::cuda::host;

extern "C" {

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group.depth == 0)
    return refused(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--group.depth == 0)
    giveGroup();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t error = refusal(comm, type, stream, 0, op); error != ncclSuccess || count == 0)
    return error;
  const size_t bytes = count * bytesOf(type);
  askTuner(comm->member->tuner, Tuned::AllReduce, bytes);
  return submit({comm->member, stream, described("all_reduce", count, type) + " by " + nameOf(op), in, bytes, out,
                 bytes, [=](const Meeting &m) { reduceInto(m, op, type, count, kEverybody, kTheStart); }});
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t error = refusal(comm, type, stream, 0, op); error != ncclSuccess || count == 0)
    return error;
  const size_t bytes = count * bytesOf(type);
  askTuner(comm->member->tuner, Tuned::ReduceScatter, bytes);
  return submit({comm->member, stream, described("reduce_scatter", count, type) + " by " + nameOf(op), in,
                 bytes * size_t(comm->member->circle->size), out, bytes, [=](const Meeting &m) {
                   reduceInto(m, op, type, count, kEverybody, [&](size_t rank) { return rank * count; });
                 }});
}

ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t error = refusal(comm, type, stream, root, op); error != ncclSuccess || count == 0)
    return error;
  const size_t bytes = count * bytesOf(type);
  const std::string what = described("reduce", count, type) + " by " + nameOf(op) + " to rank " + std::to_string(root);
  askTuner(comm->member->tuner, Tuned::Reduce, bytes);
  return submit(
      {comm->member, stream, what, in, bytes, out, comm->member->rank == root ? bytes : 0, [=](const Meeting &m) {
         reduceInto(m, op, type, count, [&](size_t rank) { return rank == size_t(root); }, kTheStart);
       }});
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  if (const ncclResult_t error = refusal(comm, type, stream, 0); error != ncclSuccess || count == 0)
    return error;
  const size_t bytes = count * bytesOf(type);
  askTuner(comm->member->tuner, Tuned::AllGather, bytes);
  return submit({comm->member, stream, described("all_gather", count, type), in, bytes, out,
                 bytes * size_t(comm->member->circle->size), [=](const Meeting &m) {
                   for (const Meeting::Place &to : m.places)
                     for (size_t rank = 0; rank < m.places.size(); ++rank)
                       std::memmove(static_cast<char *>(to.out) + rank * bytes, m.places[rank].in, bytes);
                 }});
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  if (const ncclResult_t error = refusal(comm, type, stream, root); error != ncclSuccess || count == 0)
    return error;
  const size_t bytes = count * bytesOf(type);
  askTuner(comm->member->tuner, Tuned::Broadcast, bytes);
  return submit({comm->member, stream, described("broadcast", count, type) + " from rank " + std::to_string(root), in,
                 comm->member->rank == root ? bytes : 0, out, bytes, [=](const Meeting &m) {
                   for (const Meeting::Place &to : m.places)
                     std::memmove(to.out, m.places[size_t(root)].in, bytes);
                 }});
}

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return message(const_cast<void *>(data), count, type, peer, comm, stream, true);
}
ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return message(data, count, type, peer, comm, stream, false);
}

} // extern "C"
