// Attention of keys that go round is that of all keys on one rank: forward and backward, on every transport of one
// machine.
#include "runtime/ring/RingAttention.h"
#include "../collectives/Ranks.h"
#include "runtime/program/OwnerMap.h"

#include <cmath>
#include <limits>
#include <random>

namespace echelon::runtime {
namespace {

using Numbers = std::vector<double>;

/// (batch, positions, group, head, width), one head of keys for all of a group's queries.
struct Case {
  int64_t batch, positions, heads, width;
  bool isCausal, isZigzag, isMasked, isBiased, isShared;
  int64_t keyHeads() const { return isShared ? 1 : heads; }
};

Numbers made(int64_t n, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Numbers x(static_cast<size_t>(n));
  for (double &each : x)
    each = normal(random);
  return x;
}

/// The rows of a rank, in the order in which it stores them, of (outer, positions, inner).
Numbers rowsOf(const Numbers &all, int64_t outer, int64_t positions, const std::vector<Interval> &held) {
  const int64_t inner = static_cast<int64_t>(all.size()) / outer / positions;
  Numbers part;
  for (int64_t o = 0; o < outer; ++o)
    for (const Interval &run : held)
      part.insert(part.end(), all.begin() + (o * positions + run.begin) * inner,
                  all.begin() + (o * positions + run.end) * inner);
  return part;
}

void expectNear(const Numbers &actual, const Numbers &expected, const std::string &what) {
  if (actual.size() != expected.size())
    throw what + " has another size";
  for (size_t i = 0; i < actual.size(); ++i)
    if (actual[i] != expected[i] && !(std::abs(actual[i] - expected[i]) <= 1e-12))
      throw what + "[" + std::to_string(i) + "] is " + std::to_string(actual[i]) + ", not " +
          std::to_string(expected[i]);
}

/// Everything of one attention: what enters, what comes out.
struct Attended {
  Numbers q, k, v, bias, dout, out, top, sum, dq, dk, dv, dbias;
  std::vector<uint8_t> mask;
  AttentionShape shape;
  AttentionStrides strides;

  Attended(const Case &c, int64_t seq) {
    shape = {c.batch, 1, c.heads, seq, seq, c.width, c.width, 0.5, c.isCausal};
    shape.mask = {0, 0, 0, c.positions, 1};
    shape.bias = {0, 0, seq * c.positions, c.positions, 1};
    const HeadStrides own = {seq * c.heads * c.width, 0, c.width, c.heads * c.width};
    const HeadStrides keys = {seq * c.keyHeads() * c.width, 0, c.isShared ? 0 : c.width, c.keyHeads() * c.width};
    strides = {own, keys, keys, own};
    const auto queries = static_cast<size_t>(c.batch * seq * c.heads * c.width);
    const auto kept = static_cast<size_t>(c.batch * seq * c.keyHeads() * c.width);
    // what is there before is overwritten
    out = dq = Numbers(queries, 7);
    dk = dv = Numbers(kept, 7);
    top = sum = Numbers(static_cast<size_t>(c.batch * c.heads * seq), 7);
    dbias = Numbers(static_cast<size_t>(c.heads * seq * c.positions), 7);
  }
};

Attended onOneRank(const Case &c) {
  Attended a(c, c.positions);
  a.q = made(a.out.size(), 1), a.k = made(a.dk.size(), 2), a.v = made(a.dk.size(), 3), a.dout = made(a.out.size(), 4);
  a.bias = made(a.dbias.size(), 5);
  a.mask.assign(static_cast<size_t>(c.positions * c.positions), 1);
  for (int64_t j = 0; j < c.positions; ++j) {
    a.mask[static_cast<size_t>(5 * c.positions + j)] = 0;     // sees nothing
    a.mask[static_cast<size_t>(6 * c.positions + j)] = j < 3; // and here the keys of one rank alone
    for (int64_t i = 8; i < c.positions; ++i)
      a.mask[static_cast<size_t>(i * c.positions + j)] = (i * 7 + j * 3) % 5 != 0;
  }
  const uint8_t *mask = c.isMasked ? a.mask.data() : nullptr;
  const double *bias = c.isBiased ? a.bias.data() : nullptr;
  attention(a.out.data(), a.top.data(), a.sum.data(), a.q.data(), a.k.data(), a.v.data(), a.shape, a.strides, mask,
            bias);
  attention_grad(a.dq.data(), a.dk.data(), a.dv.data(), bias ? a.dbias.data() : nullptr, a.dout.data(), a.out.data(),
                 a.top.data(), a.sum.data(), a.q.data(), a.k.data(), a.v.data(), a.shape, a.strides, a.strides, mask,
                 bias);
  return a;
}

void holdAgainst(const Attended &all, const Case &c, Transport &t) {
  const Group group = t.makeGroup({t.size()}, {0});
  const OwnerMap map = c.isZigzag ? OwnerMap::zigzag() : OwnerMap();
  const std::vector<Divider> dividers{{0, t.size(), map}};
  const auto held = runsOf(c.positions, dividers, std::vector<int>{t.rank()});
  auto own = [&](const Numbers &x, int64_t outer) { return rowsOf(x, outer, c.positions, held); };
  Attended a(c, c.positions / t.size());
  a.q = own(all.q, c.batch), a.k = own(all.k, c.batch), a.v = own(all.v, c.batch), a.dout = own(all.dout, c.batch);
  a.bias = own(all.bias, c.heads);
  for (const Interval &run : held)
    a.mask.insert(a.mask.end(), all.mask.begin() + run.begin * c.positions, all.mask.begin() + run.end * c.positions);
  const auto count = static_cast<int64_t>(a.k.size());
  Ring ring{count, count, {}, {}};
  const int64_t size = a.shape.seq / map.chunks;
  for (int64_t chunk = 0; chunk < map.chunks; ++chunk) {
    const OwnerMap::Chunk at = map.chunk(chunk, t.size());
    ring.queries.push_back({size, (at.first + at.step * t.rank()) * size});
    ring.keys.push_back({size, at.first * size, at.step * size});
  }
  Numbers keys(2 * a.k.size()), values(keys), dkeys(keys), dvalues(keys);
  const uint8_t *mask = c.isMasked ? a.mask.data() : nullptr;
  const double *bias = c.isBiased ? a.bias.data() : nullptr;
  ring_attention(t, group, a.out.data(), a.top.data(), a.sum.data(), keys.data(), values.data(), a.q.data(), a.k.data(),
                 a.v.data(), ring, a.shape, a.strides, "ring.ech:1", mask, bias);
  ring_attention_grad(t, group, a.dq.data(), a.dk.data(), a.dv.data(), bias ? a.dbias.data() : nullptr, keys.data(),
                      values.data(), dkeys.data(), dvalues.data(), a.dout.data(), a.out.data(), a.top.data(),
                      a.sum.data(), a.q.data(), a.k.data(), a.v.data(), ring, a.shape, a.strides, a.strides,
                      "ring.ech:1", mask, bias);
  expectNear(a.out, own(all.out, c.batch), "out");
  expectNear(a.top, own(all.top, c.batch * c.heads), "maximum");
  expectNear(a.sum, own(all.sum, c.batch * c.heads), "sum");
  expectNear(a.dq, own(all.dq, c.batch), "dq");
  expectNear(a.dk, own(all.dk, c.batch), "dk");
  expectNear(a.dv, own(all.dv, c.batch), "dv");
  if (bias)
    expectNear(a.dbias, own(all.dbias, c.heads), "dbias");
}

TEST(RingAttention, IsThatOfAllKeys) {
  for (const char *transport : {"threads", "shm"})
    for (int ranks : {2, 3, 4})
      for (int kind = 0; kind < 32; ++kind) {
        const Case c{2, 48, 3, 8, (kind & 1) != 0, (kind & 2) != 0, (kind & 4) != 0, (kind & 8) != 0, (kind & 16) != 0};
        const Attended all = onOneRank(c);
        test::onRanks(transport, ranks, [&](Transport &t) { holdAgainst(all, c, t); });
        if (HasFailure())
          FAIL() << "kind " << kind;
      }
}

} // namespace
} // namespace echelon::runtime
