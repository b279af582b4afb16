// Finds launches that touch the same bytes and that no stream, event or wait of the host orders.
//
// A vector clock says for each stream how many of its tasks are over at some moment, in every order that the program
// allows. Each launch is compared with the earlier ones on the same bytes: one that is not over in the launch's clock
// may run at the same time. So a missing event is found in whatever order the work happens to run. For example:
//
//   stream 0   add x            clock (1, 0)
//   event      recorded         clock (1, 0)
//   stream 1   waits            joins its clock (0, 0) with the event's: (1, 0)
//   stream 1   reads x          the addition is task 1 of stream 0, and 1 <= 1: it is over
#pragma once
#include "runtime/cuda/Device.h"

#include <cstdint>
#include <string>
#include <vector>

namespace echelon::cuda::host {

using Clock = std::vector<uint64_t>; // by the stream's id; streams past its end: 0

/// The later of the two, stream by stream.
void join(Clock &into, const Clock &from);

/// A task by its stream and its number there, from 1.
struct Stamp {
  int stream;
  uint64_t number;
};

struct Access {
  Range range;
  Stamp stamp;
  std::string what, stream; // for messages
};
/// The accesses to an allocation that a later one could race with.
using History = std::vector<Access>;

/// Compares what a task touches with what earlier ones did, and adds it to their histories. `clock` is what its stream
/// has waited for. Ends the program where the memory is not the device's.
void checkAccesses(const std::string &what, const std::string &stream, Stamp stamp, const Clock &clock,
                   const std::vector<Range> &touches);

} // namespace echelon::cuda::host
