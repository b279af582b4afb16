// The collectives of programs for GPUs: those of runtime/collectives, with the same arguments in the same order, on
// memory of the device.
//
// Each group has a stream of its own, and so has each rank of it that this one sends to or receives from. A collective
// begins there once all that was launched on the rank's stream before it is over; the rank's stream goes on behind it,
// and where it is only started, behind wait().
#pragma once
#include "runtime/collectives/Collectives.h"
#include "runtime/cuda/LapTimer.h"
#include "runtime/cuda/Transport.h"
#include "runtime/cuda/Watchdog.h"

#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace echelon::cuda {

using runtime::Algorithm;
using runtime::CollectiveCall;
using runtime::CollectiveOptions;
using runtime::Group;
using runtime::Max;
using runtime::Min;
using runtime::ReduceOp;
using runtime::Sum;

/// A collective under way. Movable; an empty one is done.
class Ticket {
public:
  Ticket() = default;
  Ticket(Stream waits, cudaEvent_t done) : waits(waits), done(done) {}
  Ticket(Ticket &&other) noexcept : waits(other.waits), done(std::exchange(other.done, nullptr)) {}
  Ticket &operator=(Ticket &&other) noexcept {
    wait();
    waits = other.waits;
    done = std::exchange(other.done, nullptr);
    return *this;
  }
  ~Ticket() { wait(); }
  /// The rank's stream goes on behind it. The host does not wait.
  void wait();

private:
  Stream waits = nullptr;
  cudaEvent_t done = nullptr;
};

inline void wait(Ticket &ticket) { ticket.wait(); }
/// Of all iterations of a loop.
template <size_t count> void wait(Ticket (&tickets)[count]) {
  for (Ticket &ticket : tickets)
    ticket.wait();
}

/// The collectives of one rank.
class Collectives {
public:
  /// Collective. `compute` is the rank's stream.
  Collectives(runtime::Rank &host, Stream compute);
  ~Collectives();
  Collectives(const Collectives &) = delete;

  Ticket start(const Group &group, const CollectiveCall &call, Algorithm algorithm);
  void run(const Group &group, const CollectiveCall &call, Algorithm algorithm) { start(group, call, algorithm); }
  /// One side of a message between two ranks of a group.
  Ticket start(const Group &group, const Message &message);

  /// To the next rank of a group, and from the one before.
  Ticket start(const Group &group, const Shift &shift);

  /// At the start of a function, when nothing is under way.
  void begin();
  /// Ends the rank where a collective did not end. Behind a wait of the host.
  void check();

  /// When the collectives since begin() were, in a step that is traced. They are over.
  void trace(runtime::Trace &trace, const DeviceClock &clock);

  /// Whether collectives may be captured into a graph: those that go through the host wait for it.
  bool mayBeCaptured() const;
  /// The collectives of a graph. A launch marks in the host's memory how far it is, since events of a graph are none to
  /// ask for.
  struct Captured {
    std::vector<Awaited> all;
    uint8_t *marks = nullptr; // two for each: it is due, it is over
  };
  /// Captures what start() does from here on, no more often than in some function before; until it is taken.
  void beginCapture();
  Captured takeCaptured() { return std::exchange(captured, {}); }
  /// Before and after the launch of a graph that they belong to.
  void launching(const Captured &graph) const;
  void launched(const Captured &graph);

private:
  struct Lane {
    Stream stream = nullptr;
    std::byte *scratch = nullptr;
    size_t scratchBytes = 0;
  };
  /// Of collectives of a group; of messages to another rank of it, or from that one.
  using LaneKey = std::tuple<int, int, Message::Side>;
  Lane &laneOf(const LaneKey &key);
  template <typename Put> Ticket startIn(Lane &lane, const Awaited &what, Put put);
  template <typename T> T *scratch(Lane &lane, int64_t count);
  cudaEvent_t nextEvent();
  template <typename Put> void timed(const Group &group, const char *kind, const char *label, Stream stream, Put put);
  void mark(size_t place, Stream stream);
  void put(Lane &lane, const Group &group, const CollectiveCall &call, Algorithm algorithm = Algorithm::automatic);
  template <typename N> void sumRounded(Lane &lane, const Group &group, const CollectiveCall &call);

  runtime::Rank &host;
  Stream compute;
  std::unique_ptr<DeviceTransport> transport;
  std::unique_ptr<Watchdog> watchdog;
  std::map<LaneKey, Lane> lanes;
  std::vector<void *> allocations;
  std::vector<cudaEvent_t> events; // of a function: those before `used` are taken
  size_t used = 0;
  /// A collective or shift of a step that is traced, between two events of its stream.
  struct Timed {
    int group; // an index into Program::groups
    const char *kind, *label;
    cudaEvent_t begin = nullptr, end = nullptr;
  };
  std::vector<Timed> traced; // those before `usedTimed` are of this function
  size_t usedTimed = 0;
  Captured captured; // under way, where it has marks
  std::vector<void *> marks;
};

} // namespace echelon::cuda
