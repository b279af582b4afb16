// Attention of all keys on one rank, and what each rank of a ring has of it: for the tests of keys that go round.
#pragma once
#include "runtime/program/OwnerMap.h"
#include "runtime/ring/RingAttention.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace echelon::runtime::ring_cases {

using Numbers = std::vector<double>;

/// (batch, positions, group, head, width), one head of keys for all of a group's queries.
struct Case {
  int64_t batch, positions, heads, width;
  bool isCausal, isZigzag, isMasked, isBiased, isShared;
  int64_t keyHeads() const { return isShared ? 1 : heads; }
};

inline Numbers made(int64_t n, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Numbers x(static_cast<size_t>(n));
  for (double &each : x)
    each = normal(random);
  return x;
}

/// The rows of a rank, in the order in which it stores them, of (outer, positions, inner).
inline Numbers rowsOf(const Numbers &all, int64_t outer, int64_t positions, const std::vector<Interval> &held) {
  const int64_t inner = static_cast<int64_t>(all.size()) / outer / positions;
  Numbers part;
  for (int64_t o = 0; o < outer; ++o)
    for (const Interval &run : held)
      part.insert(part.end(), all.begin() + (o * positions + run.begin) * inner,
                  all.begin() + (o * positions + run.end) * inner);
  return part;
}

inline void expectNear(const Numbers &actual, const Numbers &expected, const std::string &what) {
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

inline Attended onOneRank(const Case &c) {
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

/// What a rank of a ring has of `all`, and what it is to find.
struct Part {
  const Attended &all;
  Case c;
  std::vector<Interval> held;
  Attended a;
  Ring ring;

  Part(const Attended &all, const Case &c, int rank, int ranks) : all(all), c(c), a(c, c.positions / ranks) {
    const OwnerMap map = c.isZigzag ? OwnerMap::zigzag() : OwnerMap();
    held = runsOf(c.positions, std::vector<Divider>{{0, ranks, map}}, std::vector<int>{rank});
    a.q = own(all.q, c.batch), a.k = own(all.k, c.batch), a.v = own(all.v, c.batch), a.dout = own(all.dout, c.batch);
    a.bias = own(all.bias, c.heads);
    for (const Interval &run : held)
      a.mask.insert(a.mask.end(), all.mask.begin() + run.begin * c.positions, all.mask.begin() + run.end * c.positions);
    ring.keyCount = ring.valueCount = static_cast<int64_t>(a.k.size());
    const int64_t size = a.shape.seq / map.chunks;
    for (int64_t chunk = 0; chunk < map.chunks; ++chunk) {
      const OwnerMap::Chunk at = map.chunk(chunk, ranks);
      ring.queries.push_back({size, (at.first + at.step * rank) * size});
      ring.keys.push_back({size, at.first * size, at.step * size});
    }
  }
  Numbers own(const Numbers &x, int64_t outer) const { return rowsOf(x, outer, c.positions, held); }

  void expectRight() const {
    expectNear(a.out, own(all.out, c.batch), "out");
    expectNear(a.top, own(all.top, c.batch * c.heads), "maximum");
    expectNear(a.sum, own(all.sum, c.batch * c.heads), "sum");
    expectNear(a.dq, own(all.dq, c.batch), "dq");
    expectNear(a.dk, own(all.dk, c.batch), "dk");
    expectNear(a.dv, own(all.dv, c.batch), "dv");
    if (c.isBiased)
      expectNear(a.dbias, own(all.dbias, c.heads), "dbias");
  }
};

/// Of 32 kinds one.
inline Case caseOf(int kind, int64_t positions) {
  return {2, positions, 3, 8, (kind & 1) != 0, (kind & 2) != 0, (kind & 4) != 0, (kind & 8) != 0, (kind & 16) != 0};
}

} // namespace echelon::runtime::ring_cases
