// A grid runs on one host thread, block by block. Each thread of a block is one of
//
//   Fresh    it has not begun, and needs no stack of its own yet
//   Ready    it waited and may go on
//   AtWarp   it waits for the other lanes of its warp
//   AtBlock  it waits for the other threads of its block
//   Done
//
// `next` chooses who runs: the warps in a drawn order, the lanes of the warp under way in another, and new orders after
// each meeting. A fiber whose thread is done runs a fresh one on the same stack, so a kernel without barriers takes a
// call a thread and no switch.
#include "runtime/cuda/host/Cuts.h"
#include "runtime/launch/Fail.h"

#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

//===-- switches -------------------------------------------------------------------------------------------------===//

#ifndef __x86_64__
#error "fibers switch stacks in x86-64's assembly; other processors need their own"
#endif

// Keeps the registers that a function must not change on the stack it leaves, and takes those of the other.
asm(R"(
.text
.globl echelon_switch_stacks
.type echelon_switch_stacks, @function
echelon_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size echelon_switch_stacks, .-echelon_switch_stacks
)");
extern "C" void echelon_switch_stacks(void **save, void *load);

namespace echelon::cuda::host {

namespace {

/// Where a fiber, or the function that runs the grid, goes on.
struct Context {
  void *pointer = nullptr; // of the stack
  // What address sanitizer must know: the stack's memory, and what it keeps for it.
  const void *stack = nullptr;
  size_t bytes = 0;
  void *shadow = nullptr;
};

#if defined(__SANITIZE_ADDRESS__)
void beforeSwitch(Context &from, const Context &to, bool ends) {
  __sanitizer_start_switch_fiber(ends ? nullptr : &from.shadow, to.stack, to.bytes);
}
void afterSwitch(Context &here) { __sanitizer_finish_switch_fiber(here.shadow, nullptr, nullptr); }
/// The first words of a fiber. `from` may be the host's own stack, which only the sanitizer knows.
void onEntry(Context &from) { __sanitizer_finish_switch_fiber(nullptr, &from.stack, &from.bytes); }
/// Frames that were left for good still look as if they were in use.
void clean(const Context &fiber) { __asan_unpoison_memory_region(fiber.stack, fiber.bytes); }
#else
void beforeSwitch(Context &, const Context &, bool) {}
void afterSwitch(Context &) {}
void onEntry(Context &) {}
void clean(const Context &) {}
#endif

/// Stacks, each above a page that nobody may touch.
class Fibers {
public:
  /// One that begins with `body`, which must not return.
  Context *take(void (*body)());
  void giveBack(Context *fiber) { idle.push_back(fiber); }
  /// Takes back those that a failed block left waiting.
  void giveBackAll();

private:
  static constexpr size_t kPage = 4096, kStack = 256 << 10;
  static constexpr size_t kShift = 5 * 64; // tops at the same place of all pages would share a few lines of the cache
  std::vector<std::unique_ptr<Context>> all;
  std::vector<Context *> idle;

  void make();
};

void Fibers::make() {
  void *pages =
      mmap(nullptr, kPage + kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages, kPage, PROT_NONE) != 0)
    runtime::fail("the emulation of CUDA finds no memory for stacks");
  auto fiber = std::make_unique<Context>();
  fiber->stack = static_cast<char *>(pages) + kPage;
  fiber->bytes = kStack - all.size() * kShift % kPage;
  idle.push_back(fiber.get());
  all.push_back(std::move(fiber));
}

Context *Fibers::take(void (*body)()) {
  if (idle.empty())
    make();
  Context *fiber = idle.back();
  idle.pop_back();
  clean(*fiber);
  char *end = const_cast<char *>(static_cast<const char *>(fiber->stack)) + fiber->bytes;
  auto **top = reinterpret_cast<void **>(end - 64);
  *--top = nullptr; // body's return address
  *--top = reinterpret_cast<void *>(body);
  fiber->pointer = top - 6; // the registers
  return fiber;
}

void Fibers::giveBackAll() {
  idle.clear();
  for (const std::unique_ptr<Context> &fiber : all)
    idle.push_back(fiber.get());
}

//===-- orders ---------------------------------------------------------------------------------------------------===//

/// 0 .. n - 1 forwards or backwards from some point on.
struct Order {
  int64_t start = 0;
  bool isForwards = true;

  int64_t at(int64_t i, int64_t n) const {
    const int64_t x = isForwards ? start + i : start + n - i;
    return x < n ? x : x - n; // a division would take as long as a switch
  }
};

/// Draws orders; the same ones in each run of the program.
class Draw {
public:
  Order order(int64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return {static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(n)), (state >> 32 & 1) != 0};
  }

private:
  uint64_t state = 1;
};

//===-- shared memory --------------------------------------------------------------------------------------------===//

thread_local char someThreadLocal; // tells the program's thread-local storage from its libraries'

struct Storage {
  char *begin = nullptr;
  size_t bytes = 0;
};

/// The program's thread-local storage, of the calling thread.
Storage threadLocals() {
  Storage found;
  dl_iterate_phdr(
      [](dl_phdr_info *module, size_t, void *to) {
        auto *begin = static_cast<char *>(module->dlpi_tls_data);
        for (int i = 0; begin && i < module->dlpi_phnum; ++i) {
          const size_t bytes = module->dlpi_phdr[i].p_memsz;
          if (module->dlpi_phdr[i].p_type == PT_TLS && &someThreadLocal >= begin && &someThreadLocal < begin + bytes)
            *static_cast<Storage *>(to) = {begin, bytes};
        }
        return 0;
      },
      &found);
  return found;
}

/// Shared memory while a grid runs. Among the program's thread-local variables are others beside those of kernels: they
/// are put back at the end, and no kernel reads them.
class SharedMemory {
public:
  static constexpr size_t kMostBytes = 227 << 10;

  void begin(size_t dynamicBytes);
  /// Before each block: all of it is NaNs, and -1 where integers lie.
  void fill();
  void end();
  /// Whether no thread has written to it since.
  bool isUntouched() const {
    const auto isFull = [](const char *begin, size_t bytes) {
      return bytes == 0 || (*begin == static_cast<char>(0xff) && std::memcmp(begin, begin + 1, bytes - 1) == 0);
    };
    return isFull(variables.begin, variables.bytes) && isFull(dynamicBegin, dynamicBytes);
  }
  /// It ends, up to its alignment, where a page begins that nobody may touch.
  void *dynamic() const { return dynamicBegin; }

private:
  static constexpr size_t kPage = 4096, kRoom = (kMostBytes + kPage - 1) / kPage * kPage, kAlignment = 128;
  Storage variables;
  std::vector<char> kept;
  char *room = nullptr, *dynamicBegin = nullptr;
  size_t dynamicBytes = 0;
};

void SharedMemory::begin(size_t bytes) {
  if (!room) {
    void *pages = mmap(nullptr, kRoom + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(static_cast<char *>(pages) + kRoom, kPage, PROT_NONE) != 0)
      runtime::fail("the emulation of CUDA finds no memory for blocks");
    room = static_cast<char *>(pages);
  }
  dynamicBytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  dynamicBegin = room + kRoom - dynamicBytes;
  variables = threadLocals();
  kept.assign(variables.begin, variables.begin + variables.bytes);
}

void SharedMemory::fill() {
  std::memset(variables.begin, 0xff, variables.bytes);
  std::memset(dynamicBegin, 0xff, dynamicBytes);
}

void SharedMemory::end() { std::copy(kept.begin(), kept.end(), variables.begin); }

//===-- grids ----------------------------------------------------------------------------------------------------===//

enum class State : uint8_t { Fresh, Ready, AtWarp, AtBlock, Done };

struct Thread {
  uint3 index;
  Context *fiber = nullptr; // whose stack it waits on
  uint64_t slots[2];        // in turns: a slow lane may still read the one while a fast one writes the other
  int open = 0;
};

class Grid {
public:
  void run(const LaunchSite &site, dim3 blocks, dim3 threads, size_t shared, const std::function<void()> &thread);
  /// Why it could not end; empty where it did.
  std::string takeFailure() { return std::exchange(failure, {}); }

  // By threads:
  void meet(State where, const MeetingSite &site);
  /// Leaves the grid at once.
  [[noreturn]] void end(const std::string &why);
  int lane() const { return current % kWarpSize; }
  void *openSlot() {
    Thread &t = threads[current];
    t.open ^= 1;
    return &t.slots[t.open];
  }
  const void *slotOf(int lane) const {
    return &threads[current - current % kWarpSize + lane].slots[threads[current].open];
  }
  void *dynamicShared() const { return shared.dynamic(); }

private:
  static constexpr int kNobody = -1;

  const LaunchSite *site = nullptr;
  const std::function<void()> *thread = nullptr;
  std::vector<Thread> threads;
  std::vector<State> states; // of threads
  int count = 0, warps = 0;
  int current = 0;                     // thread
  int waitAtWarp = 0, waitAtBlock = 0; // threads of this warp, of this block
  int warp = 0, warpsBegun = 0, lanesSeen = 0;
  Order warpOrder, laneOrder;
  Draw draw;
  Fibers fibers;
  SharedMemory shared;
  Context host, *running = &host, *left = &host;
  std::string failure;

  void makeThreads(dim3 size);
  void runBlock();
  static void body();
  void runThreads();
  int next();
  bool releaseWarp();
  bool nextWarp();
  void beginWarp();
  void goOnWith(int t);
  void switchTo(Context *to, bool ends);
};

Grid theGrid;

void Grid::makeThreads(dim3 size) {
  count = static_cast<int>(size.x * size.y * size.z), warps = count / kWarpSize;
  threads.assign(count, {});
  for (unsigned z = 0, t = 0; z < size.z; ++z)
    for (unsigned y = 0; y < size.y; ++y)
      for (unsigned x = 0; x < size.x; ++x)
        threads[t++].index = {x, y, z};
}

void Grid::run(const LaunchSite &launched, dim3 blocks, dim3 size, size_t sharedBytes,
               const std::function<void()> &work) {
  site = &launched;
  thread = &work;
  gridDim = blocks, blockDim = size;
  makeThreads(size);
  shared.begin(sharedBytes);
  const int64_t n = int64_t(blocks.x) * blocks.y * blocks.z;
  const Order order = draw.order(n);
  for (int64_t i = 0; i < n && failure.empty(); ++i) {
    const int64_t b = order.at(i, n);
    blockIdx = {static_cast<unsigned>(b % blocks.x), static_cast<unsigned>(b / blocks.x % blocks.y),
                static_cast<unsigned>(b / blocks.x / blocks.y)};
    runBlock();
  }
  shared.end();
  if (!failure.empty())
    fibers.giveBackAll();
}

void Grid::runBlock() {
  shared.fill();
  states.assign(count, State::Fresh);
  current = waitAtWarp = waitAtBlock = warpsBegun = 0;
  warpOrder = draw.order(warps);
  beginWarp();
  goOnWith(next()); // returns when no thread is left
}

/// Runs threads that need no stack of their own yet, until one that waited is to go on.
void Grid::runThreads() {
  for (;;) {
    threadIdx = threads[current].index;
    states[current] = State::Ready;
    (*thread)();
    states[current] = State::Done;
    const int t = next();
    if (t == kNobody || states[t] != State::Fresh) {
      fibers.giveBack(running);
      goOnWith(t); // does not return: the stack may have a new user
    }
    current = t;
  }
}

void Grid::body() {
  onEntry(*theGrid.left);
  theGrid.runThreads();
}

void Grid::meet(State where, const MeetingSite &meeting) {
  const int t = current;
  if (mayCut()) {
    const MeetingCut cut = cutAt(*site, meeting);
    const bool isFirst = where == State::AtWarp ? t % kWarpSize == 0 : t < kWarpSize;
    if (cut.isGone || (cut.lacksFirst && isFirst))
      return;
  }
  states[t] = where;
  ++(where == State::AtWarp ? waitAtWarp : waitAtBlock);
  threads[t].fiber = running;
  goOnWith(next());
}

int Grid::next() {
  for (;;) {
    while (lanesSeen < kWarpSize) {
      const int t = warp * kWarpSize + static_cast<int>(laneOrder.at(lanesSeen++, kWarpSize));
      if (states[t] == State::Fresh || states[t] == State::Ready)
        return t;
    }
    if (!releaseWarp() && !nextWarp())
      return kNobody;
  }
}

/// Lets the warp under way go on where its lanes have met.
bool Grid::releaseWarp() {
  if (waitAtWarp == 0)
    return false;
  if (waitAtWarp < kWarpSize)
    end("some lanes of a warp wait in a shuffle or __syncwarp that others do not reach");
  if (mayCut() && isMeetingUnknown())
    hasMet(!shared.isUntouched());
  std::fill_n(&states[warp * kWarpSize], kWarpSize, State::Ready);
  waitAtWarp = lanesSeen = 0;
  laneOrder = draw.order(kWarpSize);
  return true;
}

/// Goes to the next warp; after the last one, where the threads have met, to the first of a new order.
bool Grid::nextWarp() {
  if (++warpsBegun == warps) {
    if (waitAtBlock == 0)
      return false;
    if (waitAtBlock < count)
      end("some threads wait at a barrier that others do not reach");
    if (mayCut() && isMeetingUnknown())
      hasMet(!shared.isUntouched());
    std::fill(states.begin(), states.end(), State::Ready);
    waitAtBlock = warpsBegun = 0;
    warpOrder = draw.order(warps);
  }
  beginWarp();
  return true;
}

void Grid::beginWarp() {
  warp = static_cast<int>(warpOrder.at(warpsBegun, warps));
  lanesSeen = 0;
  laneOrder = draw.order(kWarpSize);
}

void Grid::goOnWith(int t) {
  const bool ends = states[current] == State::Done;
  if (t == kNobody)
    return switchTo(&host, ends);
  current = t;
  if (states[t] == State::Fresh)
    return switchTo(fibers.take(&body), ends);
  threadIdx = threads[t].index;
  if (threads[t].fiber != running) // it is alone in its turn
    switchTo(threads[t].fiber, ends);
}

void Grid::switchTo(Context *to, bool ends) {
  Context *from = running;
  left = from, running = to;
  beforeSwitch(*from, *to, ends);
  echelon_switch_stacks(&from->pointer, to->pointer);
  afterSwitch(*from);
}

void Grid::end(const std::string &why) {
  failure = "block (" + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
            std::to_string(blockIdx.z) + "): " + why;
  switchTo(&host, true);
  __builtin_unreachable();
}

} // namespace

void runGrid(const LaunchSite &site, dim3 grid, dim3 block, size_t shared, const std::function<void()> &thread) {
  const uint64_t threads = uint64_t(block.x) * block.y * block.z, blocks = uint64_t(grid.x) * grid.y * grid.z;
  const std::string name = site.what; // thread-local storage is not what it was while the grid runs
  if (threads == 0 || threads % kWarpSize != 0 || threads > 1024)
    runtime::fail(name + ": a block has 32, 64, ... or 1024 threads, not " + std::to_string(threads));
  if (blocks == 0)
    runtime::fail(name + ": a grid of no blocks");
  if (shared > SharedMemory::kMostBytes)
    runtime::fail(name + ": a block has at most 227 KB of shared memory, not " + std::to_string(shared) + " bytes");
  theGrid.run(site, grid, block, shared, thread);
  const std::string failure = theGrid.takeFailure();
  if (!failure.empty())
    runtime::fail(name + ": " + failure);
}

void meetBlock(const MeetingSite &site) { theGrid.meet(State::AtBlock, site); }
void meetWarp(const MeetingSite &site) { theGrid.meet(State::AtWarp, site); }
int lane() { return theGrid.lane(); }
void *openSlot() { return theGrid.openSlot(); }
const void *slotOf(int lane) { return theGrid.slotOf(lane); }
void *dynamicShared() { return theGrid.dynamicShared(); }

void checkMask(unsigned mask) {
  if (mask != 0xffffffffu)
    theGrid.end("a mask leaves out lanes of the warp");
}

unsigned ballot(unsigned mask, bool holds, const MeetingSite &site) {
  checkMask(mask);
  std::memcpy(openSlot(), &holds, sizeof holds);
  meetWarp(site);
  unsigned bits = 0;
  for (int from = 0; from < kWarpSize; ++from) {
    bool other;
    std::memcpy(&other, slotOf(from), sizeof other);
    bits |= static_cast<unsigned>(other) << from;
  }
  return bits;
}

} // namespace echelon::cuda::host
