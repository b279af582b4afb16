// How ranks that were started apart from each other come together.
//
//   1. Rank 0 listens at a place that all know. Each other rank connects to it and says who it is, which job it is of
//      and where it listens itself; that connection stays: it is the one of the watch (Watch.h).
//   2. When all have come rank 0 hands out the table: where each listens, and a secret of this run.
//   3. Each rank connects to those before it, with the secret, and takes those behind it: the connections of messages.
//
// Nobody else is let in: who does not say the right words is sent away, and the run goes on to wait for its ranks.
#pragma once

#include "runtime/transport/tcp/Member.h"
#include "runtime/transport/tcp/Socket.h"

#include <atomic>

namespace echelon::runtime::tcp {

/// What a rank has once all have met.
struct Met {
  std::vector<Socket> watched;    // rank 0: one for each other rank, by rank; else that to rank 0, at 0
  std::vector<Socket> peers;      // by rank; its own is not open
  std::vector<uint64_t> machines; // by rank
  std::string interface;          // over which other machines are reached; empty: all ranks are here
};

/// Collective. Within so many seconds, or the process ends with code 4 and a message: rank 0 names the ranks that did
/// not come, and the others name rank 0. `program`: what all ranks run; `stop`: the user asked the run to stop.
Met meet(const Member &member, const std::string &program, double seconds, const std::atomic<int> &stop);

} // namespace echelon::runtime::tcp
