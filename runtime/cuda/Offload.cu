#include "runtime/cuda/Offload.h"
#include "runtime/launch/Fail.h"
#include "runtime/program/Offload.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace echelon::cuda {

namespace {
constexpr int64_t kSpanAlignment = 256;   // of what a kernel is given
constexpr int64_t kPositions = 256;       // that a tensor is cut at multiples of
constexpr int64_t kStorageAlignment = 64; // of tensors in the state arena: less lies between neighbours

int64_t alignUp(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

cudaEvent_t makeEvent() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  return event;
}
} // namespace

OffloadedPieces::OffloadedPieces(Host &host, Stream stream) : host(host), stream(stream) {
  const runtime::Offload &offload = host.program().offload;
  first = host.state<std::byte>(offload.from);
  last = first + offload.bytes;
  pieceBytes = offload.piece;
  check(cudaStreamCreateWithFlags(&arrivals, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaStreamCreateWithFlags(&departures, cudaStreamNonBlocking), "cudaStreamCreate");
  begun = makeEvent();
  pin();
  for (Place &place : places) {
    void *memory = nullptr;
    check(cudaMalloc(&memory, size_t(pieceBytes)), "cudaMalloc of a piece of what is offloaded");
    place.onDevice = static_cast<std::byte *>(memory);
    if (!isPinned) {
      check(cudaMallocHost(&memory, size_t(pieceBytes)), "cudaMallocHost of a piece of what is offloaded");
      place.pinned = static_cast<std::byte *>(memory);
    }
    place.arrived = makeEvent();
    place.computed = makeEvent();
    place.left = makeEvent();
  }
}

/// The host's memory, where it can be. Pages of a file stay as they are: pinned, all of them would be in memory.
void OffloadedPieces::pin() {
  if (host.program().offload.isInFile())
    return;
  const cudaError_t error = cudaHostRegister(first, size_t(last - first), cudaHostRegisterDefault);
  isPinned = error == cudaSuccess;
  if (isPinned)
    return;
  cudaGetLastError(); // which the next call would be told of
  host.note(std::string("offload optimizer to host: this memory cannot be pinned (") + cudaGetErrorString(error) +
            "), so each piece is copied once more; a larger `ulimit -l` may mend it");
}

OffloadedPieces::~OffloadedPieces() {
  for (Stream on : {arrivals, departures})
    cudaStreamSynchronize(on);
  for (Place &place : places) {
    for (cudaEvent_t event : {place.arrived, place.computed, place.left})
      cudaEventDestroy(event);
    cudaFree(place.onDevice);
    if (place.pinned)
      cudaFreeHost(place.pinned);
  }
  if (isPinned)
    cudaHostUnregister(first);
  cudaEventDestroy(begun);
  for (Stream on : {arrivals, departures})
    cudaStreamDestroy(on);
}

void OffloadedPieces::begin() {
  ofFunction.clear(); // the host has waited for the function before
  hasArrivals = places[0].isUsed = places[1].isUsed = false;
  check(cudaEventRecord(begun, stream), "offload");
}

void OffloadedPieces::end() {
  for (Place &place : places)
    if (place.isUsed)
      check(cudaStreamWaitEvent(stream, place.left, 0), "offload");
}

//===-- pieces
//-----------------------------------------------------------------------------------------------------===//

std::vector<OffloadedPiece> OffloadedPieces::divide(const std::vector<Rows> &tensors,
                                                    const std::vector<int64_t> &widths) const {
  std::vector<OffloadedPiece> pieces;
  int64_t room = 0; // in the last one
  for (size_t t = 0; t < tensors.size(); ++t) {
    int64_t each = 0, lost = 0; // bytes of a position, and what alignment may take
    for (size_t i = 0; i < widths.size(); ++i)
      if (holds(tensors[t].data[i])) {
        each += widths[i];
        lost += kSpanAlignment;
      }
    for (int64_t at = 0; at < tensors[t].count;) {
      const int64_t rest = tensors[t].count - at;
      int64_t count = each > 0 ? std::min(rest, (room - lost) / each) : rest;
      if (count < rest)
        count = count / kPositions * kPositions;
      if (pieces.empty() || count <= 0) {
        if (room == pieceBytes && !pieces.empty())
          runtime::fail("a piece of what is offloaded, of " + std::to_string(pieceBytes) + " bytes, has no room");
        pieces.emplace_back();
        room = pieceBytes;
        continue;
      }
      pieces.back().parts.push_back({t, at, count, {}});
      room -= count * each + lost;
      at += count;
    }
  }
  for (OffloadedPiece &piece : pieces)
    lay(piece, tensors, widths);
  return pieces;
}

/// One row after the other, so that tensors that are neighbours on the host are so in the piece, and move together.
void OffloadedPieces::lay(OffloadedPiece &piece, const std::vector<Rows> &tensors,
                          const std::vector<int64_t> &widths) const {
  for (size_t i = 0; i < widths.size(); ++i) {
    size_t begin = piece.spans.size();
    for (PieceOfTensor &part : piece.parts) {
      std::byte *data = tensors[part.tensor].data[i] + part.first * widths[i];
      const int64_t bytes = part.count * widths[i];
      if (!holds(data)) {
        part.at.push_back(-1);
        continue;
      }
      const Span *before = piece.spans.size() > begin ? &piece.spans.back() : nullptr;
      const int64_t gap = before ? data - (before->host + before->bytes) : -1;
      if (gap < 0 || gap >= kStorageAlignment)
        piece.spans.push_back({data, 0, alignUp(piece.bytes, kSpanAlignment)});
      Span &span = piece.spans.back();
      part.at.push_back(span.at + (data - span.host));
      span.bytes = data + bytes - span.host;
      piece.bytes = span.at + span.bytes;
    }
  }
}

/// The place that was used longest ago, once it is free.
OffloadedPieces::Place &OffloadedPieces::take(Stream on) {
  Place &place = places[next];
  next = 1 - next;
  if (on == arrivals && !std::exchange(hasArrivals, true))
    check(cudaStreamWaitEvent(arrivals, begun, 0), "offload");
  if (std::exchange(place.isUsed, true))
    check(cudaStreamWaitEvent(on, place.left, 0), "offload");
  return place;
}

std::byte *OffloadedPieces::arrive(const OffloadedPiece &piece) {
  Place &place = take(arrivals);
  copy(arrivals, place, piece.spans, true, false);
  if (!isPinned && piece.bytes > 0)
    check(cudaMemcpyAsync(place.onDevice, place.pinned, size_t(piece.bytes), cudaMemcpyHostToDevice, arrivals),
          "offload");
  check(cudaEventRecord(place.arrived, arrivals), "offload");
  check(cudaStreamWaitEvent(stream, place.arrived, 0), "offload");
  return place.onDevice;
}

void OffloadedPieces::leave(const OffloadedPiece &piece) {
  Place &place = places[1 - next];
  check(cudaEventRecord(place.computed, stream), "offload");
  check(cudaStreamWaitEvent(departures, place.computed, 0), "offload");
  if (!isPinned && piece.bytes > 0)
    check(cudaMemcpyAsync(place.pinned, place.onDevice, size_t(piece.bytes), cudaMemcpyDeviceToHost, departures),
          "offload");
  copy(departures, place, piece.spans, false, true);
  check(cudaEventRecord(place.left, departures), "offload");
}

/// Between the host and a place: on the device, where the host's memory is pinned, else in pinned memory.
void OffloadedPieces::copy(Stream on, Place &place, const std::vector<Span> &spans, bool fromHost, bool isLast) {
  if (isPinned) {
    for (const Span &span : spans) {
      std::byte *there = place.onDevice + span.at;
      check(fromHost ? cudaMemcpyAsync(there, span.host, size_t(span.bytes), cudaMemcpyHostToDevice, on)
                     : cudaMemcpyAsync(span.host, there, size_t(span.bytes), cudaMemcpyDeviceToHost, on),
            "offload");
    }
    return;
  }
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(on, &status), "offload");
  auto &kept = status == cudaStreamCaptureStatusNone ? ofFunction : ofGraphs; // a graph does it each time
  kept.push_back(std::make_unique<Copy>(Copy{this, place.pinned, spans, fromHost, isLast}));
  if (fromHost)
    touches(on, "a copy on the host", out(place.pinned, pieceBytes));
  else
    touches(on, "a copy on the host", in(place.pinned, pieceBytes));
  check(cudaLaunchHostFunc(on, copyOnHost, kept.back().get()), "offload");
}

void OffloadedPieces::copyOnHost(void *data) {
  const Copy &copy = *static_cast<const Copy *>(data);
  const std::lock_guard<std::mutex> guard(copy.of->mutex);
  runtime::OffloadedState *file = copy.of->host.offloaded();
  for (size_t i = 0; i < copy.spans.size(); ++i) {
    const Span &span = copy.spans[i];
    if (copy.fromHost)
      std::memcpy(copy.pinned + span.at, span.host, size_t(span.bytes));
    else
      std::memcpy(span.host, copy.pinned + span.at, size_t(span.bytes));
    if (file && copy.fromHost) // the system reads on while this piece is computed
      file->fetch(i, span.host + span.bytes, span.bytes);
    if (file && copy.isLast)
      file->letGo(span.host, span.bytes);
  }
}

//===-- tensors whole
//----------------------------------------------------------------------------------------------===//

/// Calls act(where it is on the host, its bytes, how far it is from the begin) for as much as pinned memory holds.
template <typename Act> void OffloadedPieces::inChunks(const void *here, int64_t bytes, Act act) {
  auto *data = static_cast<std::byte *>(const_cast<void *>(here));
  for (int64_t at = 0; at < bytes; at += pieceBytes) {
    Place &place = take(stream);
    act(place, Span{data + at, std::min(pieceBytes, bytes - at), 0}, at);
    check(cudaEventRecord(place.left, stream), "offload");
  }
}

void OffloadedPieces::fetch(void *there, const void *here, int64_t bytes) {
  if (isPinned)
    return check(cudaMemcpyAsync(there, here, size_t(bytes), cudaMemcpyHostToDevice, stream), "offload");
  inChunks(here, bytes, [&](Place &place, const Span &span, int64_t at) {
    copy(stream, place, {span}, true, true);
    check(cudaMemcpyAsync(static_cast<std::byte *>(there) + at, place.pinned, size_t(span.bytes),
                          cudaMemcpyHostToDevice, stream),
          "offload");
  });
}

void OffloadedPieces::writeBack(void *here, const void *there, int64_t bytes) {
  if (isPinned)
    return check(cudaMemcpyAsync(here, there, size_t(bytes), cudaMemcpyDeviceToHost, stream), "offload");
  inChunks(here, bytes, [&](Place &place, const Span &span, int64_t at) {
    check(cudaMemcpyAsync(place.pinned, static_cast<const std::byte *>(there) + at, size_t(span.bytes),
                          cudaMemcpyDeviceToHost, stream),
          "offload");
    copy(stream, place, {span}, false, true);
  });
}

} // namespace echelon::cuda
