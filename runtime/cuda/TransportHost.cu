// Collectives by the host's transport: what is sent comes into the host's memory, and what is received goes back. The
// host waits for the stream, within the step. For ranks that share a device, which NCCL refuses.
#include "runtime/collectives/Collectives.h"
#include "runtime/cuda/Check.h"
#include "runtime/cuda/Transport.h"

#include <algorithm>
#include <list>
#include <memory>
#include <utility>

namespace echelon::cuda {

namespace {

using runtime::Algorithm;
using runtime::Collective;
using runtime::CollectiveCall;
using runtime::Group;

/// Memory of the host that the device reads and writes at full speed; it grows.
class Pinned {
public:
  Pinned() = default;
  Pinned(const Pinned &) = delete;
  ~Pinned() { cudaFreeHost(memory); }
  void *bytes(size_t wanted) {
    if (wanted > size) {
      cudaFreeHost(memory);
      check(cudaMallocHost(&memory, wanted), "cudaMallocHost");
      size = wanted;
    }
    return memory;
  }

private:
  void *memory = nullptr;
  size_t size = 0;
};

class HostTransport : public DeviceTransport {
public:
  explicit HostTransport(runtime::Rank &host) : host(host) {}

  const char *name() const override { return "host"; }
  void put(const Group &group, const CollectiveCall &call, Algorithm algorithm, Stream stream) override;
  void put(const Group &group, const Shift &shift, Stream stream) override;
  void put(const Group &group, const Message &message, Stream stream) override;
  void finishSends() override;

private:
  /// What is sent while the rank goes on, in memory of its own.
  struct Sent {
    Pinned data;
    runtime::Request request = 0; // 0: it is over
  };
  Sent &freeSent();

  runtime::Rank &host;
  Pinned in, out;
  std::list<Sent> sent;
};

void HostTransport::put(const Group &group, const CollectiveCall &call, Algorithm algorithm, Stream stream) {
  const size_t row = size_t(call.count) * bytesOf(call.type), all = row * size_t(group.size());
  const bool readsAll = call.kind == Collective::ReduceScatter || call.kind == Collective::AllToAll;
  const bool writesAll = call.kind == Collective::AllGather || call.kind == Collective::AllToAll;
  const size_t inBytes = readsAll ? all : row, outBytes = writesAll ? all : row;
  const bool isInPlace = call.in == call.out && inBytes == outBytes; // or it is the first row of what all have
  CollectiveCall onHost = call;
  onHost.in = in.bytes(inBytes);
  onHost.out = isInPlace ? in.bytes(inBytes) : out.bytes(outBytes);
  check(cudaMemcpyAsync(const_cast<void *>(onHost.in), call.in, inBytes, cudaMemcpyDeviceToHost, stream), "staging");
  check(cudaStreamSynchronize(stream), "staging");
  const bool isChosen = algorithm != Algorithm::native; // NCCL's own choice: there is no such one here
  runtime::runCollective(host.transport(), group, onHost, isChosen ? algorithm : Algorithm::automatic);
  const bool getsNothing = call.kind == Collective::Reduce && group.index != call.root;
  if (!getsNothing)
    check(cudaMemcpyAsync(call.out, onHost.out, outBytes, cudaMemcpyHostToDevice, stream), "staging");
  check(cudaStreamSynchronize(stream), "staging"); // the memory is used again
}

HostTransport::Sent &HostTransport::freeSent() {
  for (Sent &each : sent) {
    if (each.request && host.transport().test(each.request))
      each.request = 0;
    if (!each.request)
      return each;
  }
  return sent.emplace_back();
}

/// A receive waits; a send does not, since its receiver may have to send something to this rank first.
void HostTransport::put(const Group &group, const Message &message, Stream stream) {
  const size_t bytes = size_t(message.count) * bytesOf(message.type);
  const int peer = group.ranks[size_t(message.peer)];
  if (message.side == Message::Send) {
    Sent &free = freeSent();
    void *data = free.data.bytes(bytes);
    check(cudaMemcpyAsync(data, message.data, bytes, cudaMemcpyDeviceToHost, stream), "staging");
    check(cudaStreamSynchronize(stream), "staging");
    free.request = host.transport().isend(peer, data, bytes, group.id, message.label);
    return;
  }
  void *data = in.bytes(bytes);
  host.transport().receive(peer, data, bytes, group.id, message.label);
  check(cudaMemcpyAsync(message.data, data, bytes, cudaMemcpyHostToDevice, stream), "staging");
  check(cudaStreamSynchronize(stream), "staging"); // the memory is used again
}

void HostTransport::put(const Group &group, const Shift &shift, Stream stream) {
  const int size = group.size(), next = (group.index + 1) % size, before = (group.index + size - 1) % size;
  put(group, {Message::Send, next, shift.type, const_cast<void *>(shift.from), shift.count, shift.label}, stream);
  put(group, {Message::Receive, before, shift.type, shift.to, shift.count, shift.label}, stream);
}

void HostTransport::finishSends() {
  for (Sent &each : sent)
    if (each.request)
      host.transport().wait(std::exchange(each.request, 0));
}

} // namespace

std::unique_ptr<DeviceTransport> hostTransport(runtime::Rank &host) { return std::make_unique<HostTransport>(host); }

} // namespace echelon::cuda
