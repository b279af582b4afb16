// From measurements to the text of a machine, and what the cost model makes of it.
#include "frontend/Parse.h"
#include "frontend/resolve/MachineOf.h"
#include "planner/calibrate/MachineText.h"
#include <cmath>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>

using namespace echelon;
using planner::Measurements;

namespace {
/// Two ranks: products at 10 and 20 GFLOP/s by inner length, memory at 50 GB/s alone and 30 together in the last size.
Measurements measurements() {
  Measurements m;
  for (const char *line :
       {"peak 1e11", "product 16 16 16 8.192e-07", "product 16 16 64 1.6384e-06", "product 64 16 16 3.2768e-06",
        "product 64 16 64 6.5536e-06", "memory 32768 3.2768e-07", "memory 1048576 3.4952533e-05", "call 2e-08",
        "exponential 4096 4.096e-07", "attention 64 1000000 1e-04", "convolution 40000 1000 1e-06"})
    EXPECT_TRUE(m.add(line, 2)) << line;
  EXPECT_TRUE(m.add("memory 1048576 2.097152e-05", 1));
  for (const char *line : {"all_reduce 1024 1e-06", "all_reduce 1048576 1e-04", "send 64 2e-07", "send 1048576 1e-04"})
    EXPECT_TRUE(m.add(line, 2)) << line;
  return m;
}

planner::Measured described() {
  planner::Measured d;
  d.date = "2026-11-29";
  d.place = "desk";
  d.transport = "shm";
  d.ranks = 2;
  d.memoryBytes = 8e9;
  d.load = 0.25;
  return d;
}

/// As `plan` takes it for local(ranks = ranks).
planner::Machine machine(const std::string &text, int64_t ranks) {
  const std::string file = ::testing::TempDir() + "calibrated.ech";
  std::ofstream(file) << text;
  std::string why;
  const auto here = frontend::readMachine(file, why);
  EXPECT_TRUE(here) << why;
  std::remove(file.c_str());
  frontend::Program none;
  frontend::RunSettings settings;
  settings.clusterRanks = 8; // of which the run takes some
  settings.mesh.emplace_back();
  settings.mesh.back().size = ranks;
  return here ? frontend::machineOf(none, settings, here.get()) : planner::Machine();
}

planner::Work product(int64_t m, int64_t n, int64_t k) {
  planner::Work w;
  w.kind = planner::Work::Kind::Product;
  w.m = m;
  w.n = n;
  w.k = k;
  w.flops = 2.0 * double(m) * double(n) * double(k);
  return w;
}
planner::Work kernel(const char *name, double bytes) {
  planner::Work w;
  w.kernel = name;
  w.bytes = bytes;
  return w;
}

TEST(Calibrate, LinesThatAreNoFigureAreNotTaken) {
  Measurements m;
  for (const char *line : {"", "word", "product 16 x 16 1e-6", "memory 1024 -1", "memory 1024 0", "memory 1024 1e-6 s",
                           "memory 0 1e-6", "memory 1024 inf"})
    EXPECT_FALSE(m.add(line, 1)) << line;
  EXPECT_TRUE(m.empty());
}

TEST(Calibrate, AFigureIsTheMedianOfItsRounds) {
  Measurements m;
  for (const char *line : {"memory 1024 3e-6", "memory 1024 1e-6", "memory 1024 2e-6"})
    EXPECT_TRUE(m.add(line, 1));
  EXPECT_DOUBLE_EQ(m.seconds("memory", 1, {1024}), 2e-6);
  EXPECT_DOUBLE_EQ(m.seconds("memory", 2, {1024}), 0);
  EXPECT_DOUBLE_EQ(m.spread(), 1.0); // 2 of 2
}

TEST(Calibrate, WhatIsWrittenIsWhatWasMeasured) {
  const planner::Machine m = machine(machineText(measurements(), described()), 2);
  EXPECT_NEAR(m.seconds(product(16, 16, 16)), 8.192e-07, 1e-10);
  EXPECT_NEAR(m.seconds(product(64, 16, 64)), 6.5536e-06, 1e-9);
  EXPECT_NEAR(m.seconds(kernel("softmax", 1048576)), 3.495e-05, 1e-8); // as memory
  EXPECT_NEAR(m.hostSeconds(), 2e-08, 1e-12);
  EXPECT_EQ(m.measured, (std::vector<std::string>{"2026-11-29 on desk", "2026-11-29 on desk"}));
  planner::Message sum;
  sum.bytes = 1024;
  sum.group = {2, 1, 2, 1, 1};
  EXPECT_NEAR(m.seconds(sum), 1e-06, 1e-10);
  EXPECT_FALSE(m.isOutside(sum));
  sum.bytes = 1 << 21;
  EXPECT_TRUE(m.isOutside(sum));
}

TEST(Calibrate, BetweenSizesProductsGoByLogarithms) {
  const planner::Machine m = machine(machineText(measurements(), described()), 2);
  // rates 10 and 20 GFLOP/s at inner lengths of 16 and 64: at 32, half way, the geometric mean
  const planner::Work between = product(32, 16, 32);
  EXPECT_NEAR(between.flops / m.seconds(between), std::sqrt(10e9 * 20e9), 1e7);
  EXPECT_FALSE(m.isOutside(between));
  EXPECT_TRUE(m.isOutside(product(128, 16, 32)));
  EXPECT_NEAR(product(128, 16, 16).flops / m.seconds(product(128, 16, 16)), 10e9, 1e7);
}

TEST(Calibrate, RanksShareTheMemoryAndTakeTurnsOnCores) {
  const std::string text = machineText(measurements(), described());
  const planner::Machine one = machine(text, 1), two = machine(text, 2), four = machine(text, 4);
  EXPECT_NEAR(one.seconds(kernel("copy", 1048576)), 1048576 / 50e9, 1e-8);
  EXPECT_NEAR(two.seconds(kernel("copy", 1048576)), 1048576 / 30e9, 1e-8);
  EXPECT_NEAR(four.seconds(kernel("copy", 1048576)), 2 * 1048576 / 30e9, 1e-8);
}

TEST(Calibrate, WithFewKeysAMaskOfAttentionSavesNothing) {
  planner::Machine m;
  m.device.curves["attention"].points = {{12, 1e9}, {1200, 1e9}};
  planner::Work few;
  few.kind = planner::Work::Kind::Attention;
  few.m = few.n = 12;
  few.k = 10;
  few.flops = 4.0 * 12 * 12 * 10;
  const double unmasked = m.seconds(few);
  few.flops /= 2;
  EXPECT_DOUBLE_EQ(m.seconds(few), unmasked);
  planner::Work many = few;
  many.m = many.n = 1200;
  many.flops = 2.0 * 1200 * 1200 * 10;
  EXPECT_NEAR(m.seconds(many), 0.505 * 4.0 * 1200 * 1200 * 10 / 1e9, 1e-9);
}

TEST(Calibrate, TheBatchIsPutInPlaceByteByByte) {
  planner::Machine m;
  EXPECT_EQ(m.inputSeconds(1e6), 0);
  m.device.costs["input"] = 0.2e-9;
  m.crowd = 2;
  EXPECT_DOUBLE_EQ(m.inputSeconds(1e6), 0.4e-3);
}

TEST(Calibrate, ALoopIsBoundByItsExponentials) {
  const planner::Machine m = machine(machineText(measurements(), described()), 2);
  planner::Work loop = kernel("loop", 1024);
  loop.kind = planner::Work::Kind::Loop;
  const double moved = m.seconds(loop);
  loop.exponentials = 1e6;
  EXPECT_NEAR(m.seconds(loop), 1e-4, 1e-8);
  EXPECT_LT(moved, 1e-7);
}

TEST(Calibrate, AFileWithoutTheClusterSaysSo) {
  const std::string file = ::testing::TempDir() + "nothing.ech";
  std::ofstream(file) << "device d { memory 1 GB at 1 GB/s }\n";
  std::string why;
  EXPECT_FALSE(frontend::readMachine(file, why));
  EXPECT_EQ(why, "it has no cluster here of one node; echelon calibrate writes one");
  std::remove(file.c_str());
}
} // namespace
