// Which way a message takes on a machine, and how much is put together.
#include "planner/machine/Choice.h"
#include <gtest/gtest.h>

using namespace echelon::planner;
using Kind = Message::Kind;

namespace {
Message sum(double bytes, Group group) {
  Message m;
  m.bytes = bytes;
  m.group = group;
  return m;
}
std::string first(const Machine &machine, const Message &message) {
  const std::vector<Way> ways = waysOf(machine, message);
  return ways.empty() ? "" : nameOf(ways.front());
}

/// Four nodes of two ranks, 10 us and 1 GB/s between them.
Machine cluster() {
  Machine m;
  m.perNode = 2;
  m.link.bandwidth = 10e9;
  m.link.latency = 1e-6;
  m.network = Link();
  m.network->bandwidth = 1e9;
  m.network->latency = 10e-6;
  return m;
}

// Where a message is cut into parts for a ring, short ones pay for its rounds.
TEST(Choice, RoundsAndBytesDecideBetweenNodes) {
  const Group all{8, 4, 2};
  EXPECT_NE(first(cluster(), sum(64, all)), "ring");
  EXPECT_EQ(first(cluster(), sum(64e6, all)), "ring");
  for (double bytes : {64.0, 64e3, 64e6}) {
    const std::vector<Way> ways = waysOf(cluster(), sum(bytes, all));
    ASSERT_EQ(ways.size(), 4U);
    Message free = sum(bytes, all);
    for (size_t i = 1; i < ways.size(); ++i)
      EXPECT_LE(ways[i - 1].seconds, ways[i].seconds);
    free.algorithm = ways.front().algorithm;
    EXPECT_DOUBLE_EQ(ways.front().seconds, cluster().seconds(free));
  }
}

// A tree has no all-to-all.
TEST(Choice, OnlyAlgorithmsThatThereAre) {
  Message message = sum(64, {8, 4, 2});
  message.kind = Kind::AllToAll;
  for (const Way &way : waysOf(cluster(), message))
    EXPECT_NE(way.algorithm, "tree");
}

// Within a node that nobody has measured, of typical figures, of what is pinned, of one rank: the transport's own rule.
TEST(Choice, NothingIsChosenWithoutFigures) {
  EXPECT_EQ(first(cluster(), sum(64e6, {2, 1, 2})), "");
  Machine typical = cluster();
  typical.isTypical = true;
  EXPECT_EQ(first(typical, sum(64e6, {8, 4, 2})), "");
  Message pinned = sum(64e6, {8, 4, 2});
  pinned.algorithm = "tree";
  EXPECT_EQ(first(cluster(), pinned), "");
  EXPECT_EQ(first(cluster(), sum(64e6, {1, 1, 1})), "");
}

Machine measured() {
  Machine m;
  m.perNode = 4;
  m.link.curves[{"all_reduce", 4}].points = {{1e3, 10e-6}, {1e6, 1e-3}};
  m.link.curves[{"all_reduce_ring", 4}].points = {{1e3, 5e-6}, {1e6, 0.97e-3}};
  m.link.curves[{"all_gather", 4}].points = {{1e3, 10e-6}};
  return m;
}

// What was measured is compared size by size; what is as fast as the transport's own way but for 5 % is not taken.
TEST(Choice, MeasurementsGoBeforeFormulas) {
  const Group four{4, 1, 4};
  EXPECT_EQ(first(measured(), sum(1e3, four)), "ring");
  EXPECT_EQ(first(measured(), sum(1e6, four)), "automatic");
  EXPECT_DOUBLE_EQ(waysOf(measured(), sum(1e3, four)).front().seconds, 5e-6);
  Machine loose = measured();
  loose.spread = 1; // half of that to either side
  EXPECT_EQ(first(loose, sum(1e3, four)), "automatic");
  Message gather = sum(1e3, four);
  gather.kind = Kind::AllGather; // of which no algorithm was measured alone
  EXPECT_EQ(first(measured(), gather), "");
}

/// NVLink with two protocols and a switch, NCCL's names; InfiniBand between the nodes.
Machine library() {
  Machine m = cluster();
  m.perNode = 8;
  m.link.bandwidth = 450e9;
  m.link.protocols = {{"ll128", 20e-6, 0, 0.5, 0, 1, 2e6, 4}, {"simple", 40e-6, 0, 0.8}, {"nvls", 80e-6, 0, 0.8}};
  m.link.protocols.back().sumsInSwitch = true;
  return m;
}

TEST(Choice, OfALibraryAlgorithmAndProtocol) {
  const Group node{8, 1, 8};
  const Way way = waysOf(library(), sum(1e3, node)).front();
  EXPECT_EQ(nameOf(way), "ring ll128");
  EXPECT_EQ(way.channels, 4);
  EXPECT_EQ(first(library(), sum(1e9, node)), "nvls nvls");
  Message gather = sum(1e9, node);
  gather.kind = Kind::AllGather;           // nothing is summed in the switch; ll128 does not take so much
  EXPECT_EQ(first(library(), gather), ""); // one way is no choice
  gather.bytes = 1e6;
  EXPECT_EQ(first(library(), gather), "ring ll128");
}

// Sums of many nodes go through trees, whose rounds grow with the logarithm.
TEST(Choice, TreesBetweenManyNodes) {
  Machine m = library();
  EXPECT_EQ(first(m, sum(1e3, {128, 16, 8})).substr(0, 4), "tree");
  Message all = sum(1e3, {128, 16, 8});
  const std::vector<Way> ways = waysOf(m, all);
  EXPECT_DOUBLE_EQ(ways.front().seconds, m.seconds(all)) << "the fastest is what is taken without a choice";
}

// n messages of s bytes begin n times; where they run beside compute, the last one does not.
TEST(Choice, BucketsWeighBeginningAgainstTheLastOne) {
  Machine m = cluster();
  const Group all{8, 4, 2};
  const auto shared = [&](double overlap, double latency) {
    Machine made = m;
    made.network->costs["overlap"] = overlap;
    made.network->latency = latency;
    return bucketOf(made, sum(100e6, all), {100, false, 25e6})->bytes;
  };
  EXPECT_GE(shared(0, 1e-3), 100e6); // nothing beside: all at once
  EXPECT_LT(shared(1, 1e-6), 25e6);  // the last one is short
  EXPECT_GT(shared(1, 50e-3), 25e6); // it is dear to begin
  m.network->latency = 1e-6;
  EXPECT_EQ(bucketOf(m, sum(100e6, all), {2, false, 10e6})->bytes, 10e6); // a value is in one message
  m.network->latency = 1e-3; // where all come at once, none runs beside what makes the others
  EXPECT_LT(bucketOf(m, sum(100e6, all), {100, false, 25e6})->bytes, 100e6);
  EXPECT_GE(bucketOf(m, sum(100e6, all), {100, true, 25e6})->bytes, 100e6);
  EXPECT_FALSE(bucketOf(m, sum(100e6, {1, 1, 1}), {100, false, 25e6}));
  const auto kept = bucketOf(m, sum(1e6, all), {100, false, 25e6}); // one message either way
  EXPECT_EQ(kept->bytes, 25e6);
  EXPECT_DOUBLE_EQ(kept->seconds, kept->secondsOtherwise);
}
} // namespace
