// Attention of keys that go round devices is the CPU's of all keys: by NCCL and through the host's memory, under
// several orders of the emulated streams.
#include "UnderSeeds.h"
#include "runtime/cuda/RingAttention.h"
#include "runtime/launch/Launch.h"
#include "test/runtime/ring/Cases.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace echelon::cuda {
namespace {

using namespace runtime::ring_cases;

/// Numbers of the host on the rank's device, for as long as this lives.
template <typename T> class There {
public:
  There(Stream stream, std::vector<T> &x) : stream(stream), x(x) {
    cudaMalloc(reinterpret_cast<void **>(&data), x.size() * sizeof(T));
    cudaMemcpyAsync(data, x.data(), x.size() * sizeof(T), cudaMemcpyHostToDevice, stream);
  }
  There(const There &) = delete;
  ~There() { cudaFree(data); }
  T *get() const { return data; }
  void bringBack() {
    cudaMemcpyAsync(x.data(), data, x.size() * sizeof(T), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
  }

private:
  Stream stream;
  std::vector<T> &x;
  T *data = nullptr;
};

void holdAgainst(const Attended &all, const Case &c, Host &host, Rank &r) {
  const Group &group = host.group(0);
  Part part(all, c, group.index, group.size());
  Attended &a = part.a;
  const Stream stream = r;
  Numbers room(2 * a.k.size());
  There<double> out(stream, a.out), top(stream, a.top), sum(stream, a.sum), dq(stream, a.dq), dk(stream, a.dk),
      dv(stream, a.dv), dbias(stream, a.dbias), q(stream, a.q), k(stream, a.k), v(stream, a.v), bias(stream, a.bias),
      dout(stream, a.dout), keys(stream, room), values(stream, room), dkeys(stream, room), dvalues(stream, room);
  There<uint8_t> mask(stream, a.mask);
  const uint8_t *seen = c.isMasked ? mask.get() : nullptr;
  const double *added = c.isBiased ? bias.get() : nullptr;
  r.collectives().begin();
  ring_attention(r, group, out.get(), top.get(), sum.get(), keys.get(), values.get(), q.get(), k.get(), v.get(),
                 part.ring, a.shape, a.strides, "ring.ech:1", seen, added);
  ring_attention_grad(r, group, dq.get(), dk.get(), dv.get(), added ? dbias.get() : nullptr, keys.get(), values.get(),
                      dkeys.get(), dvalues.get(), dout.get(), out.get(), top.get(), sum.get(), q.get(), k.get(),
                      v.get(), part.ring, a.shape, a.strides, a.strides, "ring.ech:1", seen, added);
  for (There<double> *each : {&out, &top, &sum, &dq, &dk, &dv, &dbias})
    each->bringBack();
  r.collectives().check();
  part.expectRight();
}

void onRanks(const std::string &transport, int ranks, const std::vector<int> &kinds) {
  runtime::Program program{};
  program.mesh = {{"cp", ranks}};
  program.groups = {{0}};
  program.device = device;
  runtime::LaunchOptions options;
  options.transport = transport;
  options.ranks = ranks;
  options.sharedBytesPerRank = 1 << 20;
  options.deadlineSeconds = 30;
  const int ended = runtime::launch(options, [&](runtime::Transport &t) {
    Host host(program, t);
    for (const int kind : kinds) {
      const Case c = caseOf(kind, 24);
      try {
        holdAgainst(onOneRank(c), c, host, rankOf(host));
      } catch (const std::string &wrong) {
        ADD_FAILURE() << "kind " << kind << ": " << wrong;
        return 1;
      }
    }
    return 0;
  });
  ASSERT_EQ(ended, 0);
}

TEST(RingKernel, IsThatOfAllKeys) {
  underSeeds([] { onRanks("threads", 3, {3, 12, 17, 31}); });
  for (int ranks : {2, 4})
    onRanks("threads", ranks, {0, 7, 11, 21, 26, 31});
  onRanks("shm", 3, {3, 28, 31});
}

} // namespace
} // namespace echelon::cuda
