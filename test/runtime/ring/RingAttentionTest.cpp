// Attention of keys that go round is that of all keys on one rank: forward and backward, on every transport of one
// machine.
#include "../collectives/Ranks.h"
#include "Cases.h"

namespace echelon::runtime {
namespace {

using namespace ring_cases;

void holdAgainst(const Attended &all, const Case &c, Transport &t) {
  const Group group = t.makeGroup({t.size()}, {0});
  Part part(all, c, t.rank(), t.size());
  Attended &a = part.a;
  Numbers keys(2 * a.k.size()), values(keys), dkeys(keys), dvalues(keys);
  const uint8_t *mask = c.isMasked ? a.mask.data() : nullptr;
  const double *bias = c.isBiased ? a.bias.data() : nullptr;
  ring_attention(t, group, a.out.data(), a.top.data(), a.sum.data(), keys.data(), values.data(), a.q.data(), a.k.data(),
                 a.v.data(), part.ring, a.shape, a.strides, "ring.ech:1", mask, bias);
  ring_attention_grad(t, group, a.dq.data(), a.dk.data(), a.dv.data(), bias ? a.dbias.data() : nullptr, keys.data(),
                      values.data(), dkeys.data(), dvalues.data(), a.dout.data(), a.out.data(), a.top.data(),
                      a.sum.data(), a.q.data(), a.k.data(), a.v.data(), part.ring, a.shape, a.strides, a.strides,
                      "ring.ech:1", mask, bias);
  part.expectRight();
}

TEST(RingAttention, IsThatOfAllKeys) {
  for (const char *transport : {"threads", "shm"})
    for (int ranks : {2, 3, 4})
      for (int kind = 0; kind < 32; ++kind) {
        const Case c = caseOf(kind, 48);
        const Attended all = onOneRank(c);
        test::onRanks(transport, ranks, [&](Transport &t) { holdAgainst(all, c, t); });
        if (HasFailure())
          FAIL() << "kind " << kind;
      }
}

} // namespace
} // namespace echelon::runtime
