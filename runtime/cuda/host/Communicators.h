// Communicators of the emulated NCCL: what the ranks of one share, and what each has of it. Ranks are threads of this
// process.
#pragma once
#include "runtime/cuda/host/Streams.h"

#include <nccl.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace echelon::cuda::host {

/// What one rank gives a stream at once: one operation, or those of a group.
struct Call {
  CUstream_st *stream;
  uint64_t number;              // of its task there, from 1
  std::shared_ptr<Call> before; // that the rank gave its communicator, where that is not over; in whatever stream
  bool hasBegun = false, isOver = false;

  /// Whether all that comes before it in its stream and in its communicator is over.
  bool isUnderWay() const;
};

/// One operation of several ranks: a collective, or a message of two.
struct Meeting {
  struct Place {
    std::shared_ptr<Call> call; // null: this rank has not come
    const void *in = nullptr;
    void *out = nullptr;
  };
  std::string what; // the same for all ranks
  int first;        // the rank that came first
  std::vector<Place> places;
  int came = 0;
  bool isDone = false;

  bool isComplete() const;
};

/// What the ranks of a communicator share.
struct Circle {
  int size;
  std::vector<int> devices; // of ranks; -1: it has not joined
  int joined = 0;
  bool isAborted = false;                                                      // by one of them
  std::map<uint64_t, std::shared_ptr<Meeting>> collectives;                    // under way, by number
  std::map<std::tuple<int, int, uint64_t>, std::shared_ptr<Meeting>> messages; // by sender, receiver, number

  /// What each rank asks of a split.
  struct Vote {
    bool isCast = false;
    int color = 0, key = 0;
  };
  std::map<uint64_t, std::vector<Vote>> votes;                       // of splits, by number
  std::map<std::pair<uint64_t, int>, std::shared_ptr<Circle>> parts; // and color

  explicit Circle(int size) : size(size), devices(size_t(size), -1) {}
  void join(int rank, int device) {
    devices[size_t(rank)] = device;
    ++joined;
  }
  /// Two ranks on one device, which NCCL refuses; {-1, -1}: there are none.
  std::pair<int, int> duplicates() const;
};

/// A rank of a communicator.
struct Member {
  std::shared_ptr<Circle> circle; // null: the split that makes it is under way
  int rank, device;
  bool isBlocking = true, isAborted = false;
  std::shared_ptr<void> tuner; // of the plugin, if there is one
  uint64_t collectives = 0, splits = 0;
  std::shared_ptr<Call> last;              // that it was given
  std::map<int, uint64_t> sends, receives; // by peer
  // Where it comes from a split:
  std::shared_ptr<Circle> parent;
  uint64_t split = 0;
  int color = 0, key = 0, parentRank = 0;
};

/// What ncclGetLastError says; the result handed back.
ncclResult_t refused(ncclResult_t result, const std::string &why);

/// What one rank wants of others.
struct Operation {
  std::shared_ptr<Member> member;
  cudaStream_t stream;
  std::string what;
  const void *in;
  size_t inBytes;
  void *out;
  size_t outBytes;
  std::function<void(const Meeting &)> run; // of the whole meeting, by one of its ranks
  int peer = -1;                            // of a message
  bool isSend = false;
};

} // namespace echelon::cuda::host

struct ncclComm {
  std::shared_ptr<echelon::cuda::host::Member> member;
};
