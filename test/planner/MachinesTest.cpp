// Machines of the language, as the cost model sees them; and one held against what others measured.
#include "frontend/Parse.h"
#include "frontend/resolve/MachineOf.h"
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

using namespace echelon;
using namespace echelon::frontend;

namespace {
/// The machine of a spec whose clusters and devices are `text`; it trains on `cluster`.
planner::Machine machineOf(const std::string &text, const std::string &cluster) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  const FileId file = sources.add("test.ech", text + R"(
model M() { axis batch }
train t {
  model M()
  on )" + cluster + R"(
  data synthetic(tokens) -> tokens, labels
  batch 8
  steps 1
  optimize sgd(lr = 1)
  layout mesh(dp = 2) { split batch over dp }
})");
  auto program = parseProgram(sources, file, diagnostics);
  const RunSettings settings = resolveTrain(*program, *program->findTrain("t"), diagnostics);
  EXPECT_EQ(diagnostics.text(), "");
  return frontend::machineOf(*program, settings);
}

const char *kCluster = R"(
import devices
device mine = a100_80gb {
  efficiency product 0.8, product fp32 0.7
  passes     softmax 3
  response   host 70 us, reserve 2 GB, usable 90%
}
device yours = mine { efficiency product 0.9; response host 10 us; memory 40 GB at 1 TB/s }
link fast = nvlink3 { response floor 20 us; protocol low start 3 us, rate 0.5; protocol high start 9 us }
link faster = fast { protocol low rate 0.6; at 2 x 400 GB/s, 1 us }
cluster c {
  nodes 4 of 8 x yours
  link faster
  network 8 x 200 Gb/s, 5 us
  tier pod = 2 over 100 Gb/s, 50 us
  mtbf 1000 h per node
}
)";

TEST(Machines, WhatIsNotSaidAnewIsAsInTheOther) {
  const planner::Machine m = machineOf(kCluster, "c");
  EXPECT_EQ(m.device.name, "yours");
  EXPECT_EQ(m.device.efficiency, (std::map<std::string, double>{{"product", 0.9}})); // of all precisions, anew
  EXPECT_EQ(m.device.passes, (std::map<std::string, double>{{"softmax", 3}}));
  EXPECT_DOUBLE_EQ(m.hostSeconds(), 10e-6);
  EXPECT_EQ(m.device.memoryBytes, 40e9);
  EXPECT_EQ(m.device.bandwidth, 1e12);
  EXPECT_DOUBLE_EQ(m.usableBytes(), 34e9);
  EXPECT_EQ(m.device.peaks.at(planner::Precision::Bf16), 312e12);
  EXPECT_EQ(m.device.costs.at("units"), 108); // of the catalogue's
}

TEST(Machines, LinksTooAreOthersSaidAnew) {
  const planner::Machine m = machineOf(kCluster, "c");
  EXPECT_EQ(m.link.bandwidth, 800e9);
  EXPECT_EQ(m.link.lanes, 2);
  EXPECT_DOUBLE_EQ(m.link.costs.at("floor"), 20e-6);
  ASSERT_EQ(m.link.protocols.size(), 2u);
  EXPECT_EQ(m.link.protocols[0].rate, 0.6);
  EXPECT_DOUBLE_EQ(m.link.protocols[0].start, 3e-6);
  EXPECT_DOUBLE_EQ(m.link.protocols[1].start, 9e-6);
}

TEST(Machines, AClusterHasNodesANetworkAndTiers) {
  const planner::Machine m = machineOf(kCluster, "c");
  EXPECT_EQ(m.ranks(), 32);
  EXPECT_EQ(m.network->bandwidth, 200e9);
  EXPECT_EQ(m.network->lanes, 8);
  ASSERT_EQ(m.tiers.size(), 1u);
  EXPECT_EQ(m.tiers[0].count, 2);
  EXPECT_DOUBLE_EQ(m.tiers[0].link.latency, 50e-6);
  EXPECT_EQ(m.mtbf, 3.6e6);
  EXPECT_FALSE(m.isTypical);
}

TEST(Machines, CurvesAndWhenTheyWereMeasured) {
  const planner::Machine m = machineOf(R"(
device d {
  memory   8 GB at 10 GB/s
  curve    memory = 32 KiB at 60 GB/s, 256 MiB at 12 GB/s
  measured "2026-11-29" on "here", load 0.4, spread 3%
}
link l = 5 GB/s, 1 us { curve all_reduce over 2 = 1 KiB at 9 us; measured "2026-11-30" on "there", spread 5% }
cluster c { nodes 1 of 2 x d; link l }
)",
                                       "c");
  EXPECT_EQ(m.device.curves.at("memory").at(32 * 1024), 60e9);
  EXPECT_EQ(m.link.curves.at({"all_reduce", 2}).at(1024), 9e-6);
  EXPECT_EQ(m.measured, (std::vector<std::string>{"2026-11-29 on here", "2026-11-30 on there"}));
  EXPECT_EQ(m.spread, 0.05);
}

// A cluster of one node says no link: its messages go where there is a way.
TEST(Machines, WithoutALinkTheNetworkIsTaken) {
  const planner::Machine m =
      machineOf("device d { memory 8 GB at 10 GB/s }\ncluster c { nodes 2 of 2 x d\n network 1 GB/s, 9 us }", "c");
  EXPECT_EQ(m.link.bandwidth, 1e9);
}

TEST(Machines, ThisOneHasTypicalFigures) {
  const planner::Machine m = machineOf("", "local(ranks = 2)");
  EXPECT_TRUE(m.isTypical);
  EXPECT_EQ(m.perNode, 2);
  EXPECT_EQ(m.device.name, "cpu_core");
  EXPECT_EQ(m.device.memoryBytes, 0);
  EXPECT_GT(m.device.peak(planner::Precision::Fp32), 0);
  EXPECT_GT(m.link.bandwidth, 0);
  EXPECT_EQ(m.overlap({2, 1, 2}), 0);
}

std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Every device of every framework and kernel, and every link, is there and right.
TEST(Machines, FrameworksAreWhole) {
  for (const char *device : {"a100_40gb", "a100_80gb", "h100_80gb"})
    for (const char *framework : {"megatron", "vtrain", "nanotron", "aleph", "composer"})
      for (const char *kernel : {"", "_written", "_flash1", "_flash2", "_flash2rms", "_fused", "_torch", "_triton"}) {
        const std::string name = std::string(device) + "_" + framework;
        const planner::Machine m =
            machineOf(readFile(MACHINES) + "cluster c { nodes 2 of 8 x " + name + kernel + "\n link nvlink" +
                          (device[0] == 'a' ? "3_" : "4_") + framework + "\n network net_" + framework + " }",
                      "c");
        EXPECT_GT(m.device.peak(planner::Precision::Bf16), 0);
        EXPECT_GE(m.link.protocols.size(), 2u);
        EXPECT_EQ(m.network->lanes, 8);
      }
}

// VIA-Research/vTrain's measurements of NCCL on 2, 4 and 8 A100, 1 MiB to 1 GiB.
TEST(Machines, NcclsAllReduceIsAsMeasured) {
  const char *shared = std::getenv("ECHELON_SHARED");
  std::ifstream table((shared ? shared + std::string("/validation") : TABLES) + "/nccl_allreduce.csv");
  if (!table)
    GTEST_SKIP() << "the table is not here";
  const planner::Machine m =
      machineOf(readFile(MACHINES) + "cluster c { nodes 1 of 8 x a100_80gb_nccl\n link nvlink3_nccl }", "c");
  double sum = 0;
  int rows = 0;
  for (std::string line; std::getline(table, line);) {
    std::istringstream cells(line);
    std::vector<std::string> cell(6);
    for (std::string &each : cell)
      std::getline(cells, each, ',');
    if (cell[1] != "A100")
      continue;
    planner::Message message;
    message.bytes = std::stod(cell[3]);
    message.group.ranks = message.group.perNode = std::stoll(cell[2]);
    sum += std::abs(m.seconds(message) / (std::stod(cell[5]) * 1e-6) - 1);
    ++rows;
  }
  ASSERT_EQ(rows, 60);
  EXPECT_LE(sum / rows, 0.025);
  RecordProperty("mean_error_percent", std::to_string(100 * sum / rows));
}
} // namespace
