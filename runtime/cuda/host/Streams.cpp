#include "runtime/cuda/host/Streams.h"
#include "runtime/cuda/host/Cuts.h"
#include "runtime/cuda/host/Emulation.h"
#include "runtime/cuda/host/Memory.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace echelon::cuda {

namespace host {
namespace {

struct State {
  std::recursive_mutex lock;
  std::condition_variable_any changed;
  std::vector<CUstream_st *> streams;    // of all ranks, by id; they stay, since clocks name them
  std::map<int, CUstream_st *> defaults; // by device
  uint64_t seed = 0;
  std::mt19937_64 random;
  uint64_t moves = 0; // tasks that were enqueued or have run
  double patience = 20;
  Clock waited, ended; // what some host thread has waited for; what one that has ended had

  State() {
    if (const char *text = std::getenv("ECHELON_SEED"))
      seed = std::strtoull(text, nullptr, 10);
    random.seed(seed);
  }
};
State &state() {
  static State &all = *new State; // threads may still run when destructors of globals do
  return all;
}

/// What a thread of the host has waited for. It begins with what others had waited for by then, since one of them made
/// it; what it knew when it ended all others know, since they wait for its end before they use its results.
struct HostThread {
  Clock clock;
  int device = 0;

  HostThread() {
    const Guard guard;
    clock = state().waited;
  }
  ~HostThread() {
    const Guard guard;
    join(state().ended, clock);
  }
  void hasWaitedFor(const Clock &other) {
    join(clock, other);
    join(state().waited, other);
  }
};
HostThread &hostThread() {
  thread_local HostThread own;
  return own;
}

void moved() {
  ++state().moves;
  wake();
}

/// A stream's tasks come after what the host thread that enqueues them has waited for.
void joinHost(CUstream_st &stream) {
  join(stream.clock, hostThread().clock);
  join(stream.clock, state().ended);
}

//===-- the order of tasks ---------------------------------------------------------------------------------------===//

bool isRunnable(const CUstream_st &stream) {
  return !stream.queue.empty() && (!stream.queue.front().ready || stream.queue.front().ready());
}

/// The stream whose first task runs next; nullptr: all wait.
CUstream_st *nextStream() {
  std::vector<CUstream_st *> runnable;
  for (CUstream_st *stream : state().streams)
    if (isRunnable(*stream))
      runnable.push_back(stream);
  if (runnable.empty())
    return nullptr;
  if (state().seed % 2 == 0)
    return runnable[state().random() % runnable.size()];
  return *std::max_element(runnable.begin(), runnable.end(),
                           [](const CUstream_st *a, const CUstream_st *b) { return a->priority < b->priority; });
}

bool runOne() {
  CUstream_st *stream = nextStream();
  if (!stream)
    return false;
  const Task task = std::move(stream->queue.front());
  stream->queue.pop_front(); // first, since a kernel that cannot end may throw
  moved();
  if (task.run)
    runOpen(task);
  return true;
}

/// What runs inside of calls that do not wait.
void maybeRun() {
  while ((state().seed == 0 || (state().seed % 2 == 0 && state().random() % 3 == 0)) && runOne()) {
  }
  closeMemory();
}

[[noreturn]] void stopWaiting(const char *what) {
  std::string message = std::string(what) + " waits in vain; first in the streams:";
  for (const CUstream_st *stream : state().streams)
    if (!stream->queue.empty())
      message += "\n  device " + std::to_string(stream->device) + ", stream " + stream->name + ": " +
                 stream->queue.front().what;
  stop(message);
}

} // namespace

Guard::Guard() : unique_lock(state().lock) {}

void wake() { state().changed.notify_all(); }

void setPatience(double seconds) {
  const Guard guard;
  state().patience = seconds;
}

void waitUntil(const std::function<bool()> &done, const char *what, const std::function<void()> &then) {
  using Time = std::chrono::steady_clock;
  Guard guard;
  const auto patience = std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(state().patience));
  uint64_t seen = state().moves;
  auto deadline = Time::now() + patience;
  while (!done()) {
    if (runOne())
      continue;
    closeMemory();
    if (state().moves != seen) {
      seen = state().moves;
      deadline = Time::now() + patience;
    }
    if (state().changed.wait_until(guard, deadline) == std::cv_status::timeout && state().moves == seen && !done())
      stopWaiting(what);
  }
  closeMemory();
  if (then)
    then();
}

//===-- streams --------------------------------------------------------------------------------------------------===//

CUstream_st *makeStream(const std::string &name) {
  const Guard guard;
  auto *stream = new CUstream_st;
  stream->id = static_cast<int>(state().streams.size());
  stream->device = currentDevice();
  stream->name = name.empty() ? std::to_string(stream->id) : name;
  stream->clock.resize(state().streams.size() + 1);
  stream->priority = state().random();
  state().streams.push_back(stream);
  return stream;
}

CUstream_st &streamOf(cudaStream_t stream) {
  const Guard guard;
  if (stream)
    return *stream;
  CUstream_st *&own = state().defaults[currentDevice()];
  if (!own)
    own = makeStream("default");
  return *own;
}

void put(CUstream_st &stream, Task task) {
  const Guard guard;
  if (stream.capture) {
    stream.capture->add({&stream, CUgraph_st::Kind::Work, std::move(task)});
    return;
  }
  joinHost(stream);
  if (const auto given = task.given)
    given(stream, task);
  const auto id = static_cast<size_t>(stream.id);
  checkAccesses(task.what, stream.name, {stream.id, stream.clock[id] + 1}, stream.clock, task.touches);
  ++stream.clock[id];
  stream.queue.push_back(std::move(task));
  moved();
  maybeRun();
}

bool isTouchedLater(const Range &range) {
  const Guard guard;
  const auto overlaps = [&](const Range &x) {
    return x.begin < range.begin + range.bytes && range.begin < x.begin + x.bytes;
  };
  const auto touches = [&](const Task &task) {
    return std::any_of(task.touches.begin(), task.touches.end(), overlaps);
  };
  return std::any_of(state().streams.begin(), state().streams.end(), [&](const CUstream_st *stream) {
    return std::any_of(stream->queue.begin(), stream->queue.end(), touches);
  });
}

void enqueue(cudaStream_t stream, const char *what, std::vector<Range> touches, std::function<void()> run) {
  Task task;
  task.what = what;
  task.touches = std::move(touches);
  task.run = std::move(run);
  put(streamOf(stream), std::move(task));
}

void announce(cudaStream_t stream, const char *what, std::vector<Range> touches) {
  const Guard guard;
  CUstream_st &own = streamOf(stream);
  own.announced = std::move(touches);
  own.announcedAs = what;
}
std::vector<Range> announcedFor(cudaStream_t stream, std::string &what) {
  const Guard guard;
  CUstream_st &own = streamOf(stream);
  if (!own.announcedAs.empty())
    what = own.announcedAs;
  own.announcedAs.clear();
  return std::exchange(own.announced, {});
}

int &currentDevice() { return hostThread().device; }

void waitForDevice(int device, const char *what) {
  const auto isIdle = [&](const CUstream_st *stream) { return stream->device != device || stream->queue.empty(); };
  waitUntil([&] { return std::all_of(state().streams.begin(), state().streams.end(), isIdle); }, what,
            [&] {
              for (const CUstream_st *stream : state().streams)
                if (stream->device == device)
                  hostThread().hasWaitedFor(stream->clock);
            });
}

//===-- events ---------------------------------------------------------------------------------------------------===//

std::shared_ptr<Record> record(CUstream_st &stream) {
  const Guard guard;
  joinHost(stream);
  auto made = std::make_shared<Record>();
  made->clock = stream.clock;
  Task task;
  task.what = "the record of an event";
  task.mayBeIsolated = false;
  task.run = [made] {
    made->isDone = true;
    made->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  put(stream, std::move(task));
  return made;
}

void waitFor(CUstream_st &stream, const std::shared_ptr<Record> &record) {
  const Guard guard;
  join(stream.clock, record->clock);
  Task task;
  task.what = "the wait for an event";
  task.ready = [record] { return record->isDone; };
  put(stream, std::move(task));
}

} // namespace host

void setSeed(uint64_t seed) {
  const host::Guard guard;
  host::state().seed = seed;
  host::state().random.seed(seed);
}

} // namespace echelon::cuda

//===-- what CUDA declares ---------------------------------------------------------------------------------------===//

using namespace echelon::cuda::host;

namespace {

bool knows(const Clock &clock, const Clock &other) {
  Clock both = clock;
  join(both, other);
  both.resize(std::max(both.size(), clock.size()));
  Clock same = clock;
  same.resize(both.size());
  return both == same;
}

// Whether a test takes out a call (Cuts.h), and whether it orders anything that nothing else does.
bool isHostWaitCut(const Clock &waitsFor) {
  return mayCut() && isCut("host wait", !knows(hostThread().clock, waitsFor));
}
bool isRecordCut(const CUevent_st &event, CUstream_st &stream) {
  if (!mayCut())
    return false;
  if (stream.capture || !event.last || event.capture)
    return isCut("record", true);
  joinHost(stream);
  return isCut("record", !knows(event.last->clock, stream.clock));
}
bool isWaitCut(CUstream_st &stream, const CUevent_st &event) {
  if (!mayCut())
    return false;
  if (CUgraph_st *graph = event.capture ? captureUnderWay(event.capture) : nullptr)
    return isCut("wait", stream.capture != graph || !knows(graph->clocks[&stream], graph->records[event.place]));
  joinHost(stream);
  return isCut("wait", event.last && !knows(stream.clock, event.last->clock));
}

cudaError_t refuseWhileCaptured(CUstream_st &stream) {
  stream.capture->isBroken = true;
  return noted(cudaErrorStreamCaptureUnsupported);
}
} // namespace

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  if (flags != cudaStreamNonBlocking) // others wait for the default stream, which is not emulated
    return noted(cudaErrorNotSupported);
  *stream = makeStream("");
  return cudaSuccess;
}

/// The stream stays for the clocks that name it; its work goes on.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Guard guard;
  if (!stream)
    return noted(cudaErrorInvalidResourceHandle);
  if (stream->capture)
    return refuseWhileCaptured(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  CUstream_st &stream = streamOf(handle);
  if (stream.capture)
    return refuseWhileCaptured(stream);
  if (isHostWaitCut(stream.clock))
    return cudaSuccess;
  waitUntil([&] { return stream.queue.empty(); }, "cudaStreamSynchronize",
            [&] { hostThread().hasWaitedFor(stream.clock); });
  return cudaSuccess;
}

/// Each call lets a task run, so that a loop of them ends.
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const Guard guard;
  CUstream_st &stream = streamOf(handle);
  if (stream.capture)
    return refuseWhileCaptured(stream);
  if (!stream.queue.empty()) {
    runOne();
    closeMemory();
    return noted(cudaErrorNotReady);
  }
  hostThread().hasWaitedFor(stream.clock);
  return cudaSuccess;
}

/// The function may not call CUDA.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
  Task task;
  task.what = "a function of the host";
  task.touches = announcedFor(stream, task.what);
  task.run = [=] { function(data); };
  put(streamOf(stream), std::move(task));
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (isForbiddenByCapture())
    return noted(cudaErrorStreamCaptureUnsupported);
  waitForDevice(currentDevice(), "cudaDeviceSynchronize");
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
/// Whoever waits for a record holds it himself.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Guard guard;
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  const Guard guard;
  CUstream_st &stream = streamOf(handle);
  if (isRecordCut(*event, stream))
    return cudaSuccess;
  if (stream.capture)
    return noted(stream.capture->record(stream, *event));
  event->capture = 0;
  event->last = record(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  const Guard guard;
  CUstream_st &stream = streamOf(handle);
  if (isWaitCut(stream, *event))
    return cudaSuccess;
  if (CUgraph_st *graph = event->capture ? captureUnderWay(event->capture) : stream.capture)
    return noted(graph->waitFor(stream, *event));
  if (event->capture)
    return noted(cudaErrorCapturedEvent);
  if (event->last) // there is nothing to wait for else
    waitFor(stream, event->last);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->capture)
    return noted(cudaErrorCapturedEvent);
  if (const std::shared_ptr<Record> last = event->last; last && !isHostWaitCut(last->clock))
    waitUntil([&] { return last->isDone; }, "cudaEventSynchronize", [&] { hostThread().hasWaitedFor(last->clock); });
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const Guard guard;
  if (from->capture || to->capture)
    return noted(cudaErrorCapturedEvent);
  if (!from->last || !to->last)
    return noted(cudaErrorInvalidResourceHandle);
  if (!from->last->isDone || !to->last->isDone)
    return noted(cudaErrorNotReady);
  *milliseconds = static_cast<float>((to->last->seconds - from->last->seconds) * 1e3);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Guard guard;
  if (event->capture)
    return noted(cudaErrorCapturedEvent);
  if (!event->last)
    return cudaSuccess;
  if (!event->last->isDone) {
    runOne();
    closeMemory();
    return noted(cudaErrorNotReady);
  }
  hostThread().hasWaitedFor(event->last->clock);
  return cudaSuccess;
}

} // extern "C"
