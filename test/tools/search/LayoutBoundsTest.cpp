// Small spaces of layouts, each candidate of which is compiled: bounds hold, and a search finds the fastest.
#include "tools/driver/search/LayoutBounds.h"
#include "tools/driver/search/ChooseLayout.h"
#include "tools/driver/search/KeptChain.h"
#include "tools/driver/search/LayoutSpace.h"
#include "tools/driver/search/Trials.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace echelon;

namespace {

/// A spec in a file of its own.
class Spec {
public:
  explicit Spec(const std::string &text)
      : path(std::filesystem::temp_directory_path() / ("layouts-" + std::to_string(getpid()) + ".ech")) {
    std::ofstream(path) << text;
    options.spec = path.string();
    options.leavesLayoutOpen = options.anyMemory = options.ofCluster = true;
    options.warns = false;
  }
  ~Spec() { std::filesystem::remove(path); }

  std::filesystem::path path;
  CompileOptions options;
};

/// Attention and two products a layer, on four devices, two in a node.
std::string transformer(const std::string &memory, const std::string &train) {
  return R"(
import nn
device tiny {
  memory )" +
         memory + R"( at 200 GB/s
  peak   fp32 2 TFLOP/s, tf32 8 TFLOP/s, bf16 16 TFLOP/s
  response host 0 us
}
cluster desk { nodes 2 of 2 x tiny; link 20 GB/s, 2 us; network 1 x 20 Gb/s, 5 us }
model GPT() {
  axis batch
  axis seq = 64
  axis past like seq
  axis vocab = 512
  axis embed = 128
  axis head = 4
  axis key = 32
  axis ff = 512
  input tokens[batch, seq] : int below vocab
  input labels[batch, seq] : int below vocab
  param wte[vocab, embed] ~ normal(0.02)
  x = wte[vocab = tokens]
  repeat layer = 4 {
    x = x + nn.attention(nn.layernorm(x, embed), embed, head, key, seq, past, causal = true) as attn
    x = x + nn.mlp(nn.layernorm(x, embed), embed, ff) as mlp
  }
  logits = dot(nn.layernorm(x, embed), wte, over = embed)
  loss mean(cross_entropy(logits, labels, over = vocab))
}
train small {
  model    GPT()
  on       desk
  data     synthetic(tokens) -> tokens, labels
  steps    4
  optimize adam(lr = 1e-3)
)" + train +
         "}\n";
}

/// All candidates of a spec, each compiled.
class Everything {
public:
  explicit Everything(const CompileOptions &options) : trials(options, 2) {
    Trial &first = trials.first();
    if (!first.isGood || !first.compilation.elaborate()) {
      ADD_FAILURE() << first.compilation.diagnostics.text();
      return;
    }
    space.emplace(first.compilation, first.compilation.settings.clusterRanks);
    space->enumerate(policiesOf(*space, trials));
    bounds.emplace(*space, first.room);
    bounds->isShort = first.room != 0;
    bounds->ask(trials);
    prices.resize(space->candidates.size());
    trials.onAll(
        prices.size(), [&](Trial &trial, size_t i) { prices[i] = trial.ask(space->layoutOf(space->candidates[i])); },
        [](Trial &, size_t) {});
  }

  /// The least time of those that have room; infinity: none has.
  double best() const {
    double least = std::numeric_limits<double>::infinity();
    for (const planner::Price &price : prices)
      if (price.kind == planner::Price::Kind::Fits)
        least = std::min(least, price.seconds);
    return least;
  }

  Trials trials;
  std::optional<LayoutSpace> space;
  std::optional<LayoutBounds> bounds;
  std::vector<planner::Price> prices;
};

constexpr double kRounded = 1 + 1e-9;

/// No bound is above what a candidate takes; how near the last one comes, on average.
double checkBounds(Everything &all) {
  std::vector<size_t> every(all.prices.size());
  for (size_t i = 0; i < every.size(); ++i)
    every[i] = i;
  using Level = LayoutBounds::Level;
  double near = 0;
  int64_t count = 0, failed = 0;
  for (Level level : {Level::Shared, Level::Sending, Level::Own}) {
    const std::vector<double> bounds = all.bounds->tightened(every, level, all.trials);
    for (size_t i : every) {
      const planner::Price &price = all.prices[i];
      const LayoutCandidate &candidate = all.space->candidates[i];
      if (price.kind == planner::Price::Kind::Refused)
        continue;
      const bool isCrowded = all.bounds->isWithoutRoom(candidate) || std::isinf(bounds[i]);
      const bool holds = isCrowded ? price.kind == planner::Price::Kind::NoRoom
                                   : bounds[i] <= price.seconds * kRounded &&
                                         all.bounds->leastSeconds(candidate) <= price.seconds * kRounded;
      if (!holds && failed++ < 5)
        ADD_FAILURE() << "level " << int(level) << ": " << bounds[i] << ", first "
                      << all.bounds->leastSeconds(candidate) << ", is " << price.seconds << ", " << price.bytes
                      << " bytes, at least " << all.bounds->leastBytes(candidate) << ": "
                      << all.space->layoutOf(candidate).text();
      if (level == Level::Own && !isCrowded) {
        near += bounds[i] / price.seconds;
        ++count;
      }
    }
  }
  EXPECT_EQ(failed, 0);
  return count ? near / double(count) : 0;
}

void checkChoice(const Spec &spec, const Everything &all) {
  CompileOptions options = spec.options;
  options.leavesLayoutOpen = false;
  Compilation compilation(options);
  ASSERT_TRUE(compilation.parse() && compilation.resolve()) << compilation.diagnostics.text();
  const LayoutChoice &choice = *compilation.options.chosen;
  EXPECT_EQ(choice.counted, int64_t(all.prices.size()));
  EXPECT_EQ(choice.counted, choice.without + choice.cut + choice.refused + choice.fit);
  EXPECT_EQ(choice.best.seconds, all.best());
  EXPECT_LT(choice.asked, choice.counted / 2);
}

TEST(LayoutBounds, OfAllThatHaveRoom) {
  const Spec spec(transformer("1 GB", "batch 8\n layout auto\n"));
  Everything all(spec.options);
  EXPECT_GT(all.prices.size(), 200u);
  EXPECT_GT(checkBounds(all), 0.7);
  checkChoice(spec, all);
}

/// Of few devices some have room only where values are computed again.
TEST(LayoutBounds, OfWhatIsKept) {
  const Spec spec(transformer("24 MB", "batch 4\n layout auto\n recompute auto\n"));
  Everything all(spec.options);
  EXPECT_GT(all.space->policies.size(), 3u);
  EXPECT_GT(checkBounds(all), 0.5);
  checkChoice(spec, all);
}

/// A mesh that is said in part, in the precision of GPUs.
TEST(LayoutBounds, OfAPartOfTheMesh) {
  const Spec spec(transformer("24 MB", "precision bf16\n batch 16\n layout mesh(pp = auto, dp = auto) "
                                       "{ split layer over pp; split batch over dp }\n"));
  Everything all(spec.options);
  checkBounds(all);
  checkChoice(spec, all);
}

/// What is on a line through two numbers of samples is what is compiled with another number.
TEST(LayoutBounds, PassesOnALine) {
  const Spec spec(transformer("1 GB", "batch 64\n layout auto\n"));
  Trials trials(spec.options, 1);
  ASSERT_TRUE(trials.first().isGood && trials.first().compilation.elaborate());
  LayoutSpace space(trials.first().compilation, 4);
  space.enumerate({});
  LayoutBounds bounds(space, 0);
  bounds.ask(trials);
  int compared = 0;
  for (const LayoutCandidate &candidate : space.candidates) {
    const LayoutBounds::Part line = bounds.partOf(candidate, LayoutBounds::Level::Own);
    if (line.perPass || candidate.perPass != 8 || space.frames[candidate.frame].stages > 1)
      continue;
    LayoutBounds::Part single = line;
    single.perPass = candidate.perPass;
    bounds.askPart(candidate, line, trials);
    bounds.askPart(candidate, single, trials);
    const auto onLine = bounds.secondsOfPass(line, 8), compiled = bounds.secondsOfPass(single, 8);
    ASSERT_TRUE(onLine && compiled);
    EXPECT_NEAR(*onLine, *compiled, 1e-9 * *compiled) << space.layoutOf(candidate).text();
    ++compared;
  }
  EXPECT_GT(compared, 4);
}

} // namespace
