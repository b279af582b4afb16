// The kernel side of the emulation: what threads of a block may call, and how a launch becomes work of a stream.
//
// The threads of a block are fibers of one host thread. A fiber runs until it comes to a barrier or a shuffle; there it
// gives way, and goes on when all threads of its block, or all lanes of its warp, have come. Of
//
//   parts[warp()] = x;          // (1)
//   __syncthreads();
//   y = parts[0];               // (2)
//
// all threads run (1), warp by warp, then all run (2), the warps in another order. Without the barrier the first warp
// of the order would run (2) before the others run (1), and read a NaN, since shared memory is full of them when a
// block begins.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#define DEVICE inline
#define UNROLL

namespace echelon::cuda::host {

//===-- work of streams: Streams.cpp -----------------------------------------------------------------------------===//

/// Memory that a piece of work touches. One that is read and written has two.
struct Range {
  const char *begin;
  size_t bytes;
  bool writes;
  size_t element = 1; // bytes; 1: of any type
};

/// What messages call a launch, and where it stands. Made of the name alone, in the call.
struct LaunchSite {
  const char *what, *file;
  int line;
  LaunchSite(const char *what, const char *file = __builtin_FILE(), int line = __builtin_LINE())
      : what(what), file(file), line(line) {}
};

/// Puts work into a stream. It runs later, when the streams' order lets it.
void enqueue(cudaStream_t stream, const char *what, std::vector<Range> touches, std::function<void()> run);

/// Says what the next library call on a stream will touch, and how messages name it.
void announce(cudaStream_t stream, const char *what, std::vector<Range> touches);

/// What was announced since the last call on this stream; `what` stays as it is where nothing was.
std::vector<Range> announcedFor(cudaStream_t stream, std::string &what);

//===-- blocks: Block.cpp ----------------------------------------------------------------------------------------===//

constexpr int kWarpSize = 32;

/// Runs `thread` once for each thread of each block, on the calling host thread. The caller makes sure that one grid
/// runs at a time: threadIdx and shared memory exist once. A grid that cannot end ends the rank instead, with the site.
void runGrid(const LaunchSite &site, dim3 grid, dim3 block, size_t shared, const std::function<void()> &thread);

/// Where in a kernel threads meet, and whether a shuffle carries values between them there.
struct MeetingSite {
  const char *file;
  int line;
  bool carries = false;
};

/// Return when all threads of the block, or all lanes of the warp, have called.
void meetBlock(const MeetingSite &site);
void meetWarp(const MeetingSite &site);

/// The calling thread's place within its warp.
int lane();

/// Each lane has eight bytes that the others read after they meet. `openSlot` is the own, to be written before;
/// `slotOf` is that of a lane, to be read after.
void *openSlot();
const void *slotOf(int lane);

/// Ends the grid where lanes are left out: which ones then take part is more than the emulation follows.
void checkMask(unsigned mask);

void *dynamicShared();

template <typename T> T shuffle(unsigned mask, T x, int from, const MeetingSite &site) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>, "shuffles move at most 8 bytes");
  checkMask(mask);
  std::memcpy(openSlot(), &x, sizeof x);
  meetWarp(site);
  std::memcpy(&x, slotOf(from), sizeof x);
  return x;
}

/// A bit for each lane, set where its condition holds.
unsigned ballot(unsigned mask, bool holds, const MeetingSite &site);

//===-- arguments ------------------------------------------------------------------------------------------------===//

template <typename T> void addRanges(std::vector<Range> &, const T &) {}
template <typename T> void addRanges(std::vector<Range> &to, const Arg<T> &x) {
  const auto *begin = reinterpret_cast<const char *>(x.data);
  const size_t bytes = static_cast<size_t>(x.count) * sizeof(T);
  if (x.use != Use::writes)
    to.push_back({begin, bytes, false, sizeof(T)});
  if (x.use != Use::reads)
    to.push_back({begin, bytes, true, sizeof(T)});
}
template <typename... A> std::vector<Range> rangesOf(const A &...args) {
  std::vector<Range> ranges;
  (addRanges(ranges, args), ...);
  return ranges;
}

/// The same, less what a test takes out: Cuts.cpp.
std::vector<Range> declared(const LaunchSite &site, std::vector<Range> ranges);

} // namespace echelon::cuda::host

//===-- what CUDA declares for kernels ---------------------------------------------------------------------------===//

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

// Each knows where it stands, by default arguments that name the caller's line.
#define ECHELON_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(ECHELON_HERE) { echelon::cuda::host::meetBlock({file, line}); }
inline void __syncwarp(unsigned mask = 0xffffffffu, ECHELON_HERE) {
  echelon::cuda::host::checkMask(mask);
  echelon::cuda::host::meetWarp({file, line});
}

template <typename T> T __shfl_sync(unsigned mask, T x, int from, ECHELON_HERE) {
  return echelon::cuda::host::shuffle(mask, x, from & 31, {file, line, true});
}
template <typename T> T __shfl_xor_sync(unsigned mask, T x, int with, ECHELON_HERE) {
  return echelon::cuda::host::shuffle(mask, x, (echelon::cuda::host::lane() ^ with) & 31, {file, line, true});
}
// A lane whose partner lies outside of the warp keeps its own.
template <typename T> T __shfl_up_sync(unsigned mask, T x, int by, ECHELON_HERE) {
  const int lane = echelon::cuda::host::lane();
  return echelon::cuda::host::shuffle(mask, x, lane >= by ? lane - by : lane, {file, line, true});
}
template <typename T> T __shfl_down_sync(unsigned mask, T x, int by, ECHELON_HERE) {
  const int lane = echelon::cuda::host::lane();
  return echelon::cuda::host::shuffle(mask, x, lane + by < 32 ? lane + by : lane, {file, line, true});
}

inline unsigned __ballot_sync(unsigned mask, int holds, ECHELON_HERE) {
  return echelon::cuda::host::ballot(mask, holds != 0, {file, line, true});
}
inline int __any_sync(unsigned mask, int holds, ECHELON_HERE) { return __ballot_sync(mask, holds, file, line) != 0; }
inline int __all_sync(unsigned mask, int holds, ECHELON_HERE) {
  return __ballot_sync(mask, holds, file, line) == 0xffffffffu;
}
#undef ECHELON_HERE

// Of integers alone. Sums of floats would depend on the order of threads.
inline int atomicAdd(int *to, int x) {
  const int before = *to;
  *to = static_cast<int>(static_cast<unsigned>(before) + static_cast<unsigned>(x)); // wraps, as on the device
  return before;
}
inline int atomicMax(int *to, int x) {
  const int before = *to;
  *to = before < x ? x : before;
  return before;
}
inline int atomicMin(int *to, int x) {
  const int before = *to;
  *to = x < before ? x : before;
  return before;
}

// Of integers alone, too: CUDA's of floats pass over NaNs, and comparisons do not.
template <typename T> T min(T a, T b) {
  static_assert(std::is_integral_v<T>, "min of floats: write the comparison that is meant");
  return b < a ? b : a;
}
template <typename T> T max(T a, T b) {
  static_assert(std::is_integral_v<T>, "max of floats: write the comparison that is meant");
  return a < b ? b : a;
}
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }

//===-- the host's reading of Device.h ---------------------------------------------------------------------------===//

namespace echelon::cuda {

constexpr bool kIsEmulated = true;

template <typename T> T *shared_memory() { return static_cast<T *>(host::dynamicShared()); }

/// The name is a literal: it is kept until the kernel has run.
template <typename... P, typename... A>
void launch(host::LaunchSite site, void (*kernel)(P...), Shape shape, Stream stream, A... args) {
  host::enqueue(stream, site.what, host::declared(site, host::rangesOf(args...)), [=] {
    host::runGrid(site, shape.grid, shape.block, shape.shared, [=] { kernel(static_cast<P>(plain(args))...); });
  });
}

template <typename... A> void touches(Stream stream, host::LaunchSite site, A... args) {
  host::announce(stream, site.what, host::declared(site, host::rangesOf(args...)));
}

} // namespace echelon::cuda
