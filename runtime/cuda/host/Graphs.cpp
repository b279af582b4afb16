// Graphs: what streams were given while they were captured, given to streams of the graph's own at each launch.
//
// A graph's streams hold clocks while it is captured, as those that run do: how many of each stream's nodes come
// before. At the end the clock of the stream where the capture began must know all nodes, or some work is unjoined.
#include "runtime/cuda/host/Memory.h"
#include "runtime/cuda/host/Streams.h"

#include <algorithm>

using namespace echelon::cuda::host;

struct CUgraphExec_st {
  CUstream_st *origin;
  std::vector<CUgraph_st::Node> nodes; // in the exec's own streams
  size_t records;
};

namespace {

std::map<uint64_t, CUgraph_st *> &captures() {
  static auto &underWay = *new std::map<uint64_t, CUgraph_st *>;
  return underWay;
}
uint64_t lastCapture = 0;

/// Whether all nodes come before the end of the first stream.
bool isJoined(CUgraph_st &graph) {
  Clock all;
  for (const auto &[stream, clock] : graph.clocks)
    join(all, clock);
  Clock &end = graph.clocks[graph.origin];
  end.resize(std::max(end.size(), all.size()));
  all.resize(end.size());
  return end == all;
}

/// Streams leave the capture. The error is what CUDA says of it.
cudaError_t end(CUgraph_st &graph) {
  for (const auto &[stream, clock] : graph.clocks)
    stream->capture = nullptr;
  captures().erase(graph.number);
  if (graph.isBroken)
    return cudaErrorStreamCaptureInvalidated;
  return isJoined(graph) ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}

} // namespace

//===-- capture --------------------------------------------------------------------------------------------------===//

void CUgraph_st::add(Node node) {
  Clock &clock = clocks[node.stream];
  const auto id = static_cast<size_t>(node.stream->id);
  clock.resize(std::max(clock.size(), id + 1));
  ++clock[id];
  nodes.push_back(std::move(node));
}

cudaError_t CUgraph_st::record(CUstream_st &stream, CUevent_st &event) {
  if (isBroken)
    return cudaErrorStreamCaptureInvalidated;
  event.capture = number;
  event.place = records.size();
  add({&stream, Kind::Record, {}, event.place});
  records.push_back(clocks[&stream]);
  return cudaSuccess;
}

/// The stream joins the capture, if it does not belong to it yet.
cudaError_t CUgraph_st::waitFor(CUstream_st &stream, const CUevent_st &event) {
  if (event.capture != number) { // what it waits for would not be in the graph
    isBroken = true;
    return cudaErrorStreamCaptureIsolation;
  }
  if (stream.capture && stream.capture != this) {
    isBroken = stream.capture->isBroken = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (isBroken)
    return cudaErrorStreamCaptureInvalidated;
  stream.capture = this;
  join(clocks[&stream], records[event.place]);
  add({&stream, Kind::Wait, {}, event.place});
  return cudaSuccess;
}

CUgraph_st *echelon::cuda::host::captureUnderWay(uint64_t number) {
  const auto found = captures().find(number);
  return found == captures().end() ? nullptr : found->second;
}

bool echelon::cuda::host::isForbiddenByCapture() {
  const Guard guard;
  bool isForbidden = false;
  for (auto &[number, graph] : captures())
    if (graph->mode == cudaStreamCaptureModeGlobal ||
        (graph->mode == cudaStreamCaptureModeThreadLocal && graph->thread == std::this_thread::get_id()))
      isForbidden = graph->isBroken = true;
  return isForbidden;
}

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Guard guard;
  if (!stream) // CUDA cannot capture it
    return noted(cudaErrorStreamCaptureUnsupported);
  if (stream->capture)
    return noted(cudaErrorIllegalState);
  auto *graph = new CUgraph_st{};
  graph->origin = stream;
  graph->number = ++lastCapture;
  graph->mode = mode;
  graph->thread = std::this_thread::get_id();
  graph->clocks[stream];
  captures()[graph->number] = stream->capture = graph;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *result) {
  const Guard guard;
  *result = nullptr;
  CUgraph_st *graph = streamOf(stream).capture;
  if (!graph)
    return noted(cudaErrorIllegalState);
  if (graph->origin != stream)
    return noted(cudaErrorStreamCaptureUnmatched);
  if (graph->mode != cudaStreamCaptureModeRelaxed && graph->thread != std::this_thread::get_id())
    return noted(cudaErrorStreamCaptureWrongThread);
  const cudaError_t error = end(*graph);
  if (error == cudaSuccess)
    *result = graph;
  else
    delete graph;
  return noted(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
  const Guard guard;
  const CUgraph_st *graph = streamOf(stream).capture;
  *status = !graph            ? cudaStreamCaptureStatusNone
            : graph->isBroken ? cudaStreamCaptureStatusInvalidated
                              : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Guard guard;
  delete graph;
  return cudaSuccess;
}

//===-- launches -------------------------------------------------------------------------------------------------===//

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *result, cudaGraph_t graph, unsigned long long flags) {
  const Guard guard;
  if (flags != 0)
    return noted(cudaErrorNotSupported);
  std::map<CUstream_st *, CUstream_st *> own;
  for (const auto &[stream, clock] : graph->clocks)
    own[stream] = makeStream("graph " + stream->name);
  auto *exec = new CUgraphExec_st{own[graph->origin], graph->nodes, graph->records.size()};
  for (CUgraph_st::Node &node : exec->nodes)
    node.stream = own[node.stream];
  *result = exec;
  return cudaSuccess;
}

/// Launches of one graph come one after the other, since its streams are the same.
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  const Guard guard;
  CUstream_st &stream = streamOf(handle);
  if (stream.capture) { // CUDA makes a node of it; the emulation does not
    stream.capture->isBroken = true;
    return noted(cudaErrorNotSupported);
  }
  waitFor(*exec->origin, record(stream));
  std::vector<std::shared_ptr<Record>> records(exec->records);
  for (const CUgraph_st::Node &node : exec->nodes)
    switch (node.kind) {
    case CUgraph_st::Kind::Work:
      put(*node.stream, node.task);
      break;
    case CUgraph_st::Kind::Record:
      records[node.record] = record(*node.stream);
      break;
    case CUgraph_st::Kind::Wait:
      waitFor(*node.stream, records[node.record]);
    }
  waitFor(stream, record(*exec->origin));
  return cudaSuccess;
}

/// Its streams finish what they have.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  const Guard guard;
  delete exec;
  return cudaSuccess;
}

} // extern "C"
