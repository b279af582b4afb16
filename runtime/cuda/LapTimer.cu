#include "runtime/cuda/Check.h"
#include "runtime/cuda/LapTimer.h"
#include "runtime/profile/Limits.h"

namespace echelon::cuda {

namespace {

constexpr int kChains = 8; // independent ones, enough to hide the latency of an fma

__global__ void multiply_add_kernel(float *kept, float factor, int rounds) {
  float x[kChains];
  UNROLL
  for (int c = 0; c < kChains; ++c)
    x[c] = static_cast<float>(c);
  for (int i = 0; i < rounds; ++i)
    UNROLL
  for (int c = 0; c < kChains; ++c)
    x[c] = x[c] * factor + factor;
  float sum = 0;
  UNROLL
  for (int c = 0; c < kChains; ++c)
    sum += x[c];
  kept[element()] = sum;
}

/// y = a x + y, four elements a thread at a time.
__global__ void scale_add_kernel(float4 *y, const float4 *x, float a, int64_t n) {
  for (int64_t i = element(); i < n; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const float4 from = x[i], to = y[i];
    y[i] = make_float4(a * from.x + to.x, a * from.y + to.y, a * from.z + to.z, a * from.w + to.w);
  }
}

} // namespace

/// What a second is in ticks is measured around a wait of a few milliseconds, once.
static double ticksOfSecond() {
  const uint64_t ticks = runtime::ticks();
  const double seconds = runtime::secondsNow();
  while (runtime::secondsNow() - seconds < 5e-3) {
  }
  return static_cast<double>(runtime::ticks() - ticks) / (runtime::secondsNow() - seconds);
}

DeviceClock::DeviceClock(Stream stream) {
  static const double perSecond = ticksOfSecond();
  ticksPerSecond = perSecond;
  check(cudaEventCreate(&known), "cudaEventCreate");
  check(cudaStreamSynchronize(stream), "trace"); // so that the event is over at once
  const uint64_t before = runtime::ticks();
  check(cudaEventRecord(known, stream), "trace");
  check(cudaEventSynchronize(known), "trace");
  ticks = before + (runtime::ticks() - before) / 2;
}

DeviceClock::~DeviceClock() { cudaEventDestroy(known); }

uint64_t DeviceClock::ticksOf(cudaEvent_t event) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, event, known), "trace");
  return ticks - static_cast<uint64_t>(static_cast<double>(milliseconds) * 1e-3 * ticksPerSecond);
}

LapTimer::~LapTimer() {
  for (cudaEvent_t event : events)
    cudaEventDestroy(event);
}

void LapTimer::record() {
  if (used == events.size()) {
    events.emplace_back();
    check(cudaEventCreate(&events.back()), "cudaEventCreate");
  }
  check(cudaEventRecord(events[used++], stream), "lap");
}

void LapTimer::showNext() {
  if (!expected)
    return;
  shown.end();
  if (entries.size() < expected->size()) {
    const runtime::ProfiledOp &next = operations[(*expected)[entries.size()]];
    shown.begin(std::string(next.op) + " (" + next.line + ")");
  }
}

void LapTimer::begin(const void *function) {
  used = 0;
  entries.clear();
  beganAt = runtime::ticks();
  beganSeconds = runtime::secondsNow();
  expected = Range::isSeen() ? &before[function] : nullptr;
  record();
  showNext();
}

void LapTimer::lap(size_t entry) {
  entries.push_back(entry);
  record();
  showNext();
}

void LapTimer::end(runtime::Laps &laps) {
  shown.end();
  if (expected)
    *expected = entries;
  const double perSecond = static_cast<double>(runtime::ticks() - beganAt) / (runtime::secondsNow() - beganSeconds);
  for (size_t i = 0; i < entries.size(); ++i) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, events[i], events[i + 1]), "lap");
    laps.add(entries[i], static_cast<uint64_t>(static_cast<double>(milliseconds) * 1e-3 * perSecond));
  }
}

void LapTimer::trace(runtime::Trace &trace, const DeviceClock &clock) const {
  uint64_t begin = clock.ticksOf(events[0]);
  for (size_t i = 0; i < entries.size(); ++i) {
    const uint64_t end = clock.ticksOf(events[i + 1]);
    trace.add(entries[i], begin, end);
    begin = end;
  }
}

runtime::Limits limitsOf(Stream stream) {
  const int64_t floats = kIsEmulated ? 4096 : int64_t(64) << 20; // far more than a cache holds
  const int rounds = kIsEmulated ? 16 : 4096;
  int device = 0, processors = 1;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  const int64_t threads = kIsEmulated ? kThreads : int64_t(processors) * 2048;
  void *memory = nullptr;
  check(cudaMalloc(&memory, size_t(2 * floats) * sizeof(float)), "cudaMalloc");
  float *x = static_cast<float *>(memory), *y = x + floats;
  check(cudaMemsetAsync(memory, 0, size_t(2 * floats) * sizeof(float), stream), "limits");
  check(cudaStreamSynchronize(stream), "limits");
  auto secondsOf = [&](auto work) {
    return runtime::fastest([&] {
      work();
      check(cudaStreamSynchronize(stream), "limits");
    });
  };
  runtime::Limits limits;
  const double multiplying = secondsOf(
      [&] { launch("multiply_add", multiply_add_kernel, cover(threads), stream, out(x, threads), 0.999f, rounds); });
  limits.peakFlops = 2.0 * kChains * rounds * double(threads) / multiplying * 1e-9;
  const int64_t fours = floats / 4;
  const double adding = secondsOf([&] {
    launch("scale_add", scale_add_kernel, cover(kIsEmulated ? fours : threads), stream,
           inout(reinterpret_cast<float4 *>(y), fours), in(reinterpret_cast<const float4 *>(x), fours), 0.5f, fours);
  });
  limits.memory = 12.0 * double(floats) / adding * 1e-9;
  const double copying = secondsOf([&] {
    check(cudaMemcpyAsync(y, x, size_t(floats) * sizeof(float), cudaMemcpyDeviceToDevice, stream), "limits");
  });
  limits.copies = 4.0 * double(floats) / copying * 1e-9;
  check(cudaFree(memory), "limits");
  return limits;
}

} // namespace echelon::cuda
