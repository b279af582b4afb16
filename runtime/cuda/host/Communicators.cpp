// Communicators are made when all their ranks have come. Where they do not block, the poll of ncclCommGetAsyncError
// says when that is.
#include "runtime/cuda/host/Communicators.h"
#include "runtime/cuda/host/Memory.h"
#include "runtime/cuda/host/NcclTuner.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace echelon::cuda::host {

std::pair<int, int> Circle::duplicates() const {
  for (int r = 0; r < size; ++r)
    for (int s = 0; s < r; ++s)
      if (devices[size_t(r)] >= 0 && devices[size_t(r)] == devices[size_t(s)])
        return {s, r};
  return {-1, -1};
}

namespace {

std::map<std::string, std::shared_ptr<Circle>> &circles() { // by the id that made them
  static auto &all = *new std::map<std::string, std::shared_ptr<Circle>>;
  return all;
}

thread_local std::string lastError;

/// Gives a member its part of a split once all ranks have voted.
void settle(Member &member) {
  if (member.circle)
    return;
  const std::vector<Circle::Vote> &votes = member.parent->votes[member.split];
  if (!std::all_of(votes.begin(), votes.end(), [](const Circle::Vote &vote) { return vote.isCast; }))
    return;
  int size = 0;
  std::vector<std::pair<int, int>> order; // of the part's ranks: key, then rank
  for (int r = 0; r < member.parent->size; ++r)
    if (votes[size_t(r)].color == member.color) {
      order.emplace_back(votes[size_t(r)].key, r);
      ++size;
    }
  std::sort(order.begin(), order.end());
  std::shared_ptr<Circle> &part = member.parent->parts[{member.split, member.color}];
  if (!part) {
    part = std::make_shared<Circle>(size);
    for (int r = 0; r < size; ++r)
      part->join(r, member.parent->devices[size_t(order[size_t(r)].second)]);
  }
  const auto own = std::find(order.begin(), order.end(), std::pair(member.key, member.parentRank));
  member.rank = static_cast<int>(own - order.begin());
  member.circle = part;
}

ncclResult_t stateOf(Member &member) {
  settle(member);
  if (!member.circle || member.circle->joined < member.circle->size)
    return ncclInProgress;
  const auto [one, other] = member.circle->duplicates();
  if (one >= 0)
    return refused(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(one) + " and rank " +
                                         std::to_string(other) + " both on CUDA device " +
                                         std::to_string(member.circle->devices[size_t(one)]));
  return member.circle->isAborted ? ncclRemoteError : ncclSuccess;
}

ncclResult_t finish(ncclComm_t comm, const char *what) {
  if (!comm->member->isBlocking)
    return ncclInProgress;
  const std::shared_ptr<Member> member = comm->member;
  waitUntil([&] { return stateOf(*member) != ncclInProgress; }, what);
  return stateOf(*member);
}

bool isBlocking(const ncclConfig_t *config, bool otherwise) {
  return config && config->blocking != NCCL_CONFIG_UNDEF_INT ? config->blocking != 0 : otherwise;
}

} // namespace

ncclResult_t refused(ncclResult_t result, const std::string &why) {
  lastError = why;
  return result;
}

} // namespace echelon::cuda::host

using namespace echelon::cuda::host;

extern "C" {

ncclResult_t ncclGetVersion(int *version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  static std::atomic<uint64_t> last{0};
  const uint64_t number = ++last;
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank, ncclConfig_t *config) {
  *comm = nullptr;
  if (size < 1 || rank < 0 || rank >= size)
    return refused(ncclInvalidArgument,
                   "Invalid rank requested : " + std::to_string(rank) + "/" + std::to_string(size));
  auto member = std::make_shared<Member>();
  member->tuner = tunerOf(size);
  {
    const Guard guard;
    std::shared_ptr<Circle> &circle = circles()[std::string(id.internal, sizeof id.internal)];
    if (!circle)
      circle = std::make_shared<Circle>(size);
    if (circle->size != size || circle->devices[size_t(rank)] >= 0)
      stop("rank " + std::to_string(rank) + " of " + std::to_string(size) + " joins a communicator of " +
           std::to_string(circle->size) + (circle->size == size ? " that has this rank" : ""));
    circle->join(rank, currentDevice());
    member->circle = circle;
    member->rank = rank;
    member->device = currentDevice();
    member->isBlocking = isBlocking(config, true);
    if (circle->joined == circle->size)
      circles().erase(std::string(id.internal, sizeof id.internal));
    wake();
  }
  *comm = new ncclComm{member};
  return finish(*comm, "ncclCommInitRank");
}
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, size, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *part, ncclConfig_t *config) {
  *part = NCCL_COMM_NULL;
  if (!comm || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
    return refused(ncclInvalidArgument, "ncclCommSplit: no communicator, or a color below 0");
  const std::shared_ptr<Member> from = comm->member;
  auto member = std::make_shared<Member>();
  member->tuner = tunerOf(from->circle ? from->circle->size : 0);
  {
    const Guard guard;
    if (const ncclResult_t state = stateOf(*from); state != ncclSuccess)
      return state == ncclInProgress ? refused(ncclInvalidUsage, "the communicator is not made yet") : state;
    member->parent = from->circle;
    member->split = from->splits++;
    member->color = color;
    member->key = key;
    member->parentRank = from->rank;
    member->rank = 0;
    member->device = from->device;
    member->isBlocking = isBlocking(config, from->isBlocking);
    std::vector<Circle::Vote> &votes = from->circle->votes[member->split];
    votes.resize(size_t(from->circle->size));
    votes[size_t(from->rank)] = {true, color, key};
    wake();
  }
  if (color == NCCL_SPLIT_NOCOLOR)
    return ncclSuccess;
  *part = new ncclComm{member};
  return finish(*part, "ncclCommSplit");
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
/// Its operations end without a result, and whoever waits for them goes on. Other ranks have to abort, too.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const Guard guard;
  comm->member->isAborted = true;
  if (comm->member->circle)
    comm->member->circle->isAborted = true;
  delete comm;
  wake();
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state) {
  const Guard guard;
  *state = stateOf(*comm->member);
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int *count) {
  const Guard guard;
  settle(*comm->member);
  if (!comm->member->circle)
    return refused(ncclInvalidUsage, "the communicator is not made yet");
  *count = comm->member->circle->size;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) {
  const Guard guard;
  settle(*comm->member);
  if (!comm->member->circle)
    return refused(ncclInvalidUsage, "the communicator is not made yet");
  *rank = comm->member->rank;
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device) {
  *device = comm->member->device;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
  switch (result) {
  case ncclSuccess:
    return "no error";
  case ncclInvalidArgument:
    return "invalid argument (run with NCCL_DEBUG=WARN for details)";
  case ncclInvalidUsage:
    return "invalid usage (run with NCCL_DEBUG=WARN for details)";
  case ncclRemoteError:
    return "remote process exited or there was a network error";
  case ncclInProgress:
    return "NCCL operation in progress";
  default:
    return "unknown result code";
  }
}
const char *ncclGetLastError(ncclComm_t) { return lastError.c_str(); }

} // extern "C"
