#include "runtime/cuda/Check.h"
#include "runtime/cuda/Collectives.h"
#include "runtime/cuda/Copy.h"
#include "runtime/cuda/Range.h"
#include "runtime/launch/Fail.h"

#include <algorithm>
#include <string_view>

namespace echelon::cuda {

using runtime::Collective;
using runtime::ElementType;

namespace {

/// How much longer than a message between hosts a collective between devices may take: what others' devices do in the
/// meantime is not seen.
constexpr double kDeadlines = 6;

/// rounded[0 .. count) = x; zeros up to `total`.
template <typename N> __global__ void round_kernel(N *rounded, const float *x, int64_t count, int64_t total) {
  const int64_t i = element();
  if (i < total)
    rounded[i] = N(i < count ? x[i] : 0.0f);
}

/// sum[i] = parts[0][i] + parts[1][i] + …, in floats and in order of places.
template <typename N> __global__ void sum_kernel(float *sum, const N *parts, int64_t count, int places) {
  const int64_t i = element();
  if (i >= count)
    return;
  float x = float(parts[i]);
  for (int place = 1; place < places; ++place)
    x += float(parts[place * count + i]);
  sum[i] = x;
}

/// A row of each place, (places, runs, length), as (runs, places, length); or the other way round.
void turnRows(Stream stream, const CollectiveCall &call, int64_t places, const void *from, void *to, bool apart) {
  const int64_t length = call.count / call.runs;
  const int64_t together[] = {length, call.count, 1}; // strides of (runs, places, length)
  const int64_t inRuns[] = {places * length, length, 1};
  const int64_t sizes[] = {call.runs, places, length};
  auto copy = [&](auto zero) {
    using T = decltype(zero);
    copy_strided(stream, static_cast<T *>(to), apart ? inRuns : together, static_cast<const T *>(from),
                 apart ? together : inRuns, sizes, 3);
  };
  switch (call.type) { // a copy moves bits
  case ElementType::Float64:
    return copy(double());
  case ElementType::Float32:
  case ElementType::Int32:
    return copy(int32_t());
  case ElementType::BFloat16:
  case ElementType::Float16:
    return copy(bf16());
  case ElementType::Int8:
  case ElementType::UInt8:
    return copy(uint8_t());
  }
}

} // namespace

void Ticket::wait() {
  if (done)
    cuda::check(cudaStreamWaitEvent(waits, done, 0), "wait");
  done = nullptr;
}

Collectives::Collectives(runtime::Rank &host, Stream compute)
    : host(host), compute(compute), transport(deviceTransport(host)),
      watchdog(std::make_unique<Watchdog>(*transport, host.transport().deadline() * kDeadlines)) {}

Collectives::~Collectives() {
  watchdog.reset();
  for (auto &[key, lane] : lanes)
    cudaStreamDestroy(lane.stream);
  for (void *memory : allocations)
    cudaFree(memory);
  for (cudaEvent_t event : events)
    cudaEventDestroy(event);
  for (const Timed &each : traced) {
    cudaEventDestroy(each.begin);
    cudaEventDestroy(each.end);
  }
  for (void *each : marks)
    cudaFreeHost(each);
}

Collectives::Lane &Collectives::laneOf(const LaneKey &key) {
  Lane &lane = lanes[key];
  if (!lane.stream)
    cuda::check(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return lane;
}

/// Memory of a lane for one collective. It grows in the first step; smaller ones stay, since they may be in use.
template <typename T> T *Collectives::scratch(Lane &lane, int64_t count) {
  const size_t bytes = size_t(count) * sizeof(T);
  if (bytes > lane.scratchBytes) {
    void *memory = nullptr;
    cuda::check(cudaMalloc(&memory, bytes), "cudaMalloc");
    allocations.push_back(memory);
    lane.scratch = static_cast<std::byte *>(memory);
    lane.scratchBytes = bytes;
  }
  return reinterpret_cast<T *>(lane.scratch);
}

cudaEvent_t Collectives::nextEvent() {
  if (used == events.size()) {
    events.emplace_back();
    cuda::check(cudaEventCreateWithFlags(&events.back(), cudaEventDisableTiming), "cudaEventCreate");
  }
  return events[used++];
}

void Collectives::begin() {
  watchdog->forget();
  used = usedTimed = 0;
}

void Collectives::check() {
  transport->finishSends();
  if (const std::string failure = watchdog->failure(); !failure.empty())
    runtime::fail(failure);
}

Ticket Collectives::start(const Group &group, const CollectiveCall &call, Algorithm algorithm) {
  Lane &lane = laneOf({group.id, -1, Message::Send});
  return startIn(lane, {nameOf(call.kind), call.count, call.label}, [&] {
    timed(group, nameOf(call.kind), call.label, lane.stream, [&] {
      if (algorithm == Algorithm::bf16_summands)
        sumRounded<bf16>(lane, group, call);
      else if (algorithm == Algorithm::fp16_summands)
        sumRounded<fp16>(lane, group, call);
      else
        put(lane, group, call, algorithm);
    });
  });
}

Ticket Collectives::start(const Group &group, const Shift &shift) {
  Lane &lane = laneOf({group.id, -1, Message::Send});
  const char *kind = nameOf(runtime::Activity::Send);
  return startIn(lane, {kind, shift.count, shift.label}, [&] {
    timed(group, kind, shift.label, lane.stream, [&] { transport->put(group, shift, lane.stream); });
  });
}

Ticket Collectives::start(const Group &group, const Message &message) {
  Lane &lane = laneOf({group.id, message.peer, message.side});
  const char *kind = nameOf(message.side == Message::Send ? runtime::Activity::Send : runtime::Activity::Receive);
  return startIn(lane, {kind, message.count, message.label}, [&] { transport->put(group, message, lane.stream); });
}

/// Behind what has been launched on the rank's stream.
template <typename Put> Ticket Collectives::startIn(Lane &lane, const Awaited &what, Put put) {
  const char *label = what.label.c_str();
  const Range shown(what.kind.c_str(), label);
  const cudaEvent_t due = nextEvent(), done = nextEvent();
  const bool isCaptured = captured.marks;
  const size_t place = 2 * captured.all.size();
  if (isCaptured) {
    captured.all.push_back(what);
    mark(place, compute);
  }
  cuda::check(cudaEventRecord(due, compute), label);
  cuda::check(cudaStreamWaitEvent(lane.stream, due, 0), label);
  put();
  if (isCaptured)
    mark(place + 1, lane.stream);
  cuda::check(cudaEventRecord(done, lane.stream), label);
  if (!isCaptured) {
    auto isOver = [](cudaEvent_t event) { return [event] { return cudaEventQuery(event) == cudaSuccess; }; };
    watchdog->began(what, host.step(), isOver(due), isOver(done));
  }
  return Ticket(compute, done);
}

/// What `put` puts there, between two events where the step is traced.
template <typename Put>
void Collectives::timed(const Group &group, const char *kind, const char *label, Stream stream, Put put) {
  if (!host.counted() || !host.counted()->traced())
    return put();
  if (usedTimed == traced.size()) {
    traced.emplace_back();
    cuda::check(cudaEventCreate(&traced.back().begin), "cudaEventCreate");
    cuda::check(cudaEventCreate(&traced.back().end), "cudaEventCreate");
  }
  Timed &each = traced[usedTimed++];
  each.kind = kind;
  each.label = label;
  each.group = 0;
  while (host.group(each.group).id != group.id)
    ++each.group;
  cuda::check(cudaEventRecord(each.begin, stream), label);
  put();
  cuda::check(cudaEventRecord(each.end, stream), label);
}

void Collectives::trace(runtime::Trace &trace, const DeviceClock &clock) {
  for (size_t i = 0; i < usedTimed; ++i) {
    const Timed &each = traced[i];
    trace.addCollective(each.group, each.kind, each.label, clock.ticksOf(each.begin), clock.ticksOf(each.end));
  }
}

//===-- graphs ---------------------------------------------------------------------------------------------------===//

bool Collectives::mayBeCaptured() const { return std::string_view(transport->name()) == "nccl"; }

void Collectives::beginCapture() {
  void *memory = nullptr;
  cuda::check(cudaMallocHost(&memory, std::max<size_t>(events.size(), 1)), "cudaMallocHost");
  marks.push_back(memory);
  captured.marks = static_cast<uint8_t *>(memory);
}

void Collectives::mark(size_t place, Stream stream) {
  cuda::check(cudaMemsetAsync(captured.marks + place, 1, 1, stream), "mark");
}

void Collectives::launching(const Captured &graph) const { std::fill_n(graph.marks, 2 * graph.all.size(), uint8_t(0)); }

void Collectives::launched(const Captured &graph) {
  for (size_t i = 0; i < graph.all.size(); ++i) {
    auto isMarked = [mark = static_cast<const volatile uint8_t *>(graph.marks)](size_t place) {
      return [mark, place] { return mark[place] != 0; };
    };
    watchdog->began(graph.all[i], host.step(), isMarked(2 * i), isMarked(2 * i + 1));
  }
}

/// Rows that lie in several runs are put together in scratch.
void Collectives::put(Lane &lane, const Group &group, const CollectiveCall &call, Algorithm algorithm) {
  if (call.runs <= 1)
    return transport->put(group, call, algorithm, lane.stream);
  const int64_t places = group.size();
  CollectiveCall together = call;
  together.runs = 1;
  auto *rows = scratch<std::byte>(lane, places * call.count * int64_t(bytesOf(call.type)));
  if (call.kind == Collective::ReduceScatter) {
    turnRows(lane.stream, call, places, call.in, rows, false);
    together.in = rows;
    put(lane, group, together, algorithm);
  } else {
    together.out = rows;
    put(lane, group, together, algorithm);
    turnRows(lane.stream, call, places, rows, call.out, true);
  }
}

/// As runtime/collectives/RoundedSum.cpp, with the same result to the bit: an element is summed in order of places.
template <typename N> void Collectives::sumRounded(Lane &lane, const Group &group, const CollectiveCall &call) {
  const int places = group.size();
  const bool isScatter = call.kind == Collective::ReduceScatter;
  const int64_t all = isScatter ? call.count * places : call.count;
  const int64_t part = isScatter ? call.count : (call.count + places - 1) / places, total = part * places;
  // In scratch: floats in rows (or the sum of a part, then of all), then what is sent and what comes.
  auto *floats = scratch<float>(lane, total + part + total);
  float *sum = floats + total;
  N *sent = reinterpret_cast<N *>(sum + part), *come = sent + total;
  const auto *from = static_cast<const float *>(call.in);
  if (call.runs > 1) {
    turnRows(lane.stream, call, places, call.in, floats, false);
    from = floats;
  }
  launch("round", round_kernel<N>, cover(total), lane.stream, out(sent, total), in(from, all), all, total);
  CollectiveCall exchange = call;
  exchange.kind = Collective::AllToAll;
  exchange.type = runtime::ElementTypeOf<N>::value;
  exchange.in = sent;
  exchange.out = come;
  exchange.count = part;
  exchange.runs = 1;
  put(lane, group, exchange);
  float *own = isScatter ? static_cast<float *>(call.out) : sum;
  launch("sum", sum_kernel<N>, cover(part), lane.stream, out(own, part), in(come, total), part, places);
  if (isScatter)
    return;
  CollectiveCall gather = exchange;
  gather.kind = Collective::AllGather;
  gather.type = ElementType::Float32;
  gather.in = sum;
  gather.out = floats;
  put(lane, group, gather);
  copy_strided(lane.stream, static_cast<float *>(call.out), {1}, floats, {1}, {call.count});
}

} // namespace echelon::cuda
