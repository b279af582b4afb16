// Ranks as threads of this process: for tests, sanitizers and debuggers. A rank that crashes takes the process along.

#include "runtime/launch/Launchers.h"

#include "runtime/launch/Fail.h"
#include "runtime/transport/shared/SharedTransport.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>

namespace echelon::runtime {

int launchHere(const LaunchOptions &options, const RankMain &rankMain) {
  Segment segment(1, 0);
  StopSignals::say(options.lastWords);
  StopSignals signals(segment.header(), true);
  SharedTransport transport(
      segment, 0, options.transport == "shm" ? SharedTransport::Kind::Processes : SharedTransport::Kind::Threads,
      options.deadlineSeconds);
  setRankOfThread(&transport);
  int code = 4;
  try {
    code = runRank(transport, rankMain);
  } catch (const RankStopped &) {
  }
  setRankOfThread(nullptr);
  return code;
}

int launchThreads(const LaunchOptions &options, const RankMain &rankMain) {
  Segment segment(options.ranks, 0); // threads reach any memory: nothing needs to come from the segment
  StopSignals::say(options.lastWords);
  StopSignals signals(segment.header(), true);
  std::mutex mutex;
  std::condition_variable ended;
  int running = options.ranks;

  std::vector<std::thread> threads;
  auto asRank = [&](int rank) {
    StopSignals::block();
    SharedTransport transport(segment, rank, SharedTransport::Kind::Threads, options.deadlineSeconds);
    setRankOfThread(&transport);
    try {
      segment.status(rank).exitCode.store(runRank(transport, rankMain));
    } catch (const RankStopped &) {
    }
    setRankOfThread(nullptr);
    std::unique_lock<std::mutex> lock(mutex);
    --running;
    ended.notify_all();
    ended.wait(lock, [&] { return running == 0; }); // its memory stays: one that stops may be in the midst of reading
  };
  for (int rank = 0; rank < options.ranks; ++rank)
    try {
      threads.emplace_back(asRank, rank);
    } catch (const std::system_error &error) {
      complain("cannot start rank " + std::to_string(rank) + " as a thread: " + error.what() + "; look at ulimit -u");
      std::fflush(nullptr);
      std::_Exit(4); // those that were started wait for it
    }

  // A thread cannot be stopped from outside: those that wait notice a failure; one that computes gets some time.
  std::unique_lock<std::mutex> lock(mutex);
  while (running > 0) {
    ended.wait_for(lock, std::chrono::milliseconds(50));
    if (running > 0 && segment.header().failedRank.load() >= 0 && !segment.header().endsAfterSave() &&
        !ended.wait_for(lock, std::chrono::seconds(5), [&] { return running == 0; })) {
      std::fflush(nullptr);
      std::_Exit(4);
    }
  }
  lock.unlock();
  for (std::thread &thread : threads)
    thread.join();
  if (segment.header().failedRank.load() >= 0)
    return 4;
  return agreedCode(segment);
}

} // namespace echelon::runtime
