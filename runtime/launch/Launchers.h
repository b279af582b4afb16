// The ways in which launch() starts ranks.
#pragma once

#include "runtime/launch/Launch.h"
#include "runtime/transport/shared/Segment.h"

namespace echelon::runtime {

using RankMain = std::function<int(Transport &)>;

/// One rank: no process, no thread.
int launchHere(const LaunchOptions &options, const RankMain &rankMain);
int launchProcesses(const LaunchOptions &options, const RankMain &rankMain);
int launchThreads(const LaunchOptions &options, const RankMain &rankMain);
int launchMpi(const LaunchOptions &options, const RankMain &rankMain);
int launchTcp(const LaunchOptions &options, const RankMain &rankMain);

/// Runs the rank's main function; an exception that leaves it ends the rank through fail().
int runRank(Transport &transport, const RankMain &rankMain);

/// A line of standard error, begun again where a terminal has a line of progress. Empty where there is nothing to say.
std::string asLine(const std::string &message);

/// The code that all ranks returned; 4, with a message, where they differ.
int agreedCode(Segment &segment);

/// While one of these lives, SIGINT (where it was not ignored before), SIGTERM and SIGUSR1 set the segment's stop flag
/// instead of ending the program. The second signal ends it, unless a launcher of processes asks `signals()` and does
/// so itself; SIGUSR1 after another is a reminder and does nothing.
class StopSignals {
public:
  StopSignals(SegmentHeader &header, bool endOnSecond);
  ~StopSignals();
  static int signals();
  /// What the second signal prints, where it ends the program: a line of LaunchOptions::lastWords; empty: nothing.
  static void say(const std::string &words);
  /// In a thread that is a rank: another of the process takes them.
  static void block();
};

} // namespace echelon::runtime
