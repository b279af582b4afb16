// One rank of a program that computes on a GPU: its device, stream, arenas and products, and where the run stands, as
// generated code sees it.
//
// A function of the program runs so: numbers go to the device, its launches follow on one stream, and what it reports
// comes back. The host waits there, once; within a step it does not read the device.
//
// Inputs go another way, so that those of the next step move while a step runs. Addresses are fixed, since a step is a
// captured graph, and so there is one arena that functions read, and a place on the device before it:
//
//   host            filled[0], filled[1]  pinned; one is what the last function read, the other is filled
//   stream copies   filled[i] -> arriving   once what was there before has been taken
//   stream          arriving -> inputArena  before the next function; the device copies in microseconds
#pragma once
#include "runtime/cuda/Collectives.h"
#include "runtime/cuda/DnnChoice.h"
#include "runtime/cuda/Finite.h"
#include "runtime/cuda/Gemm.h"
#include "runtime/cuda/LapTimer.h"
#include "runtime/cuda/Random.h"
#include "runtime/cuda/Range.h"
#include "runtime/program/Device.h"
#include "runtime/program/Rank.h"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace echelon::cuda {

using Host = runtime::Rank;
using runtime::Stack;

/// The key of a random statement, whose step the device reads.
struct RandomKey {
  const uint64_t *step;
  uint64_t seed, path;
};

class OffloadedPieces;

class Rank : public runtime::Device {
public:
  explicit Rank(Host &host);
  ~Rank() override;
  Rank(const Rank &) = delete;

  operator Stream() const { return stream; }
  operator Blas &() { return blas; }
  /// Which calls cuDNN computes.
  DnnChoice &dnn() { return *ownDnn; }
  int coordinate(int meshAxis) const { return host.coordinate(meshAxis); }
  /// The group of Program::groups[index] that this rank is in.
  const Group &group(int index) const { return host.group(index); }
  /// Of a program of several ranks.
  Collectives &collectives() { return *ownCollectives; }
  int64_t validSamples() const { return host.validSamples(); }
  int64_t batchOffset() const { return host.batchOffset(); }

  /// Of a program whose optimizer's state is offloaded.
  OffloadedPieces &pieces() { return *ownPieces; }

  /// Byte offsets into the three arenas, on the device; of what is offloaded, where it is on the host.
  template <typename T> T *state(int64_t offset) {
    return ownPieces && offset >= stateBytes ? host.state<T>(offset) : reinterpret_cast<T *>(stateArena + offset);
  }
  template <typename T> T *input(int64_t offset) { return reinterpret_cast<T *>(inputArena + offset); }
  template <typename T> T *work(int64_t offset) { return reinterpret_cast<T *>(workArena + offset); }
  /// Memory for one call to work in; on the stream, since calls come one after the other. It grows in the first step.
  template <typename T> T *scratch(int64_t count) { return static_cast<T *>(scratchBytes(count * sizeof(T))); }

  template <typename N> const N *numbers() const { return reinterpret_cast<const N *>(numbersOnDevice); }
  const Health *health() const { return healthOnDevice; }
  RandomKey randomKey(uint64_t path) const { return {randomStep, host.seed(), path}; }

  /// Gives the value of Program::scalars[slot].
  template <typename T> void report(int slot, const T *value);
  /// The operation of Program::profiled[entry] ends here, on the device.
  void lap(size_t entry);
  /// A gradient has been added to the sum of squares: the first after which the sum is not finite is remembered.
  void watch(const char *parameter, const double *sumOfSquares);
  /// The same of several gradients, in their order.
  template <typename T>
  void watch(double *sum, const std::vector<Squared<T>> &gradients, const std::vector<const char *> &parameters);

  void takeState() override;
  void showState() override;
  void readState(int64_t offset, void *to, size_t bytes) override;
  void writeState(int64_t offset, const void *from, size_t bytes) override;
  void expectCopies(void *memory, size_t bytes) override;
  runtime::Limits limits() override;
  std::byte *inputsToFill() override;
  void sendInputs() override;
  std::byte *inputs() override { return filled[read]; }

  // What run() does with a function.
  void begin(const void *numbers, size_t bytes);
  void call(void (*function)(Rank &));
  void end();

private:
  /// What a function launches, once it is known: it has run before, so that plans are made and scratch is there.
  struct Graph {
    cudaGraphExec_t launches = nullptr;
    Collectives::Captured collectives;
    std::vector<bool> isReported;
    std::vector<const char *> watched;
  };
  bool mayBeCaptured() const;
  void capture(Graph &graph, void (*function)(Rank &));
  void launchAll(void (*function)(Rank &));
  size_t onDevice(int64_t offset, size_t bytes) const;
  void takeInputs();
  void trace(runtime::Trace &trace);
  void *scratchBytes(size_t bytes);
  void *allocate(size_t bytes);

  Host &host;
  Stream stream = nullptr;
  Blas blas;
  std::unique_ptr<DnnChoice> ownDnn;
  std::unique_ptr<Collectives> ownCollectives;
  std::unique_ptr<OffloadedPieces> ownPieces; // null where no state is offloaded
  int64_t stateBytes;                         // on the device
  std::vector<void *> allocations;
  std::vector<void *> pinnedOfOthers;
  std::byte *stateArena, *inputArena, *workArena, *numbersOnDevice;
  Stream copies = nullptr;
  std::byte *filled[2] = {}; // pinned
  std::byte *arriving;       // on the device
  cudaEvent_t sent[2] = {};  // each of `filled` is on the device
  cudaEvent_t taken = nullptr;
  int read = 0;        // which of `filled` the last function has read
  bool isSent = false; // the other is for the next one
  void *scratchMemory = nullptr;
  size_t scratchSize = 0;
  Health *healthOnDevice;
  double *reports;      // on the device, one a scalar
  uint64_t *randomStep; // on the device
  std::byte *mirror;    // pinned: numbers, then reports and health as they come back
  std::vector<bool> isReported;
  std::vector<const char *> watched;
  std::map<void (*)(Rank &), Graph> graphs;
  std::optional<Range> shown;     // of the function that runs
  std::unique_ptr<LapTimer> laps; // where the program is profiled
};

/// The device of Program::device.
std::unique_ptr<runtime::Device> device(Host &host);
inline Rank &rankOf(Host &host) { return static_cast<Rank &>(*host.device()); }

/// Runs a function of the program, with what changes from step to step.
template <typename N> void run(Host &host, const N &numbers, void (*function)(Rank &)) {
  Rank &r = rankOf(host);
  r.begin(&numbers, sizeof numbers);
  r.call(function);
  r.end();
}
inline void run(Host &host, void (*function)(Rank &)) {
  Rank &r = rankOf(host);
  r.begin(nullptr, 0);
  r.call(function);
  r.end();
}

} // namespace echelon::cuda
