// What moves data between ranks. Four ways of doing it stand behind one interface: shm (forked processes over one
// shared segment), threads (ranks as threads), mpi (several machines, a plugin), tcp (several machines, without MPI).
//
// A program calls the collectives of runtime/collectives; this interface is what those are written on.
#pragma once

#include "runtime/transport/Element.h"
#include "runtime/transport/Group.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace echelon::runtime {

enum class Collective : uint8_t {
  Barrier,
  Broadcast,
  Scatter,
  Gather,
  AllGather,
  Reduce,
  AllReduce,
  ReduceScatter,
  AllToAll
};

/// What a rank does, as messages name it: a collective, under the same number, or something else.
enum class Activity : uint8_t {
  Start = uint8_t(Collective::AllToAll) + 1, // before anything else
  MakingGroups,
  Send,
  Receive,
  Evaluate,
  Save
};
constexpr Activity doing(Collective collective) { return Activity(collective); }

/// Whether rank 0 has a snapshot under way beside its steps: it copies for one, or a thread of it writes one.
enum class SnapshotPhase : uint8_t { No, Copies, Writes };

/// "all_reduce", "send" and so on; collectives as the program calls them.
const char *nameOf(Activity doing);
inline const char *nameOf(Collective collective) { return nameOf(doing(collective)); }

/// One collective, seen from one rank. Every rank of the group passes the same kind, type, op, count, runs and root.
/// `in` holds count elements, or size() x count for Scatter (at the root), ReduceScatter and AllToAll.
/// `out` holds count elements, or size() x count for Gather (at the root), AllGather and AllToAll.
/// Pointers of ranks that give or get nothing may be null. `in == out` is allowed for Broadcast, Reduce, AllReduce; for
/// AllGather, Gather `in == out + index * count`, and for ReduceScatter, Scatter `out == in + index * count`, unless a
/// row lies in several runs.
///
/// With `runs` above 1, of AllGather and ReduceScatter alone, the side of size() rows is (runs, size(), count / runs):
/// what is split or put together along an axis that is not the outermost.
struct CollectiveCall {
  Collective kind = Collective::Barrier;
  ElementType type = ElementType::UInt8;
  ReduceOp op = Sum;
  int root = 0; // place in the group
  const void *in = nullptr;
  void *out = nullptr;
  int64_t count = 0;
  int64_t runs = 1;       // divides count
  const char *label = ""; // the place in the user's source, for messages; copied
};

/// Of elements [begin, end) of a row, on the side that has `places` of them, the pieces that lie together: calls
/// visit(where the piece begins, in elements of the buffer; in elements of the row; its length).
template <typename Visit>
void forEachRun(const CollectiveCall &call, int places, int row, int64_t begin, int64_t end, Visit visit) {
  if (call.runs <= 1 || places == 1)
    return visit(row * call.count + begin, begin, end - begin);
  const int64_t length = call.count / call.runs;
  for (int64_t at = begin; at < end;) {
    const int64_t run = at / length, inRun = at % length, n = std::min(end - at, length - inRun);
    visit((run * places + row) * length + inRun, at, n);
    at += n;
  }
}

/// The same of all `places` rows, with places in a copy where elements [begin, end) of the rows lie one after the
/// other: calls visit(where the piece begins, in elements of the buffer; in elements of the copy; its length).
template <typename Visit>
void forEachPiece(const CollectiveCall &call, int places, int64_t begin, int64_t end, Visit visit) {
  for (int row = 0; row < places; ++row)
    forEachRun(call, places, row, begin, end, [&](int64_t at, int64_t inRow, int64_t count) {
      visit(at, row * (end - begin) + inRow - begin, count);
    });
}

/// An operation under way inside a transport; 0 is none. A request is spent by the wait, or the test that says true.
using Request = uint64_t;

/// Something started on a transport that needs a push now and then: a collective over messages.
class Background {
public:
  virtual ~Background() = default;
  /// Goes on as far as possible without waiting; true at the end.
  virtual bool advance() = 0;
};

/// One rank's end of the transport. All calls come from the one thread that is the rank.
class Transport {
public:
  virtual ~Transport() = default;

  int rank() const { return ownRank; }
  int size() const { return worldSize; }
  /// How many ranks this machine has, this one among them.
  virtual int ranksHere() const { return worldSize; }
  /// The number that a launcher gave this rank among those of its machine; -1: none has.
  virtual int localRank() const { return -1; }
  /// The network interface over which other machines are reached, "eth0"; empty: there are none, or it is not known.
  virtual std::string networkInterface() const { return ""; }
  /// "shm", "threads", "mpi" or "tcp".
  virtual const char *name() const = 0;
  /// Seconds that a wait may last before the ranks that did not come are named and the run ends.
  double deadline() const { return deadlineSeconds; }
  /// Whether the ranks can read each other's memory (then Algorithm::direct exists).
  virtual bool isDirect() const = 0;

  /// Zeroed memory that lives as long as the transport, 64 byte aligned. Where there is shared memory (shm) it comes
  /// from this rank's part of the segment (LaunchOptions::sharedBytesPerRank) while that lasts: the peers reach it
  /// without a copy, so collectives on it move each byte once. Every rank allocates the same sizes in the same order.
  virtual void *allocate(size_t bytes) = 0;
  /// As allocate; over the last bytes, whole pages of which this is the number, the caller maps a file of its own.
  /// Peers do not reach them, and no memory need be there.
  virtual void *allocateBefore(size_t bytes, size_t) { return allocate(bytes); }
  /// Whether the peers read this memory, which allocate() gave, under the same address.
  virtual bool isReached(const void *) const { return false; }

  /// All ranks, id 0.
  const Group &world() const { return worldGroup; }
  /// Every rank calls this in the same order, with the set (in group order) that holds itself; the sets are disjoint.
  virtual Group makeGroup(std::vector<int> ranks) = 0;
  /// The group over some mesh axes; see ranksOver.
  Group makeGroup(const std::vector<int> &meshSizes, const std::vector<int> &over) {
    return makeGroup(ranksOver(meshSizes, over, ownRank));
  }

  /// Messages from one rank to another with one tag (0 to 2^20) arrive in the order in which they were sent. The buffer
  /// belongs to the transport until the request is spent. Both sides name the same number of bytes. A wait for a
  /// message with a label shows as "send (label)" or "receive (label)"; without one, as the last setPlace.
  virtual Request isend(int to, const void *data, size_t bytes, int tag, const char *label) = 0;
  virtual Request ireceive(int from, void *data, size_t bytes, int tag, const char *label) = 0;

  /// Starts the collective in the transport's own way: over shared memory, MPI's, or by messages. The calls on one
  /// group start in the same order on all its ranks.
  virtual Request startCollective(const Group &group, const CollectiveCall &call) = 0;
  /// Starts and waits; faster than the two where messages are small.
  virtual void runCollective(const Group &group, const CollectiveCall &call) { wait(startCollective(group, call)); }

  /// True, once, when the operation is complete; moves it on if not. Never blocks.
  virtual bool test(Request request) = 0;
  /// Waits for the operation, to the deadline.
  virtual void wait(Request request) = 0;
  /// Moves on whatever is under way; a long computation may call it between its parts.
  virtual void progress() = 0;

  /// The tag of the next collective over messages on `group`: the same on all its ranks, apart from that of the last
  /// ones. Messages of the user's own have the group's id.
  int nextTag(const Group &group) {
    if (size_t(group.id) >= messageCollectives.size())
      messageCollectives.resize(group.id + 1);
    return group.id + 64 * (1 + messageCollectives[group.id]++ % 4096);
  }

  /// From now on waits and progress() move `work` on too; until it is removed.
  void addBackground(Background &work) { background.push_back(&work); }
  void removeBackground(Background &work) {
    background.erase(std::remove(background.begin(), background.end(), &work), background.end());
  }

  void send(int to, const void *data, size_t bytes, int tag = 0, const char *label = "") {
    wait(isend(to, data, bytes, tag, label));
  }
  void receive(int from, void *data, size_t bytes, int tag = 0, const char *label = "") {
    wait(ireceive(from, data, bytes, tag, label));
  }

  /// What the launcher tells of this rank: the training step it is in. Called once a step.
  virtual void setStep(int64_t step) = 0;
  /// Whether this rank does what all ranks do alike, a step or an evaluation, and not what one does for all, as writing
  /// files. setStep says so too. One that computes and does not come is given up before the deadline (WaitPolicy.h).
  virtual void setComputes(bool) {}
  // Threads of this rank that work beside it may call these two, and nothing else.
  /// Processor time that they have used so far, which nobody waits for: it is not taken for that of a rank that hangs.
  virtual void setAside(double) {}
  /// Of rank 0. When it fails, or sees that another rank failed, it ends after what a thread writes; over mpi mpirun or
  /// srun may end it before.
  virtual void setSnapshotPhase(SnapshotPhase) {}

  /// Names what this rank is about to do, as setStep does; `label`, such as its source line, is copied (64 bytes of
  /// it).
  virtual void setPlace(Activity what, const char *label) = 0;
  /// Whether the user asked the run to stop (Ctrl-C, SIGTERM). Ranks may see it at different times: let rank 0 read it
  /// and the others follow its decision.
  virtual bool stopRequested() const = 0;

  /// Ticks (Ticks.h) that this rank has waited for others; goes on counting.
  virtual const uint64_t &waitedTicks() const { return waited; }

  /// Ends the run: tells it to the other ranks and prints, if this rank is the first to fail. Called by fail().
  [[noreturn]] virtual void stop(const char *message) = 0;

protected:
  void advanceBackground() {
    for (size_t i = 0; i < background.size(); ++i)
      background[i]->advance();
  }

  int ownRank = 0;
  int worldSize = 1;
  double deadlineSeconds = 10;
  uint64_t waited = 0; // ticks
  Group worldGroup;

private:
  std::vector<uint32_t> messageCollectives; // by group id
  std::vector<Background *> background;
};

} // namespace echelon::runtime
