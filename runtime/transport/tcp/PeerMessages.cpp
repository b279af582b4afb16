#include "runtime/transport/tcp/PeerMessages.h"
#include "runtime/launch/Fail.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace echelon::runtime::tcp {

namespace {
constexpr uint32_t kMagic = 0x6D686365;           // "echm"
constexpr uint64_t kLongest = uint64_t(1) << 40;  // bytes of a message; more is none
constexpr size_t kBufferBytes = size_t(64) << 10; // what is read at once of small messages
constexpr size_t kPiece = size_t(1) << 20;        // of a kept message: memory is taken as its bytes come
} // namespace

PeerMessages::PeerMessages(int ownRank, std::vector<Socket> connections) : ownRank(ownRank), peers(connections.size()) {
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    peers[rank].socket = std::move(connections[rank]);
    peers[rank].buffer.resize(kBufferBytes);
  }
}

int PeerMessages::newOperation(int peer, bool isSend) {
  int number;
  if (freeOperations.empty()) {
    number = int(operations.size());
    operations.emplace_back();
  } else {
    number = freeOperations.back();
    freeOperations.pop_back();
  }
  operations[size_t(number)] = {peer, isSend, false};
  return number;
}

int PeerMessages::isend(int to, const void *data, size_t bytes, int tag) {
  const int operation = newOperation(to, true);
  Peer &peer = peers[size_t(to)];
  if (to == ownRank) { // as if it had come
    beginMessage(peer, to, {kMagic, uint32_t(tag), bytes});
    if (bytes > 0)
      add(peer.current, static_cast<const char *>(data), bytes);
    finishMessage(peer);
    operations[size_t(operation)].isComplete = true;
    return operation;
  }
  peer.outgoing.push_back({{kMagic, uint32_t(tag), bytes}, static_cast<const char *>(data), 0, operation});
  if (peer.outgoing.size() == 1)
    send(peer);
  return operation;
}

int PeerMessages::ireceive(int from, void *data, size_t bytes, int tag) {
  const int operation = newOperation(from, false);
  Peer &peer = peers[size_t(from)];
  const auto hasTag = [&](const auto &message) { return message.tag == uint32_t(tag); };
  const auto come = std::find_if(peer.unclaimed.begin(), peer.unclaimed.end(), hasTag);
  if (come != peer.unclaimed.end()) {
    if (come->bytes != bytes)
      mismatch(from, come->bytes, bytes);
    if (bytes > 0)
      std::memcpy(data, come->kept.data(), bytes);
    peer.unclaimed.erase(come);
    operations[size_t(operation)].isComplete = true;
    return operation;
  }
  const bool isComing = peer.hasCurrent && !peer.current.data && peer.current.operation < 0 && hasTag(peer.current) &&
                        std::none_of(peer.posted.begin(), peer.posted.end(), hasTag);
  if (!isComing) {
    peer.posted.push_back({uint32_t(tag), static_cast<char *>(data), bytes, operation});
    return operation;
  }
  if (peer.current.bytes != bytes)
    mismatch(from, peer.current.bytes, bytes);
  if (peer.current.got > 0)
    std::memcpy(data, peer.current.kept.data(), peer.current.got);
  std::vector<char>().swap(peer.current.kept);
  peer.current.data = static_cast<char *>(data);
  peer.current.operation = operation;
  return operation;
}

void PeerMessages::mismatch(int rank, size_t sent, size_t awaited) const {
  fail("ranks disagree: rank " + std::to_string(rank) + " sends " + std::to_string(sent) +
       " bytes, and this one awaits " + std::to_string(awaited));
}

void PeerMessages::close(Peer &peer, const std::string &why) {
  peer.whyClosed = why;
  peer.socket.close();
}

// ---- sending ----

void PeerMessages::send(Peer &peer) {
  while (!peer.outgoing.empty() && peer.socket.isOpen()) {
    Outgoing &message = peer.outgoing.front();
    iovec parts[2];
    int count = 0;
    if (message.sent < sizeof(Head))
      parts[count++] = {reinterpret_cast<char *>(&message.head) + message.sent, sizeof(Head) - message.sent};
    const size_t sentOfData = message.sent > sizeof(Head) ? message.sent - sizeof(Head) : 0;
    if (message.head.bytes > sentOfData)
      parts[count++] = {const_cast<char *>(message.data) + sentOfData, message.head.bytes - sentOfData};
    msghdr all = {};
    all.msg_iov = parts;
    all.msg_iovlen = size_t(count);
    const ssize_t sent = sendmsg(peer.socket.descriptor(), &all, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && errno == EAGAIN)
      return;
    if (sent < 0)
      return close(peer, std::strerror(errno));
    message.sent += size_t(sent);
    peer.moved += uint64_t(sent);
    if (message.sent < sizeof(Head) + message.head.bytes)
      continue;
    operations[size_t(message.operation)].isComplete = true;
    peer.outgoing.pop_front();
  }
}

// ---- receiving ----

void PeerMessages::beginMessage(Peer &peer, int rank, const Head &head) {
  peer.current = Incoming();
  peer.current.tag = head.tag;
  peer.current.bytes = head.bytes;
  peer.hasCurrent = true;
  const auto awaited = std::find_if(peer.posted.begin(), peer.posted.end(),
                                    [&](const Posted &posted) { return posted.tag == head.tag; });
  if (awaited == peer.posted.end())
    return;
  if (awaited->bytes != head.bytes)
    mismatch(rank, head.bytes, awaited->bytes);
  peer.current.data = awaited->data;
  peer.current.operation = awaited->operation;
  peer.posted.erase(awaited);
}

/// Adds what belongs to the message; returns how much that is.
size_t PeerMessages::add(Incoming &message, const char *bytes, size_t count) {
  count = std::min(count, message.bytes - message.got);
  if (count > 0 && message.operation >= 0)
    std::memcpy(message.data + message.got, bytes, count);
  else if (count > 0)
    message.kept.insert(message.kept.end(), bytes, bytes + count);
  message.got += count;
  return count;
}

void PeerMessages::finishMessage(Peer &peer) {
  if (peer.current.operation >= 0)
    operations[size_t(peer.current.operation)].isComplete = true;
  else
    peer.unclaimed.push_back(std::move(peer.current));
  peer.hasCurrent = false;
}

/// What lies in the buffer, as far as it goes.
void PeerMessages::take(Peer &peer, int rank) {
  for (;;) {
    if (!peer.hasCurrent) {
      Head head;
      if (peer.end - peer.begin < sizeof head)
        break;
      std::memcpy(&head, peer.buffer.data() + peer.begin, sizeof head);
      if (head.magic != kMagic || head.bytes > kLongest)
        fail("rank " + std::to_string(rank) + " sent what is no message");
      peer.begin += sizeof head;
      beginMessage(peer, rank, head);
    }
    peer.begin += add(peer.current, peer.buffer.data() + peer.begin, peer.end - peer.begin);
    if (peer.current.got < peer.current.bytes)
      break;
    finishMessage(peer);
  }
  std::memmove(peer.buffer.data(), peer.buffer.data() + peer.begin, peer.end - peer.begin);
  peer.end -= peer.begin;
  peer.begin = 0;
}

void PeerMessages::receive(Peer &peer, int rank) {
  while (peer.socket.isOpen()) {
    Incoming &message = peer.current;
    const size_t missing = peer.hasCurrent ? message.bytes - message.got : 0;
    const bool isLong = missing >= kBufferBytes; // then past the buffer, which is empty
    char *to = peer.buffer.data() + peer.end;
    size_t room = peer.buffer.size() - peer.end;
    const size_t before = message.kept.size();
    if (isLong && message.operation >= 0) {
      to = message.data + message.got;
      room = missing;
    } else if (isLong) {
      room = std::min(missing, kPiece);
      message.kept.resize(before + room);
      to = message.kept.data() + before;
    }
    const ssize_t got = recv(peer.socket.descriptor(), to, room, MSG_DONTWAIT);
    const int error = errno;
    peer.moved += uint64_t(std::max<ssize_t>(got, 0));
    if (isLong) {
      if (message.operation < 0)
        message.kept.resize(before + size_t(std::max<ssize_t>(got, 0)));
      message.got += size_t(std::max<ssize_t>(got, 0));
      if (message.got == message.bytes)
        finishMessage(peer);
    } else if (got > 0) {
      peer.end += size_t(got);
      take(peer, rank);
    }
    if (got < 0 && error == EINTR)
      continue;
    if (got < 0 && error == EAGAIN)
      return;
    if (got <= 0)
      return close(peer, got == 0 ? "it closed the connection" : std::strerror(error));
    if (size_t(got) < room) // else there may be more
      return;
  }
}

void PeerMessages::pump(int milliseconds) {
  std::vector<pollfd> descriptors(peers.size());
  for (size_t rank = 0; rank < peers.size(); ++rank)
    descriptors[rank] = {peers[rank].socket.isOpen() ? peers[rank].socket.descriptor() : -1,
                         short(POLLIN | (peers[rank].outgoing.empty() ? 0 : POLLOUT)), 0};
  if (poll(descriptors.data(), descriptors.size(), milliseconds) <= 0)
    return;
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    if (descriptors[rank].revents & POLLOUT)
      send(peers[rank]);
    if (descriptors[rank].revents & ~POLLOUT)
      receive(peers[rank], int(rank));
  }
}

} // namespace echelon::runtime::tcp
