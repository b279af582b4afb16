// Rounds, bytes and times of messages, as textbooks state them.
#include "planner/machine/Machine.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace echelon::planner;
using Kind = Message::Kind;

namespace {
constexpr double kBytes = 64e6;

Message message(Kind kind, int64_t ranks, double bytes = kBytes, std::string algorithm = "") {
  Message m;
  m.kind = kind;
  m.bytes = bytes;
  m.group = {ranks, 1, ranks};
  m.algorithm = std::move(algorithm);
  return m;
}

Message between(Kind kind, int64_t nodes, int64_t perNode, double bytes = kBytes, std::string algorithm = "") {
  Message m = message(kind, nodes * perNode, bytes, std::move(algorithm));
  m.group = {nodes * perNode, nodes, perNode};
  return m;
}

/// 10 GB/s and 1 us within a node of 8; a network of 8 lanes of 1 GB/s and 10 us.
Machine machine() {
  Machine m;
  m.nodes = 4;
  m.perNode = 8;
  m.link.bandwidth = 10e9;
  m.link.latency = 1e-6;
  m.network = Link();
  m.network->bandwidth = 8e9;
  m.network->latency = 10e-6;
  m.network->lanes = 8;
  return m;
}

// Patarasuk and Yuan 2009: 2 (n - 1) rounds, 2 (n - 1)/n of the data through each link; a gather or scatter is half.
TEST(Collectives, ARingSendsTwoTimesAllButItsOwnPart) {
  for (int64_t n : {2, 3, 8, 64}) {
    const double part = double(n - 1) / double(n);
    auto sum = trafficOf(message(Kind::AllReduce, n), "ring");
    EXPECT_EQ(sum->rounds, 2 * (n - 1));
    EXPECT_DOUBLE_EQ(sum->bytes, 2 * part * kBytes);
    for (Kind kind : {Kind::AllGather, Kind::ReduceScatter, Kind::AllToAll}) {
      auto half = trafficOf(message(kind, n), "ring");
      EXPECT_EQ(half->rounds, n - 1);
      EXPECT_DOUBLE_EQ(half->bytes, part * kBytes);
    }
  }
}

// Rabenseifner 2004: halving and doubling have a ring's bytes in 2 log2 n rounds; two more where n is no power of two.
TEST(Collectives, AButterflyHasARingsBytesInRoundsOfTheLogarithm) {
  auto eight = trafficOf(message(Kind::AllReduce, 8), "butterfly");
  EXPECT_EQ(eight->rounds, 6);
  EXPECT_DOUBLE_EQ(eight->bytes, 2 * 7.0 / 8 * kBytes);
  EXPECT_EQ(trafficOf(message(Kind::AllGather, 8), "butterfly")->rounds, 3);
  EXPECT_EQ(trafficOf(message(Kind::AllReduce, 6), "butterfly")->rounds, 8);
  auto small = trafficOf(message(Kind::AllReduce, 8, 1024), "butterfly");
  EXPECT_EQ(small->rounds, 3);
  EXPECT_DOUBLE_EQ(small->bytes, 3 * 1024);
}

TEST(Collectives, ATreeSendsTheWholeMessageUpAndDown) {
  auto sum = trafficOf(message(Kind::AllReduce, 16), "tree");
  EXPECT_EQ(sum->rounds, 8);
  EXPECT_DOUBLE_EQ(sum->bytes, 8 * kBytes);
  auto told = trafficOf(message(Kind::Broadcast, 16), "tree");
  EXPECT_EQ(told->rounds, 4);
  EXPECT_DOUBLE_EQ(told->bytes, 4 * kBytes);
  EXPECT_FALSE(trafficOf(message(Kind::AllToAll, 16), "tree"));
}

TEST(Collectives, OneToAllGoesThroughTheLinkOfTheFirstRank) {
  auto sum = trafficOf(message(Kind::AllReduce, 5), "one_to_all");
  EXPECT_EQ(sum->rounds, 2);
  EXPECT_DOUBLE_EQ(sum->bytes, 2 * 4 * kBytes);
  auto told = trafficOf(message(Kind::Broadcast, 5), "one_to_all");
  EXPECT_EQ(told->rounds, 1);
  EXPECT_DOUBLE_EQ(told->bytes, 4 * kBytes);
}

// Each rank of a node sends an eighth of what one of a ring would.
TEST(Collectives, BetweenNodesAHierarchySendsOnePart) {
  auto sum = trafficOf(between(Kind::AllReduce, 4, 8), "hierarchical");
  EXPECT_EQ(sum->rounds, 2 * 7);
  EXPECT_EQ(sum->roundsBetween, 2 * 3);
  EXPECT_DOUBLE_EQ(sum->bytesBetween, 2 * 3.0 / 4 * kBytes / 8);
  EXPECT_FALSE(trafficOf(message(Kind::AllReduce, 8), "hierarchical"));
  EXPECT_FALSE(trafficOf(between(Kind::AllGather, 4, 8), "hierarchical"));
}

// alpha x rounds + bytes / beta.
TEST(Collectives, ARingTakesItsRoundsAndItsBytes) {
  const double seconds = machine().seconds(message(Kind::AllReduce, 8, kBytes, "ring"));
  EXPECT_DOUBLE_EQ(seconds, 14 * 1e-6 + 2 * 7.0 / 8 * kBytes / 10e9);
  const double far = machine().seconds(between(Kind::AllReduce, 4, 8, kBytes, "ring"));
  EXPECT_DOUBLE_EQ(far, 62 * 10e-6 + 2 * 31.0 / 32 * kBytes / 1e9); // one rank of a node, through one lane
}

TEST(Collectives, WithoutAnAlgorithmTheFastestIsTaken) {
  const Machine m = machine();
  for (double bytes : {64.0, 16e3, 1e6, 1e9}) {
    const double chosen = m.seconds(between(Kind::AllReduce, 4, 8, bytes));
    double least = INFINITY;
    for (const char *algorithm : {"ring", "tree", "butterfly", "one_to_all", "hierarchical"})
      least = std::min(least, m.seconds(between(Kind::AllReduce, 4, 8, bytes, algorithm)));
    EXPECT_DOUBLE_EQ(chosen, least) << bytes;
  }
  EXPECT_LT(m.seconds(between(Kind::AllReduce, 4, 8, 64, "butterfly")),
            m.seconds(between(Kind::AllReduce, 4, 8, 64, "ring")));
  EXPECT_DOUBLE_EQ(m.seconds(between(Kind::AllReduce, 4, 8, 1e9)),
                   m.seconds(between(Kind::AllReduce, 4, 8, 1e9, "hierarchical")));
}

// A library's own ways, and what a collective has none of.
TEST(Collectives, OtherAlgorithmsAreTheMachines) {
  const Machine m = machine();
  for (const char *algorithm : {"native", "direct", "bf16_summands"})
    EXPECT_DOUBLE_EQ(m.seconds(message(Kind::AllReduce, 8, 1e6, algorithm)),
                     m.seconds(message(Kind::AllReduce, 8, 1e6)));
  EXPECT_DOUBLE_EQ(m.seconds(message(Kind::AllToAll, 8, 1e6, "tree")), m.seconds(message(Kind::AllToAll, 8, 1e6)));
}

TEST(Collectives, MoreBytesAndMoreRanksAreNeverFaster) {
  Machine plain = machine(), library = machine();
  library.link.protocols = {{"low", 3e-6, 0, 0.5, 0, 1, 2e6}, {"simple", 9e-6, 1e-6, 0.8, 0.6}};
  library.link.costs["floor"] = 5e-6;
  for (const Machine &m : {plain, library})
    for (Kind kind : {Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter, Kind::Broadcast}) {
      for (int64_t ranks : {2, 4, 8}) {
        double last = 0;
        for (double bytes = 64; bytes < 4e9; bytes *= 2) {
          const double seconds = m.seconds(message(kind, ranks, bytes));
          EXPECT_GE(seconds, last);
          EXPECT_GE(m.seconds(message(kind, ranks * 2, bytes)), seconds * 0.999)
              << int(kind) << " " << ranks << " " << bytes;
          last = seconds;
        }
      }
    }
}

// Eight groups, one rank of each in every node, have an eighth of the network each.
TEST(Collectives, GroupsBesideEachOtherShareTheirNodesNetwork) {
  Machine m = machine();
  m.network->lanes = 1;
  m.network->latency = m.link.latency = 0;
  Message alone = between(Kind::AllReduce, 4, 1, kBytes, "ring"), crowded = alone;
  crowded.group.beside = 8;
  EXPECT_NEAR(m.seconds(crowded) / m.seconds(alone), 8, 1e-4);
}

// Two pods of two nodes: what leaves a pod goes through its uplink.
TEST(Collectives, ATierIsSharedByAllThatLeaveIt) {
  Machine m = machine();
  m.tiers.push_back({"pod", 2, {}});
  m.tiers.back().link.bandwidth = 0.25e9;
  m.tiers.back().link.latency = 50e-6;
  const Message inside = between(Kind::AllReduce, 2, 8, kBytes, "ring"),
                outside = between(Kind::AllReduce, 4, 8, kBytes, "ring");
  EXPECT_DOUBLE_EQ(m.seconds(inside), machine().seconds(inside));
  EXPECT_DOUBLE_EQ(m.seconds(outside), 62 * 50e-6 + 2 * 31.0 / 32 * kBytes / 0.25e9);
}

// The faster protocol of those that take so many bytes, and not less than the floor.
TEST(Collectives, ALibraryTakesTheFastestOfItsProtocols) {
  Machine m = machine();
  m.link.costs = {{"floor", 20e-6}, {"floor_rank", 1e-6}};
  m.link.protocols = {{"low", 10e-6, 0, 0.5, 0, 1, 1e6}, {"simple", 40e-6, 2e-6, 0.8}};
  const double part = 2 * 3.0 / 4;
  EXPECT_DOUBLE_EQ(m.seconds(message(Kind::AllReduce, 4, 1000)), 23e-6);
  EXPECT_DOUBLE_EQ(m.seconds(message(Kind::AllReduce, 4, 100e3)), 10e-6 + part * 100e3 / 5e9);
  EXPECT_DOUBLE_EQ(m.seconds(message(Kind::AllReduce, 4, 40e6)), 40e-6 + 3 * 2e-6 + part * 40e6 / 8e9);
  m.link.protocols.push_back({"switch", 0, 0, 0.8});
  m.link.protocols.back().sumsInSwitch = true;
  EXPECT_DOUBLE_EQ(m.seconds(message(Kind::AllReduce, 4, 40e6)), 5.0 / 4 * 40e6 / 8e9);
  EXPECT_GT(m.seconds(message(Kind::AllGather, 4, 40e6)), 3.0 / 4 * 40e6 / 8e9);
}

// What was measured goes before any formula, in logarithms between two sizes.
TEST(Collectives, MeasuredTimesAreTakenBetweenTheirSizes) {
  Machine m = machine();
  m.link.curves[{"all_reduce", 4}].points = {{1000, 10e-6}, {100'000, 40e-6}};
  EXPECT_DOUBLE_EQ(m.seconds(message(Kind::AllReduce, 4, 10'000)), 20e-6);
  EXPECT_DOUBLE_EQ(m.seconds(message(Kind::AllReduce, 4, 10)), 10e-6);
  EXPECT_DOUBLE_EQ(m.seconds(message(Kind::AllReduce, 4, 200'000)), 80e-6);
  EXPECT_DOUBLE_EQ(m.seconds(message(Kind::AllReduce, 8, 10'000)),
                   machine().seconds(message(Kind::AllReduce, 8, 10'000)));
}

TEST(Collectives, ANetworksOwnFiguresAreOfItsNodes) {
  Machine m = machine();
  m.network->costs = {{"floor", 1e-3}, {"floor_rank", 1e-4}};
  EXPECT_DOUBLE_EQ(m.seconds(between(Kind::AllReduce, 4, 8, 64)), 1.3e-3);
  EXPECT_LT(m.seconds(message(Kind::AllReduce, 8, 64)), 1e-4);
  m.network->protocols = {{"low", 2e-3, 0, 1, 0, 0.5}};
  EXPECT_DOUBLE_EQ(m.seconds(between(Kind::AllGather, 4, 1, 4e6)), 2e-3 + 3 * 10e-6 + 0.75 * 4e6 / 0.5e9);
  m.network->curves[{"all_reduce", 4}].points = {{1000, 5e-3}};
  EXPECT_DOUBLE_EQ(m.seconds(between(Kind::AllReduce, 4, 1, 500)), 5e-3);
}

TEST(Collectives, AGroupThatIsTheWholeClusterMayHaveARateOfItsOwn) {
  Machine m = machine();
  m.link.bandwidth = 1e15;
  m.network->latency = m.link.latency = 0;
  m.network->costs = {{"rate", 0.25}, {"rate_alone", 0.75}};
  const Message whole = between(Kind::AllReduce, 4, 8, kBytes, "ring");
  const double alone = m.seconds(whole);
  m.nodes = 8;
  EXPECT_NEAR(m.seconds(whole) / alone, 3, 1e-4);
  m.nodes = 4;
  m.network->costs = {{"rate", 0.25}};
  EXPECT_NEAR(m.seconds(whole) / alone, 3, 1e-4);
}

// Each message waits for each of its ranks; where these are in several nodes, for the rounds between them, too.
TEST(Collectives, BesideStagesTheHostWaitsForRanksAndRings) {
  Machine m = machine();
  EXPECT_EQ(m.besideStages({16, 2, 8}), 0);
  m.network->costs = {{"beside_stages", 1e-3}};
  EXPECT_EQ(m.besideStages({1, 1, 1}), 0);
  EXPECT_DOUBLE_EQ(m.besideStages({8, 1, 8}), 8e-3);
  EXPECT_DOUBLE_EQ(m.besideStages({16, 2, 8}), 16e-3 + 15 * 10e-6);
}

TEST(Collectives, ASendTakesTheHostsCallsAndOneLane) {
  Machine m = machine();
  m.device.costs = {{"host", 5e-6}, {"send_calls", 2}};
  EXPECT_DOUBLE_EQ(m.seconds(message(Kind::Send, 2, 1e6)), 10e-6 + 1e-6 + 1e6 / 10e9);
  EXPECT_DOUBLE_EQ(m.seconds(between(Kind::Send, 2, 1, 1e6)), 10e-6 + 10e-6 + 1e6 / 1e9);
}
} // namespace
