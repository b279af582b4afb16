// The derivative of every operation agrees with central differences, away from kinks.
#include "test/interpret/Differences.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace echelon::ech;
using namespace echelon::interpret;
using P = llvm::ArrayRef<Value>;

namespace {

//===- element-wise ----------------------------------------------------------------------------------------------===//

struct Unary {
  Function function;
  double low, high;
};
class UnaryDerivative : public testing::TestWithParam<Unary> {};
TEST_P(UnaryDerivative, AgreesWithDifferences) {
  Unary u = GetParam();
  EXPECT_LE(worstDifference({{{{"i", 3}, {"j", 4}}, u.low, u.high}},
                            [&](Build &b, P p) { return b.map(u.function, {p[0]}); }),
            kTolerance);
}
const Unary unaries[] = {{Function::Neg, -1, 1},     {Function::Exp, -1, 1},      {Function::Log, 0.5, 2},
                         {Function::Sqrt, 0.5, 2},   {Function::Rsqrt, 0.5, 2},   {Function::Sin, -2, 2},
                         {Function::Cos, -2, 2},     {Function::Tanh, -1, 1},     {Function::Erf, -1, 1},
                         {Function::Sigmoid, -2, 2}, {Function::Relu, 0.1, 1},    {Function::Relu, -1, -0.1},
                         {Function::Gelu, -2, 2},    {Function::GeluTanh, -2, 2}, {Function::Silu, -2, 2},
                         {Function::Abs, -1, -0.1},  {Function::Abs, 0.1, 1},     {Function::Floor, 0.1, 0.9}};
std::string nameOf(const testing::TestParamInfo<Unary> &info) {
  return stringifyFunction(info.param.function).str() + std::to_string(info.index);
}
INSTANTIATE_TEST_SUITE_P(All, UnaryDerivative, testing::ValuesIn(unaries), nameOf);

// Both operands, alike, each broadcast against the other, and a number.
class BinaryDerivative : public testing::TestWithParam<Function> {};
TEST_P(BinaryDerivative, AgreesWithDifferences) {
  Function f = GetParam();
  Case both = [&](Build &b, P p) { return b.map(f, {p[0], p[1]}); };
  Leaf a{{{"i", 3}, {"j", 2}}, 1.1, 1.9}, alike{{{"i", 3}, {"j", 2}}, 0.6, 0.9}, row{{{"j", 2}}, 0.6, 0.9};
  EXPECT_LE(worstDifference({a, alike}, both), kTolerance);
  EXPECT_LE(worstDifference({a, row}, both), kTolerance);
  EXPECT_LE(worstDifference({{{{"j", 2}}, 1.1, 1.9}, alike}, both), kTolerance);
  EXPECT_LE(worstDifference({a}, [&](Build &b, P p) { return b.map(f, {p[0], b.constant(0.8)}); }), kTolerance);
  EXPECT_LE(worstDifference({a}, [&](Build &b, P p) { return b.map(f, {b.constant(0.8), p[0]}); }), kTolerance);
}
INSTANTIATE_TEST_SUITE_P(All, BinaryDerivative,
                         testing::Values(Function::Add, Function::Sub, Function::Mul, Function::Div, Function::Pow,
                                         Function::Mod, Function::Max, Function::Min),
                         [](auto &info) { return stringifyFunction(info.param).str(); });

TEST(MapDerivative, PowersWithNumbers) {
  for (double exponent : {0.0, 1.0, 2.0, 3.0, -1.5})
    EXPECT_LE(worstDifference({{{{"i", 3}}, 0.5, 2}},
                              [&](Build &b, P p) { return b.map(Function::Pow, {p[0], b.constant(exponent)}); }),
              kTolerance);
}
TEST(MapDerivative, ChosenOperandsTakeTheirShare) {
  EXPECT_LE(worstDifference({{{{"i", 3}, {"j", 4}}}, {{{"j", 4}}}},
                            [](Build &b, P p) {
                              Value left = b.map(Function::Lt, {b.index("j", 4), b.index("i", 3)});
                              return b.select(left, p[0], p[1]);
                            }),
            kTolerance);
}
TEST(MapDerivative, AValueUsedTwiceAddsUp) {
  EXPECT_LE(worstDifference({{{{"i", 3}}}}, [](Build &b, P p) { return b.mul(b.mul(p[0], p[0]), p[0]); }), kTolerance);
}
TEST(MapDerivative, NothingFlowsThroughStopGradient) {
  // the derivative of x * stop(x) is x, its differences say 2 x: as far apart as the gradient is long
  EXPECT_NEAR(worstDifference({{{{"i", 3}}, 0.5, 1}},
                              [](Build &b, P p) { return b.mul(p[0], b.map(Function::StopGradient, {p[0]})); }),
              1, 1e-6);
}
TEST(MapDerivative, ExpansionsSum) {
  EXPECT_LE(worstDifference({{{{"i", 3}}}},
                            [](Build &b, P p) {
                              Tensor wide = b.type({{"k", 2}, {"i", 3}}, b.real);
                              return b.expand(b.mul(p[0], p[0]), wide);
                            }),
            kTolerance);
}

//===- contractions and reductions -------------------------------------------------------------------------------===//

TEST(DotDerivative, SharedSummedAndOwnAxes) {
  EXPECT_LE(worstDifference({{{{"b", 2}, {"i", 3}, {"k", 4}}}, {{{"b", 2}, {"k", 4}, {"j", 2}}}},
                            [](Build &b, P p) { return b.dot(p[0], p[1], {"k"}); }),
            kTolerance);
  EXPECT_LE(worstDifference({{{{"i", 3}, {"k", 4}, {"m", 2}}}, {{{"m", 2}, {"k", 4}}}},
                            [](Build &b, P p) { return b.dot(p[0], p[1], {"k", "m"}); }),
            kTolerance);
}
TEST(DotDerivative, OfAValueWithItself) {
  EXPECT_LE(worstDifference({{{{"i", 3}, {"k", 4}}}}, [](Build &b, P p) { return b.dot(p[0], p[0], {"k"}); }),
            kTolerance);
}
TEST(ReduceDerivative, SumMaxMin) {
  Leaf x{{{"i", 3}, {"j", 4}, {"k", 2}}};
  EXPECT_LE(worstDifference({x}, [](Build &b, P p) { return b.sum(b.mul(p[0], p[0]), {"j", "i"}); }), kTolerance);
  EXPECT_LE(worstDifference({x}, [](Build &b, P p) { return b.reduce(Reduction::Max, p[0], {"j"}); }), kTolerance);
  EXPECT_LE(worstDifference({x}, [](Build &b, P p) { return b.reduce(Reduction::Min, p[0], {"i"}); }), kTolerance);
  EXPECT_LE(worstDifference({x}, [](Build &b, P p) { return b.mean(p[0], {"j", "k"}); }), kTolerance);
}
TEST(SoftmaxDerivative, OverOneAndTwoAxes) {
  Leaf x{{{"i", 3}, {"j", 4}, {"k", 2}}};
  EXPECT_LE(worstDifference({x}, [](Build &b, P p) { return b.softmax(p[0], {"j"}); }), kTolerance);
  EXPECT_LE(worstDifference({x}, [](Build &b, P p) { return b.softmax(p[0], {"i", "k"}); }), kTolerance);
  EXPECT_LE(worstDifference({x}, [](Build &b, P p) { return b.logSumExp(p[0], {"j"}).getResult(); }), kTolerance);
  EXPECT_LE(worstDifference({x}, [](Build &b, P p) { return b.logSoftmax(p[0], {"i", "k"}); }), kTolerance);
}
TEST(CrossEntropyDerivative, LabelsAndDistributions) {
  EXPECT_LE(worstDifference({{{{"n", 3}, {"c", 4}}}},
                            [](Build &b, P p) {
                              Value label = b.map(Function::Mod,
                                                  {b.index("n", 3), b.constant(2, b.type({}, b.builder.getI32Type()))});
                              return b.crossEntropy(p[0], label, "c").getLoss();
                            }),
            kTolerance);
  EXPECT_LE(worstDifference({{{{"n", 3}, {"c", 4}}}, {{{"n", 3}, {"c", 4}}, 0.1, 0.9}},
                            [](Build &b, P p) { return b.crossEntropy(p[0], p[1], "c").getLoss(); }),
            kTolerance);
}
TEST(NormalizeDerivative, ResultAndStatistics) {
  Leaf x{{{"i", 3}, {"j", 4}, {"k", 2}}};
  for (bool rms : {false, true})
    EXPECT_LE(worstDifference({x}, [&](Build &b, P p) { return b.normalize(p[0], {"j"}, rms).getResult(); }),
              kTolerance);
  EXPECT_LE(worstDifference({x}, [&](Build &b, P p) { return b.normalize(p[0], {"i", "k"}, false).getResult(); }),
            kTolerance);
  EXPECT_LE(worstDifference({x},
                            [](Build &b, P p) {
                              auto n = b.normalize(p[0], {"i", "k"}, false);
                              return b.add(b.mul(n.getMean(), n.getVariance()), b.mul(n.getRstd(), n.getMean()));
                            }),
            kTolerance);
}
TEST(CumSumDerivative, BothWays) {
  for (bool reverse : {false, true})
    EXPECT_LE(worstDifference({{{{"i", 3}, {"j", 4}}}},
                              [&](Build &b, P p) { return b.cumsum(b.mul(p[0], p[0]), "j", reverse); }),
              kTolerance);
}

//===- places ----------------------------------------------------------------------------------------------------===//

TEST(GatherDerivative, RepeatedIndicesAddUp) {
  EXPECT_LE(worstDifference({{{{"v", 4}, {"e", 2}}}},
                            [](Build &b, P p) {
                              Value two = b.constant(2, b.type({}, b.builder.getI32Type()));
                              Value index = b.map(Function::Mod, {b.index("n", 5), two});
                              Value x = b.gather(p[0], {"v"}, {index});
                              return b.mul(x, x);
                            }),
            kTolerance);
}
TEST(GatherDerivative, JointAxesAndMatchedOnes) {
  EXPECT_LE(worstDifference({{{{"v", 4}, {"n", 3}, {"w", 3}}}},
                            [](Build &b, P p) {
                              Value i = b.index("n", 3); // table[v = n, w = n], n matched
                              Value x = b.gather(p[0], {"v", "w"}, {i, i});
                              return b.mul(x, x);
                            }),
            kTolerance);
}
TEST(PlacesDerivative, PickPlaceSlicePad) {
  Leaf x{{{"i", 3}, {"j", 4}}};
  EXPECT_LE(worstDifference({x}, [](Build &b, P p) { return b.pick(b.mul(p[0], p[0]), "j", 2); }), kTolerance);
  EXPECT_LE(worstDifference({x}, [](Build &b, P p) { return b.slice(b.mul(p[0], p[0]), "j", 1, 2); }), kTolerance);
  EXPECT_LE(
      worstDifference(
          {x}, [](Build &b, P p) { return b.place(p[0], "k", 1, b.type({{"i", 3}, {"k", 2}, {"j", 4}}, b.real)); }),
      kTolerance);
  EXPECT_LE(
      worstDifference({x}, [](Build &b, P p) { return b.pad(p[0], "j", 1, b.type({{"i", 3}, {"j", 6}}, b.real)); }),
      kTolerance);
}
TEST(RelabelDerivative, RenamesSplitsMerges) {
  Leaf x{{{"i", 3}, {"j", 4}}};
  EXPECT_LE(worstDifference({x}, [](Build &b, P p) { return b.relabel(p[0], {"j"}, {{"k", 4}}); }), kTolerance);
  EXPECT_LE(worstDifference({x}, [](Build &b, P p) { return b.relabel(p[0], {"j"}, {{"a", 2}, {"c", 2}}); }),
            kTolerance);
  EXPECT_LE(worstDifference({x}, [](Build &b, P p) { return b.relabel(p[0], {"i", "j"}, {{"m", 12}}); }), kTolerance);
}
TEST(ConcatDerivative, EachOperandTakesItsPart) {
  EXPECT_LE(worstDifference({{{{"i", 3}, {"j", 2}}}, {{{"j", 4}, {"i", 3}}}},
                            [](Build &b, P p) { return b.concat({p[0], p[1]}, "j"); }),
            kTolerance);
}

//===- windows and attention -------------------------------------------------------------------------------------===//

TEST(ConvDerivative, StridesAndPaddings) {
  Leaf x{{{"n", 2}, {"c", 2}, {"h", 4}, {"w", 3}}}, k{{{"d", 2}, {"c", 2}, {"kh", 3}, {"kw", 2}}};
  for (int64_t stride : {1, 2})
    EXPECT_LE(worstDifference({x, k},
                              [&](Build &b, P p) {
                                Build::Window window{{"h", "w"}, {"kh", "kw"}, {stride, 1}, {1, 0}, {1, 1}};
                                return b.conv(p[0], p[1], {"c"}, window);
                              }),
              kTolerance);
}
TEST(PoolDerivative, MaximumAndMean) {
  Leaf x{{{"n", 2}, {"h", 5}, {"w", 4}}};
  for (Pooling kind : {Pooling::Max, Pooling::Avg})
    for (int64_t pad : {0, 1})
      EXPECT_LE(
          worstDifference({x}, [&](Build &b, P p) { return b.pool(kind, p[0], {"h", "w"}, {2, 2}, {2, 1}, {pad, 0}); }),
          kTolerance);
}
TEST(AttentionDerivative, MasksBiasAndCausality) {
  Leaf q{{{"b", 2}, {"s", 3}, {"h", 2}, {"k", 2}}}, k{{{"b", 2}, {"t", 3}, {"h", 2}, {"k", 2}}}, v = k;
  Leaf bias{{{"s", 3}, {"t", 3}}};
  EXPECT_LE(worstDifference({q, k, v},
                            [](Build &b, P p) {
                              return b.attention(p[0], p[1], p[2], {}, {}, "s", "t", "k", 0.7, true).getResult();
                            }),
            kTolerance);
  EXPECT_LE(worstDifference({q, k, v, bias},
                            [](Build &b, P p) {
                              Value mask = b.map(Function::Ne, {b.index("s", 3), b.index("t", 3)});
                              return b.attention(p[0], p[1], p[2], mask, p[3], "s", "t", "k", 0.7, false).getResult();
                            }),
            kTolerance);
  EXPECT_LE(worstDifference({{{{"b", 2}, {"k", 2}}}, {{{"b", 2}, {"t", 3}, {"k", 2}}}, {{{"t", 3}, {"k", 2}}}},
                            [](Build &b, P p) {
                              return b.attention(p[0], p[1], p[2], {}, {}, "", "t", "k", 0.7, false).getResult();
                            }),
            kTolerance);
}

} // namespace
