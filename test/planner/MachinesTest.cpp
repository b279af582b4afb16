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

/// The lines of a table of others' measurements, cell by cell; none where it is not here.
std::vector<std::vector<std::string>> tableOf(const std::string &name) {
  const char *shared = std::getenv("ECHELON_SHARED");
  std::ifstream table((shared ? shared + std::string("/validation/") : TABLES "/") + name);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(table, line);) {
    std::vector<std::string> cells(1);
    bool isQuoted = false;
    for (char c : line)
      if (c == '"')
        isQuoted = !isQuoted;
      else if (c == ',' && !isQuoted)
        cells.emplace_back();
      else
        cells.back() += c;
    rows.push_back(cells);
  }
  return rows;
}

double bytesOf(const std::string &text) { // 32KiB
  const char unit = text[text.size() - 3];
  return std::stod(text) * (unit == 'K' ? 1024.0 : unit == 'M' ? 1048576.0 : 1073741824.0);
}

planner::Message sumOf(double bytes, int64_t ranks) {
  planner::Message message;
  message.bytes = bytes;
  message.group.ranks = message.group.perNode = ranks;
  return message;
}

// VIA-Research/vTrain's measurements of NCCL on 2, 4 and 8 A100, 1 MiB to 1 GiB.
TEST(Machines, NcclsAllReduceIsAsMeasured) {
  const auto table = tableOf("nccl_allreduce.csv");
  if (table.empty())
    GTEST_SKIP() << "the table is not here";
  const planner::Machine m =
      machineOf(readFile(MACHINES) + "cluster c { nodes 1 of 8 x a100_80gb_nccl\n link nvlink3_nccl }", "c");
  double sum = 0;
  int rows = 0;
  for (const auto &cell : table)
    if (cell[1] == "A100") {
      sum += std::abs(m.seconds(sumOf(std::stod(cell[3]), std::stoll(cell[2]))) / (std::stod(cell[5]) * 1e-6) - 1);
      ++rows;
    }
  ASSERT_EQ(rows, 60);
  EXPECT_LE(sum / rows, 0.025);
  RecordProperty("mean_error_percent", std::to_string(100 * sum / rows));
}

// stas00/ml-engineering's, of bus bandwidths at large sizes on H200 and from 32 KiB on B200: a ring, or sums in the
// switch.
TEST(Machines, SumsInTheSwitchAreAsMeasured) {
  const auto table = tableOf("nccl_busbw_h200_b200.csv");
  if (table.empty())
    GTEST_SKIP() << "the table is not here";
  const std::string machines = readFile(MACHINES);
  const planner::Machine h = machineOf(machines + "cluster c { nodes 1 of 8 x h100_80gb_nccl\n link nvlink4_nccl }",
                                       "c"),
                         b = machineOf(machines + "cluster c { nodes 1 of 8 x b200\n link nvlink5_nccl }", "c");
  double sumOfH200 = 0, sumOfB200 = 0;
  int h200 = 0, b200 = 0;
  for (const auto &cell : table) {
    if (cell[3] != "1" || cell[7].find("ENABLE=0") != std::string::npos)
      continue;
    const double n = std::stod(cell[2]), bytes = bytesOf(cell[5]),
                 seconds = 2 * (n - 1) / n * bytes / (std::stod(cell[6]) * 1e9);
    const bool isH200 = cell[1].find("H200") != std::string::npos;
    const double error = std::abs((isH200 ? h : b).seconds(sumOf(bytes, int64_t(n))) / seconds - 1);
    (isH200 ? sumOfH200 : sumOfB200) += error;
    ++(isH200 ? h200 : b200);
  }
  ASSERT_EQ(h200, 5);
  ASSERT_EQ(b200, 25);
  EXPECT_LE(sumOfH200 / h200, 0.02);
  EXPECT_LE(sumOfB200 / b200, 0.08);
  RecordProperty("mean_error_percent_h200", std::to_string(100 * sumOfH200 / h200));
  RecordProperty("mean_error_percent_b200", std::to_string(100 * sumOfB200 / b200));
}
} // namespace
