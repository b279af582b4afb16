// Messages between each two ranks, over a connection of theirs. Nothing here waits but pump(); the rank's thread alone
// calls.
//
// A message is a head, tag and bytes, and then its bytes. What has come for nobody yet is kept: a rank may receive in
// another order of tags than was sent.
#pragma once

#include "runtime/transport/tcp/Socket.h"

#include <deque>

namespace echelon::runtime::tcp {

class PeerMessages {
public:
  /// connections: by rank; the rank's own is not open.
  PeerMessages(int ownRank, std::vector<Socket> connections);

  /// Both return the operation's number. Its buffer is used until it is complete.
  int isend(int to, const void *data, size_t bytes, int tag);
  int ireceive(int from, void *data, size_t bytes, int tag);
  bool isComplete(int operation) const { return operations[size_t(operation)].isComplete; }
  int peerOf(int operation) const { return operations[size_t(operation)].peer; }
  bool isSend(int operation) const { return operations[size_t(operation)].isSend; }
  /// The number may be used again.
  void release(int operation) { freeOperations.push_back(operation); }

  /// Sends and receives what goes without waiting; where nothing does, waits for so long that something does.
  void pump(int milliseconds);
  /// Bytes that have come from a rank and gone to it so far: who waits for a long message sees it move.
  uint64_t moved(int rank) const { return peers[size_t(rank)].moved; }
  /// Why no message to or from a rank is possible any more; empty: they are.
  const std::string &whyClosed(int rank) const { return peers[size_t(rank)].whyClosed; }

private:
  struct Head {
    uint32_t magic, tag;
    uint64_t bytes;
  };
  struct Operation {
    int peer;
    bool isSend, isComplete;
  };
  struct Outgoing {
    Head head;
    const char *data;
    size_t sent; // of head and data
    int operation;
  };
  struct Posted { // a receive whose message has not begun to come
    uint32_t tag;
    char *data;
    size_t bytes;
    int operation;
  };
  struct Incoming {
    uint32_t tag = 0;
    size_t bytes = 0, got = 0;
    char *data = nullptr; // the receiver's; null: kept
    int operation = -1;
    std::vector<char> kept;
  };
  struct Peer {
    Socket socket;
    std::string whyClosed;
    uint64_t moved = 0; // bytes
    std::deque<Outgoing> outgoing;
    std::deque<Posted> posted;
    std::deque<Incoming> unclaimed; // complete, in order
    Incoming current;
    bool hasCurrent = false;
    std::vector<char> buffer; // bytes read and not yet looked at: [begin, end)
    size_t begin = 0, end = 0;
  };

  int newOperation(int peer, bool isSend);
  void send(Peer &peer);
  void receive(Peer &peer, int rank);
  void take(Peer &peer, int rank);
  void beginMessage(Peer &peer, int rank, const Head &head);
  size_t add(Incoming &message, const char *bytes, size_t count);
  void finishMessage(Peer &peer);
  void close(Peer &peer, const std::string &why);
  [[noreturn]] void mismatch(int rank, size_t sent, size_t awaited) const;

  int ownRank;
  std::vector<Peer> peers; // by rank
  std::deque<Operation> operations;
  std::vector<int> freeOperations;
};

} // namespace echelon::runtime::tcp
