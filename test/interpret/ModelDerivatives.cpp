// Whole models, from their text: gradients along random directions, the batch in parts, evaluation batch by batch.
#include "test/interpret/ModelRun.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using namespace echelon::interpret;

namespace {

class ModelDerivative : public testing::TestWithParam<Model> {
protected:
  void prepare(int64_t passes) { model.prepare(GetParam(), passes); }
  Results run(StringRef name) { return model.run(name); }

  ModelRun model;
  Machine &machine = model.machine;
};

TEST_P(ModelDerivative, AgreesAlongSixteenDirections) {
  ASSERT_NO_FATAL_FAILURE(prepare(1));
  Arrays gradients = run("train").gradients, start = machine.values;
  double norm = 0;
  for (auto &[name, g] : gradients)
    for (double v : g.values)
      norm += v * v;
  ASSERT_GT(norm, 0);
  std::mt19937 generator(1);
  std::normal_distribution<double> normal;
  for (int direction = 0; direction < 16; ++direction) {
    Arrays along;
    double exact = 0, length = 0, f[2];
    for (auto &[name, g] : gradients) {
      Array d = start[name];
      for (double &v : d.values) {
        v = normal(generator);
        length += v * v;
      }
      Array same = g.inOrder(d.axes);
      for (size_t i = 0; i < d.values.size(); ++i)
        exact += d.values[i] * same.values[i];
      along[name] = d;
    }
    double h = 1e-5 / std::sqrt(length);
    for (int side : {0, 1}) {
      for (auto &[name, d] : along)
        for (size_t i = 0; i < d.values.size(); ++i)
          machine.values[name].values[i] = start[name].values[i] + (side ? -h : h) * d.values[i];
      const auto reports = run("train").reports; // what training makes small is the sum of all losses
      f[side] = reports.at(reports.count("total_loss") ? "total_loss" : "loss");
    }
    EXPECT_LE(std::fabs((f[0] - f[1]) / (2 * h) - exact), 1e-6 * std::sqrt(norm * length));
  }
}

TEST_P(ModelDerivative, PartsOfTheBatchGiveTheSame) {
  if (!GetParam().parts)
    GTEST_SKIP() << "has batch statistics";
  ASSERT_NO_FATAL_FAILURE(prepare(1));
  Results whole = run("train");
  for (int64_t passes : {2, 4}) {
    ASSERT_NO_FATAL_FAILURE(prepare(passes));
    Results parts = run("train");
    for (auto &[name, value] : whole.reports)
      EXPECT_NEAR(parts.reports.at(name), value, 1e-11 * std::max(1.0, std::fabs(value))) << name;
    for (auto &[name, g] : whole.gradients)
      EXPECT_LE(farthest(g, parts.gradients.at(name)), 1e-11 * std::max(largest(g), 1e-3)) << name;
  }
}

// Three samples in one batch that is filled up, or twice the three in two batches: the means are the same.
TEST_P(ModelDerivative, EvaluationDoesNotDependOnTheBatches) {
  ASSERT_NO_FATAL_FAILURE(prepare(1));
  auto samples = [&](int64_t times) {
    for (auto input : model.ops()->getOps<InputOp>()) {
      Array &x = machine.values[input.getSymName().str()];
      ASSERT_EQ(x.axes[0], machine.batchAxis);
      int64_t one = x.values.size() / x.sizes[0];
      x.sizes[0] = 3 * times;
      std::vector<double> three(x.values.begin(), x.values.begin() + 3 * one);
      x.values.clear();
      for (int64_t i = 0; i < times; ++i)
        x.values.insert(x.values.end(), three.begin(), three.end());
    }
  };
  samples(1);
  Results once = run("evaluate");
  samples(2);
  Results twice = run("evaluate");
  for (auto &[name, value] : once.reports)
    EXPECT_NEAR(twice.reports.at(name), value, 1e-11 * std::max(1.0, std::fabs(value))) << name;
}

const char *const kExperts = R"(import nn
model M() {
  axis batch
  axis seq = 4
  axis vocab = 5
  axis embed = 3
  axis ff = 4
  axis expert = 4
  axis two = 2
  input tokens[batch, seq] : int below vocab
  input labels[batch, seq] : int below vocab
  param wte[vocab, embed] ~ normal(1)
  x = wte[vocab = tokens]
  repeat layer = 2 {
    x = x + nn.moe(nn.rmsnorm(x, embed), embed, ff, expert, seq, top = 2, capacity = 0.5) as tight
    x = x + nn.moe(nn.rmsnorm(x, embed), embed, ff, two, seq) as roomy
  }
  loss mean(cross_entropy(dot(x, wte, over = embed), labels, over = vocab))
})";

const Model models[] = {
    {"mlp_fashion", "", {}, {{"row", 3}, {"column", 2}, {"hidden", 4}, {"class", 3}}},
    {"gpt_fortunes", "", {{"layers", 2}, {"heads", 2}, {"width", 4}}, {{"seq", 3}, {"vocab", 5}}},
    {"sort_digits", "", {{"layers", 1}, {"heads", 2}, {"width", 4}}, {{"src", 3}, {"dst", 3}, {"vocab", 5}}},
    {"conv_fashion", "", {{"channels", 2}}, {{"height", 4}, {"width", 4}, {"class", 3}}, false},
    // stochastic depth in a stack of residual blocks, written-out softmax, cumulative sums, concatenation
    {"depth",
     R"(import nn
model M(depth = 3) {
  axis batch
  axis row = 4
  axis e = 3
  axis f like e
  axis class = 3
  input x[batch, row, e] : float
  input label[batch] : int below class
  z = x
  repeat stage = depth {
    h = relu(nn.linear(nn.layernorm(z, e), e, f))
    z = z + survive(h[f -> e], 1 - (index(stage) + 1) / depth * 0.5)
  }
  share = softmax(sum(z, over = e), over = row)
  pooled = dot(z, share, over = row)
  steps = cumsum(z[row = 0..2], over = row)
  both = concat(steps, z[row = 2..4] * 2, over = row)
  logits = nn.linear(pooled + max(both, over = row), e, class) as head
  loss mean(cross_entropy(logits, label, over = class))
  metric accuracy = mean(argmax(logits, over = class) == label)
})",
     {},
     {}},
    // batch norm: running statistics, and gradients through the batch's own
    {"batchnorm",
     R"(import nn
model M() {
  axis batch
  axis height = 4
  axis width = 4
  axis rgb = 2
  axis c = 2
  axis class = 3
  input image[batch, rgb, height, width] : float
  input label[batch] : int below class
  x = relu(nn.batchnorm(nn.conv3x3(image, rgb, c, stride = 2), c))
  logits = nn.linear(mean(x, over = (height, width)), c, class) as head
  loss mean(cross_entropy(logits, label, over = class))
})",
     {},
     {},
     false},
    // recurrence, shared parameters, a mask that is counted over the batch, dropout, several losses
    {"recurrence",
     R"(import nn
model M() {
  axis batch
  axis seq = 4
  axis embed = 3
  axis hidden = 2
  axis other like hidden
  axis class = 3
  input x[batch, seq, embed] : float
  input keep[batch, seq] : int below class
  input label[batch] : int below class
  param w[embed, hidden] ~ normal(1)
  param u[hidden, other] ~ normal(1)
  param start[hidden] ~ zeros
  h = start[+ batch]
  repeat along seq {
    h = tanh(dot(x, w, over = embed) + dot(h, u, over = hidden)[other -> hidden])
    y = h
  }
  mask = where(keep == 0, 0.0, 1.0)
  loss penalty = 0.1 * sum(u ^ 2)
  loss kept = mean(sum(y ^ 2, over = hidden), where = keep > 0)
  logits = nn.linear(dropout(h, 0.3), hidden, class) as head
  loss mean(cross_entropy(logits, label, over = class))
})",
     {},
     {}},
    // grouped queries, rotary positions, gated layers in nested repeats
    {"llama",
     R"(import nn
model M() {
  axis batch
  axis seq = 3
  axis past like seq
  axis vocab = 5
  axis embed = 4
  axis group = 2
  axis head = 2
  axis key = 2
  axis ff = 4
  input tokens[batch, seq] : int below vocab
  input labels[batch, seq] : int below vocab
  param wte[vocab, embed] ~ normal(1)
  x = wte[vocab = tokens]
  repeat outer = 2 {
    x = x + nn.gqa(nn.rmsnorm(x, embed), embed, group, head, key, seq, past) as attn
    repeat inner = 2 { x = x + nn.swiglu(nn.rmsnorm(x, embed), embed, ff) as mlp }
  }
  loss mean(cross_entropy(dot(x, wte, over = embed), labels, over = vocab))
})",
     {},
     {}},
    // experts without room for all that want them, and with room for more than there are
    {"experts", kExperts, {}, {}},
};
INSTANTIATE_TEST_SUITE_P(Models, ModelDerivative, testing::ValuesIn(models),
                         [](auto &info) { return info.param.name; });

} // namespace
