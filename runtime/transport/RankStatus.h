// Where a rank is: written by it, read by the ranks of its machine that wait for it and by the launcher. It lies in
// memory that they share: the segment (shm), the heap (threads), or a mapping of ranks that MPI has started.
#pragma once

#include "runtime/transport/Transport.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <limits>
#include <string>

namespace echelon::runtime {

inline constexpr size_t kCacheLine = 64;

/// How long the last steps of a rank took.
class StepTimes {
public:
  /// A step begins now, and with it the one before ends.
  void begin() {
    const auto now = std::chrono::steady_clock::now();
    if (begun++ > 0)
      seconds[(begun - 2) % seconds.size()] = std::chrono::duration<double>(now - last).count();
    last = now;
  }
  /// Of the steps that have ended; 0 before the first.
  double median() const;

private:
  std::array<double, 15> seconds{};
  int64_t begun = 0;
  std::chrono::steady_clock::time_point last;
};

struct alignas(2 * kCacheLine) RankStatus {
  static constexpr int kLabelWords = 8;
  static constexpr int kSomebody = std::numeric_limits<int>::max();

  std::atomic<int64_t> step{-1};
  std::atomic<Activity> doing{Activity::Start};
  std::atomic<uint64_t> label[kLabelWords];
  std::atomic<int> waitsFor{-1}; // the rank it waits for, after a while of waiting; or kSomebody
  std::atomic<int> process{0};   // its number, where ranks are processes of this machine
  std::atomic<int> core{-1};     // where it was when it last began to wait
  std::atomic<int> exitCode{-1}; // set when the rank's main function has returned
  uint64_t waitedTicks = 0;      // of all its waits; nobody else reads it
  StepTimes steps;               // its last ones; nobody else reads them

  std::atomic<bool> hasClock{false};
  std::atomic<clockid_t> clock{};      // counts the processor time of its process, or thread
  std::atomic<double> aside{0};        // of which this much is that of threads for which nobody waits
  std::atomic<bool> computes{false};   // is in a step or an evaluation, where all ranks do alike
  std::atomic<double> computedFrom{0}; // its processor time when it last began to compute

  // What the rank itself writes.
  void useClockOf(bool thread); // of the one that calls, else of its process
  void setStep(int64_t newStep);
  void setPlace(Activity what, const char *newLabel);
  void setComputes(bool newComputes);

  /// "all_reduce (mlp.ech:33)"; "start" before the first place.
  std::string place() const;
  /// "all_reduce (mlp.ech:33) at step 37"; without the step before the first.
  std::string placeAndStep() const;
  /// "at step 37, in all_reduce (mlp.ech:33)".
  std::string describe() const;
  /// Whether somebody has stopped its process, as SIGSTOP and debuggers do.
  bool isStopped() const;
  /// Processor time of the rank in seconds; 0 where it is not known.
  double processorSeconds() const;
};

/// Whether a rank that another waits for will never come, sooner than the deadline tells: a little before 2 s or five
/// steps have passed, whichever is longer, so that by then it is told,
///   - one whose process somebody has stopped;
///   - one that computes what all ranks compute alike, and since then has had more processor time than that takes: five
///     steps, and twice what the waiting rank needed itself. Processor time, since other work may have all cores for a
///     while. Not in the first step, which touches memory for the first time: what a system needs for that is not
///     alike.
class Suspicion {
public:
  /// Asked again and again during one wait of `own`, whose steps take stepSeconds, and which has waited that long so
  /// far.
  bool isHopeless(const RankStatus &own, double stepSeconds, const RankStatus &late, double waitedSeconds);

private:
  const RankStatus *watched = nullptr; // who was late when it was last asked for another,
  double processorThen = 0;            // its processor time then,
  double ownProcessor = 0;             // and what `own` had needed
};

/// "rank 1 did not come to all_reduce (mlp.ech:33) at step 37 within 2.1 s; it is …": what `own` says of one that is
/// not waited for any longer.
std::string lateMessage(const RankStatus &own, int rank, const RankStatus &late, double waitedSeconds,
                        double deadlineSeconds);

} // namespace echelon::runtime
