// What passes do to a step leaves its meaning alone: parts of a batch, batches of a held-out set, the update's
// formulas.
#include "ir/run/Run.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "test/interpret/Interpret.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using namespace echelon::interpret;

namespace {

class StepMeaning : public testing::Test {
protected:
  StepMeaning() { context.loadDialect<EchDialect, run::RunDialect>(); }

  /// Parses `text`, with T(…) for tensor types of f64 and I(…) for i32, and runs the passes.
  void prepare(std::string text, std::vector<std::unique_ptr<Pass>> passes) {
    for (auto [mark, element] : {std::pair("T(", "f64"), std::pair("I(", "i32")})
      for (size_t at; (at = text.find(mark)) != std::string::npos;) {
        size_t end = text.find(')', at);
        text = text.substr(0, at) + "!ech.tensor<[" + text.substr(at + 2, end - at - 2) + "], " + element + ">" +
               text.substr(end + 1);
      }
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    PassManager manager(&context);
    for (auto &pass : passes)
      manager.addPass(std::move(pass));
    ASSERT_TRUE(succeeded(manager.run(*module)));
  }
  Results run(StringRef name) {
    for (auto step : module->getOps<StepOp>())
      if (step.getSymName() == name)
        return interpret::run(step, machine);
    ADD_FAILURE() << "no step " << name.str();
    return {};
  }
  void set(std::string name, std::vector<std::string> axes, std::vector<int64_t> sizes, std::vector<double> values) {
    Array x;
    x.axes = axes;
    x.sizes = sizes;
    x.values = values;
    machine.values[name] = x;
  }
  static std::vector<std::unique_ptr<Pass>> list(std::unique_ptr<Pass> a, std::unique_ptr<Pass> b = {}) {
    std::vector<std::unique_ptr<Pass>> passes;
    passes.push_back(std::move(a));
    if (b)
      passes.push_back(std::move(b));
    return passes;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Machine machine;
};

// Ten samples in batches of four: the last one is filled up, and its filling is in no sum and no count.
TEST_F(StepMeaning, EvaluationIsThatOfTheWholeHeldOutSet) {
  prepare(R"(module attributes {ech.batch_axis = "batch"} {
    ech.variable param @w : T(i=2) = constant(0.0, 0.0)
    ech.input @x 0 : T(batch=4, i=2) below 0
    ech.step @evaluate {
      %x = "ech.read"() {source = @x} : () -> T(batch=4, i=2)
      %w = "ech.read"() {source = @w} : () -> T(i=2)
      %y = ech.dot %x, %w over ["i"] : (T(batch=4, i=2), T(i=2)) -> T(batch=4)
      %e = ech.map exp %y : (T(batch=4)) -> T(batch=4)
      %s = ech.reduce sum %e over ["batch"] : (T(batch=4)) -> T()
      %n = "ech.count"() {over = ["batch"], sizes = array<i64: 4>} : () -> T()
      %m = ech.map div %s, %n : (T(), T()) -> T()
      ech.report metric "mean", %m : <[], f64>
    }
  })",
          list(createSplitTime(), createSimplify()));
  std::vector<double> x;
  double mean = 0;
  for (int k = 0; k < 10; ++k) {
    x.push_back(0.1 * k);
    x.push_back(-0.2);
    mean += std::exp(0.1 * k * 2 - 0.2 * 3) / 10;
  }
  set("x", {"batch", "i"}, {10, 2}, x);
  set("w", {"i"}, {2}, {2, 3});
  set(std::string(ech::kValidSamples), {"batch"}, {10}, std::vector<double>(10, 1));
  EXPECT_NEAR(run("evaluate").reports.at("mean"), mean, 1e-12);
}

// A penalty on weights, computed in a loop that samples go through, is counted once, however many batches there are.
TEST_F(StepMeaning, WhatNoSampleEntersIsCountedOnce) {
  prepare(R"(module attributes {ech.batch_axis = "batch"} {
    ech.variable param @w : T(layer=2) = constant(0.0, 0.0)
    ech.input @x 0 : T(batch=2) below 0
    ech.step @evaluate {
      %x = "ech.read"() {source = @x} : () -> T(batch=2)
      %w = "ech.read"() {source = @w} : () -> T(layer=2)
      %y, %p = ech.repeat "layer" = 2 carry(%x : T(batch=2)) slice(%w : T(layer=2)) -> (T(batch=2)) sum (T()) {
      ^bb0(%xi: T(batch=2), %wi: T()):
        %n = ech.map mul %xi, %wi : (T(batch=2), T()) -> T(batch=2)
        %q = ech.map mul %wi, %wi : (T(), T()) -> T()
        ech.yield carry(%n : T(batch=2)) sum(%q : T())
      }
      %s = ech.reduce sum %y over ["batch"] : (T(batch=2)) -> T()
      %l = ech.map add %s, %p : (T(), T()) -> T()
      ech.report metric "both", %l : <[], f64>
    }
  })",
          list(createSplitTime(), createSimplify()));
  set("x", {"batch"}, {5}, {1, 2, 3, 4, 5});
  set("w", {"layer"}, {2}, {2, 3});
  set(std::string(ech::kValidSamples), {"batch"}, {5}, std::vector<double>(5, 1));
  EXPECT_DOUBLE_EQ(run("evaluate").reports.at("both"), 15 * 6 + 13);
}

// A running statistic made of batch sums is written after the passes, from the whole batch.
TEST_F(StepMeaning, AStateMadeOfBatchSumsSeesTheWholeBatch) {
  std::string text = R"(module attributes {ech.batch_axis = "batch", ech.batch = 6, ech.micro = 3} {
    ech.variable state @running : T() = constant(0.0, 0.0)
    ech.input @x 0 : T(batch=6) below 0
    ech.step @train {
      %x = "ech.read"() {source = @x} : () -> T(batch=6)
      %old = "ech.read"() {source = @running} : () -> T()
      %s = ech.reduce sum %x over ["batch"] : (T(batch=6)) -> T()
      %n = "ech.count"() {over = ["batch"], sizes = array<i64: 6>} : () -> T()
      %mean = ech.map div %s, %n : (T(), T()) -> T()
      %square = ech.map mul %mean, %mean : (T(), T()) -> T()
      %new = ech.map add %old, %square : (T(), T()) -> T()
      "ech.write"(%new) {target = @running} : (T()) -> ()
      ech.report loss "loss", %s : <[], f64>
    }
  })";
  prepare(text, list(createSplitTime(), createSimplify()));
  set("x", {"batch"}, {6}, {1, 2, 3, 4, 5, 9});
  set("running", {}, {}, {0.5});
  Results results = run("train");
  EXPECT_DOUBLE_EQ(results.writes.at("running").values[0], 16.5);
  EXPECT_DOUBLE_EQ(results.reports.at("loss"), 24);
}

// Two steps' worth of numbers by hand: PyTorch's formulas.
struct Rule {
  const char *line;
  double w, m, v; // after the step; m: or the momentum
};
class UpdateRule : public StepMeaning, public testing::WithParamInterface<Rule> {};
TEST_P(UpdateRule, GivesPyTorchsNumbers) {
  prepare(std::string(R"(module {
    run.optimize )") +
              GetParam().line + R"( rate <kind = constant, peak = 0.1>
    ech.variable param @w : T() = constant(0.0, 0.0) decayed
    ech.variable state @g : T() = constant(0.0, 0.0)
    ech.step @train {
      %g = "ech.read"() {source = @g} : () -> T()
      "ech.gradient"(%g) {parameter = @w} : (T()) -> ()
    }
  })",
          list(createExpandUpdate(), createSimplify()));
  machine.learningRate = 0.1;
  machine.step = 4; // the fifth
  for (auto [name, value] : {std::pair("w", 2.0), std::pair("g", 0.5), std::pair("optimizer.momentum.w", 0.3),
                             std::pair("optimizer.m.w", 0.3), std::pair("optimizer.v.w", 0.2)})
    set(name, {}, {}, {value});
  Results results = run("train");
  EXPECT_NEAR(results.writes.at("w").values[0], GetParam().w, 1e-12);
  for (auto [name, value] : {std::pair("optimizer.momentum.w", GetParam().m), std::pair("optimizer.m.w", GetParam().m),
                             std::pair("optimizer.v.w", GetParam().v)})
    if (results.writes.count(name)) {
      EXPECT_NEAR(results.writes.at(name).values[0], value, 1e-12) << name;
    }
  EXPECT_DOUBLE_EQ(results.reports.at("norm"), 0.5);
}
double adam(double w, double g, double decoupled) {
  double m = 0.9 * 0.3 + 0.1 * g, v = 0.95 * 0.2 + 0.05 * g * g;
  w *= 1 - 0.1 * decoupled;
  return w - 0.1 * (m / (1 - std::pow(0.9, 5))) / (std::sqrt(v / (1 - std::pow(0.95, 5))) + 1e-8);
}
const char kAdam[] = R"("adam" on ["*"] with {beta1 = 0.9, beta2 = 0.95, epsilon = 1.0e-8, decay = 0.2})";
const char kAdamW[] = R"("adamw" on ["*"] with {beta1 = 0.9, beta2 = 0.95, epsilon = 1.0e-8, decay = 0.2})";
INSTANTIATE_TEST_SUITE_P(Rules, UpdateRule,
                         testing::Values(Rule{R"("sgd" on ["*"] with {})", 2 - 0.1 * 0.5, 0, 0},
                                         Rule{R"("sgd" on ["*"] with {momentum = 0.9, decay = 0.2})",
                                              2 - 0.1 * (0.9 * 0.3 + 0.9), 0.9 * 0.3 + 0.9, 0},
                                         Rule{R"("sgd" on ["*"] with {momentum = 0.9, nesterov = 1.0})",
                                              2 - 0.1 * (0.5 + 0.9 * (0.9 * 0.3 + 0.5)), 0.9 * 0.3 + 0.5, 0},
                                         Rule{kAdam, adam(2, 0.9, 0), 0.9 * 0.3 + 0.1 * 0.9, 0.95 * 0.2 + 0.05 * 0.81},
                                         Rule{kAdamW, adam(2, 0.5, 0.2), 0.9 * 0.3 + 0.1 * 0.5,
                                              0.95 * 0.2 + 0.05 * 0.25}));

/// The step of one tensor by LAMB's formula: 0.9, 0.95, epsilon 1e-8, decay 0.2, the fifth update, lr 0.1.
std::vector<double> lamb(std::vector<double> w, std::vector<double> g, double m0, double v0, bool isWeight) {
  double sizeOfW = 0, sizeOfR = 0;
  std::vector<double> r;
  for (size_t i = 0; i < w.size(); ++i) {
    const double m = 0.9 * m0 + 0.1 * g[i], v = 0.95 * v0 + 0.05 * g[i] * g[i];
    r.push_back(m / (1 - std::pow(0.9, 5)) / (std::sqrt(v / (1 - std::pow(0.95, 5))) + 1e-8) +
                (isWeight ? 0.2 * w[i] : 0));
    sizeOfW += w[i] * w[i];
    sizeOfR += r[i] * r[i];
  }
  const double ratio = isWeight && sizeOfW > 0 && sizeOfR > 0 ? std::sqrt(sizeOfW / sizeOfR) : 1;
  for (size_t i = 0; i < w.size(); ++i)
    w[i] -= 0.1 * ratio * r[i];
  return w;
}

// LAMB's norms are those of one tensor, a parameter at one index of its repeats; what decay leaves out, and what is 0,
// is moved as Adam would.
TEST_F(StepMeaning, LambScalesTheStepOfEachTensor) {
  prepare(R"(module {
    run.optimize "lamb" on ["*"] with {beta1 = 0.9, beta2 = 0.95, epsilon = 1.0e-8, decay = 0.2} rate <kind = constant, peak = 0.1>
    ech.variable param @stacked : T(layer=2, i=2) = constant(0.0, 0.0) stacked 1 decayed
    ech.variable param @w : T(i=2) = constant(0.0, 0.0) decayed
    ech.variable param @zero : T(i=2) = constant(0.0, 0.0) decayed
    ech.variable param @gain : T(i=2) = constant(0.0, 0.0)
    ech.variable state @g : T(i=2) = constant(0.0, 0.0)
    ech.variable state @gs : T(layer=2, i=2) = constant(0.0, 0.0)
    ech.step @train {
      %g = "ech.read"() {source = @g} : () -> T(i=2)
      %gs = "ech.read"() {source = @gs} : () -> T(layer=2, i=2)
      "ech.gradient"(%gs) {parameter = @stacked} : (T(layer=2, i=2)) -> ()
      "ech.gradient"(%g) {parameter = @w} : (T(i=2)) -> ()
      "ech.gradient"(%g) {parameter = @zero} : (T(i=2)) -> ()
      "ech.gradient"(%g) {parameter = @gain} : (T(i=2)) -> ()
    }
  })",
          list(createExpandUpdate(), createSimplify()));
  machine.learningRate = 0.1;
  machine.step = 4;
  const std::vector<double> w{2, -0.5}, g{0.5, 0.1}, other{30, 40};
  set("stacked", {"layer", "i"}, {2, 2}, {2, -0.5, 30, 40});
  set("gs", {"layer", "i"}, {2, 2}, {0.5, 0.1, 0.5, 0.1});
  for (const char *name : {"w", "gain"})
    set(name, {"i"}, {2}, w);
  set("zero", {"i"}, {2}, {0, 0});
  set("g", {"i"}, {2}, g);
  for (const char *name : {"stacked", "w", "zero", "gain"})
    for (auto [moment, value] : {std::pair("optimizer.m.", 0.3), std::pair("optimizer.v.", 0.2)}) {
      const bool isStacked = name == std::string("stacked");
      set(std::string(moment) + name,
          isStacked ? std::vector<std::string>{"layer", "i"} : std::vector<std::string>{"i"},
          isStacked ? std::vector<int64_t>{2, 2} : std::vector<int64_t>{2},
          std::vector<double>(isStacked ? 4 : 2, value));
    }
  Results results = run("train");
  auto expect = [&](const char *name, size_t from, const std::vector<double> &values) {
    for (size_t i = 0; i < 2; ++i)
      EXPECT_NEAR(results.writes.at(name).values[from + i], values[i], 1e-12) << name << " " << i;
  };
  expect("stacked", 0, lamb(w, g, 0.3, 0.2, true));
  expect("stacked", 2, lamb(other, g, 0.3, 0.2, true));
  expect("w", 0, lamb(w, g, 0.3, 0.2, true));
  expect("zero", 0, lamb({0, 0}, g, 0.3, 0.2, true));
  expect("gain", 0, lamb(w, g, 0.3, 0.2, false));
}

// An average forgets less at first; one that keeps nothing is the parameter, to the last bit. It changes places with
// the parameter where an evaluation is to read it.
TEST_F(StepMeaning, AnAverageFollowsTheParameter) {
  for (double decay : {0.9, 0.0}) {
    prepare(R"(module {
      run.optimize "sgd" on ["*"] with {} rate <kind = constant, peak = 0.1>
      run.average ema )" +
                std::to_string(decay) + R"(
      ech.variable param @w : T() = constant(0.0, 0.0)
      ech.variable state @g : T() = constant(0.0, 0.0)
      ech.step @train {
        %g = "ech.read"() {source = @g} : () -> T()
        "ech.gradient"(%g) {parameter = @w} : (T()) -> ()
      }
      ech.step @evaluate {
        %w = "ech.read"() {source = @w} : () -> T()
        ech.report metric "w", %w : <[], f64>
      }
    })",
            list(createExpandUpdate(), createSimplify()));
    machine.learningRate = 0.1;
    machine.step = 4;
    set("w", {}, {}, {2.1});
    set("g", {}, {}, {0.7});
    EXPECT_EQ(run("train.start").writes.at("average.w").values[0], 2.1);
    set("average.w", {}, {}, {1.3});
    const double w = 2.1 - 0.1 * 0.7, kept = std::min(decay, 6.0 / 15.0);
    Results results = run("train");
    EXPECT_EQ(results.writes.at("w").values[0], w);
    EXPECT_NEAR(results.writes.at("average.w").values[0], kept * 1.3 + (1 - kept) * w, decay == 0 ? 0 : 1e-15);
    Results exchanged = run("exchange");
    EXPECT_EQ(exchanged.writes.at("w").values[0], 1.3);
    EXPECT_EQ(exchanged.writes.at("average.w").values[0], 2.1);
  }
}

// The norm is that of the whole gradient; a clip above it changes nothing, one below scales to it.
TEST_F(StepMeaning, AClipBoundsTheNorm) {
  prepare(R"(module attributes {ech.clip = 1.0, ech.keep_gradients} {
    run.optimize "sgd" on ["*"] with {} rate <kind = constant, peak = 0.1>
    ech.variable param @a : T(i=2) = constant(0.0, 0.0)
    ech.step @train {
      %a = "ech.read"() {source = @a} : () -> T(i=2)
      "ech.gradient"(%a) {parameter = @a} : (T(i=2)) -> ()
    }
  })",
          list(createExpandUpdate(), createSimplify()));
  set("a", {"i"}, {2}, {3, 4});
  Results results = run("train");
  EXPECT_DOUBLE_EQ(results.reports.at("norm"), 5);
  EXPECT_NEAR(results.writes.at("a").values[1], 4 - 0.1 * 4 / (5 + 1e-6), 1e-12);
  EXPECT_DOUBLE_EQ(results.writes.at("gradient.a").values[0], 3); // before clipping
  set("a", {"i"}, {2}, {0.3, 0.4});
  EXPECT_NEAR(run("train").writes.at("a").values[1], 0.36, 1e-12);
}

} // namespace
