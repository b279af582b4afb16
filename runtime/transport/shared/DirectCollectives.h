// Collectives as passes over shared memory.
//
// The collectives of a group are numbered. A rank shows a collective in the slot of its number: small inputs as a copy
// (one round: everyone reads everyone's copy and computes for itself), large ones as pointers. When all have shown
// theirs, the pointers' work, cut into shares and chunks (DirectPass.h), is taken up chunk by chunk by whichever rank
// has time: its own share first, then what others have left. So a rank that has started a collective and computes on
// does not hold up those that wait.
//
//   rank 0   shows its pointers | computes on . . . . . . . . . . . . | wait(): all is done
//   rank 1   computes . . . | shows | share 1: c0 c1 c2 | share 0: c0 |
//   rank 2   computes . . . . . | shows | share 2: c0 c1 | share 0: c1 c2 |
//            all have shown, work begins ^
//
// Where a rank's buffer cannot be reached by the others (memory of a process of its own), the collective runs in pieces
// through a staging area; then only the first pieces overlap with computation, the rest is done in wait(). Of
// broadcast, scatter, gather and reduce not every rank knows that before all have shown their buffers: then all pieces
// are left to wait().
#pragma once

#include "runtime/transport/shared/DirectPass.h"
#include "runtime/transport/shared/Segment.h"
#include "runtime/transport/shared/WaitPolicy.h"

#include <array>
#include <deque>
#include <functional>
#include <memory>

namespace echelon::runtime {

class DirectCollectives {
public:
  /// `reachesAll`: ranks are threads. `pump` moves other communication on while this rank waits.
  DirectCollectives(Segment &segment, int rank, bool reachesAll, double deadlineSeconds, std::function<void()> pump);

  void addGroup(const Group &group);
  /// Calls on one group come in the same order on all its ranks. The group has at least two ranks.
  int start(const Group &group, const CollectiveCall &call);
  bool test(int request);
  void wait(int request);
  void run(const Group &group, const CollectiveCall &call);
  void progress();
  bool idle() const { return unfinished == 0; }

private:
  static constexpr int kSlots = DirectChannel::kSlots;

  struct Operation {
    uint64_t number = 0;
    enum { Arriving, Working, Done } phase = Done;
    CollectiveCall call; // what the slots show: of a piece, its staged buffers
    bool inlined = false;
    int arrivals = 0; // places before this one have come
    DirectBuffers buffers;
    int request = -1;
    // Of a piece: which elements of its request, and where its copies are.
    int64_t begin = 0;
    int staging = -1;
  };
  struct GroupState {
    int id = -1, index = 0;
    std::vector<int> ranks;
    std::vector<DirectChannel *> channels;
    uint64_t started = 0;   // number of the last collective
    uint64_t left = 0;      // all up to this one are done here
    uint64_t knownLeft = 0; // and known to be done on all ranks
    size_t copied[2] = {};  // bytes that the last two copied for the others
    Operation operations[kSlots];
    bool stagingUsed[DirectChannel::kStagingPieces] = {};
  };
  struct RequestState {
    bool used = false;
    GroupState *group = nullptr;
    CollectiveCall call;
    std::array<char, 64> label;
    bool pieced = false;          // known at the start, or when all have shown their buffers
    uint64_t number = 0;          // of the operation that shows them, unless pieced from the start
    std::deque<uint64_t> numbers; // of the pieces under way, oldest first
    int64_t issued = 0;           // elements of `count` that pieces cover
    int64_t pieceCount = 0;       // elements in a piece
  };

  GroupState &stateOf(const Group &group);
  bool isReachable(const void *pointer) const { return !pointer || reachesAll || segment.contains(pointer); }
  bool runsInPieces(const CollectiveCall &call, int places) const;
  bool mayNeedPieces(const CollectiveCall &call, int places) const;
  bool reachesBuffers(const Operation &operation) const;
  DirectSlot &slotOf(GroupState &group, int place, uint64_t number) {
    return group.channels[place]->slots[number % kSlots];
  }

  Operation &issue(GroupState &group, const CollectiveCall &call, bool pieced);
  bool advance(GroupState &group, Operation &operation, bool allShares);
  bool arrive(GroupState &group, Operation &operation);
  bool isNeeded(const GroupState &group, const Operation &operation, int place) const;
  void computeInlined(GroupState &group, Operation &operation);
  void prepareNext(GroupState &group, const Operation &operation);
  void work(GroupState &group, Operation &operation, bool allShares);
  bool isWorkDone(GroupState &group, Operation &operation);
  void finish(GroupState &group, Operation &operation, const char *label);
  void await(GroupState &group, Operation &operation);
  void markDone(GroupState &group, Operation &operation);
  int missingPlace(GroupState &group, Operation &operation);
  [[noreturn]] void failMismatch(GroupState &group, Operation &operation, int place);

  void issuePieces(RequestState &request, int requestIndex);
  void issuePiece(RequestState &request, int requestIndex, int staging);
  void collectPiece(GroupState &group, Operation &operation);
  void waitForPieces(RequestState &request, int requestIndex);

  Segment &segment;
  int rank;
  bool reachesAll;
  double deadlineSeconds;
  std::function<void()> pump;
  std::vector<std::unique_ptr<GroupState>> groups; // by id
  std::deque<RequestState> requests;
  std::vector<int> freeRequests;
  int unfinished = 0;
};

} // namespace echelon::runtime
