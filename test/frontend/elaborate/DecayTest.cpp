// Which parameters weight decay takes: by what is computed, whatever the spelling.
#include "frontend/Parse.h"
#include "frontend/elaborate/Elaborate.h"
#include "ir/ech/Ech.h"
#include "mlir/IR/MLIRContext.h"
#include <gtest/gtest.h>

using namespace echelon::frontend;
namespace ech = echelon::ech;

namespace {

// The parameters that decay of a model with this body, in the order of their declarations.
std::string decayed(const std::string &body) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  auto program = parseProgram(sources, sources.add("test.ech", R"(
import nn
model M() {
  axis batch
  axis feat = 5
  axis hid = 4
  axis hid2 like hid
  axis token = 3
  axis pair = 2
  axis one = 1
  input x[batch, feat] : float
  input z[batch, feat] : float
  input keep[batch, feat] : bool
  input y[batch] : int below token
)" + body + "\n}\n"),
                              diagnostics);
  EXPECT_FALSE(diagnostics.hasErrors()) << diagnostics.text();
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  ElaborateOptions options;
  options.model = &program->main().models[0];
  options.file = &program->main();
  options.batch = 4;
  ModelFacts facts;
  auto module = elaborate(context, sources, *program, options, diagnostics, facts);
  EXPECT_TRUE(module) << diagnostics.text();
  std::string names;
  if (module)
    for (auto variable : module->getOps<ech::VariableOp>())
      if (variable.getDecayed())
        names += (names.empty() ? "" : " ") + variable.getSymName().str();
  return names;
}

// Of a parameter w[feat, hid] that this value of [batch, hid] is made of.
std::string ofProduct(const std::string &value) {
  return decayed("  param w[feat, hid] ~ normal(1)\n  h = " + value + "\n  loss mean(sum(h^2, over = hid))");
}

TEST(Decay, TakesWhatADotReadsThroughElementWiseFunctions) {
  for (const char *weight :
       {"w", "0.5 * w", "w / 3", "-w", "where(index(feat) > 1, w, 0)", "where(index(feat) > 1, 0, w)", "tanh(w)",
        "w * rsqrt(sum(w^2, over = feat))", "w / (1e-6 + sqrt(sum(w^2, over = hid)))", "normalize(w, over = hid)",
        "softmax(w, over = feat)", "w - mean(w, over = feat)", "stop_gradient(floor(w) - w) + w",
        "concat(w[+ pair = 1], w[+ pair = 1], over = pair)[pair = 0]",
        "concat(w[feat = 0..2], w[feat = 2..5], over = feat)[feat -> feat]", "dropout(w, 0.5)", "clamp(w, -1, 1)",
        "cumsum(w, over = hid)"})
    EXPECT_EQ(ofProduct("dot(x, " + std::string(weight) + ", over = feat)"), "w") << weight;
}

TEST(Decay, TakesTheWeightOfASumOfProducts) {
  for (const char *value :
       {"sum(outer(x * w), over = feat)", "sum(outer(w * x), over = feat)", "mean(outer(x * w), over = feat)",
        "sum(outer(x * (0.5 * w)), over = feat)", "sum(0.5 * outer(x * w), over = feat)",
        "sum(-outer((-x) * w) / 2, over = feat)", "sum(outer((2 * x) * w) * 3, over = feat)",
        "sum(outer(x * w) * z, over = feat)", "sum(outer((x * z) * w), over = feat)",
        "sum(outer(x * w)[feat -> token2], over = token2)", "sum(outer(x * w), over = feat, where = keep)",
        "sum(outer(x * w) + outer(z * w), over = feat)", "sum(outer(where(keep, w, 0)), over = feat)",
        "sum(where(index(feat) > 0, outer(x * w), 0), over = feat)", "cumsum(outer(x * w), over = feat)[feat = 4]",
        "sum(outer(x / w), over = feat)", "sum(concat(outer(x * w), outer(z * w), over = feat), over = feat)",
        "sum((outer(x * w) + outer(z * w)) * (x - z), over = feat)",
        "sum(outer((x + 1) * w) * (z + 1), over = feat)"}) {
    std::string text = value;
    if (text.find("token2") != std::string::npos)
      text = "0\n  axis token2 like feat\n  h = " + text;
    EXPECT_EQ(ofProduct(text), "w") << value;
  }
}

// sum(outer(a * b)) and dot(a, b) are one model, whatever a and b are.
TEST(Decay, GoesByTheProductNotItsSpelling) {
  const std::string parameters = "  param w[feat, hid] ~ normal(1)\n  param v[feat] ~ normal(1)\n"
                                 "  param gain[feat] ~ ones\n  param g[hid] ~ ones\n  param bias[feat] ~ zeros\n";
  for (auto [a, b] : {std::pair("x * gain + bias", "w"),
                      {"x * v", "w"},
                      {"x * (1 + bias)", "w * g"},
                      {"x", "w * g * rsqrt(sum(w^2, over = feat))"},
                      {"x", "outer(v * w)"},
                      {"x * gain", "v"},
                      {"x * gain * z", "w + 1"}}) {
    const std::string h = std::string("(") + a + ")", k = std::string("(") + b + ")";
    const std::string head = "  loss mean((", tail = ")^2)";
    const std::string viaDot = decayed(parameters + head + "dot(" + h + ", " + k + ", over = feat)" + tail);
    EXPECT_EQ(decayed(parameters + head + "sum(outer(" + h + " * " + k + "), over = feat)" + tail), viaDot) << a << b;
    EXPECT_EQ(decayed(parameters + head + "sum(outer(" + k + " * " + h + "), over = feat)" + tail), viaDot) << a << b;
    EXPECT_EQ(decayed(parameters + head + "5 * mean(outer(" + k + " * " + h + "), over = feat)" + tail), viaDot)
        << a << b;
    EXPECT_EQ(viaDot, k == "(v)" ? "v" : "w") << a << b;
  }
}

TEST(Decay, LeavesGainsAndBiases) {
  EXPECT_EQ(decayed(R"(
  param gain[feat] ~ ones
  param bias[feat] ~ zeros
  loss mean(x * gain + bias))"),
            "");
  EXPECT_EQ(decayed(R"(
  param scale[feat] ~ normal(1)
  param bias[feat] ~ normal(1)
  d = x * scale + bias - z
  loss mean(d * d))"),
            "");
  // Before a head of one output, where gain and weight have the same axes.
  EXPECT_EQ(decayed(R"(
  param head[feat] ~ normal(1)
  h = nn.layernorm(x, feat) as a + nn.rmsnorm(z, feat) as b + nn.batchnorm(z, feat) as c
  loss mean((dot(h, head, over = feat) - sum(h * head, over = feat) + 1)^2))"),
            "head");
  EXPECT_EQ(decayed(R"(
  param gain[feat] ~ zeros
  param logscale[feat] ~ zeros
  param head[feat] ~ normal(1)
  loss mean(dot(normalize(x, over = feat) * (1 + gain) * exp(logscale), head, over = feat)^2))"),
            "head");
  EXPECT_EQ(decayed(R"(
  param soft[feat] ~ zeros
  param gate[feat] ~ zeros
  param head[feat] ~ normal(1)
  loss mean(sum(normalize(x, over = feat) * log(1 + exp(soft)) * sigmoid(gate) * head, over = feat)^2))"),
            "head");
  EXPECT_EQ(decayed("  loss mean(sum(nn.layernorm(x, feat), over = feat)^2)"), "");
}

TEST(Decay, LeavesWhatNormalisesPictures) {
  EXPECT_EQ(decayed(R"(
  axis height = 4
  axis width = 4
  input image[batch, feat, height, width] : float
  h = relu(nn.batchnorm(nn.conv3x3(image, feat, hid) as stem, hid))
  h = nn.batchnorm(nn.conv3x3(h, hid, hid2) as conv, hid2) as last
  param depth[hid2, height] ~ normal(1)
  loss mean(mean(h, over = (height, width))^2) + mean(sum(h * depth, over = height)^2))"),
            "stem.w conv.w depth");
}

TEST(Decay, KnowsTheGainOfANormalisedWeight) {
  EXPECT_EQ(decayed(R"(
  param v[feat, hid] ~ normal(1)
  param g[hid] ~ normal(1)
  param by[feat] ~ normal(1)
  w = v * rsqrt(sum(v^2, over = feat)) * g * by
  loss mean(dot(x, w, over = feat)^2))"),
            "v");
  // Gains of queries and keys.
  EXPECT_EQ(decayed(R"(
  axis seq = 6
  axis past like seq
  input s[batch, seq, feat] : float
  param wq[feat, hid] ~ normal(1)
  param wk[feat, hid] ~ normal(1)
  param bq[hid] ~ zeros
  param gq[hid] ~ ones
  param gk[hid] ~ ones
  q = normalize(dot(s, wq, over = feat) + bq, over = hid, rms = true) * gq
  k = normalize(dot(s, wk, over = feat), over = hid, rms = true) * gk
  loss mean(attention(q, k[seq -> past], k[seq -> past], over = past, key = hid)^2))"),
            "wq wk");
}

// What an average over samples sums away makes no weight of a gain, in whatever order.
TEST(Decay, LeavesGainsInAverages) {
  for (const char *loss : {"mean(h)", "mean(sum(h, over = hid))", "0 * mean(sum(h, over = hid) / 2 + 1)",
                           "sum(mean(h, over = batch))", "mean(mean(h, over = hid) - mean(x, over = feat))",
                           "mean(sum(h * h, over = hid))", "mean(sum((h - 1)^2, over = hid))"})
    EXPECT_EQ(decayed(std::string(R"(
  param w[feat, hid] ~ normal(1)
  param gain[hid] ~ ones
  param place[hid] ~ normal(1)
  h = dot(x, w, over = feat) * gain + place
  loss )") + loss),
              "w")
        << loss;
}

// Norms may be written out.
TEST(Decay, LeavesGainsOfNormsWrittenOut) {
  for (const char *start : {"ones", "zeros", "normal(1)"})
    EXPECT_EQ(decayed(R"(
  param w[feat, hid] ~ normal(1)
  param u[hid, hid2] ~ normal(1)
  param g1[hid] ~ )" + std::string(start) +
                      R"(
  param g2[hid] ~ ones
  param g3[hid] ~ ones
  param b1[hid] ~ zeros
  h = dot(x, w, over = feat)
  h = (h - mean(h, over = hid)) * rsqrt(mean((h - mean(h, over = hid))^2, over = hid) + 1e-5) * g1 + b1
  m = mean(h, over = hid)
  h = (h - m) * rsqrt(mean(h^2, over = hid) - m^2 + 1e-5) * g2
  h = exp(h) * g3
  h = h / sum(h, over = hid)
  loss mean(dot(h, u, over = hid)^2))"),
              "w u")
        << start;
}

// States, and chance that samples share, are numbers in a step: what is added to them is no bias.
TEST(Decay, TakesWeightsBesideStatesAndNoise) {
  EXPECT_EQ(decayed(R"(
  param noisy[feat, hid] ~ normal(1)
  param spread[feat, hid] ~ normal(1)
  param change[feat, hid] ~ zeros
  param mixed[feat, hid] ~ normal(1)
  param bias[hid] ~ zeros
  param kept[feat, hid] ~ normal(1)
  random e[feat, hid] ~ normal(1)
  random z2[batch, feat] ~ normal(1)
  state base[feat, hid] = 1
  state old[feat, hid] = mixed
  state mask[feat, hid] = 1
  next old = 0.9 * old + 0.1 * mixed
  h = dot(x, noisy + exp(spread) * e, over = feat) + dot(x, base + change, over = feat)
  h = h + dot(x, 0.5 * (mixed + old), over = feat) + dot(x, kept * mask, over = feat) + bias
  param place[feat] ~ normal(1)
  param more[feat, hid] ~ normal(1)
  h = h + dot(z2 + place, more, over = feat)
  loss mean(h^2))"),
            "noisy spread change mixed kept more");
}

// Each part of a concatenation meets what is at its places: dot(x, w) + bias has no other weight than w.
TEST(Decay, KnowsThePartsOfConcatenations) {
  const std::string parameters = "  param w[feat, hid] ~ normal(1)\n  param v[feat, hid] ~ normal(1)\n"
                                 "  param bias[hid] ~ zeros\n";
  auto ofSum = [&](const std::string &value) { return decayed(parameters + "  loss mean((" + value + ")^2)"); };
  EXPECT_EQ(ofSum("dot(concat(x, 0 * x[feat = 0..1] + 1, over = feat), concat(w, bias[+ feat = 1], over = feat), "
                  "over = feat)"),
            "w");
  EXPECT_EQ(ofSum("dot(concat(x, z, over = feat), concat(w, v, over = feat), over = feat)"), "w v");
  EXPECT_EQ(ofSum("dot(x, w, over = feat) + concat(bias[hid = 0..2], bias[hid = 2..4], over = hid)[hid -> hid]"), "w");
  EXPECT_EQ(decayed(R"(
  param first[feat] ~ normal(1)
  param w[feat, hid] ~ normal(1)
  rows = concat(first[+ batch, + token = 1], x[+ token = 1], z[+ token = 1], over = token)
  loss mean(tanh(dot(rows, w, over = feat))^2))"),
            "first w");
}

// A distance has products of samples and centres in it. What is added along the axes of the samples is a bias.
TEST(Decay, TakesCentres) {
  for (const char *distance : {"sum(outer(x - c)^2, over = feat)", "sum(outer(x - c) * outer(x - c), over = feat)",
                               "sum((x[+ token] - c[+ batch])^2, over = feat)",
                               "dot(x^2, 1 + 0 * index(feat), over = feat) - 2 * dot(x, c, over = feat)"})
    EXPECT_EQ(decayed(std::string("  param c[token, feat] ~ normal(1)\n  loss mean(exp(-(") + distance + ")))"), "c")
        << distance;
  EXPECT_EQ(decayed("  param c[feat] ~ normal(1)\n  loss mean(exp(-sum((x - c)^2, over = feat)))"), "");
}

TEST(Decay, TakesBothOfLowRank) {
  for (const char *w :
       {"dot(a, b, over = pair)", "sum(outer(a * b), over = pair)", "w0 + 0.5 * dot(a, b, over = pair)"})
    EXPECT_EQ(decayed(std::string(R"(
  param a[feat, pair] ~ normal(1)
  param b[pair, hid] ~ zeros
  param w0[feat, hid] ~ normal(1)
  w = )") + w + "\n  loss mean(dot(x, w, over = feat)^2) + mean(dot(x, w0, over = feat)^2)"),
              "a b w0");
  EXPECT_EQ(decayed(R"(
  param a[feat, pair] ~ ones
  param b[pair] ~ ones
  loss mean(dot(dot(x, a, over = feat), b, over = pair)^2))"),
            "a b");
}

TEST(Decay, TakesTables) {
  EXPECT_EQ(decayed(R"(
  axis seq = 6
  axis past like seq
  axis distance = 11
  input s[batch, seq, feat] : float
  param table[token, feat] ~ normal(1)
  param scale[feat] ~ normal(1)
  param bias[token] ~ zeros
  param near[distance] ~ zeros
  param place[seq, feat] ~ normal(1)
  e = (0.1 * outer(table * scale))[token = y] + bias[token = y][+ feat]
  h = s + place + e
  p = softmax(dot(h, h[seq -> past], over = feat) + near[distance = index(seq) - index(past) + 5], over = past)
  loss mean(dot(p, h[seq -> past], over = past)^2))"),
            "table bias near");
}

TEST(Decay, GoesIntoRepeats) {
  EXPECT_EQ(decayed(R"(
  h = dot(x, 1 + 0 * outer(index(feat) * index(hid)), over = feat)
  param shared[hid, hid2] ~ normal(1)
  repeat layer = 3 {
    param w[hid, hid2] ~ normal(1)
    param gain[hid] ~ ones
    param scale[hid] ~ normal(1)
    param bias[hid2] ~ zeros
    u = sum(outer((normalize(h, over = hid) * gain) * (0.5 * w)), over = hid) + bias
    v = dot(normalize(h, over = hid) * gain, shared, over = hid)
    h = h + scale * tanh(u + v)[hid2 -> hid]
  }
  loss mean(h^2))"),
            "shared layer.w");
  // A sum that a repeat along an axis makes, position by position.
  EXPECT_EQ(decayed(R"(
  param w[feat, hid] ~ normal(1)
  param kept[hid] ~ ones
  h = 0 * outer(x[feat = 0] * index(hid))
  r = h
  repeat along feat {
    h = h + outer(x * w)
    r = kept * r + x
  }
  loss mean((h + r)^2))"),
            "w");
}

TEST(Decay, TakesKernelsQueriesAndMemories) {
  EXPECT_EQ(decayed(R"(
  axis seq = 6
  axis slot = 2
  axis mem = 3
  axis k = 3
  input s[batch, seq, feat] : float
  param kernel[hid, feat, k] ~ normal(1)
  param query[slot, hid] ~ normal(1)
  param bq[hid] ~ zeros
  param keys[mem, hid] ~ normal(1)
  param values[mem, hid] ~ normal(1)
  h = conv(s, 0.5 * kernel, over = feat, window = seq)
  a = attention(query[+ batch] + bq, h, h, over = seq, key = hid)
  b = attention(h, keys[+ batch], values[+ batch], over = mem, key = hid)
  loss mean(a^2) + mean(b^2))"),
            "kernel query keys values");
}

// Places that a gather takes in order are those of a rename or a slice.
TEST(Decay, LeavesPositionsHoweverTheyAreTaken) {
  for (const char *place : {"place", "place[seq = index(past)][past -> seq]", "place[seq = index(seq)]",
                            "place[seq = 0..6][seq -> seq]", "longer[far = index(seq) + 2]"})
    EXPECT_EQ(decayed(std::string(R"(
  axis seq = 6
  axis past like seq
  axis far = 8
  input s[batch, seq, feat] : float
  param place[seq, feat] ~ normal(1)
  param longer[far, feat] ~ normal(1)
  param w[feat, hid] ~ normal(1)
  loss mean(tanh(dot(s + )") +
                      place + ", w, over = feat))^2) + 0 * mean(longer) + 0 * mean(place)"),
              "w")
        << place;
}

TEST(Decay, TakesWhatExpertsAndFactorsHold) {
  EXPECT_EQ(decayed(R"(
  axis expert = 3
  axis gate like expert
  param router[feat, gate] ~ normal(1)
  param w1[expert, feat, hid] ~ normal(1)
  param b1[expert, hid] ~ zeros
  share = softmax(sum(outer(x * router), over = feat), over = gate)
  h = relu(sum(outer(x * w1), over = feat) + b1)
  loss mean(dot(h, share[gate -> expert], over = expert)^2))"),
            "router w1");
  EXPECT_EQ(decayed(R"(
  axis feat2 like feat
  param w[feat, hid] ~ normal(1)
  param v[feat2, hid] ~ normal(1)
  both = outer(outer(x * w) * outer(z[feat -> feat2] * v))
  loss mean(sum(both, over = (feat, feat2))^2))"),
            "w v");
  // Each tensor whose magnitude is a parameter of its own.
  EXPECT_EQ(decayed(R"(
  param w[feat, hid] ~ normal(1)
  param a[feat, pair] ~ normal(1)
  param b[pair, hid] ~ zeros
  param size[hid] ~ ones
  v = w + sum(outer(a * b), over = pair)
  loss mean(dot(x, size * v / sqrt(sum(v^2, over = feat)), over = feat)^2))"),
            "w a b");
}

// What training does not read is not drawn to 0 by it; what reaches the loss twice decays once.
TEST(Decay, IsOfTraining) {
  EXPECT_EQ(decayed(R"(
  param tied[feat, hid] ~ normal(1)
  param measured[feat] ~ normal(1)
  loss mean(dot(dot(x, tied, over = feat), tied, over = hid)^2)
  metric far = mean(dot(x, measured, over = feat)))"),
            "tied");
}

} // namespace
