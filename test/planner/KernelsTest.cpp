// How long kernels take on a device.
#include "planner/machine/Constants.h"
#include "planner/machine/Machine.h"
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <sstream>

using namespace echelon::planner;

namespace {
/// 1 TFLOP/s in fp32, 4 in bf16, 100 GB/s; kernels reach all of it.
Machine machine() {
  Machine m;
  m.device.bandwidth = 100e9;
  m.device.memoryBytes = 10e9;
  m.device.peaks = {{Precision::Fp32, 1e12}, {Precision::Bf16, 4e12}};
  m.device.efficiency = {{"product", 1}, {"memory", 1}, {"attention", 1}};
  return m;
}

Work product(int64_t m, int64_t n, int64_t k, Precision precision = Precision::Fp32) {
  Work w;
  w.kind = Work::Kind::Product;
  w.m = m;
  w.n = n;
  w.k = k;
  w.precision = precision;
  w.flops = 2.0 * double(m) * double(n) * double(k);
  w.bytes = 4.0 * double(m * k + k * n + m * n);
  return w;
}

Work kernel(const char *name, double bytes) {
  Work w;
  w.kernel = name;
  w.bytes = bytes;
  return w;
}

TEST(Kernels, AProductIsBoundByArithmeticOrByMemory) {
  const Machine m = machine();
  EXPECT_DOUBLE_EQ(m.seconds(product(1000, 1000, 1000)), 2e9 / 1e12);
  EXPECT_DOUBLE_EQ(m.seconds(product(1000, 1000, 1000, Precision::Bf16)), 2e9 / 4e12);
  EXPECT_DOUBLE_EQ(m.seconds(product(1000, 1000, 1)), 4.0 * (1000 + 1000 + 1e6) / 100e9);
}

TEST(Kernels, EfficiencyIsOfAKernelAndOfOneInAPrecision) {
  Machine m = machine();
  m.device.efficiency = {{"product", 0.5}, {"product.bf16", 0.25}, {"memory", 0.5}, {"softmax", 0.2}};
  EXPECT_DOUBLE_EQ(m.seconds(product(1000, 1000, 1000)), 2e9 / 0.5e12);
  EXPECT_DOUBLE_EQ(m.seconds(product(1000, 1000, 1000, Precision::Bf16)), 2e9 / 1e12);
  EXPECT_DOUBLE_EQ(m.seconds(kernel("softmax", 1e9)), 1e9 / 20e9);
  EXPECT_DOUBLE_EQ(m.seconds(kernel("reduce_sum", 1e9)), 1e9 / 50e9);
}

TEST(Kernels, PassesAreOfAKernelsFamily) {
  Machine m = machine();
  m.device.passes = {{"normalize", 13}, {"reduce", 2}};
  EXPECT_DOUBLE_EQ(m.seconds(kernel("rms_normalize", 1e9)), 13 * 1e9 / 100e9);
  EXPECT_DOUBLE_EQ(m.seconds(kernel("reduce_sum", 1e9)), 2 * 1e9 / 100e9);
  EXPECT_DOUBLE_EQ(m.seconds(kernel("softmax", 1e9)), 1e9 / 100e9);
}

TEST(Kernels, InnerLengthAndAlignmentCost) {
  Machine m = machine();
  m.device.costs = {{"k_half", 500}, {"alignment", 8}, {"misaligned", 2}};
  EXPECT_DOUBLE_EQ(m.seconds(product(1000, 1000, 1000)), 1.5 * 2e9 / 1e12);
  EXPECT_DOUBLE_EQ(m.seconds(product(1001, 1000, 1000)), 2 * 1.5 * 2.002e9 / 1e12);
}

// 64 tiles of 128 x 128 leave half of 128 units without one; 64 x 64 tiles give each two.
TEST(Kernels, UnitsTakeWholeTiles) {
  Machine m = machine();
  m.device.costs = {{"units", 128}};
  EXPECT_DOUBLE_EQ(m.seconds(product(1024, 1024, 1024)), 2.0 * 1024 * 1024 * 1024 / 1e12);
  EXPECT_DOUBLE_EQ(m.seconds(product(64, 64, 8192)), 128 * 2.0 * 64 * 64 * 8192 / 1e12);
  EXPECT_DOUBLE_EQ(m.seconds(product(65, 8192, 8192)), m.seconds(product(128, 8192, 8192)));
}

TEST(Kernels, AttentionIsOneKernelOrWrittenOut) {
  Machine m = machine();
  Work w;
  w.kind = Work::Kind::Attention;
  w.precision = Precision::Bf16;
  w.m = w.n = 1024;
  w.k = 64;
  w.batch = 16;
  w.flops = 2 * 2.0 * 1024 * 1024 * 64 * 16 / 2; // half of the scores are masked
  w.bytes = 4 * 2.0 * 1024 * 64 * 16;
  EXPECT_DOUBLE_EQ(m.seconds(w), w.flops / 4e12 + w.bytes / 100e9);
  Work back = w;
  back.kind = Work::Kind::AttentionGrad;
  EXPECT_DOUBLE_EQ(m.seconds(back), w.flops / (0.8 * 4e12) + w.bytes / 100e9);
  m.device.passes = {{"attention", 4.5}};
  EXPECT_DOUBLE_EQ(m.seconds(w), 2 * w.flops / 4e12 + 4.5 * 2.0 * 1024 * 1024 * 16 / 100e9);
  m.device.passes = {{"attention", 0}};
  EXPECT_DOUBLE_EQ(m.seconds(w), w.flops / 4e12 + w.bytes / 100e9);
}

TEST(Kernels, SumsOfMicroBatchesMayHaveAKernelOfTheirOwn) {
  Machine m = machine();
  Work w = product(1000, 1000, 1000);
  w.added = 4e6;
  EXPECT_DOUBLE_EQ(m.seconds(w), 2e9 / 1e12);
  m.device.passes = {{"accumulate", 3}};
  EXPECT_DOUBLE_EQ(m.seconds(w), 2e9 / 1e12 + 3 * 4e6 / 100e9);
}

TEST(Kernels, APrecisionWithoutAPeakIsDoneInAnother) {
  Device d = machine().device;
  EXPECT_EQ(d.peak(Precision::Fp16), 4e12);
  EXPECT_EQ(d.peak(Precision::Fp64), 0.5e12);
  d.peaks.clear();
  EXPECT_EQ(d.peak(Precision::Fp32), 0);
}

TEST(Kernels, CurvesGoBeforeFormulas) {
  Machine m = machine();
  m.device.curves["memory"].points = {{1e3, 400e9}, {1e5, 100e9}};
  EXPECT_DOUBLE_EQ(m.seconds(kernel("softmax", 0.5e4)), 0.5e4 / 200e9); // operands lie where twice its bytes do
  EXPECT_DOUBLE_EQ(m.seconds(kernel("softmax", 1e9)), 1e9 / 100e9);
  m.device.curves["product"].points = {{1e6, 0.1e12}};
  EXPECT_DOUBLE_EQ(m.seconds(product(1000, 1000, 1000)), 2e9 / 0.1e12);
}

TEST(Kernels, AKernelTakesItsLaunchAtLeast) {
  Machine m = machine();
  m.device.costs = {{"launch", 3e-6}, {"host", 7e-6}, {"late", 2}, {"usable", 0.9}, {"reserve", 1e9}};
  EXPECT_DOUBLE_EQ(m.seconds(kernel("softmax", 8)), 3e-6);
  EXPECT_DOUBLE_EQ(m.hostSeconds(), 7e-6);
  EXPECT_DOUBLE_EQ(m.lateSeconds({8, 1, 8}), 2 * 7e-6 * 3);
  EXPECT_DOUBLE_EQ(m.usableBytes(), 8e9);
}

// No name twice, and nothing that is typical outside of what may be said.
TEST(Kernels, ConstantsAreKnownOnce) {
  for (const auto *list : {&deviceConstants(), &linkConstants(), &protocolConstants(), &measurementConstants()})
    for (const Constant &constant : *list) {
      EXPECT_EQ(constantNamed(*list, constant.name), &constant);
      EXPECT_TRUE(constant.otherwise >= constant.least && constant.otherwise <= constant.most) << constant.name;
    }
  for (const Kernel &each : kernels())
    EXPECT_EQ(kernelNamed(each.name), &each);
}

// The language's page has every name.
TEST(Kernels, ConstantsAreDocumented) {
  std::ifstream in(LANGUAGE, std::ios::binary);
  std::stringstream page;
  page << in.rdbuf();
  const std::string text = page.str();
  std::vector<std::string> names;
  for (const auto *list : {&deviceConstants(), &linkConstants(), &protocolConstants(), &measurementConstants()})
    for (const Constant &constant : *list)
      names.push_back(constant.name);
  for (const Kernel &each : kernels())
    names.push_back(each.name);
  const size_t begin = text.find("## Machines"), end = text.find("\n## ", begin + 1);
  ASSERT_NE(end, std::string::npos);
  const std::string section = text.substr(begin, end - begin);
  for (const std::string &name : names)
    EXPECT_TRUE(std::regex_search(section, std::regex("\\b" + name + "\\b"))) << name;
}
} // namespace
