// How ranks on several machines learn that the run must end, and one of them says why. A thread beside each rank has a
// connection to rank 0's, apart from those of messages: it works while the rank computes.
//
// Each tells rank 0 where it is, several times a second. Rank 0 judges: a rank whose connection closes is gone; one
// that fails says why; one that has waited to its deadline asks, and rank 0 names those that wait for nobody. It prints
// the one message and ends all. Only where rank 0 itself does not answer do others speak, one on each machine.
#pragma once

#include "runtime/transport/RankStatus.h"
#include "runtime/transport/tcp/Socket.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace echelon::runtime::tcp {

class Watch {
public:
  /// sockets: of Met::watched. isFirstHere: of the ranks on this machine.
  Watch(int rank, int size, double deadlineSeconds, bool isFirstHere, std::vector<Socket> sockets);
  ~Watch();
  Watch(const Watch &) = delete;

  /// Where this rank is; it alone writes.
  RankStatus &own() { return status; }
  void setSnapshotPhase(SnapshotPhase phase) { saving.store(phase); }

  // All called by the rank.
  /// It has waited to its deadline.
  [[noreturn]] void giveUp();
  /// It cannot go on.
  [[noreturn]] void failed(const std::string &message);
  /// It is through with everything; whether all others are within the deadline.
  bool leave(int exitCode);

private:
  /// Where a rank is, as rank 0 knows it.
  struct Report {
    int64_t step = -1;
    int32_t waits = 0;
    char place[160] = {};   // "all_reduce (mlp.ech:33) at step 37"
    char whereIs[160] = {}; // "at step 37, in all_reduce (mlp.ech:33)"
  };
  struct Peer { // of rank 0: another rank; of others: rank 0
    int rank;
    Socket socket;
    std::vector<char> received; // the beginning of a message
    Report report;
    Clock::time_point heard;
    bool hasLeft = false;
    bool waitedThen = false; // when the first gave up
  };

  Report ownReport() const;
  void watch();
  void look(Peer &peer);
  void take(Peer &peer, uint32_t kind, const char *data, size_t bytes);
  bool tell(const Socket &socket, uint32_t kind, const void *data, size_t bytes);
  void ask(int rank, const std::string &place);
  void judge();
  static std::string lastSeen(const Peer &peer);
  void everyoneLeft();
  void peerIsGone(Peer &peer);
  [[noreturn]] void endAll(const std::string &message);
  [[noreturn]] void endAlone(const std::string &message, bool always = false);
  [[noreturn]] void endQuietly();

  int ownRank, ownSize;
  double deadlineSeconds;
  bool isFirstHere;
  RankStatus status;
  std::atomic<SnapshotPhase> saving{SnapshotPhase::No};
  std::vector<Peer> peers;
  std::mutex sending; // messages of the rank and of its thread
  std::mutex ending;  // held by the first that ends the process

  std::atomic<bool> hasGivenUp{false}; // of rank 0
  int asker = -1;                      // of rank 0: the rank that has waited to its deadline first,
  std::string askedAt;                 // in what,
  Clock::time_point asked;             // and when;
  bool waitedThen = false;             // whether rank 0 did, then

  std::mutex leaving;
  std::condition_variable changed;
  bool hasLeft = false, allHaveLeft = false;
  int wake; // a descriptor that ends the thread
  std::thread thread;
};

} // namespace echelon::runtime::tcp
