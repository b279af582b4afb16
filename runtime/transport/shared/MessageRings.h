// Messages between two ranks of one machine, over a ring of cells per direction.
//
// Short messages are copied into a cell and out again. Long ones whose buffer the receiver can reach are shown to it,
// copied once and acknowledged; other long ones go through the ring cell by cell. What arrives before it is asked for
// is kept aside, so a sender never depends on the order in which its messages are received.
#pragma once

#include "runtime/transport/shared/Segment.h"

#include <deque>
#include <string>
#include <vector>

namespace echelon::runtime {

class Messages {
public:
  /// `reachesAll`: ranks are threads.
  Messages(Segment &segment, int rank, bool reachesAll);

  int isend(int to, const void *data, size_t bytes, int tag, const char *label);
  int ireceive(int from, void *data, size_t bytes, int tag, const char *label);
  bool test(int request);
  /// The rank that the request needs to come.
  int peerOf(int request) const { return requests[request].peer; }
  Activity doingOf(int request) const { return requests[request].isSend ? Activity::Send : Activity::Receive; }
  const char *labelOf(int request) const { return requests[request].label.c_str(); }

  /// Moves on what is under way.
  void pump();
  bool idle() const { return unfinished == 0; }

private:
  struct RequestState {
    bool isSend = false, done = false;
    int peer = 0, tag = 0;
    const char *source = nullptr;
    char *target = nullptr;
    size_t bytes = 0, moved = 0;
    int ack = -1; // sends: the acknowledgement that is awaited
    std::string label;
  };
  /// A message that came before its receive.
  struct Early {
    int tag;
    size_t bytes, moved = 0;
    std::vector<char> data;
    const void *pointer = nullptr;
    int ack = -1;
  };
  struct Peer {
    uint64_t sent = 0, taken = 0; // cells
    std::deque<int> sends;        // requests, in order; those before were put into the ring
    std::deque<int> shown;        // requests that wait for an acknowledgement
    std::deque<int> receives;     // requests, in order
    std::deque<Early> early;
    bool inMessage = false; // cells of a message are still to come,
    int arriving = -1;      // into this request, or, if -1, into the last early message
    uint32_t acksUsed = 0;
  };

  int take(RequestState &&request);
  void pumpSends(int to);
  void pumpReceives(int from);
  void matchEarly(int from, int request);
  void acknowledge(int from, int ack);
  [[noreturn]] void failLength(const RequestState &request, size_t sent);

  Segment &segment;
  int rank;
  bool reachesAll;
  std::vector<Peer> peers;
  std::deque<RequestState> requests;
  std::vector<int> freeRequests;
  int unfinished = 0;
};

} // namespace echelon::runtime
