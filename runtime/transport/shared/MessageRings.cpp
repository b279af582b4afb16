#include "runtime/transport/shared/MessageRings.h"

#include "runtime/launch/Fail.h"
#include "runtime/transport/shared/CopyBytes.h"

#include <algorithm>
#include <cstring>

namespace echelon::runtime {

Messages::Messages(Segment &segment, int rank, bool reachesAll)
    : segment(segment), rank(rank), reachesAll(reachesAll), peers(segment.ranks()) {}

int Messages::take(RequestState &&request) {
  ++unfinished;
  if (freeRequests.empty()) {
    requests.push_back(std::move(request));
    return static_cast<int>(requests.size()) - 1;
  }
  int index = freeRequests.back();
  freeRequests.pop_back();
  requests[index] = std::move(request);
  return index;
}

int Messages::isend(int to, const void *data, size_t bytes, int tag, const char *label) {
  RequestState request;
  request.isSend = true;
  request.peer = to;
  request.tag = tag;
  request.source = static_cast<const char *>(data);
  request.bytes = bytes;
  request.label = label;
  int index = take(std::move(request));
  peers[to].sends.push_back(index);
  pumpSends(to);
  return index;
}

int Messages::ireceive(int from, void *data, size_t bytes, int tag, const char *label) {
  RequestState request;
  request.peer = from;
  request.tag = tag;
  request.target = static_cast<char *>(data);
  request.bytes = bytes;
  request.label = label;
  int index = take(std::move(request));
  peers[from].receives.push_back(index);
  matchEarly(from, index);
  pumpReceives(from);
  return index;
}

bool Messages::test(int index) {
  RequestState &request = requests[index];
  if (!request.done) {
    pump();
    if (!request.done)
      return false;
  }
  request.label.clear();
  freeRequests.push_back(index);
  return true;
}

void Messages::pump() {
  if (!unfinished)
    return;
  for (int peer = 0; peer < segment.ranks(); ++peer) {
    if (!peers[peer].sends.empty() || !peers[peer].shown.empty())
      pumpSends(peer);
    // Early messages are taken too: the ring must not stay full of what is asked for later.
    pumpReceives(peer);
  }
}

// ---- sending ----

void Messages::pumpSends(int to) {
  Peer &peer = peers[to];
  MessageRing &ring = segment.ring(rank, to);
  for (auto shown = peer.shown.begin(); shown != peer.shown.end();) {
    RequestState &request = requests[*shown];
    if (!ring.acks[request.ack].load(std::memory_order_acquire)) {
      ++shown;
      continue;
    }
    ring.acks[request.ack].store(0, std::memory_order_relaxed);
    peer.acksUsed &= ~(1u << request.ack);
    request.done = true;
    --unfinished;
    shown = peer.shown.erase(shown);
  }
  while (!peer.sends.empty()) {
    if (peer.sent - ring.taken.load(std::memory_order_acquire) >= MessageRing::kCells)
      return;
    const int index = peer.sends.front();
    RequestState &request = requests[index];
    MessageCell &cell = ring.cells[peer.sent % MessageRing::kCells];
    cell.tag = request.tag;
    cell.total = request.bytes;
    cell.pointer = nullptr;
    const bool isReachable = reachesAll || segment.contains(request.source);
    if (request.moved == 0 && request.bytes > MessageCell::kBytes && isReachable && peer.acksUsed != ~0u) {
      request.ack = __builtin_ctz(~peer.acksUsed);
      peer.acksUsed |= 1u << request.ack;
      cell.pointer = request.source;
      cell.ack = request.ack;
      cell.bytes = 0;
      peer.shown.push_back(index);
      peer.sends.pop_front();
    } else {
      cell.bytes = std::min<size_t>(MessageCell::kBytes, request.bytes - request.moved);
      if (cell.bytes)
        copyBytes(cell.data, request.source + request.moved, cell.bytes);
      request.moved += cell.bytes;
      if (request.moved == request.bytes) {
        request.done = true;
        --unfinished;
        peer.sends.pop_front();
      }
    }
    cell.full.store(++peer.sent, std::memory_order_release);
  }
}

// ---- receiving ----

void Messages::pumpReceives(int from) {
  Peer &peer = peers[from];
  MessageRing &ring = segment.ring(from, rank);
  for (;;) {
    MessageCell &cell = ring.cells[peer.taken % MessageRing::kCells];
    if (cell.full.load(std::memory_order_acquire) != peer.taken + 1)
      return;
    if (!peer.inMessage) {
      auto match = std::find_if(peer.receives.begin(), peer.receives.end(),
                                [&](int index) { return requests[index].tag == cell.tag; });
      peer.inMessage = true;
      peer.arriving = match == peer.receives.end() ? -1 : *match;
      if (peer.arriving >= 0) {
        peer.receives.erase(match);
        if (requests[peer.arriving].bytes != cell.total)
          failLength(requests[peer.arriving], cell.total);
      } else {
        Early early;
        early.tag = cell.tag;
        early.bytes = cell.total;
        early.pointer = cell.pointer;
        early.ack = cell.ack;
        if (!cell.pointer)
          early.data.resize(cell.total);
        peer.early.push_back(std::move(early));
      }
    }
    bool isComplete;
    if (peer.arriving >= 0) {
      RequestState &request = requests[peer.arriving];
      if (cell.pointer) {
        copyBytes(request.target, cell.pointer, request.bytes);
        acknowledge(from, cell.ack);
        request.moved = request.bytes;
      } else if (cell.bytes) {
        copyBytes(request.target + request.moved, cell.data, cell.bytes);
        request.moved += cell.bytes;
      }
      isComplete = request.moved == request.bytes;
      if (isComplete) {
        request.done = true;
        --unfinished;
      }
    } else {
      Early &early = peer.early.back();
      if (cell.pointer)
        early.moved = early.bytes;
      else if (cell.bytes)
        copyBytes(early.data.data() + early.moved, cell.data, cell.bytes);
      early.moved += cell.pointer ? 0 : cell.bytes;
      isComplete = early.moved == early.bytes;
    }
    if (isComplete)
      peer.inMessage = false;
    ring.taken.store(++peer.taken, std::memory_order_release);
  }
}

// A receive that finds its message already here, or half here: then the rest is awaited in the message's own buffer.
void Messages::matchEarly(int from, int index) {
  Peer &peer = peers[from];
  RequestState &request = requests[index];
  auto match = std::find_if(peer.early.begin(), peer.early.end(), [&](const Early &e) { return e.tag == request.tag; });
  if (match == peer.early.end())
    return;
  if (match->bytes != request.bytes)
    failLength(request, match->bytes);
  const bool isLast = &*match == &peer.early.back();
  if (match->pointer) {
    copyBytes(request.target, match->pointer, request.bytes);
    acknowledge(from, match->ack);
  } else if (match->moved) {
    copyBytes(request.target, match->data.data(), match->moved);
  }
  request.moved = match->moved;
  peer.receives.pop_back();
  if (isLast && peer.inMessage && peer.arriving < 0) {
    peer.arriving = index; // the cells to come go straight to the receiver
  } else {
    request.done = true;
    --unfinished;
  }
  peer.early.erase(match);
}

void Messages::acknowledge(int from, int ack) {
  segment.ring(from, rank).acks[ack].store(1, std::memory_order_release);
}

void Messages::failLength(const RequestState &request, size_t sent) {
  fail("ranks disagree: this one receives " + std::to_string(request.bytes) + " bytes from rank " +
       std::to_string(request.peer) + (request.label.empty() ? "" : " (" + request.label + ")") + ", which sends " +
       std::to_string(sent));
}

} // namespace echelon::runtime
