#include "runtime/transport/shared/DirectCollectives.h"

#include "runtime/launch/Fail.h"
#include "runtime/transport/shared/CopyBytes.h"

#include <algorithm>
#include <cstring>

namespace echelon::runtime {

namespace {

/// What one rank does at a time: small enough that ranks share the work evenly, large enough that the counters are
/// free.
constexpr int64_t kChunkBytes = 64 << 10;

bool hasRoot(Collective kind) {
  return kind == Collective::Broadcast || kind == Collective::Scatter || kind == Collective::Gather ||
         kind == Collective::Reduce;
}
/// Rows of `count` elements in the input of the ranks that have one.
int inRows(Collective kind, int places) {
  return kind == Collective::Scatter || kind == Collective::ReduceScatter || kind == Collective::AllToAll ? places : 1;
}
int outRows(Collective kind, int places) {
  return kind == Collective::Gather || kind == Collective::AllGather || kind == Collective::AllToAll ? places : 1;
}
bool givesInput(const CollectiveCall &call, int place) {
  if (call.kind == Collective::Broadcast || call.kind == Collective::Scatter)
    return place == call.root;
  return call.kind != Collective::Barrier;
}
bool takesOutput(const CollectiveCall &call, int place) {
  if (call.kind == Collective::Gather || call.kind == Collective::Reduce)
    return place == call.root;
  return call.kind != Collective::Barrier && !(call.kind == Collective::Broadcast && place == call.root);
}
size_t inBytesOf(const CollectiveCall &call, int places) {
  return inRows(call.kind, places) * call.count * bytesOf(call.type);
}
bool isInlined(const CollectiveCall &call, int places) { return inBytesOf(call, places) <= DirectSlot::kPayloadBytes; }
/// Copies elements [begin, end) of each of `rows` rows of the call's buffer to rows that lie one after the other.
void copyOut(char *copy, const CollectiveCall &call, const void *buffer, int rows, int64_t begin, int64_t end) {
  const size_t bytes = bytesOf(call.type);
  forEachPiece(call, rows, begin, end, [&](int64_t from, int64_t to, int64_t count) {
    copyBytes(copy + to * bytes, static_cast<const char *>(buffer) + from * bytes, count * bytes);
  });
}
/// The other way.
void copyIn(void *buffer, const CollectiveCall &call, const char *copy, int rows, int64_t begin, int64_t end) {
  const size_t bytes = bytesOf(call.type);
  forEachPiece(call, rows, begin, end, [&](int64_t to, int64_t from, int64_t count) {
    copyBytes(static_cast<char *>(buffer) + to * bytes, copy + from * bytes, count * bytes);
  });
}
/// Copies what others need of a small input: where each gets a row, not the own one; at the root of a gather, nothing.
void copyForOthers(char *copy, const CollectiveCall &call, int place, int places) {
  if (hasRoot(call.kind) && takesOutput(call, place) && inRows(call.kind, places) == 1)
    return;
  const char *in = static_cast<const char *>(call.in);
  const size_t bytes = inBytesOf(call, places), row = call.count * bytesOf(call.type);
  if (inRows(call.kind, places) == 1 || call.runs > 1)
    return copyBytes(copy, in, bytes);
  const size_t behind = (place + 1) * row;
  copyBytes(copy, in, place * row);
  copyBytes(copy + behind, in + behind, bytes - behind);
}
int64_t chunksOf(const CollectiveCall &call, int places, int share) {
  const int64_t chunk = kChunkBytes / bytesOf(call.type);
  return (shareLength(call, places, share) + chunk - 1) / chunk;
}
// DirectSlot::claimed counts the chunks from the front in its lower half, those from the back in its upper half.
constexpr uint64_t kFromFront = 1, kFromBack = uint64_t(1) << 32;
int64_t claimedOf(uint64_t claimed) { return static_cast<int64_t>(claimed % kFromBack + claimed / kFromBack); }

uint64_t signatureOf(const CollectiveCall &call, bool pieced) {
  return uint64_t(call.kind) | uint64_t(call.type) << 8 | uint64_t(call.op) << 16 | uint64_t(pieced) << 24 |
         uint64_t(hasRoot(call.kind) ? call.root : call.runs) << 32;
}
std::string describe(uint64_t signature, int64_t count) {
  static const char *const types[] = {"float", "double", "int32_t", "uint8_t"};
  static const char *const ops[] = {"Sum", "Max", "Min"};
  auto kind = Collective(signature & 255);
  std::string text = nameOf(kind) + std::string(" of ") + std::to_string(count) + " " + types[signature >> 8 & 255];
  if (kind == Collective::AllReduce || kind == Collective::Reduce || kind == Collective::ReduceScatter)
    text += std::string(", ") + ops[signature >> 16 & 255];
  if (hasRoot(kind))
    text += ", root " + std::to_string(signature >> 32);
  else if (signature >> 32 > 1)
    text += ", rows in " + std::to_string(signature >> 32) + " runs";
  return text + (signature >> 24 & 1 && !hasRoot(kind) ? ", in memory of its own" : "");
}

} // namespace

DirectCollectives::DirectCollectives(Segment &segment, int rank, bool reachesAll, double deadlineSeconds,
                                     std::function<void()> pump)
    : segment(segment), rank(rank), reachesAll(reachesAll), deadlineSeconds(deadlineSeconds), pump(std::move(pump)) {}

void DirectCollectives::addGroup(const Group &group) {
  if (group.id >= kMaxGroups)
    fail("more than " + std::to_string(kMaxGroups) + " groups");
  if (size_t(group.id) >= groups.size())
    groups.resize(group.id + 1);
  auto state = std::make_unique<GroupState>();
  state->id = group.id;
  state->index = group.index;
  state->ranks = group.ranks;
  for (int member : group.ranks)
    state->channels.push_back(&segment.channel(group.id, member));
  for (Operation &operation : state->operations) {
    operation.buffers.in.resize(group.size());
    operation.buffers.out.resize(group.size());
  }
  groups[group.id] = std::move(state);
}

DirectCollectives::GroupState &DirectCollectives::stateOf(const Group &group) {
  if (size_t(group.id) >= groups.size() || !groups[group.id])
    fail("a collective on a group that this transport has not made");
  return *groups[group.id];
}

// ---- one operation ----

// Shows the call to the group under the next number. The slot's last use must be over on all ranks.
DirectCollectives::Operation &DirectCollectives::issue(GroupState &group, const CollectiveCall &call, bool pieced) {
  const uint64_t number = ++group.started;
  const int places = static_cast<int>(group.ranks.size());
  Operation &operation = group.operations[number % kSlots];
  if (operation.staging >= 0)
    collectPiece(group, operation);
  else if (operation.phase != Operation::Done)
    finish(group, operation, call.label);
  if (number > kSlots && group.knownLeft < number - kSlots) {
    segment.status(rank).setPlace(doing(call.kind), call.label);
    group.knownLeft = group.left;
    for (int place = 0; place < places; ++place) {
      WaitPolicy patience(segment, rank, deadlineSeconds);
      uint64_t left;
      while ((left = group.channels[place]->left.load(std::memory_order_acquire)) < number - kSlots) {
        pump();
        patience.pause(group.ranks[place]);
      }
      group.knownLeft = std::min(group.knownLeft, left);
    }
  }

  // The others may wait for it: it is shown first.
  DirectSlot &slot = slotOf(group, group.index, number);
  const size_t inBytes = inBytesOf(call, places);
  const bool inlined = inBytes <= DirectSlot::kPayloadBytes;
  slot.signature = signatureOf(call, pieced);
  slot.count = call.count;
  if (inlined) {
    if (inBytes && givesInput(call, group.index))
      copyForOthers(slot.copyOf(inBytes), call, group.index, places);
  } else {
    slot.buffers.in = givesInput(call, group.index) ? static_cast<const char *>(call.in) : nullptr;
    slot.buffers.out = takesOutput(call, group.index) ? static_cast<char *>(call.out) : nullptr;
    slot.claimed.store(0, std::memory_order_relaxed);
    slot.done.store(0, std::memory_order_relaxed);
  }
  slot.arrived.store(number, std::memory_order_release);
  operation.number = number;
  operation.phase = Operation::Arriving;
  operation.call = call;
  operation.inlined = inlined;
  operation.arrivals = 0;
  operation.request = -1;
  operation.staging = -1;
  ++unfinished;
  return operation;
}

// Copies can be computed with as soon as those come whose input is used here; pointers need everyone.
bool DirectCollectives::isNeeded(const GroupState &group, const Operation &operation, int place) const {
  if (place == group.index)
    return false;
  if (!operation.inlined || !hasRoot(operation.call.kind))
    return true;
  return group.index == operation.call.root ? givesInput(operation.call, place)
                                            : place == operation.call.root && takesOutput(operation.call, group.index);
}

bool DirectCollectives::arrive(GroupState &group, Operation &operation) {
  const int places = static_cast<int>(group.ranks.size());
  for (; operation.arrivals < places; ++operation.arrivals) {
    const int place = operation.arrivals;
    if (!isNeeded(group, operation, place))
      continue;
    DirectSlot &slot = slotOf(group, place, operation.number);
    if (slot.arrived.load(std::memory_order_acquire) < operation.number)
      return false;
    const DirectSlot &own = slotOf(group, group.index, operation.number);
    if (slot.signature != own.signature || slot.count != own.count)
      failMismatch(group, operation, place);
  }
  return true;
}

void DirectCollectives::failMismatch(GroupState &group, Operation &operation, int place) {
  const DirectSlot &own = slotOf(group, group.index, operation.number);
  const DirectSlot &other = slotOf(group, place, operation.number);
  fail("ranks disagree: this one is in " + segment.status(rank).place() + ", " + describe(own.signature, own.count) +
       "; rank " + std::to_string(group.ranks[place]) + " " + segment.status(group.ranks[place]).describe() + ", " +
       describe(other.signature, other.count));
}

void DirectCollectives::computeInlined(GroupState &group, Operation &operation) {
  const CollectiveCall &call = operation.call;
  const int places = static_cast<int>(group.ranks.size());
  if (call.kind == Collective::Barrier || !call.out || !call.count || !takesOutput(call, group.index))
    return;
  for (int place = 0; place < places; ++place) {
    operation.buffers.in[place] = slotOf(group, place, operation.number).copyOf(inBytesOf(call, places));
    operation.buffers.out[place] = nullptr;
  }
  operation.buffers.in[group.index] = static_cast<const char *>(call.in);
  operation.buffers.out[group.index] = static_cast<char *>(call.out);
  doForOne(call, operation.buffers, group.index);
}

// Takes the cache lines that the next collective is likely to write back from those who read them last. They are as
// many as one of the last two had: small sums often stand between larger messages.
void DirectCollectives::prepareNext(GroupState &group, const Operation &operation) {
  DirectSlot &slot = slotOf(group, group.index, group.started + 1);
  group.copied[1] = group.copied[0];
  group.copied[0] = givesInput(operation.call, group.index) ? inBytesOf(operation.call, int(group.ranks.size())) : 0;
  const size_t bytes = std::max(group.copied[0], group.copied[1]);
  __builtin_prefetch(&slot, 1);
  for (size_t at = 0; bytes > DirectSlot::kBesideBytes && at < bytes; at += kCacheLine)
    __builtin_prefetch(slot.payload + at, 1);
}

void DirectCollectives::work(GroupState &group, Operation &operation, bool allShares) {
  const CollectiveCall &call = operation.call;
  const int places = static_cast<int>(group.ranks.size());
  const int64_t chunk = kChunkBytes / bytesOf(call.type);
  for (int i = 0; i < (allShares ? places : 1); ++i) {
    const int share = (group.index + i) % places;
    const int64_t length = shareLength(call, places, share), chunks = chunksOf(call, places, share);
    DirectSlot &slot = slotOf(group, share, operation.number);
    // Its owner begins at the front and the others at the back: each goes through memory in one run, and where the same
    // buffers come again, mostly through the same part of them.
    const uint64_t mine = i == 0 ? kFromFront : kFromBack;
    while (claimedOf(slot.claimed.load(std::memory_order_relaxed)) < chunks) {
      const uint64_t before = slot.claimed.fetch_add(mine, std::memory_order_relaxed);
      if (claimedOf(before) >= chunks)
        break;
      const int64_t front = before % kFromBack, back = before / kFromBack;
      const int64_t begin = (i == 0 ? front : chunks - 1 - back) * chunk;
      doShare(call, operation.buffers, share, begin, std::min(length, begin + chunk));
      slot.done.fetch_add(1, std::memory_order_release);
    }
  }
}

bool DirectCollectives::isWorkDone(GroupState &group, Operation &operation) {
  const int places = static_cast<int>(group.ranks.size());
  for (int share = 0; share < places; ++share)
    if (slotOf(group, share, operation.number).done.load(std::memory_order_acquire) <
        chunksOf(operation.call, places, share))
      return false;
  return true;
}

// Does what can be done without waiting; true when the operation is done.
bool DirectCollectives::advance(GroupState &group, Operation &operation, bool allShares) {
  if (operation.phase == Operation::Arriving) {
    if (!arrive(group, operation))
      return false;
    if (operation.inlined) {
      computeInlined(group, operation);
      markDone(group, operation);
      prepareNext(group, operation);
      return true;
    }
    for (size_t place = 0; place < group.ranks.size(); ++place) {
      DirectSlot &slot = slotOf(group, static_cast<int>(place), operation.number);
      operation.buffers.in[place] = slot.buffers.in;
      operation.buffers.out[place] = slot.buffers.out;
    }
    if (mayNeedPieces(operation.call, static_cast<int>(group.ranks.size())) && !reachesBuffers(operation)) {
      requests[operation.request].pieced = true;
      markDone(group, operation);
      return true;
    }
    operation.phase = Operation::Working;
  }
  if (operation.phase == Operation::Working) {
    work(group, operation, allShares);
    if (!isWorkDone(group, operation))
      return false;
    markDone(group, operation);
  }
  return true;
}

void DirectCollectives::markDone(GroupState &group, Operation &operation) {
  operation.phase = Operation::Done;
  --unfinished;
  uint64_t left = group.left;
  while (left < group.started) {
    const Operation &next = group.operations[(left + 1) % kSlots];
    if (next.number != left + 1 || next.phase != Operation::Done)
      break;
    ++left;
  }
  if (left != group.left) {
    group.left = left;
    group.channels[group.index]->left.store(left, std::memory_order_release);
  }
}

void DirectCollectives::finish(GroupState &group, Operation &operation, const char *label) {
  if (advance(group, operation, true))
    return;
  segment.status(rank).setPlace(doing(operation.call.kind), label);
  await(group, operation);
}

void DirectCollectives::await(GroupState &group, Operation &operation) {
  WaitPolicy patience(segment, rank, deadlineSeconds);
  auto isDone = [&] { return advance(group, operation, true); };
  if (isDone() || patience.isSoon(isDone))
    return;
  while (!isDone()) {
    pump();
    if (unfinished > 1)
      progress();
    patience.pause(group.ranks[missingPlace(group, operation)]);
  }
}

int DirectCollectives::missingPlace(GroupState &group, Operation &operation) {
  if (operation.phase == Operation::Arriving)
    return operation.arrivals;
  // All have come; someone has taken up a chunk and not finished it, so it is one of those that do not wait.
  for (size_t place = 0; place < group.ranks.size(); ++place)
    if (int(place) != group.index && segment.status(group.ranks[place]).waitsFor.load(std::memory_order_relaxed) < 0)
      return static_cast<int>(place);
  return group.index == 0 ? 1 : 0;
}

// ---- pieces ----

// Of a collective with a root, no rank knows all buffers before all have shown theirs.
bool DirectCollectives::mayNeedPieces(const CollectiveCall &call, int places) const {
  return !reachesAll && hasRoot(call.kind) && !isInlined(call, places);
}

bool DirectCollectives::runsInPieces(const CollectiveCall &call, int places) const {
  return !hasRoot(call.kind) && !isInlined(call, places) && !(isReachable(call.in) && isReachable(call.out));
}

bool DirectCollectives::reachesBuffers(const Operation &operation) const {
  const DirectBuffers &buffers = operation.buffers;
  return std::all_of(buffers.in.begin(), buffers.in.end(), [this](const char *in) { return isReachable(in); }) &&
         std::all_of(buffers.out.begin(), buffers.out.end(), [this](char *out) { return isReachable(out); });
}

// Every rank of the group issues the same pieces between the same calls: staging is given back in wait() only.
void DirectCollectives::issuePieces(RequestState &request, int requestIndex) {
  for (int staging = 0; staging < DirectChannel::kStagingPieces && request.issued < request.call.count; ++staging)
    if (!request.group->stagingUsed[staging])
      issuePiece(request, requestIndex, staging);
}

void DirectCollectives::issuePiece(RequestState &request, int requestIndex, int staging) {
  GroupState &group = *request.group;
  const int places = static_cast<int>(group.ranks.size());
  const CollectiveCall &whole = request.call;
  const int64_t begin = request.issued, count = std::min(request.pieceCount, whole.count - begin);
  const size_t bytes = bytesOf(whole.type);
  char *stage = group.channels[group.index]->staging[staging];
  const int rowsIn = inRows(whole.kind, places), rowsOut = outRows(whole.kind, places);

  // A buffer that has one row and is reachable is shown as it lies.
  CollectiveCall piece = whole;
  piece.count = count;
  piece.runs = 1;
  piece.label = request.label.data();
  char *stageOut = stage;
  if (givesInput(whole, group.index)) {
    if (rowsIn == 1 && isReachable(whole.in)) {
      piece.in = static_cast<const char *>(whole.in) + begin * bytes;
    } else {
      copyOut(stage, whole, whole.in, rowsIn, begin, begin + count);
      piece.in = stage;
      if (whole.kind != Collective::AllReduce && whole.kind != Collective::Reduce)
        stageOut = stage + rowsIn * count * bytes; // reductions of one row work in place
    }
  }
  if (takesOutput(whole, group.index))
    piece.out = rowsOut == 1 && isReachable(whole.out) ? static_cast<char *>(whole.out) + begin * bytes : stageOut;

  Operation &operation = issue(group, piece, true);
  operation.request = requestIndex;
  operation.begin = begin;
  operation.staging = staging;
  group.stagingUsed[staging] = true;
  request.numbers.push_back(operation.number);
  request.issued += count;
}

// The oldest piece of its request: waits for it and copies its result to where the user wants it.
void DirectCollectives::collectPiece(GroupState &group, Operation &operation) {
  RequestState &request = requests[operation.request];
  finish(group, operation, request.label.data());
  const CollectiveCall &whole = request.call, &piece = operation.call;
  const int places = static_cast<int>(group.ranks.size());
  const size_t bytes = bytesOf(whole.type);
  if (takesOutput(whole, group.index)) {
    const int rows = outRows(whole.kind, places);
    const char *source = static_cast<const char *>(piece.out);
    if (rows > 1 || source != static_cast<char *>(whole.out) + operation.begin * bytes)
      copyIn(whole.out, whole, source, rows, operation.begin, operation.begin + piece.count);
  }
  group.stagingUsed[operation.staging] = false;
  operation.staging = -1;
  request.numbers.pop_front();
}

void DirectCollectives::waitForPieces(RequestState &request, int requestIndex) {
  GroupState &group = *request.group;
  while (request.issued < request.call.count || !request.numbers.empty()) {
    if (!request.numbers.empty()) {
      collectPiece(group, group.operations[request.numbers.front() % kSlots]);
    } else {
      // All staging belongs to other requests: the oldest piece of the group makes room.
      Operation *oldest = nullptr;
      int used = 0;
      for (Operation &operation : group.operations)
        if (operation.staging >= 0) {
          ++used;
          if (!oldest || operation.number < oldest->number)
            oldest = &operation;
        }
      if (used == DirectChannel::kStagingPieces)
        collectPiece(group, *oldest);
    }
    issuePieces(request, requestIndex);
  }
}

// ---- requests ----

int DirectCollectives::start(const Group &group, const CollectiveCall &call) {
  GroupState &state = stateOf(group);
  const int places = group.size();
  int index;
  if (freeRequests.empty()) {
    index = static_cast<int>(requests.size());
    requests.emplace_back();
  } else {
    index = freeRequests.back();
    freeRequests.pop_back();
  }
  RequestState &request = requests[index];
  request.used = true;
  request.group = &state;
  request.call = call;
  std::strncpy(request.label.data(), call.label, request.label.size() - 1);
  request.label.back() = 0;
  request.call.label = request.label.data();
  request.pieced = runsInPieces(call, places);
  request.issued = 0;
  request.pieceCount =
      std::max<int64_t>(1, DirectChannel::kStagingPieceBytes /
                               ((inRows(call.kind, places) + outRows(call.kind, places)) * bytesOf(call.type)));
  segment.status(rank).setPlace(doing(call.kind), call.label);
  progress();
  if (request.pieced) {
    issuePieces(request, index);
  } else {
    Operation &operation = issue(state, request.call, false);
    operation.request = index;
    request.number = operation.number;
    advance(state, operation, false);
  }
  return index;
}

bool DirectCollectives::test(int index) {
  RequestState &request = requests[index];
  // When pieces are issued and staging is given back must not depend on time, so this waits.
  if (request.pieced || mayNeedPieces(request.call, static_cast<int>(request.group->ranks.size()))) {
    wait(index);
    return true;
  }
  Operation &operation = request.group->operations[request.number % kSlots];
  if (operation.number == request.number && operation.phase != Operation::Done &&
      !advance(*request.group, operation, true))
    return false;
  request.used = false;
  freeRequests.push_back(index);
  return true;
}

void DirectCollectives::wait(int index) {
  RequestState &request = requests[index];
  if (!request.pieced) {
    Operation &operation = request.group->operations[request.number % kSlots];
    if (operation.number == request.number && operation.phase != Operation::Done)
      finish(*request.group, operation, request.label.data());
  }
  if (request.pieced)
    waitForPieces(request, index);
  request.used = false;
  freeRequests.push_back(index);
}

void DirectCollectives::run(const Group &group, const CollectiveCall &call) {
  if (runsInPieces(call, group.size()) || mayNeedPieces(call, group.size()))
    return wait(start(group, call));
  GroupState &state = stateOf(group);
  Operation &operation = issue(state, call, false);
  segment.status(rank).setPlace(doing(call.kind), call.label);
  await(state, operation);
}

void DirectCollectives::progress() {
  if (!unfinished)
    return;
  for (auto &group : groups)
    if (group)
      for (uint64_t number = group->left + 1; number <= group->started; ++number) {
        Operation &operation = group->operations[number % kSlots];
        if (operation.number == number && operation.phase != Operation::Done)
          advance(*group, operation, false);
      }
}

} // namespace echelon::runtime
