// What moves data between devices: NCCL, or the host's transport, through the host's memory.
#pragma once
#include "runtime/collectives/Collectives.h"
#include "runtime/cuda/Device.h"
#include "runtime/program/Rank.h"
#include "runtime/transport/Transport.h"

#include <memory>
#include <string>
#include <vector>

namespace echelon::cuda {

/// Which device a rank computes on: those of a machine take them in turn, by the launcher's number where it gives one
/// (LOCAL_RANK). Collective.
int chooseDevice(runtime::Rank &host);

/// One side of a message from one rank of a group to another, on the device.
struct Message {
  enum Side { Send, Receive } side;
  int peer; ///< the other rank's place in the group
  runtime::ElementType type;
  void *data; ///< a sender's is read alone
  int64_t count;
  const char *label; ///< the place in the user's source
};

/// What each rank of a group sends to the next one, on the device, and receives from the one before.
struct Shift {
  runtime::ElementType type;
  const void *from;
  void *to;
  int64_t count;
  const char *label; ///< the place in the user's source
};

/// One rank's end. All calls but abort() come from the rank's thread.
class DeviceTransport {
public:
  virtual ~DeviceTransport() = default;
  /// "nccl", or "host".
  virtual const char *name() const = 0;
  /// Puts a collective on a group of several ranks into a stream: AllReduce, Reduce, ReduceScatter, AllGather,
  /// AllToAll or Broadcast, each with runs == 1. Its buffers are on the device. Every rank of the group puts the same
  /// ones in the same order, each into one and the same stream of the group.
  /// `algorithm`: for the host's transport; NCCL has heard of it as its communicators were made.
  virtual void put(const runtime::Group &group, const runtime::CollectiveCall &call, runtime::Algorithm algorithm,
                   Stream stream) = 0;
  /// Puts a shift into the stream of the group's collectives, and in their order.
  virtual void put(const runtime::Group &group, const Shift &shift, Stream stream) = 0;
  /// Puts one side of a message into a stream. Messages from one rank to another meet in the order in which each puts
  /// them; each side has one and the same stream for them, and none for any others.
  virtual void put(const runtime::Group &group, const Message &message, Stream stream) = 0;
  /// Returns when nothing that the host sends is under way: at the end of a function.
  virtual void finishSends() {}
  /// What went wrong behind put(), of all collectives so far; empty: nothing.
  virtual std::string failure() { return ""; }
  /// Ends what is under way, so that streams go on. From any thread; nothing may be put afterwards.
  virtual void abort() {}
};

/// NCCL where each rank of the run has a device of its own; else the host's transport. Collective, once a device is
/// chosen.
std::unique_ptr<DeviceTransport> deviceTransport(runtime::Rank &host);

/// Each of the two. Groups of more than one rank get communicators, and in Program::rows neighbours do.
std::unique_ptr<DeviceTransport> ncclTransport(runtime::Rank &host);
std::unique_ptr<DeviceTransport> hostTransport(runtime::Rank &host);

} // namespace echelon::cuda
