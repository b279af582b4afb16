// Streams of the emulated devices: queues of tasks, which run one at a time inside calls of the host.
//
// A task may run once it is first in its stream and its event, if it waits for one, is over. Which of several does, and
// when, follows from a seed, so that each seed is a legal order that comes back:
//
//   0      at once, inside the call that enqueues
//   odd    as late as can be: only where the host waits, and streams by priorities that the seed draws
//   even   at random: some inside calls that enqueue, of a random stream
//
// A rank is a thread with a current device. All state lies under one lock; a thread that waits runs tasks of all ranks.
#pragma once
#include "runtime/cuda/host/Clocks.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace echelon::cuda::host {

/// Holds the lock on all that the emulation knows. A thread may hold it several times.
struct Guard : std::unique_lock<std::recursive_mutex> {
  Guard();
};

struct Task {
  std::string what;
  std::vector<Range> touches;
  std::function<void()> run;   // none: it only waits
  std::function<bool()> ready; // none: as soon as it is first
  bool mayBeIsolated = true;   // whether it touches nothing but what it declares
  /// Changes the copy of the task that enters a stream; each launch of a graph makes one.
  std::function<void(CUstream_st &, Task &)> given;
};

/// One recording of an event.
struct Record {
  Clock clock;
  bool isDone = false;
  double seconds = 0; // when it was done, by the wall's clock
};

/// The stream of a handle; for none the current device's own.
CUstream_st &streamOf(cudaStream_t stream);
CUstream_st *makeStream(const std::string &name);

/// Puts a task into a stream, or into the graph that it is captured for.
void put(CUstream_st &stream, Task task);

/// Whether a task that has not run yet touches some of these bytes.
bool isTouchedLater(const Range &range);

/// Records an event; and lets a stream wait for a record.
std::shared_ptr<Record> record(CUstream_st &stream);
void waitFor(CUstream_st &stream, const std::shared_ptr<Record> &record);

/// Runs tasks until `done`, and then, still under the lock, `then`. Other ranks' threads may have to add some first.
/// Where nothing moves for too long it prints what is first in each stream and ends the program. The
/// caller must not hold the lock, since other threads could not add anything.
void waitUntil(const std::function<bool()> &done, const char *what, const std::function<void()> &then = {});
void setPatience(double seconds);
/// Waiting threads look again.
void wake();

/// The current device of this thread.
int &currentDevice();
/// Waits for all streams of a device.
void waitForDevice(int device, const char *what);

/// What cudaGetLastError returns next, where it is an error; handed back.
cudaError_t noted(cudaError_t error);

/// Whether a capture forbids this thread a call that might wait for a device. The capture is broken from then on.
bool isForbiddenByCapture();
/// The capture of this number, if it is under way.
CUgraph_st *captureUnderWay(uint64_t number);

} // namespace echelon::cuda::host

struct CUstream_st {
  int id = -1, device = 0;
  std::string name;
  std::deque<echelon::cuda::host::Task> queue;
  echelon::cuda::host::Clock clock; // at which its next task may begin
  uint64_t priority = 0;
  CUgraph_st *capture = nullptr;
  std::vector<echelon::cuda::host::Range> announced;
  std::string announcedAs;
};

struct CUevent_st {
  std::shared_ptr<echelon::cuda::host::Record> last;
  uint64_t capture = 0; // in which it was recorded last, and its place among the records there
  size_t place = 0;
};

/// A capture, and then what it took.
struct CUgraph_st {
  enum class Kind { Work, Record, Wait };
  struct Node {
    CUstream_st *stream;
    Kind kind;
    echelon::cuda::host::Task task;
    size_t record = 0; // which is made, or waited for
  };

  CUstream_st *origin;
  uint64_t number; // from 1
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  bool isBroken = false;
  std::vector<Node> nodes;
  // Of each stream in the capture, and of each record: how many nodes of each stream come before.
  std::map<CUstream_st *, echelon::cuda::host::Clock> clocks;
  std::vector<echelon::cuda::host::Clock> records;

  void add(Node node);
  cudaError_t record(CUstream_st &stream, CUevent_st &event);
  cudaError_t waitFor(CUstream_st &stream, const CUevent_st &event);
};
