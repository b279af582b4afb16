// What a train block comes to.
#include "frontend/resolve/RunSettings.h"
#include "frontend/Parse.h"
#include <gtest/gtest.h>

using namespace echelon::frontend;

namespace {
const char *const model =
    "model M {\n  axis batch\n  axis hidden = 8\n  input x[batch, hidden] : float\n  loss mean(x)\n}\n"
    "cluster here = local(ranks = 8)\n";

struct Planned {
  SourceManager sources;
  Diagnostics diagnostics{sources};
  std::unique_ptr<Program> program;
  RunSettings plan;
  explicit Planned(const std::string &clauses, bool oneRank = false) {
    program = parseProgram(sources, sources.add("test.ech", model + ("train t {\n" + clauses + "}\n")), diagnostics);
    plan = resolveTrain(*program, program->main().trains[0], diagnostics, oneRank);
  }
};

const std::string common = "model M()\non here\ndata mnist(\"d\") -> x, y\n";

// On one rank there are as many micro batches as the layout has, and where those do not divide the batch, its own.
TEST(RunSettings, MicroBatchesOfOneRank) {
  auto microBatches = [](const std::string &batch) {
    Planned p(common + batch + "\nsteps 10\noptimize sgd(lr = 1)\nlayout mesh(dp = 4) { split batch over dp }\n", true);
    EXPECT_EQ(p.diagnostics.text(), "");
    EXPECT_EQ(p.plan.ranks(), 1);
    return p.plan.microBatches;
  };
  EXPECT_EQ(microBatches("batch 64 in micro batches of 4"), 4);
  EXPECT_EQ(microBatches("batch 6 in micro batches of 2"), 3);
}

// Mesh axes with their lists, stores and micro batches: 64 samples, 4 a pass on each of 4 ranks.
TEST(RunSettings, Layout) {
  Planned p(common + "batch 64 in micro batches of 4\nsteps 10\noptimize sgd(lr = 1)\nlayout mesh(dp = 4, tp = 2) {\n  "
                     "split batch over dp\n"
                     "  split hidden over tp with padding\n  store optimizer over dp\n  collective all_reduce over "
                     "(tp, dp) with ring\n}\n");
  ASSERT_EQ(p.diagnostics.text(), "");
  ASSERT_EQ(p.plan.mesh.size(), 2u);
  EXPECT_EQ(p.plan.mesh[0].name, "dp");
  EXPECT_EQ(p.plan.mesh[0].stored.count("optimizer"), 1u);
  EXPECT_EQ(p.plan.mesh[1].list[0].axis, "hidden");
  EXPECT_TRUE(p.plan.mesh[1].list[0].padded);
  EXPECT_EQ(p.plan.microBatches, 4);
  EXPECT_EQ(p.plan.ranks(), 8);
  EXPECT_EQ(p.plan.collectives[0].over, (std::vector<std::string>{"dp", "tp"}));
}

// One rank takes a batch that the ranks of the layout could not divide.
TEST(RunSettings, OneRankWhateverTheLayout) {
  const std::string clauses = common + "batch 3\nsteps 10\noptimize sgd(lr = 1)\n",
                    layout = "layout mesh(dp = 2) { split batch over dp }\n";
  for (const std::string &text : {clauses, clauses + layout}) {
    Planned alone(text, true);
    EXPECT_EQ(alone.diagnostics.text(), "");
    EXPECT_TRUE(alone.plan.mesh.empty());
    EXPECT_NE(Planned(text, false).diagnostics.text(), "");
  }
}

// Without a layout the batch is split over all ranks of the cluster.
TEST(RunSettings, NoLayout) {
  Planned p(common + "batch 64\nsamples 130\noptimize sgd(lr = 1)\n");
  ASSERT_EQ(p.diagnostics.text(), "");
  ASSERT_EQ(p.plan.mesh.size(), 1u);
  EXPECT_EQ(p.plan.mesh[0].size, 8);
  EXPECT_EQ(p.plan.mesh[0].list[0].axis, "batch");
  EXPECT_EQ(p.plan.steps, 3); // 130 samples, 64 a step
}

// Optimizer, schedule, and the linear scaling rule on peak and floor.
TEST(RunSettings, Optimizer) {
  Planned p(common + "batch 64\nsteps 100\noptimize adamw(lr = cosine(peak = 1e-3, warmup = 10, floor = 1e-4), betas = "
                     "(0.8, 0.9), decay = 10%, clip = 1, "
                     "scale_lr = linear(base = 32)) on (*.w)\noptimize sgd(0.5, momentum = 0.9, nesterov = true)\n");
  ASSERT_EQ(p.diagnostics.text(), "");
  const OptimizerLine &first = p.plan.optimizers[0];
  EXPECT_EQ(first.rule, "adamw");
  EXPECT_EQ(first.schedule.kind, Schedule::Cosine);
  EXPECT_DOUBLE_EQ(first.schedule.peak, 2e-3);
  EXPECT_DOUBLE_EQ(first.schedule.floor, 2e-4);
  EXPECT_EQ(first.schedule.warmup, 10);
  using Numbers = std::vector<std::pair<std::string, double>>;
  EXPECT_EQ(first.numbers, (Numbers{{"beta1", 0.8}, {"beta2", 0.9}, {"epsilon", 1e-8}}));
  EXPECT_DOUBLE_EQ(first.decay, 0.1);
  EXPECT_EQ(first.patterns[0].text, "*.w");
  EXPECT_EQ(p.plan.clip, 1);
  EXPECT_EQ(p.plan.optimizers[1].numbers, (Numbers{{"momentum", 0.9}, {"nesterov", 1}}));
}

// Sources nest; transforms carry their numbers.
TEST(RunSettings, Data) {
  Planned p("model M()\ndata next_token(text(\"a.txt\"), holdout = 10%) -> x, y\nbatch 64\nsteps 100\noptimize sgd(1)\n"
            "evaluate big on cifar10(\"c\") every 10 steps on 2 batches\nevaluate every 20 steps\n");
  ASSERT_EQ(p.diagnostics.text(), "");
  EXPECT_EQ(p.plan.data.kind, "next_token");
  EXPECT_DOUBLE_EQ(p.plan.data.args[0], 0.1);
  EXPECT_EQ(p.plan.data.children[0].paths[0], "a.txt");
  ASSERT_EQ(p.plan.evaluations.size(), 2u);
  EXPECT_EQ(p.plan.evaluations[0].source->kind, "cifar10");
  EXPECT_EQ(p.plan.evaluations[0].batches, 2);
  EXPECT_EQ(p.plan.evaluations[1].name, "");
}

// Each policy of `recompute`, as plan names it.
TEST(RunSettings, Recompute) {
  auto text = [](const std::string &policy) {
    Planned p(common + "batch 64\nepochs 3\noptimize sgd(1)\nrecompute " + policy + "\n");
    EXPECT_EQ(p.diagnostics.text(), "");
    EXPECT_TRUE(p.plan.notBuilt.empty());
    return p.plan.recompute.text();
  };
  EXPECT_EQ(text("none"), "none");
  EXPECT_EQ(text("full"), "full");
  EXPECT_EQ(text("every 2 layer"), "every 2 layer");
  EXPECT_EQ(text("keep attn.q, mlp"), "keep (attn.q, mlp)");
}

// Snapshots, seed, precision.
TEST(RunSettings, Rest) {
  Planned p(common + "batch 64\nepochs 3\noptimize sgd(1)\nseed 7\nprecision fp64\ncheckpoint every 10 min to \"c\" "
                     "keep 2\nsync every step\nrecompute none\n");
  ASSERT_EQ(p.diagnostics.text(), "");
  EXPECT_EQ(p.plan.lengthEpochs, 3);
  EXPECT_EQ(p.plan.steps, 0);
  EXPECT_EQ(p.plan.seed, 7u);
  EXPECT_TRUE(p.plan.doublePrecision);
  EXPECT_DOUBLE_EQ(p.plan.checkpoint.everySeconds, 600);
  EXPECT_EQ(p.plan.checkpoint.directory, "c");
  EXPECT_EQ(p.plan.checkpoint.keep, 2);
  EXPECT_TRUE(p.plan.notBuilt.empty());
}

// What is left to the compiler until it has costed a step.
TEST(RunSettings, AutomaticChoices) {
  const std::string rest = common + "batch 64\nepochs 3\noptimize sgd(1)\n";
  Planned p(rest + "checkpoint auto to \"c\" keep 2\nrecompute auto within 70 GB\n");
  ASSERT_EQ(p.diagnostics.text(), "");
  EXPECT_TRUE(p.plan.notBuilt.empty());
  EXPECT_TRUE(p.plan.checkpoint.isAuto);
  EXPECT_EQ(p.plan.checkpoint.everySteps, 0);
  EXPECT_EQ(p.plan.checkpoint.everySeconds, 0);
  EXPECT_EQ(p.plan.checkpoint.directory, "c");
  EXPECT_EQ(p.plan.checkpoint.keep, 2);
  EXPECT_EQ(p.plan.recompute.policy, "auto");
  EXPECT_DOUBLE_EQ(p.plan.recompute.within, 70e9);
  Planned whole(rest + "checkpoint every 10 steps\nrecompute auto\n");
  EXPECT_FALSE(whole.plan.checkpoint.isAuto);
  EXPECT_EQ(whole.plan.recompute.within, 0);
}

// Tokens of a width that there is not are no data: nothing opens them.
TEST(RunSettings, TokensOfAWrongWidth) {
  Planned p("model M()\non here\ndata next_token(tokens(\"x\", bits = 0)) -> x, y\nbatch 64\nsteps 10\noptimize "
            "sgd(lr = 1)\n");
  EXPECT_NE(p.diagnostics.text().find("'bits' of tokens is 16, 32 or 64, not 0"), std::string::npos);
  EXPECT_EQ(p.plan.data.kind, "");
}

// What a model is evaluated on is normalized as what it is trained on.
TEST(RunSettings, EvaluationsAreNormalized) {
  Planned p("model M()\non here\ndata mnist(\"d\") -> x, y with flip, normalize(mean = 0.5, std = 2)\nbatch "
            "64\nsteps 10\noptimize sgd(lr = 1)\nevaluate test on mnist(\"e\") every 5 steps\n");
  ASSERT_EQ(p.diagnostics.text(), "");
  ASSERT_EQ(p.plan.evaluations.size(), 1u);
  const auto &transforms = p.plan.evaluations[0].source->transforms;
  ASSERT_EQ(transforms.size(), 1u);
  EXPECT_EQ(transforms[0].kind, "normalize");
  EXPECT_EQ(transforms[0].args, (std::vector<double>{0.5, 2}));
}

// Axes are checked against the model's; the split of a repeat is a pipeline, in which each stage has equally many
// iterations, one forward and one backward in turn unless told.
TEST(RunSettings, Axes) {
  Planned p(common + "batch 64\nsteps 3\noptimize sgd(1)\nlayout mesh(dp = 2, tp = 2, pp = 2) {\n  split batch over "
                     "dp\n  split hiden over tp\n  split layer over pp\n}\n");
  checkAxes(p.plan, {{"batch", 64}, {"hidden", 8}, {"layer", 5}}, {"layer"}, p.diagnostics);
  EXPECT_EQ(p.diagnostics.text(),
            "test.ech:17:9: error[E0306]: the model has no axis 'hiden'; did you mean "
            "'hidden'?\n  split hiden over tp\n        ^~~~~\n"
            "test.ech:18:9: error[E0312]: cannot split layer = 5 over pp = 2, each with equally "
            "many iterations; say as (3, 2), or as balanced\n  split layer over pp\n        ^~~~~\n");
  EXPECT_TRUE(p.plan.notBuilt.empty());
  EXPECT_EQ(p.plan.mesh[0].schedule, "");
  EXPECT_EQ(p.plan.mesh[2].schedule, "1f1b");
}
} // namespace
