// Derivatives of loops, and of steps whose batch comes in parts, agree with central differences.
#include "test/interpret/Differences.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace echelon::ech;
using namespace echelon::interpret;
using P = llvm::ArrayRef<Value>;

namespace {

/// x -> gelu(x w) * c with w a slice: a layer that keeps its input's axes.
Value layer(Build &b, Value x, Value w, Value c) {
  Value y = b.relabel(b.dot(x, w, {"e"}), {"f"}, {{"e", 2}});
  return b.mul(b.map(Function::Gelu, {y}), c);
}

TEST(LoopDerivative, StackOfLayersWithASharedParameter) {
  EXPECT_LE(worstDifference({{{{"n", 3}, {"e", 2}}}, {{{"layer", 3}, {"e", 2}, {"f", 2}}}, {{{"e", 2}}}},
                            [](Build &b, P p) {
                              auto loop =
                                  b.repeat("layer", 3, {p[0]}, {p[1]}, false, false, [&](ValueRange c, ValueRange s) {
                                    return Build::Yields{{layer(b, c[0], s[0], p[2])}, {}, {}};
                                  });
                              return Value(loop.getFinals()[0]);
                            }),
            kTolerance);
}
TEST(LoopDerivative, StackedAndSummedResults) {
  EXPECT_LE(worstDifference({{{{"n", 3}, {"e", 2}}}, {{{"layer", 3}, {"e", 2}, {"f", 2}}}, {{{"e", 2}}}},
                            [](Build &b, P p) {
                              auto loop =
                                  b.repeat("layer", 3, {p[0]}, {p[1]}, true, false, [&](ValueRange c, ValueRange s) {
                                    Value y = layer(b, c[0], s[0], p[2]);
                                    return Build::Yields{{y}, {y, c[0]}, {b.sum(b.mul(y, y), {"n"})}};
                                  });
                              Value both = b.mul(loop.getStacks()[0], loop.getStacks()[1]);
                              return b.add(b.add(both, loop.getSums()[0]), loop.getFinals()[0]);
                            }),
            kTolerance);
}
TEST(LoopDerivative, ALoopInALoop) {
  EXPECT_LE(
      worstDifference(
          {{{{"n", 3}, {"e", 2}}}, {{{"outer", 2}, {"inner", 3}, {"e", 2}, {"f", 2}}}, {{{"outer", 2}, {"e", 2}}}},
          [](Build &b, P p) {
            auto loop = b.repeat("outer", 2, {p[0]}, {p[1], p[2]}, false, false, [&](ValueRange c, ValueRange s) {
              Value scale = b.map(Function::Exp, {s[1]});
              auto inner = b.repeat("inner", 3, {c[0]}, {s[0]}, false, false, [&](ValueRange d, ValueRange t) {
                return Build::Yields{{layer(b, d[0], t[0], scale)}, {}, {b.sum(d[0], {"n"})}};
              });
              return Build::Yields{{b.add(inner.getFinals()[0], c[0])}, {}, {inner.getSums()[0]}};
            });
            return b.add(loop.getFinals()[0], loop.getSums()[0]);
          }),
      kTolerance);
}
// A recurrence: the walked axis is not the slowest one of what it walks over.
TEST(LoopDerivative, AlongAnAxisWithSharedWeights) {
  EXPECT_LE(worstDifference({{{{"n", 2}, {"t", 4}, {"e", 2}}}, {{{"e", 2}, {"f", 2}}}, {{{"n", 2}, {"e", 2}}}},
                            [](Build &b, P p) {
                              auto loop =
                                  b.repeat("t", 4, {p[2]}, {p[0]}, false, true, [&](ValueRange c, ValueRange s) {
                                    Value y = b.add(layer(b, c[0], p[1], s[0]), s[0]);
                                    return Build::Yields{{y}, {y}, {}};
                                  });
                              return Value(loop.getStacks()[0]);
                            }),
            kTolerance);
}
// Masks are made again from position and random numbers, not kept.
TEST(LoopDerivative, FreeValuesAreTheSameBackward) {
  EXPECT_LE(worstDifference({{{{"n", 3}, {"e", 2}}}},
                            [](Build &b, P p) {
                              auto loop = b.repeat("layer", 3, {p[0]}, {}, false, false, [&](ValueRange c, ValueRange) {
                                Value r = b.random(Distribution::Uniform, "drop", 0, 1, tensor(c[0]));
                                Value keep = b.map(Function::Lt, {r, b.constant(0.6)});
                                Value depth = b.toReal(b.position("layer"));
                                Value y = b.mul(b.mul(c[0], c[0]), b.add(depth, b.constant(0.5)));
                                return Build::Yields{{b.select(keep, y, c[0])}, {}, {}};
                              });
                              return Value(loop.getFinals()[0]);
                            }),
            kTolerance);
}
// Norms over channels are made again from what was normalized, of the loop or from outside.
TEST(LoopDerivative, NormsOverChannels) {
  EXPECT_LE(worstDifference({{{{"n", 3}, {"e", 2}}}, {{{"layer", 3}, {"e", 2}}}},
                            [](Build &b, P p) {
                              auto norm = [&](Value x) { return b.normalize(x, {"n"}, false).getResult(); };
                              Value outside = b.map(Function::Exp, {p[0]});
                              auto loop =
                                  b.repeat("layer", 3, {p[0]}, {p[1]}, false, false, [&](ValueRange c, ValueRange s) {
                                    Value y = b.add(b.mul(norm(c[0]), s[0]), b.mul(norm(outside), s[0]));
                                    return Build::Yields{{b.map(Function::Tanh, {y})}, {}, {}};
                                  });
                              return Value(loop.getFinals()[0]);
                            }),
            kTolerance);
}
TEST(LoopDerivative, ACarriedValueThatNoLossReads) {
  EXPECT_LE(worstDifference({{{{"e", 2}}}, {{{"layer", 3}, {"e", 2}}}},
                            [](Build &b, P p) {
                              auto loop = b.repeat(
                                  "layer", 3, {p[0], p[0]}, {p[1]}, false, false, [&](ValueRange c, ValueRange s) {
                                    return Build::Yields{{b.mul(c[0], s[0]), b.add(c[1], c[0])}, {}, {}};
                                  });
                              return Value(loop.getFinals()[0]);
                            }),
            kTolerance);
}

//===- the batch in parts ----------------------------------------------------------------------------------------===//

/// p0 is a table over samples, so that values have a batch axis without inputs.
Value samples(Build &b, Value w) {
  Value i = b.toReal(b.index("batch", 6));
  return b.map(Function::Tanh, {b.mul(b.add(b.mul(i, b.constant(0.3)), b.constant(0.1)), w)});
}

TEST(MicroBatches, GradientsAreThoseOfTheWholeBatch) {
  for (int64_t passes : {1, 2, 3, 6})
    EXPECT_LE(worstDifference(
                  {{{{"e", 2}}}, {{{"e", 2}, {"f", 2}}}},
                  [](Build &b, P p) {
                    Value y = b.dot(samples(b, p[0]), p[1], {"e"});
                    return b.div(b.sum(b.mul(y, y), {"batch"}), b.count({"batch"}, tensor(y)));
                  },
                  passes),
              kTolerance);
}
// A mean over a mask divides by a sum over the whole batch that no variable enters.
TEST(MicroBatches, CountsWithoutVariablesComeFirst) {
  EXPECT_LE(worstDifference(
                {{{{"e", 2}}}},
                [](Build &b, P p) {
                  Value r = b.random(Distribution::Uniform, "mask", 0, 1, b.type({{"batch", 6}}, b.real));
                  Value mask = b.toReal(b.map(Function::Lt, {r, b.constant(0.7)}));
                  Value y = b.map(Function::Exp, {b.mul(samples(b, p[0]), mask)});
                  return b.div(b.sum(y, {"batch"}), b.sum(mask, {"batch"}));
                },
                2),
            kTolerance);
}
// Local statistics are those of a part: no total is needed, and gradients agree with the loss that this gives.
TEST(MicroBatches, LocalStatistics) {
  EXPECT_LE(worstDifference(
                {{{{"e", 2}}}, {{{"e", 2}}}},
                [](Build &b, P p) {
                  auto n = b.normalize(samples(b, p[0]), {"batch"}, false);
                  n->setAttr(kLocal, b.builder.getUnitAttr());
                  Value y = b.map(Function::Tanh, {b.mul(n.getResult(), p[1])});
                  return b.sum(b.mul(y, y), {"batch"});
                },
                2),
            kTolerance);
}
TEST(MicroBatches, LoopsAndTiedParametersInside) {
  EXPECT_LE(worstDifference(
                {{{{"e", 2}}}, {{{"layer", 3}, {"e", 2}, {"f", 2}}}},
                [](Build &b, P p) {
                  auto loop =
                      b.repeat("layer", 3, {samples(b, p[0])}, {p[1]}, false, false, [&](ValueRange c, ValueRange s) {
                        // a penalty on the weights alone is counted once
                        Value penalty = b.sum(b.mul(s[0], s[0]), {"e", "f"});
                        return Build::Yields{{layer(b, c[0], s[0], p[0])}, {}, {penalty}};
                      });
                  return b.add(b.sum(loop.getFinals()[0], {"batch"}), loop.getSums()[0]);
                },
                3),
            kTolerance);
}

} // namespace
