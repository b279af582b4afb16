// Every layout computes what one rank computes, and moves what the list rule says.
#include "ir/dist/State.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "test/passes/layout/Models.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace echelon;
using namespace echelon::test;

namespace {

struct MeshLine {
  std::string name;
  int64_t size;
  std::vector<std::string> list;
};
struct Layout {
  std::vector<MeshLine> mesh;
  std::vector<std::string> optimizer = {}, gradients = {}, params = {}; // mesh axes that store these
  std::vector<std::string> hierarchical = {};                           // an all_reduce over these is
  std::vector<std::string> rings = {};                                  // over each of these keys go round

  using Stores = std::vector<std::pair<const char *, const std::vector<std::string> *>>;
  Stores stores() const { return {{"optimizer", &optimizer}, {"gradients", &gradients}, {"params", &params}}; }

  std::string text() const {
    std::string text = "mesh(";
    for (const MeshLine &m : mesh) {
      text += m.name + " = " + std::to_string(m.size) + " [";
      for (const std::string &axis : m.list)
        text += axis + " ";
      text += "] ";
    }
    text += ")";
    for (const auto &[what, over] : stores())
      for (const std::string &m : *over)
        text += std::string(" store ") + what + " over " + m;
    return text;
  }
  void put(ModuleOp module) const {
    MLIRContext *context = module.getContext();
    Builder builder(context);
    std::vector<dist::MeshAxis> axes;
    for (const MeshLine &m : mesh) {
      SmallVector<Attribute> list;
      SmallVector<bool> padded;
      SmallVector<dist::OwnerMap> maps;
      for (StringRef axis : m.list) {
        padded.push_back(axis.consume_back(" padded"));
        maps.push_back(axis.consume_back(" zigzag")     ? dist::OwnerMap::zigzag()
                       : axis.consume_back(" cyclic 2") ? dist::OwnerMap::cyclic(2)
                                                        : dist::OwnerMap());
        list.push_back(builder.getStringAttr(axis));
      }
      axes.push_back({builder.getStringAttr(m.name), m.size, builder.getArrayAttr(list),
                      DenseBoolArrayAttr::get(context, padded), dist::listMaps(context, maps)});
    }
    module->setAttr(dist::kMesh, dist::MeshAttr::get(context, axes));
    SmallVector<NamedAttribute> stores;
    for (const auto &[what, over] : this->stores())
      stores.push_back(
          builder.getNamedAttr(what, builder.getStrArrayAttr(SmallVector<StringRef>(over->begin(), over->end()))));
    module->setAttr(dist::kStore, builder.getDictionaryAttr(stores));
    if (!rings.empty())
      module->setAttr(dist::kRing, builder.getStrArrayAttr(SmallVector<StringRef>(rings.begin(), rings.end())));
    SmallVector<StringRef> over(hierarchical.begin(), hierarchical.end());
    if (!over.empty())
      module->setAttr(dist::kAlgorithms,
                      builder.getArrayAttr(builder.getDictionaryAttr(
                          {builder.getNamedAttr("op", builder.getStringAttr("all_reduce")),
                           builder.getNamedAttr("over", builder.getStrArrayAttr(over)),
                           builder.getNamedAttr("algorithm", builder.getStringAttr("hierarchical"))})));
  }
};

/// Lays a copy of the module out; null, and what was said, where it is refused.
OwningOpRef<ModuleOp> layOut(ModuleOp module, const Layout &layout, std::string &said, bool overlap = true) {
  OwningOpRef<ModuleOp> copy = module.clone();
  layout.put(*copy);
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    said += diagnostic.str() + "\n";
    return success();
  });
  PassManager passes(module.getContext());
  passes.addPass(createAssignLayout());
  passes.addPass(createFormCollectives());
  passes.addPass(createSplitNorms());
  passes.addPass(createSplitInside());
  passes.addPass(createGroupMessages());
  if (overlap)
    passes.addPass(createOverlap());
  if (failed(passes.run(*copy)))
    return {};
  return copy;
}

double distance(const Array &a, const Array &b, double floor) {
  double scale = floor, worst = 0;
  for (double v : a.data)
    scale = std::max(scale, std::fabs(v));
  for (size_t i = 0; i < a.data.size(); ++i)
    worst = std::max(worst, std::fabs(a.data[i] - b.data[i]) / (scale + 1e-300));
  return worst;
}

/// Whether this layout computes what one rank does; says what differs. `refused`: whether it was refused.
testing::AssertionResult equal(ModuleOp module, const Feed &feed, const Outcome &one, const Layout &layout,
                               bool *refused = nullptr, std::map<std::string, int64_t> *messages = nullptr) {
  std::string said;
  OwningOpRef<ModuleOp> laid = layOut(module, layout, said);
  if (!laid) {
    if (refused && (StringRef(said).contains("cannot split") || StringRef(said).contains("cuts nothing"))) {
      *refused = true;
      return testing::AssertionSuccess();
    }
    return testing::AssertionFailure() << layout.text() << ": " << said;
  }
  Outcome outcome;
  if (std::string trouble = runStep(*laid, "train", feed, outcome); !trouble.empty())
    return testing::AssertionFailure() << layout.text() << ": " << trouble;
  for (auto &[name, value] : one.reports)
    if (!(std::fabs(value - outcome.reports[name]) <= 1e-10 * std::fabs(value) + 1e-14))
      return testing::AssertionFailure() << layout.text() << ": " << name << " is " << outcome.reports[name] << ", not "
                                         << value;
  double big = 0;
  for (auto &[name, x] : one.gradients)
    for (double v : x.data)
      big = std::max(big, std::fabs(v));
  for (auto &[name, x] : one.gradients)
    if (double d = distance(x, outcome.gradients[name], 1e-3 * big); !(d <= 1e-10))
      return testing::AssertionFailure() << layout.text() << ": gradient of " << name << " differs by " << d;
  for (auto &[name, x] : one.written) {
    StringRef path = name;
    for (StringRef prefix : {"optimizer.m.", "optimizer.v."})
      path.consume_front(prefix);
    Array live = outcome.written[name]; // where the gradient is noise, AdamW walks on it
    if (auto g = one.gradients.find(path.str()); g != one.gradients.end())
      for (size_t i = 0; i < live.data.size(); ++i)
        if (std::fabs(g->second.data[i]) <= 1e-5 * big)
          live.data[i] = x.data[i];
    if (double d = distance(x, live, 0); !(d <= 1e-10))
      return testing::AssertionFailure() << layout.text() << ": " << name << " after the step differs by " << d;
  }
  if (messages)
    *messages = countMessages(*laid, "train");
  return testing::AssertionSuccess();
}

struct Case {
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Feed feed;
  Outcome one;
  explicit Case(const Model &model, int micro = 1) : module(build(context, model, micro)), feed(startValues(*module)) {
    context.disableMultithreading();
    std::string trouble = runStep(*module, "train", feed, one);
    EXPECT_EQ(trouble, "");
    EXPECT_TRUE(std::isfinite(one.reports["loss"]));
    EXPECT_FALSE(one.gradients.empty());
  }
  testing::AssertionResult equals(const Layout &layout) { return equal(*module, feed, one, layout); }
};

const std::vector<std::string> kHead{"head", "ff", "vocab"}, kSeq{"head", "ff", "vocab", "seq"};

// Data, tensor and both, with the optimizer stored in parts.
TEST(Layout, MlpEqualsOneRank) {
  Case mlp(test::mlp());
  for (const Layout &layout : std::vector<Layout>{{{{"dp", 2, {"batch"}}}, {}},
                                                  {{{"dp", 4, {"batch"}}}, {"dp"}},
                                                  {{{"tp", 2, {"ff"}}}, {}},
                                                  {{{"tp", 3, {"embed", "ff"}}}, {}},
                                                  {{{"dp", 2, {"batch"}}, {"tp", 2, {"ff"}}}, {"dp"}},
                                                  {{{"tp", 2, {"ff"}}, {"dp", 2, {"batch"}}}, {"dp", "tp"}},
                                                  {{{"a", 2, {"batch"}}, {"b", 2, {"batch", "ff"}}}, {"a", "b"}},
                                                  {{{"dp", 8, {"batch"}}}, {"dp"}}})
    EXPECT_TRUE(mlp.equals(layout));
}

// Where ff = 12 or out = 4 does not divide, storage is padded and nothing reads it.
TEST(Layout, PaddedSplitEqualsOneRank) {
  Case mlp(test::mlp());
  EXPECT_TRUE(mlp.equals({{{"tp", 5, {"ff padded"}}}, {}}));
  EXPECT_TRUE(mlp.equals({{{"dp", 2, {"batch"}}, {"tp", 8, {"ff padded"}}}, {"dp"}}));
  EXPECT_TRUE(mlp.equals({{{"dp", 3, {"batch padded"}}}, {}}));
}

TEST(Layout, GptEqualsOneRank) {
  Case gpt(test::gpt(2));
  for (const Layout &layout :
       std::vector<Layout>{{{{"dp", 2, {"batch"}}}, {}},
                           {{{"tp", 2, kHead}}, {}},
                           {{{"tp", 2, kSeq}}, {}},
                           {{{"tp", 4, kSeq}}, {}},
                           {{{"dp", 2, {"batch"}}, {"tp", 2, kSeq}}, {"dp"}},
                           {{{"tp", 2, kSeq}, {"dp", 2, {"batch"}}}, {"dp"}},
                           {{{"tp", 2, {"embed"}}}, {}},
                           {{{"tp", 2, {"key", "ff"}}}, {}},
                           {{{"tp", 2, {"vocab"}}}, {}},
                           {{{"cp", 2, {"seq"}}}, {}},
                           {{{"cp", 2, {"seq", "past"}}}, {}},
                           {{{"a", 2, {"head", "seq"}}, {"b", 2, {"seq"}}}, {}},
                           {{{"a", 2, {"seq"}}, {"b", 2, {"head", "seq"}}}, {}},
                           {{{"dp", 2, {"batch"}}, {"cp", 2, {"seq", "past"}}, {"tp", 2, kHead}}, {"dp"}},
                           {{{"dp", 8, {"batch"}}}, {"dp"}}})
    EXPECT_TRUE(gpt.equals(layout));
}

// Positions shared out in chunks: wpe and activations in two runs a rank, keys gathered, or past with another map.
TEST(Layout, ChunksEqualOneRank) {
  Case gpt(test::gpt(2)), places(test::places());
  const std::vector<std::string> seq{"seq zigzag"}, both{"seq zigzag", "past zigzag"}, dp{"dp"};
  for (const Layout &layout : std::vector<Layout>{{{{"cp", 2, seq}}, {}},
                                                  {{{"cp", 2, both}}, {}},
                                                  {{{"cp", 2, {"seq zigzag", "past"}}}, {}},
                                                  {{{"cp", 2, {"seq cyclic 2", "past zigzag"}}}, {}},
                                                  {{{"cp", 2, {"vocab zigzag", "ff cyclic 2"}}}, {}},
                                                  {{{"dp", 2, {"batch"}}, {"cp", 2, both}}, {"dp"}},
                                                  {{{"dp", 2, {"batch"}}, {"cp", 2, both}}, dp, dp, dp},
                                                  {{{"cp", 2, both}, {"tp", 2, kSeq}}, {}},
                                                  {{{"tp", 2, kSeq}, {"cp", 2, both}}, {}}})
    EXPECT_TRUE(gpt.equals(layout));
  EXPECT_TRUE(places.equals({{{"cp", 2, {"seq zigzag", "row cyclic 2"}}}, {}}));
}

// Keys and values that go round, whatever else divides attention.
TEST(Layout, RingsEqualOneRank) {
  Case gpt(test::gpt(2)), inMicroBatches(test::gpt(2), 2), translation(test::encoderDecoder());
  const std::vector<std::string> blocks{"seq", "past"}, chunks{"seq zigzag", "past zigzag"}, cp{"cp"}, none;
  for (const Layout &layout :
       std::vector<Layout>{{{{"cp", 2, blocks}}, none, none, none, none, cp},
                           {{{"cp", 4, blocks}}, none, none, none, none, cp},
                           {{{"cp", 2, chunks}}, none, none, none, none, cp},
                           {{{"dp", 2, {"batch"}}, {"cp", 2, blocks}}, {"dp"}, {"dp"}, {"dp"}, none, cp},
                           {{{"cp", 2, chunks}, {"tp", 2, kSeq}}, none, none, none, none, cp},
                           {{{"tp", 2, {"past", "seq"}}, {"cp", 2, blocks}}, none, none, none, none, cp}}) {
    EXPECT_TRUE(gpt.equals(layout));
    EXPECT_TRUE(inMicroBatches.equals(layout));
  }
  EXPECT_TRUE(translation.equals({{{"cp", 2, {"dst", "dst2", "src", "src2", "src3"}}}, none, none, none, none, cp}));
}

// Gradients and parameters stored in parts: each layer's are scattered and gathered in its own iteration.
TEST(Layout, GptStoredInPartsEqualsOneRank) {
  Case gpt(test::gpt(2)), inMicroBatches(test::gpt(2), 2);
  const std::vector<std::string> dp{"dp"}, none;
  for (const Layout &layout :
       std::vector<Layout>{{{{"dp", 2, {"batch"}}}, dp, dp, none},
                           {{{"dp", 2, {"batch"}}}, dp, dp, dp},
                           {{{"dp", 2, {"batch"}}}, none, none, dp},
                           {{{"dp", 4, {"batch"}}}, dp, none, dp},
                           {{{"dp", 3, {"batch padded"}}}, dp, dp, dp},
                           {{{"dp", 8, {"batch"}}}, dp, dp, dp},
                           {{{"pod", 2, {"batch"}}, {"dp", 2, {"batch"}}}, dp, dp, dp},
                           {{{"pod", 2, {"batch"}}, {"dp", 2, {"batch"}}}, {"pod", "dp"}, dp, dp},
                           {{{"dp", 2, {"batch"}}, {"tp", 2, kSeq}}, dp, dp, dp},
                           {{{"tp", 2, kSeq}, {"dp", 2, {"batch"}}}, dp, {"tp", "dp"}, dp}}) {
    EXPECT_TRUE(gpt.equals(layout));
    const bool divides = llvm::none_of(layout.mesh, [](const MeshLine &m) { return m.size == 8 || m.size == 3; });
    EXPECT_TRUE(!divides || inMicroBatches.equals(layout)); // 4 samples each
  }
}

// An all_reduce over machines and within them: scattered within, summed between, gathered within. Numbers go at once.
TEST(Layout, HierarchicalEqualsOneRank) {
  Case gpt(test::gpt(2));
  const std::vector<MeshLine> mesh{{"pod", 2, {"batch"}}, {"dp", 2, {"batch"}}};
  std::map<std::string, int64_t> messages;
  EXPECT_TRUE(equal(*gpt.module, gpt.feed, gpt.one, {mesh, {}, {}, {}, {"pod", "dp"}}, nullptr, &messages));
  EXPECT_EQ(messages["reduce_scatter dp"], 1); // all gradients together
  EXPECT_EQ(messages["all_reduce pod"], 1);
  EXPECT_EQ(messages["all_gather dp"], 1);
  EXPECT_EQ(messages["all_reduce pod+dp"], 1); // loss and metric
  const std::vector<std::string> dp{"dp"};
  EXPECT_TRUE(gpt.equals({{{"pod", 3, {"batch padded"}}, {"dp", 2, {"batch padded"}}}, {}, {}, {}, {"pod", "dp"}}));
  EXPECT_TRUE(gpt.equals({{{"pod", 2, {"batch"}}, {"dp", 2, {"batch"}}, {"tp", 2, kSeq}}, dp, dp, dp, {"pod", "dp"}}));
  EXPECT_TRUE(gpt.equals({{{"dp", 2, {"batch"}}, {"a", 2, {"embed"}}, {"b", 2, {"ff"}}}, {}, {}, {}, {"a", "b"}}));
}

// What list_rule's proof counts: 6 all-gathers and 4 reduce-scatters a layer over tp, 3 and 2 for embedding and logits;
// one message for the gradients of gains and biases; over dp one each way; loss with metric; the norm. Cross-entropy
// sends its maximum and its sums, argmax what each rank found.
TEST(Layout, GptMovesWhatMegatronMoves) {
  Case gpt(test::gpt(2));
  std::map<std::string, int64_t> messages;
  ASSERT_TRUE(
      equal(*gpt.module, gpt.feed, gpt.one, {{{"dp", 2, {"batch"}}, {"tp", 2, kSeq}}, {"dp"}}, nullptr, &messages));
  std::map<std::string, int64_t> expected{{"all_gather tp", 6 * 2 + 3}, {"reduce_scatter tp", 4 * 2 + 2},
                                          {"all_reduce tp", 1 + 2},     {"collect tp", 1},
                                          {"reduce_scatter dp", 1},     {"all_gather dp", 1},
                                          {"all_reduce dp+tp", 1 + 1}};
  EXPECT_EQ(messages, expected);
}

TEST(Layout, ConvolutionsAndBatchNormEqualOneRank) {
  Case net(test::convolutional());
  for (const Layout &layout : std::vector<Layout>{
           {{{"dp", 2, {"batch"}}}, {}},
           {{{"dp", 4, {"batch"}}}, {"dp"}},
           {{{"tp", 2, {"to"}}}, {}},
           {{{"tp", 2, {"out", "channel"}}}, {}},
           {{{"dp", 2, {"batch"}}, {"tp", 2, {"to", "out", "class"}}}, {"dp"}},
           {{{"sp", 2, {"height", "batch"}}}, {}}}) // windows are not divided: the second choice where they walk
    EXPECT_TRUE(net.equals(layout));
}

// Micro batches are a split over time: gradients stay pending until the loop is over.
TEST(Layout, MicroBatchesEqualOneRank) {
  Case whole(test::gpt(2)), micro(test::gpt(2), 2);
  for (const Layout &layout : std::vector<Layout>{
           {{}, {}}, {{{"dp", 2, {"batch"}}}, {"dp"}}, {{{"dp", 2, {"batch"}}, {"tp", 2, kSeq}}, {"dp"}}})
    EXPECT_TRUE(equal(*micro.module, whole.feed, whole.one, layout));
  std::map<std::string, int64_t> messages;
  ASSERT_TRUE(equal(*micro.module, whole.feed, whole.one, {{{"dp", 2, {"batch"}}}, {"dp"}}, nullptr, &messages));
  EXPECT_EQ(messages["reduce_scatter dp"], 1);
  EXPECT_EQ(messages["all_gather dp"], 1);
}

TEST(Layout, EncoderDecoderEqualsOneRank) {
  Case model(test::encoderDecoder());
  for (const Layout &layout :
       std::vector<Layout>{{{{"dp", 2, {"batch"}}}, {"dp"}},
                           {{{"tp", 2, {"head", "vocab"}}}, {}},
                           {{{"tp", 2, {"head", "vocab", "src", "dst"}}}, {}},
                           {{{"dp", 2, {"batch"}}, {"tp", 2, {"head", "vocab", "dst"}}}, {"dp", "tp"}},
                           {{{"cp", 2, {"src", "src2", "src3"}}}, {}}})
    EXPECT_TRUE(model.equals(layout));
}

TEST(Layout, RecurrenceEqualsOneRank) {
  Case model(test::recurrent());
  for (const Layout &layout : std::vector<Layout>{{{{"dp", 2, {"batch"}}}, {"dp"}},
                                                  {{{"tp", 2, {"hidden"}}}, {}},
                                                  {{{"tp", 2, {"other"}}}, {}},
                                                  {{{"tp", 3, {"hidden", "other"}}}, {}},
                                                  {{{"dp", 2, {"batch"}}, {"tp", 2, {"hidden"}}}, {"dp"}}})
    EXPECT_TRUE(model.equals(layout));
}

TEST(Layout, PlacesEqualOneRank) {
  Case model(test::places());
  for (const Layout &layout : std::vector<Layout>{{{{"dp", 2, {"batch"}}}, {}},
                                                  {{{"tp", 2, {"seq"}}}, {}},
                                                  {{{"tp", 4, {"row", "seq"}}}, {}},
                                                  {{{"tp", 2, {"column", "key"}}}, {}},
                                                  {{{"tp", 2, {"quarter"}}}, {}},
                                                  {{{"tp", 2, {"inner", "seq"}}}, {}},
                                                  {{{"a", 2, {"seq", "key"}}, {"b", 2, {"row", "out"}}}, {"a"}}})
    EXPECT_TRUE(model.equals(layout));
}

// Lists, meshes and stores drawn at random: refused where something does not divide, else equal.
TEST(Layout, RandomLayoutsEqualOneRank) {
  std::vector<std::pair<std::unique_ptr<Case>, std::vector<std::string>>> cases;
  cases.emplace_back(std::make_unique<Case>(test::gpt(2)),
                     std::vector<std::string>{"batch", "seq", "past", "vocab", "head", "key", "ff", "embed"});
  cases.emplace_back(std::make_unique<Case>(test::mlp()), std::vector<std::string>{"batch", "embed", "ff", "out"});
  cases.emplace_back(std::make_unique<Case>(test::places()),
                     std::vector<std::string>{"batch", "row", "column", "seq", "key", "out", "quarter", "inner"});
  cases.emplace_back(std::make_unique<Case>(test::convolutional()),
                     std::vector<std::string>{"batch", "channel", "to", "out", "class", "height", "kh"});
  cases.emplace_back(
      std::make_unique<Case>(test::encoderDecoder()),
      std::vector<std::string>{"batch", "src", "src2", "src3", "dst", "dst2", "vocab", "head", "key", "embed"});
  cases.emplace_back(std::make_unique<Case>(test::recurrent()),
                     std::vector<std::string>{"batch", "embed", "hidden", "other"});
  int trials = 200;
  if (const char *more = std::getenv("ECHELON_LAYOUTS"))
    trials = std::atoi(more);
  int good = 0;
  std::map<std::string, int64_t> kinds;
  for (int trial = 0; trial < trials; ++trial) {
    std::mt19937 random(trial);
    auto below = [&](size_t n) { return size_t(random() % n); };
    auto &[test, axes] = cases[below(cases.size())];
    static const std::vector<std::vector<int64_t>> meshes{{2}, {3}, {4}, {2, 2}, {2, 3}, {4, 2}, {2, 2, 2}};
    Layout layout;
    const std::vector<int64_t> &sizes = meshes[below(meshes.size())];
    for (auto [i, size] : llvm::enumerate(sizes)) {
      std::vector<std::string> order = axes;
      std::shuffle(order.begin(), order.end(), random);
      order.resize(below(std::min<size_t>(order.size(), 4) + 1));
      for (std::string &axis : order)
        if (const size_t map = axis == "batch" ? 2 : below(12); map < 2)
          axis += map == 0 ? " zigzag" : " cyclic 2";
      layout.mesh.push_back({"m" + std::to_string(i), size, order});
      if (below(3) == 0)
        for (std::vector<std::string> *over : {&layout.optimizer, &layout.gradients, &layout.params})
          if (below(2) == 0)
            over->push_back(layout.mesh.back().name);
    }
    bool refused = false;
    std::map<std::string, int64_t> messages;
    EXPECT_TRUE(equal(*test->module, test->feed, test->one, layout, &refused, &messages)) << "seed " << trial;
    good += !refused;
    for (auto &[message, count] : messages)
      kinds[StringRef(message).split(' ').first.str()] += count;
  }
  for (auto &[kind, count] : kinds)
    RecordProperty(kind, std::to_string(count));
  for (const char *kind :
       {"all_gather", "reduce_scatter", "all_reduce", "all_to_all", "exchange", "broadcast", "collect"})
    EXPECT_GT(kinds[kind], 0) << kind;
  EXPECT_GT(good, trials / 5);
}

} // namespace
