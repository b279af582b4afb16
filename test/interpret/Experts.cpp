// Mixtures of experts: what nn.moe computes, held against the text that says it in one-hot products, and micro batches.
#include "test/interpret/ModelRun.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace echelon;
using namespace echelon::interpret;

namespace {

/// Every position goes to every slot of every expert by a one-hot product and comes back by another: plain to read,
/// and as much work as there are slots. Drawn tokens repeat, so that gates tie between positions.
const char *const kOneHot = R"(
block onehot(x, embed: axis, ff: axis, expert: axis, seq: axis, top = 2, capacity = 1.25) {
  axis gate like expert
  axis choice = top
  axis slot = ceil(capacity * top * size(seq) / size(expert))
  param router[embed, gate] ~ normal(1)
  param w1[expert, embed, ff] ~ normal(1)
  param w3[expert, embed, ff] ~ normal(1)
  param w2[expert, ff, embed] ~ normal(1)
  share = softmax(dot(x, router, over = embed), over = gate)
  chosen = top(share, over = gate, k = top, into = choice)
  weight = share[gate = chosen]
  weight = weight / sum(weight, over = choice)
  hit = where(outer(chosen == index(gate)), 1, 0)
  wanted = sum(hit, over = choice)
  rank = cumsum(wanted, over = seq) - wanted
  placed = outer(wanted * where(outer(rank == index(slot)), 1, 0))
  mixed = outer(placed * sum(hit * weight, over = choice))
  inside = dot(x, placed[gate -> expert], over = seq)
  y = silu(dot(inside, w1, over = embed)) * dot(inside, w3, over = embed)
  y = dot(y, w2, over = ff)
  wanting = mean(wanted, over = seq)
  loss balance = 0.01 * size(expert) / top * mean(sum(wanting * mean(share, over = seq), over = gate))
  metric dropped = 1 - sum(placed) / sum(wanted)
  return dot(y, mixed[gate -> expert], over = (expert, slot))
}
)";

/// A model of two such layers, `call` being what a layer computes.
Model layers(const std::string &call) {
  return {"experts",
          "import nn\n" + std::string(kOneHot) + R"(
model M() {
  axis batch
  axis seq = 6
  axis vocab = 4
  axis embed = 5
  axis ff = 4
  axis expert = 4
  axis two = 2
  input tokens[batch, seq] : int below vocab
  input goal[batch, seq, embed] : float
  param wte[vocab, embed] ~ normal(1)
  x = wte[vocab = tokens]
  repeat layer = 2 { x = x + )" +
              call + R"( as moe }
  loss mean((x - goal) ^ 2)
})",
          {},
          {}};
}

struct Shape {
  const char *name, *arguments;
};
class Experts : public testing::TestWithParam<Shape> {};

TEST_P(Experts, ComputeWhatOneHotProductsDo) {
  const std::string arguments = std::string("(x, embed, ff, ") + GetParam().arguments + ")";
  ModelRun runs[2];
  ASSERT_NO_FATAL_FAILURE(runs[0].prepare(layers("onehot" + arguments), 1));
  ASSERT_NO_FATAL_FAILURE(runs[1].prepare(layers("nn.moe" + arguments), 1));
  const Results expected = runs[0].run("train"), found = runs[1].run("train");
  for (auto &[name, value] : expected.reports)
    EXPECT_EQ(found.reports.at(name), value) << name;
  for (auto &[name, gradient] : expected.gradients)
    EXPECT_LE(farthest(gradient, found.gradients.at(name)), 1e-15 * largest(gradient)) << name;
}

TEST_P(Experts, AreOfSamplesAlone) {
  const Model model = layers(std::string("nn.moe(x, embed, ff, ") + GetParam().arguments + ")");
  ModelRun whole, parts;
  ASSERT_NO_FATAL_FAILURE(whole.prepare(model, 1));
  ASSERT_NO_FATAL_FAILURE(parts.prepare(model, 4));
  const Results once = whole.run("train"), fourTimes = parts.run("train");
  for (auto &[name, value] : once.reports)
    EXPECT_NEAR(fourTimes.reports.at(name), value, 1e-12 * std::fabs(value)) << name;
  for (auto &[name, gradient] : once.gradients)
    EXPECT_LE(farthest(gradient, fourTimes.gradients.at(name)), 1e-12 * largest(gradient)) << name;
}

INSTANTIATE_TEST_SUITE_P(Shapes, Experts,
                         testing::Values(Shape{"usual", "expert, seq"},
                                         Shape{"dropping", "expert, seq, capacity = 0.4"},
                                         Shape{"one", "expert, seq, top = 1"},
                                         Shape{"allThree", "expert, seq, top = 3, capacity = 0.7"},
                                         Shape{"moreSlotsThanPositions", "two, seq"}),
                         [](auto &info) { return std::string(info.param.name); });

} // namespace
