// Sees that collectives end: a thread beside the rank, since a rank whose collective never ends is stuck itself.
//
// A collective is due once all that was launched before it is over on this rank; then other ranks are waited for. One
// that is due for too long, or an error that NCCL tells, ends what is under way (DeviceTransport::abort), so that the
// rank goes on and fails with failure().
#pragma once
#include "runtime/cuda/Transport.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace echelon::cuda {

/// A collective or a message between two ranks, as what the watchdog says names it.
struct Awaited {
  std::string kind;
  int64_t count;
  std::string label; ///< the place in the user's source
};

class Watchdog {
public:
  /// `deadline`: seconds that a collective may be due.
  Watchdog(DeviceTransport &transport, double deadline);
  ~Watchdog();
  Watchdog(const Watchdog &) = delete;

  /// A collective has been put into a stream. Whether it is due, and whether it is over, is asked on another thread.
  void began(const Awaited &collective, int64_t step, std::function<bool()> isDue, std::function<bool()> isDone);
  /// All collectives so far are over: nobody asks any more.
  void forget();
  /// What ended them, if something did; empty: nothing.
  std::string failure();

private:
  struct Entry {
    std::string what;
    std::function<bool()> isDue, isDone;
    double since = -1; // when it was seen to be due
  };
  void watch();
  void look(double now);

  DeviceTransport &transport;
  const double deadline;
  int device = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Entry> entries;
  std::string found;
  bool isOver = false;
  std::thread thread;
};

} // namespace echelon::cuda
