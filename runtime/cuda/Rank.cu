#include "runtime/cuda/Check.h"
#include "runtime/cuda/Offload.h"
#include "runtime/cuda/Rank.h"
#include "runtime/launch/Fail.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace echelon::cuda {

namespace {
constexpr size_t kNumbersBytes = 1024;

DEVICE bool isFinite(double x) { return x - x == 0; }

template <typename T> __global__ void report_kernel(double *to, Health *health, const T *value, bool counts) {
  if (element() > 0)
    return;
  const double x = static_cast<double>(*value);
  *to = x;
  if (counts && !isFinite(x))
    health->isBroken = 1;
}

__global__ void watch_kernel(Health *health, const double *sum, int32_t place) {
  if (element() == 0 && health->firstBroken == 0 && !isFinite(*sum))
    health->firstBroken = place;
}
} // namespace

void *Rank::allocate(size_t bytes) {
  void *memory = nullptr;
  check(cudaMalloc(&memory, std::max<size_t>(bytes, 256)), "cudaMalloc");
  allocations.push_back(memory);
  return memory;
}

Rank::Rank(Host &host) : host(host), isReported(host.program().scalars.size()) {
  check(cudaSetDevice(chooseDevice(host)), "cudaSetDevice");
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  if (host.size() > 1)
    ownCollectives = std::make_unique<Collectives>(host, stream);
  const runtime::Program &program = host.program();
  const auto say = [&host](const std::string &line) {
    if (host.rank() == 0)
      runtime::complain(line);
  };
  ownDnn = std::make_unique<DnnChoice>(openDnnForDevice, say, !program.profiled.empty());
  stateBytes = program.offload ? program.offload.from : program.stateBytes;
  if (program.offload)
    ownPieces = std::make_unique<OffloadedPieces>(host, stream);
  stateArena = static_cast<std::byte *>(allocate(size_t(stateBytes)));
  inputArena = static_cast<std::byte *>(allocate(size_t(program.inputBytes)));
  workArena = static_cast<std::byte *>(allocate(size_t(program.workBytes)));
  arriving = static_cast<std::byte *>(allocate(size_t(program.inputBytes)));
  numbersOnDevice = static_cast<std::byte *>(allocate(kNumbersBytes));
  reports = static_cast<double *>(allocate(isReported.size() * sizeof(double)));
  healthOnDevice = static_cast<Health *>(allocate(sizeof(Health)));
  randomStep = static_cast<uint64_t *>(allocate(sizeof(uint64_t)));
  blas.setWorkspace(stream, allocate(Blas::kWorkspaceBytes), Blas::kWorkspaceBytes);
  void *pinned = nullptr;
  check(cudaMallocHost(&pinned, kNumbersBytes + sizeof(uint64_t) + sizeof(Health) + isReported.size() * sizeof(double)),
        "cudaMallocHost");
  mirror = static_cast<std::byte *>(pinned);
  check(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaEventCreateWithFlags(&taken, cudaEventDisableTiming), "cudaEventCreate");
  for (int i = 0; i < 2; ++i) {
    check(cudaMallocHost(&pinned, std::max<size_t>(size_t(program.inputBytes), 64)), "cudaMallocHost");
    filled[i] = static_cast<std::byte *>(pinned);
    check(cudaEventCreateWithFlags(&sent[i], cudaEventDisableTiming), "cudaEventCreate");
  }
  if (!program.profiled.empty())
    laps = std::make_unique<LapTimer>(stream, program.profiled);
}

Rank::~Rank() {
  cudaStreamSynchronize(copies);
  cudaStreamSynchronize(stream);
  for (auto &[function, graph] : graphs)
    if (graph.launches)
      cudaGraphExecDestroy(graph.launches);
  ownCollectives.reset();
  ownDnn.reset(); // while its stream is there
  ownPieces.reset();
  for (void *memory : allocations)
    cudaFree(memory);
  for (void *memory : pinnedOfOthers)
    cudaHostUnregister(memory);
  cudaFreeHost(mirror);
  for (int i = 0; i < 2; ++i) {
    cudaFreeHost(filled[i]);
    cudaEventDestroy(sent[i]);
  }
  cudaEventDestroy(taken);
  cudaStreamDestroy(copies);
  cudaStreamDestroy(stream);
}

void *Rank::scratchBytes(size_t bytes) {
  if (bytes <= scratchSize)
    return scratchMemory;
  scratchSize = bytes;
  return scratchMemory = allocate(bytes); // the smaller one stays until the end: there are few
}

/// Of these bytes of the state, how many are on the device: those before what is offloaded.
size_t Rank::onDevice(int64_t offset, size_t bytes) const {
  return size_t(std::clamp<int64_t>(stateBytes - offset, 0, int64_t(bytes)));
}
void Rank::readState(int64_t offset, void *to, size_t bytes) {
  const size_t there = onDevice(offset, bytes);
  if (there > 0)
    check(cudaMemcpyAsync(to, stateArena + offset, there, cudaMemcpyDeviceToHost, stream), "state");
  check(cudaStreamSynchronize(stream), "state");
  std::memcpy(static_cast<std::byte *>(to) + there, host.state<std::byte>(offset) + there, bytes - there);
}
void Rank::writeState(int64_t offset, const void *from, size_t bytes) {
  const size_t there = onDevice(offset, bytes);
  if (there > 0)
    check(cudaMemcpyAsync(stateArena + offset, from, there, cudaMemcpyHostToDevice, stream), "state");
  check(cudaStreamSynchronize(stream), "state");
  std::memcpy(host.state<std::byte>(offset) + there, static_cast<const std::byte *>(from) + there, bytes - there);
}
void Rank::takeState() { writeState(0, host.state<std::byte>(0), size_t(stateBytes)); }
void Rank::showState() { readState(0, host.state<std::byte>(0), size_t(stateBytes)); }

/// Pages that another rank of this process has pinned already stay as they are: copies are slower then, and no less
/// right.
void Rank::expectCopies(void *memory, size_t bytes) {
  if (cudaHostRegister(memory, bytes, cudaHostRegisterDefault) == cudaSuccess)
    pinnedOfOthers.push_back(memory);
  else
    cudaGetLastError(); // which the next call would be told of
}

template <typename T> void Rank::report(int slot, const T *value) {
  const bool counts = host.program().scalars[size_t(slot)].kind != runtime::Scalar::Metric;
  launch("report", report_kernel<T>, cover(1, 32), stream, out(reports + slot, 1), inout(healthOnDevice, 1),
         in(value, 1), counts);
  isReported[size_t(slot)] = true;
}
template void Rank::report(int, const float *);
template void Rank::report(int, const double *);

void Rank::watch(const char *parameter, const double *sumOfSquares) {
  watched.push_back(parameter);
  launch("watch", watch_kernel, cover(1, 32), stream, inout(healthOnDevice, 1), in(sumOfSquares, 1),
         static_cast<int32_t>(watched.size()));
}

template <typename T>
void Rank::watch(double *sum, const std::vector<Squared<T>> &gradients, const std::vector<const char *> &parameters) {
  const auto place = static_cast<int32_t>(watched.size()) + 1;
  watched.insert(watched.end(), parameters.begin(), parameters.end());
  add_squares(stream, sum, gradients, healthOnDevice, place, scratch<double>(squares_scratch(gradients)));
}
#define INSTANTIATE(T)                                                                                                 \
  template void Rank::watch(double *, const std::vector<Squared<T>> &, const std::vector<const char *> &);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE

void Rank::lap(size_t entry) {
  if (host.counted())
    laps->lap(entry);
}

runtime::Limits Rank::limits() { return limitsOf(stream); }

/// Of the buffer that no function has read, which may have been sent in vain.
std::byte *Rank::inputsToFill() {
  check(cudaEventSynchronize(sent[1 - read]), "inputs");
  return filled[1 - read];
}

void Rank::sendInputs() {
  const size_t bytes = size_t(host.program().inputBytes);
  check(cudaStreamWaitEvent(copies, taken, 0), "inputs");
  if (bytes > 0)
    check(cudaMemcpyAsync(arriving, filled[1 - read], bytes, cudaMemcpyHostToDevice, copies), "inputs");
  check(cudaEventRecord(sent[1 - read], copies), "inputs");
  isSent = true;
}

void Rank::takeInputs() {
  if (!std::exchange(isSent, false))
    return;
  read = 1 - read;
  const size_t bytes = size_t(host.program().inputBytes);
  check(cudaStreamWaitEvent(stream, sent[read], 0), "inputs");
  if (bytes > 0)
    check(cudaMemcpyAsync(inputArena, arriving, bytes, cudaMemcpyDeviceToDevice, stream), "inputs");
  check(cudaEventRecord(taken, stream), "inputs");
}

void Rank::trace(runtime::Trace &trace) {
  const DeviceClock clock(stream);
  laps->trace(trace, clock);
  if (ownCollectives)
    ownCollectives->trace(trace, clock);
}

void Rank::begin(const void *numbers, size_t bytes) {
  if (Range::isSeen())
    shown.emplace((host.training() ? "step " + std::to_string(host.step() + 1) : std::string("evaluation")).c_str());
  if (bytes > kNumbersBytes)
    runtime::fail("a program has more numbers than fit");
  if (bytes > 0)
    std::memcpy(mirror, numbers, bytes);
  const uint64_t step = host.randomKey(0).step;
  std::memcpy(mirror + kNumbersBytes, &step, sizeof step);
  if (bytes > 0)
    check(cudaMemcpyAsync(numbersOnDevice, mirror, bytes, cudaMemcpyHostToDevice, stream), "numbers");
  check(cudaMemcpyAsync(randomStep, mirror + kNumbersBytes, sizeof step, cudaMemcpyHostToDevice, stream), "numbers");
  takeInputs();
  check(cudaMemsetAsync(healthOnDevice, 0, sizeof(Health), stream), "health");
  if (host.isHeldBack())
    check(cudaMemsetAsync(&healthOnDevice->isBroken, 1, sizeof(Health::isBroken), stream), "health");
  std::fill(isReported.begin(), isReported.end(), false);
  watched.clear();
  if (ownCollectives)
    ownCollectives->begin();
}

/// Evaluations give kernels how many samples are real, and sync policies whose turn it is, which a graph would keep.
bool Rank::mayBeCaptured() const {
  static const char *const asked = std::getenv("ECHELON_GRAPHS");
  return host.training() && !host.program().sync && !laps && (!ownCollectives || ownCollectives->mayBeCaptured()) &&
         (!asked || std::string_view(asked) != "0");
}

/// All of a function, into the streams or what they capture.
void Rank::launchAll(void (*function)(Rank &)) {
  if (ownPieces)
    ownPieces->begin();
  function(*this);
  if (ownPieces)
    ownPieces->end();
}

void Rank::capture(Graph &graph, void (*function)(Rank &)) {
  if (ownCollectives)
    ownCollectives->beginCapture();
  cudaGraph_t captured = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  launchAll(function);
  check(cudaStreamEndCapture(stream, &captured), "capture");
  check(cudaGraphInstantiate(&graph.launches, captured, 0), "capture");
  check(cudaGraphDestroy(captured), "capture");
  if (ownCollectives)
    graph.collectives = ownCollectives->takeCaptured();
  graph.isReported = isReported;
  graph.watched = watched;
}

void Rank::call(void (*function)(Rank &)) {
  if (laps && host.counted())
    laps->begin(reinterpret_cast<const void *>(function));
  if (!mayBeCaptured())
    return launchAll(function);
  const auto [found, isNew] = graphs.try_emplace(function);
  Graph &graph = found->second;
  if (isNew)
    return launchAll(function);
  if (!graph.launches)
    capture(graph, function);
  isReported = graph.isReported;
  watched = graph.watched;
  if (ownCollectives)
    ownCollectives->launching(graph.collectives);
  check(cudaGraphLaunch(graph.launches, stream), "step");
  if (ownCollectives)
    ownCollectives->launched(graph.collectives);
}

void Rank::end() {
  std::byte *back = mirror + kNumbersBytes + sizeof(uint64_t);
  check(cudaMemcpyAsync(back, healthOnDevice, sizeof(Health), cudaMemcpyDeviceToHost, stream), "health");
  for (size_t slot = 0; slot < isReported.size(); ++slot)
    if (isReported[slot])
      check(cudaMemcpyAsync(back + sizeof(Health) + slot * sizeof(double), reports + slot, sizeof(double),
                            cudaMemcpyDeviceToHost, stream),
            "reports");
  host.doMeanwhile();
  const cudaError_t error = cudaStreamSynchronize(stream);
  if (ownCollectives)
    ownCollectives->check();
  check(error, "step");
  if (laps && host.counted()) {
    laps->end(*host.counted());
    if (runtime::Trace *trace = host.counted()->traced())
      this->trace(*trace);
  }
  Health health;
  std::memcpy(&health, back, sizeof health);
  if (health.firstBroken > 0) {
    const double broken = std::numeric_limits<double>::quiet_NaN();
    host.watch(watched[size_t(health.firstBroken) - 1], &broken);
  }
  for (size_t slot = 0; slot < isReported.size(); ++slot)
    if (isReported[slot]) {
      double value;
      std::memcpy(&value, back + sizeof(Health) + slot * sizeof(double), sizeof value);
      host.report(int(slot), value);
    }
  shown.reset();
}

std::unique_ptr<runtime::Device> device(Host &host) { return std::make_unique<Rank>(host); }

} // namespace echelon::cuda
