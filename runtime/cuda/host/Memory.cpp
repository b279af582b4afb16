#include "runtime/cuda/host/Memory.h"
#include "runtime/cuda/host/Emulation.h"
#include "runtime/cuda/host/Streams.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

namespace echelon::cuda {

namespace host {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kDeviceBytes = size_t(80) << 30;
constexpr size_t kAlignment = 16;    // so that little lies between the end and the closed page
constexpr unsigned char kNaN = 0xff; // four, eight, or two of them are a NaN of float, double, bf16 or fp16

struct Memory {
  std::map<const char *, Allocation> allocations; // by the first byte
  bool isOpen = false;
  bool isIsolated = false;
  struct sigaction before;

  Memory();
};
Memory &memory() {
  static Memory &all = *new Memory; // threads may still run when destructors of globals do
  return all;
}

//===-- touches that are not allowed -----------------------------------------------------------------------------===//

/// The task that runs, and the thread that runs it; the handler of the signal names it. They are not thread-local,
/// since that storage serves kernels as shared memory (Block.cpp).
const char *runningTask = nullptr;
pid_t runningThread = 0;

struct Running {
  explicit Running(const Task &task) {
    runningTask = task.what.c_str();
    runningThread = gettid();
  }
  ~Running() { runningThread = 0; }
};

/// The device's allocation whose pages, closed ones included, hold the address.
const Allocation *pagesAt(const char *address) {
  for (const auto &[data, allocation] : memory().allocations)
    if (allocation.isOnDevice && address >= allocation.pages && address < allocation.pages + allocation.pageBytes)
      return &allocation;
  return nullptr;
}

/// Says what is wrong, and leaves the end to whom the signal went before. The lock may be held, so it is not asked for.
void explainFault(int, siginfo_t *info, void *) {
  const auto *address = static_cast<const char *>(info->si_addr);
  const Allocation *pages = pagesAt(address);
  const char *task = runningThread == gettid() ? runningTask : nullptr;
  char text[240];
  int length = 0;
  if (task && !pages)
    length =
        std::snprintf(text, sizeof text, "cuda on host: '%s' touches %p, where no memory is\n", task, info->si_addr);
  else if (task)
    length = std::snprintf(text, sizeof text, "cuda on host: '%s' leaves its memory: byte %td of %zu\n", task,
                           address - pages->data, pages->bytes);
  else if (pages)
    length = std::snprintf(text, sizeof text, "cuda on host: the host touches device memory: byte %td of %zu\n",
                           address - pages->data, pages->bytes);
  if (length > 0 && write(2, text, std::min(size_t(length), sizeof text - 1)) < 0)
    _exit(3);
  sigaction(SIGSEGV, &memory().before, nullptr); // the same touch comes again
}

Memory::Memory() {
  const char *isolate = std::getenv("ECHELON_ISOLATE");
  isIsolated = isolate && std::strcmp(isolate, "0") != 0;
  struct sigaction explain{};
  explain.sa_flags = SA_SIGINFO;
  explain.sa_sigaction = explainFault;
  sigaction(SIGSEGV, &explain, &before);
}

//===-- open and closed pages ------------------------------------------------------------------------------------===//

void protect(const Allocation &allocation, int protection) {
  if (allocation.isOnDevice)
    mprotect(allocation.pages + kPage, allocation.pageBytes - 2 * kPage, protection);
}

void protectAll(bool isOpen) {
  if (memory().isOpen == isOpen)
    return;
  for (const auto &[data, allocation] : memory().allocations)
    protect(allocation, isOpen ? PROT_READ | PROT_WRITE : PROT_NONE);
  memory().isOpen = isOpen;
}

/// Whether all bytes are as they were made.
bool isUntouched(const char *begin, const char *end) {
  return begin == end || (*begin == static_cast<char>(kNaN) &&
                          std::memcmp(begin, begin + 1, static_cast<size_t>(end - begin) - 1) == 0);
}

/// Within its own pages an allocation has no closed neighbour. What was written there shows when it is freed.
void checkMargins(const Allocation &allocation) {
  const std::string size = std::to_string(allocation.bytes) + " bytes of device memory";
  if (!isUntouched(allocation.pages + kPage, allocation.data))
    stop("something wrote before the begin of " + size);
  if (!isUntouched(allocation.data + allocation.bytes, allocation.pages + allocation.pageBytes - kPage))
    stop("something wrote past the end of " + size);
}

//===-- isolation ------------------------------------------------------------------------------------------------===//

/// Hides from a task what it does not declare, and what it says it writes alone: it finds NaNs there, and may write
/// only where it says so.
class Isolation {
public:
  explicit Isolation(const Task &task) : task(task) {
    for (auto &[data, allocation] : memory().allocations)
      if (allocation.isOnDevice)
        hide(allocation);
  }

  /// Keeps what the task wrote, and puts the rest back.
  void end() {
    for (Hidden &hidden : all) {
      size_t at = 0;
      for (const Part &part : parts(*hidden.allocation, true)) {
        restore(hidden, at, part.begin);
        keepUnwritten(hidden, part);
        at = std::max(at, part.begin + part.bytes);
      }
      restore(hidden, at, hidden.allocation->bytes);
    }
  }

private:
  struct Hidden {
    Allocation *allocation;
    std::vector<char> content, shown; // before the task, and what it found
  };
  /// Of an allocation, in bytes.
  struct Part {
    size_t begin, bytes, element;
    bool operator<(const Part &other) const { return begin < other.begin; }
  };

  void hide(Allocation &allocation) {
    const std::vector<char> content(allocation.data, allocation.data + allocation.bytes);
    std::vector<char> shown(content.size(), static_cast<char>(kNaN));
    for (const Part &part : parts(allocation, true))
      for (size_t i = 0; i < part.bytes; ++i)
        shown[part.begin + i] = isHidden(part) ? toBeWritten(i) : content[part.begin + i];
    for (const Part &part : parts(allocation, false))
      std::memcpy(&shown[part.begin], &content[part.begin], part.bytes);
    std::memcpy(allocation.data, shown.data(), shown.size());
    all.push_back({&allocation, content, std::move(shown)});
  }

  /// What lies where a task writes and does not read: in elements of two bytes and more NaNs that no arithmetic gives.
  /// A byte may be anything.
  static bool isHidden(const Part &part) { return part.element > 1 && part.element <= 16; }
  static char toBeWritten(size_t at) { return static_cast<char>(at % 2 == 0 ? 0xfd : 0xff); }

  /// Elements that the task might write and did not stay as they were before.
  void keepUnwritten(const Hidden &hidden, const Part &part) const {
    char untouched[16];
    for (size_t i = 0; i < sizeof untouched; ++i)
      untouched[i] = toBeWritten(i);
    if (!isHidden(part))
      return;
    for (size_t i = part.begin; i + part.element <= part.begin + part.bytes; i += part.element)
      if (char *data = hidden.allocation->data + i; std::memcmp(data, untouched, part.element) == 0)
        std::memcpy(data, &hidden.content[i], part.element);
  }

  /// Bytes that the task does not say it writes, unless they are none.
  void restore(const Hidden &hidden, size_t begin, size_t end) const {
    if (begin >= end)
      return;
    char *data = hidden.allocation->data + begin;
    if (std::memcmp(data, &hidden.shown[begin], end - begin) != 0)
      stop("'" + task.what + "' writes where it does not declare it, within bytes " + std::to_string(begin) + " to " +
           std::to_string(end) + " of " + std::to_string(hidden.allocation->bytes));
    std::memcpy(data, &hidden.content[begin], end - begin);
  }

  /// What the task reads, or writes, of the allocation, ascending; it may overlap.
  std::vector<Part> parts(const Allocation &allocation, bool writes) const {
    std::vector<Part> found;
    for (const Range &range : task.touches)
      if (range.bytes > 0 && range.begin >= allocation.data && range.begin < allocation.data + allocation.bytes &&
          range.writes == writes)
        found.push_back({static_cast<size_t>(range.begin - allocation.data), range.bytes, range.element});
    std::sort(found.begin(), found.end());
    return found;
  }

  const Task &task;
  std::vector<Hidden> all;
};

//===-- allocations ----------------------------------------------------------------------------------------------===//

size_t roundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

size_t bytesInUse(int device) {
  size_t bytes = 0;
  for (const auto &[data, allocation] : memory().allocations)
    if (allocation.isOnDevice && allocation.device == device)
      bytes += allocation.bytes;
  return bytes;
}

Allocation &add(void *data, size_t bytes) {
  Allocation allocation{};
  allocation.data = static_cast<char *>(data);
  allocation.bytes = bytes;
  return memory().allocations[allocation.data] = std::move(allocation);
}

/// nullptr: there is none at this address.
Allocation *beginningAt(const void *address, bool isOnDevice, bool isRegistered) {
  Allocation *found = allocationOf(address);
  return found && found->data == address && found->isOnDevice == isOnDevice && found->isRegistered == isRegistered
             ? found
             : nullptr;
}

/// Of memory that begins at the address; -1: it is no device's.
int deviceOf(const void *address) {
  const Guard guard;
  const Allocation *found = beginningAt(address, true, false);
  return found ? found->device : -1;
}

/// Whether a copy says truly which side is the device's.
bool isTrue(cudaMemcpyKind kind, const void *to, const void *from) {
  const auto isOnDevice = [](const void *address) {
    const Allocation *found = allocationOf(address);
    return found && found->isOnDevice;
  };
  if (kind == cudaMemcpyDefault)
    return true;
  return isOnDevice(to) == (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) &&
         isOnDevice(from) == (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice);
}

cudaError_t copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const Guard guard;
  if (bytes == 0)
    return cudaSuccess;
  if (!isTrue(kind, to, from))
    return noted(cudaErrorInvalidValue);
  std::vector<Range> touches; // what CUDA does not know of the host is nobody's to race with
  if (allocationOf(from))
    touches.push_back({static_cast<const char *>(from), bytes, false});
  if (allocationOf(to))
    touches.push_back({static_cast<const char *>(to), bytes, true});
  Task task;
  task.what = "a copy";
  task.touches = std::move(touches);
  task.run = [=] { std::memcpy(to, from, bytes); };
  // The clocks do not see the host: one that reads before it has waited finds NaNs, as in the device's memory.
  if (const Allocation *target = allocationOf(to); !target || !target->isOnDevice)
    task.given = [=](CUstream_st &, Task &) {
      if (!isTouchedLater({static_cast<const char *>(to), bytes, true}))
        std::memset(to, kNaN, bytes);
    };
  put(streamOf(stream), std::move(task));
  return cudaSuccess;
}

cudaError_t fill(void *to, int value, size_t bytes, cudaStream_t stream) {
  if (bytes > 0)
    enqueue(stream, "a fill", {{static_cast<const char *>(to), bytes, true}}, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

} // namespace

void stop(const std::string &message) {
  std::fflush(stdout);
  std::fprintf(stderr, "cuda on host: %s\n", message.c_str());
  std::abort();
}

Allocation *allocationOf(const void *address) {
  auto &all = memory().allocations;
  const auto *byte = static_cast<const char *>(address);
  const auto next = all.upper_bound(byte);
  if (next == all.begin())
    return nullptr;
  Allocation &found = std::prev(next)->second;
  return byte < found.data + found.bytes ? &found : nullptr;
}

void runOpen(const Task &task) {
  protectAll(true);
  const Running named(task);
  if (!memory().isIsolated || !task.mayBeIsolated || task.ready)
    return task.run();
  Isolation isolation(task);
  task.run();
  isolation.end();
}

void closeMemory() { protectAll(false); }

} // namespace host

void setIsolation(bool isOn) {
  const host::Guard guard;
  host::memory().isIsolated = isOn;
}

} // namespace echelon::cuda

//===-- what CUDA declares ---------------------------------------------------------------------------------------===//

using namespace echelon::cuda::host;

extern "C" {

cudaError_t cudaMalloc(void **to, size_t bytes) {
  if (isForbiddenByCapture())
    return noted(cudaErrorStreamCaptureUnsupported);
  const Guard guard;
  *to = nullptr;
  if (bytes == 0)
    return cudaSuccess;
  if (bytes > kDeviceBytes - bytesInUse(currentDevice()))
    return noted(cudaErrorMemoryAllocation);
  const size_t pageBytes = roundUp(bytes, kPage) + 2 * kPage;
  void *pages = mmap(nullptr, pageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    return noted(cudaErrorMemoryAllocation);
  Allocation &made = add(static_cast<char *>(pages) + pageBytes - kPage - roundUp(bytes, kAlignment), bytes);
  made.isOnDevice = true;
  made.device = currentDevice();
  made.pages = static_cast<char *>(pages);
  made.pageBytes = pageBytes;
  protect(made, PROT_READ | PROT_WRITE);
  std::memset(made.pages + kPage, kNaN, pageBytes - 2 * kPage);
  if (!memory().isOpen)
    protect(made, PROT_NONE);
  *to = made.data;
  return cudaSuccess;
}

cudaError_t cudaFree(void *data) {
  if (isForbiddenByCapture())
    return noted(cudaErrorStreamCaptureUnsupported);
  if (!data)
    return cudaSuccess;
  const int device = deviceOf(data);
  if (device < 0)
    return noted(cudaErrorInvalidValue);
  waitForDevice(device, "cudaFree");
  const Guard guard;
  const Allocation &allocation = *allocationOf(data);
  protect(allocation, PROT_READ);
  checkMargins(allocation);
  munmap(allocation.pages, allocation.pageBytes);
  memory().allocations.erase(static_cast<char *>(data));
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **to, size_t bytes, unsigned) {
  if (isForbiddenByCapture())
    return noted(cudaErrorStreamCaptureUnsupported);
  const Guard guard;
  *to = nullptr;
  if (bytes == 0)
    return cudaSuccess;
  *to = std::aligned_alloc(kPage, roundUp(bytes, kPage));
  if (!*to)
    return noted(cudaErrorMemoryAllocation);
  std::memset(*to, kNaN, bytes);
  add(*to, bytes);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void **to, size_t bytes) { return cudaHostAlloc(to, bytes, cudaHostAllocDefault); }

cudaError_t cudaFreeHost(void *data) {
  if (isForbiddenByCapture())
    return noted(cudaErrorStreamCaptureUnsupported);
  if (!data)
    return cudaSuccess;
  waitForDevice(currentDevice(), "cudaFreeHost");
  const Guard guard;
  if (!beginningAt(data, false, false))
    return noted(cudaErrorInvalidValue);
  memory().allocations.erase(static_cast<char *>(data));
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void *data, size_t bytes, unsigned) {
  if (isForbiddenByCapture())
    return noted(cudaErrorStreamCaptureUnsupported);
  const Guard guard;
  if (!data || bytes == 0)
    return noted(cudaErrorInvalidValue);
  if (allocationOf(data) || allocationOf(static_cast<char *>(data) + bytes - 1))
    return noted(cudaErrorHostMemoryAlreadyRegistered);
  add(data, bytes).isRegistered = true;
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *data) {
  if (isForbiddenByCapture())
    return noted(cudaErrorStreamCaptureUnsupported);
  waitForDevice(currentDevice(), "cudaHostUnregister");
  const Guard guard;
  if (!beginningAt(data, false, true))
    return noted(cudaErrorHostMemoryNotRegistered);
  memory().allocations.erase(static_cast<char *>(data));
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy(to, from, bytes, kind, stream);
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
  if (isForbiddenByCapture())
    return noted(cudaErrorStreamCaptureUnsupported);
  const cudaError_t error = copy(to, from, bytes, kind, nullptr);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  return fill(to, value, bytes, stream);
}
cudaError_t cudaMemset(void *to, int value, size_t bytes) {
  if (isForbiddenByCapture())
    return noted(cudaErrorStreamCaptureUnsupported);
  return fill(to, value, bytes, nullptr); // the host may go on before it is done
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  const Guard guard;
  *total = kDeviceBytes;
  *free = kDeviceBytes - bytesInUse(currentDevice());
  return cudaSuccess;
}

} // extern "C"
