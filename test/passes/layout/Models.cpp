// Small models for tests of layouts.
#include "test/passes/layout/Models.h"
#include "ir/dist/Dist.h"
#include "ir/run/Run.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include <random>

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using namespace echelon::test;

using Read = std::function<Value(StringRef)>;

/// "ech.variable param @NAME : TYPE = …" for "NAME[axis=size, …]", with `*` in front for stacked ones.
static std::string parameters(ArrayRef<StringRef> list) {
  std::string text;
  for (StringRef item : list) {
    bool stacked = item.consume_front("*");
    auto [name, axes] = item.split('[');
    text += "ech.variable param @\"" + name.str() + "\" : !ech.tensor<[" + axes.str() + ", f64> = normal(0.0, 0.3)" +
            (stacked ? " stacked 1" : "") + " decayed\n";
  }
  return text;
}
static std::string input(StringRef name, int place, StringRef axes, int64_t below = 0) {
  return ("ech.input @" + name + " " + Twine(place) + " : !ech.tensor<[" + axes + "], " + (below ? "i32" : "f64") +
          "> below " + Twine(below) + "\n")
      .str();
}
static void lossOf(Build &b, Value scalar) { ReportOp::create(b.builder, b.loc, ReportKind::Loss, "loss", scalar); }
static Value squaredMean(Build &b, Value x) { return b.mean(b.mul(x, x), tensor(x).names()); }

Model echelon::test::mlp() {
  return {input("x", 0, "batch=8, embed=6") + input("t", 1, "batch=8, out=4") +
              parameters({"w1[embed=6, ff=12]", "b1[ff=12]", "w2[ff=12, out=4]", "b2[out=4]", "scale[]"}),
          [](Build &b, Read read) {
            Value h = b.map(Function::Relu, {b.add(b.dot(read("x"), read("w1"), {"embed"}), read("b1"))});
            Value y = b.add(b.dot(h, read("w2"), {"ff"}), read("b2"));
            lossOf(b, squaredMean(b, b.sub(b.mul(y, read("scale")), read("t"))));
          }};
}

/// gain * normalized + offset
static Value layerNorm(Build &b, Value x, Value gamma, Value beta) {
  return b.add(b.mul(b.normalize(x, {"embed"}, false).getResult(), gamma), beta);
}
static Value attend(Build &b, Value x, Value memory, StringRef seq, StringRef past, ArrayRef<Value> w, bool causal) {
  int64_t size = tensor(memory).sizeOf(memory == x ? seq : past);
  auto project = [&](Value from, Value weight, Value bias) { return b.add(b.dot(from, weight, {"embed"}), bias); };
  Value q = project(x, w[0], w[1]), k = project(memory, w[2], w[3]), v = project(memory, w[4], w[5]);
  if (memory == x)
    for (Value *other : {&k, &v})
      *other = b.relabel(*other, {seq}, {{past, size}});
  Value c = b.attention(q, k, v, {}, {}, seq, past, "key", 0.7, causal).getResult();
  return b.add(b.dot(c, w[6], {"head", "key"}), w[7]);
}

Model echelon::test::gpt(int64_t layers) {
  std::string n = std::to_string(layers);
  std::vector<std::string> stacked;
  for (StringRef item : {"gamma1[embed=6]", "beta1[embed=6]", "wq[embed=6, head=4, key=2]", "bq[head=4, key=2]",
                         "wk[embed=6, head=4, key=2]", "bk[head=4, key=2]", "wv[embed=6, head=4, key=2]",
                         "bv[head=4, key=2]", "wo[head=4, key=2, embed=6]", "bo[embed=6]", "gamma2[embed=6]",
                         "beta2[embed=6]", "w1[embed=6, ff=8]", "b1[ff=8]", "w2[ff=8, embed=6]", "b2[embed=6]"}) {
    auto [name, axes] = item.split('[');
    stacked.push_back("*layer." + name.str() + "[layer=" + n + ", " + axes.str());
  }
  std::string text = input("tokens", 0, "batch=8, seq=4", 12) + input("labels", 1, "batch=8, seq=4", 12) +
                     parameters({"wte[vocab=12, embed=6]", "wpe[seq=4, embed=6]", "gamma[embed=6]", "beta[embed=6]"});
  for (StringRef item : stacked)
    text += parameters({item});
  return {text, [layers](Build &b, Read read) {
            Value wte = read("wte");
            Value x = b.add(b.gather(wte, {"vocab"}, {read("tokens")}), read("wpe"));
            SmallVector<Value> slices;
            for (StringRef name : {"gamma1", "beta1", "wq", "bq", "wk", "bk", "wv", "bv", "wo", "bo", "gamma2", "beta2",
                                   "w1", "b1", "w2", "b2"})
              slices.push_back(read(("layer." + name).str()));
            auto loop = b.repeat("layer", layers, {x}, slices, false, false, [&](ValueRange carried, ValueRange w) {
              Value x = carried[0], y = layerNorm(b, x, w[0], w[1]);
              x = b.add(x, attend(b, y, y, "seq", "past", SmallVector<Value>(w.slice(2, 8)), true));
              Value h =
                  b.map(Function::GeluTanh, {b.add(b.dot(layerNorm(b, x, w[10], w[11]), w[12], {"embed"}), w[13])});
              x = b.add(x, b.add(b.dot(h, w[14], {"ff"}), w[15]));
              Build::Yields yields;
              yields.carried = {x};
              return yields;
            });
            Value logits = b.dot(layerNorm(b, loop.getFinals()[0], read("gamma"), read("beta")), wte, {"embed"});
            lossOf(b, b.mean(b.crossEntropy(logits, read("labels"), "vocab").getLoss(), {"batch", "seq"}));
            Value hit = b.toReal(b.map(Function::Eq, {b.argmax(logits, "vocab"), read("labels")}));
            ReportOp::create(b.builder, b.loc, ReportKind::Metric, "accuracy", b.mean(hit, {"batch", "seq"}));
          }};
}

Model echelon::test::convolutional() {
  return {input("image", 0, "batch=4, channel=2, height=8, width=8") + input("label", 1, "batch=4", 4) +
              parameters({"w1[to=4, channel=2, kh=3, kw=3]", "gamma[to=4]", "beta[to=4]", "w2[out=4, to=4, kh=3, kw=3]",
                          "fc[out=4, class=4]"}) +
              "ech.variable state @running : !ech.tensor<[to=4], f64> = constant(0.0, 0.0)\n",
          [](Build &b, Read read) {
            Build::Window window{{"height", "width"}, {"kh", "kw"}, {1, 1}, {1, 1}, {1, 1}};
            Value x = b.conv(read("image"), read("w1"), {"channel"}, window);
            auto norm = b.normalize(x, {"batch", "height", "width"}, false);
            WriteOp::create(b.builder, b.loc, "running",
                            b.add(b.mul(read("running"), b.constant(0.9)), b.mul(norm.getMean(), b.constant(0.1))));
            x = b.map(Function::Relu, {b.add(b.mul(norm.getResult(), read("gamma")), read("beta"))});
            x = b.pool(Pooling::Max, x, {"height", "width"}, {2, 2}, {2, 2}, {0, 0});
            x = b.conv(x, read("w2"), {"to"}, window);
            x = b.mean(x, {"height", "width"});
            Value logits = b.dot(x, read("fc"), {"out"});
            lossOf(b, b.mean(b.crossEntropy(logits, read("label"), "class").getLoss(), {"batch"}));
          }};
}

Model echelon::test::encoderDecoder() {
  auto attention = [](StringRef p) {
    std::vector<std::string> list;
    for (StringRef item :
         {"wq[layer=2, embed=4, head=2, key=2]", "bq[layer=2, head=2, key=2]", "wk[layer=2, embed=4, head=2, key=2]",
          "bk[layer=2, head=2, key=2]", "wv[layer=2, embed=4, head=2, key=2]", "bv[layer=2, head=2, key=2]",
          "wo[layer=2, head=2, key=2, embed=4]", "bo[layer=2, embed=4]"})
      list.push_back("*" + p.str() + item.str());
    return list;
  };
  std::string text = input("source", 0, "batch=4, src=4", 6) + input("target", 1, "batch=4, dst=4", 6) +
                     input("answer", 2, "batch=4, dst=4", 6) +
                     parameters({"wte[vocab=6, embed=4]", "wsrc[src=4, embed=4]"});
  for (StringRef p : {"enc.", "dec.", "cross."})
    for (const std::string &item : attention(p))
      text += parameters({item});
  return {text, [](Build &b, Read read) {
            auto weights = [&](StringRef p) {
              SmallVector<Value> w;
              for (StringRef name : {"wq", "bq", "wk", "bk", "wv", "bv", "wo", "bo"})
                w.push_back(read((p + name).str()));
              return w;
            };
            Value wte = read("wte");
            Value m = b.add(b.gather(wte, {"vocab"}, {read("source")}), read("wsrc"));
            auto encoder = b.repeat("layer", 2, {m}, weights("enc."), false, false, [&](ValueRange c, ValueRange w) {
              Value x = c[0], keep = b.random(Distribution::Uniform, "drop", 0, 1, tensor(x));
              Value y = attend(b, x, x, "src", "src2", SmallVector<Value>(w), false);
              y = b.mul(y, b.toReal(b.map(Function::Gt, {keep, b.constant(0.3)})));
              Build::Yields yields;
              yields.carried = {b.add(x, y)};
              return yields;
            });
            Value memory = b.relabel(encoder.getFinals()[0], {"src"}, {{"src3", 4}});
            SmallVector<Value> slices = weights("dec.");
            llvm::append_range(slices, weights("cross."));
            Value x = b.gather(wte, {"vocab"}, {read("target")});
            auto decoder = b.repeat("layer", 2, {x}, slices, false, false, [&](ValueRange c, ValueRange w) {
              Value x = c[0];
              x = b.add(x, attend(b, x, x, "dst", "dst2", SmallVector<Value>(w.take_front(8)), true));
              x = b.add(x, attend(b, x, memory, "dst", "src3", SmallVector<Value>(w.drop_front(8)), false));
              Build::Yields yields;
              yields.carried = {x};
              return yields;
            });
            Value logits = b.dot(decoder.getFinals()[0], wte, {"embed"});
            lossOf(b, b.mean(b.crossEntropy(logits, read("answer"), "vocab").getLoss(), {"batch", "dst"}));
          }};
}

Model echelon::test::recurrent() {
  return {input("x", 0, "batch=4, seq=3, embed=4") + input("t", 1, "batch=4, seq=3, hidden=6") +
              parameters({"w[embed=4, hidden=6]", "u[hidden=6, other=6]", "b[hidden=6]"}),
          [](Build &b, Read read) {
            Value w = read("w"), u = read("u"), bias = read("b");
            Value start = b.zeros(b.type({{"batch", 4}, {"hidden", 6}}, b.real));
            auto loop = b.repeat("seq", 3, {start}, {read("x")}, false, true, [&](ValueRange c, ValueRange x) {
              Value before = b.relabel(c[0], {"hidden"}, {{"other", 6}});
              Value h = b.add(b.add(b.dot(x[0], w, {"embed"}), b.dot(before, u, {"other"})), bias);
              h = b.map(Function::Tanh, {h});
              Build::Yields yields;
              yields.carried = {h};
              yields.stacked = {h};
              return yields;
            });
            lossOf(b, squaredMean(b, b.sub(loop.getStacks()[0], read("t"))));
          }};
}

Model echelon::test::places() {
  return {input("x", 0, "batch=4, row=4, column=4") + parameters({"w[seq=16, key=4]", "v[key=4, out=4]", "g[row=4]"}),
          [](Build &b, Read read) {
            Value x = b.mul(b.add(read("x"), read("g")), b.constant(0.5));
            Value y = b.relabel(x, {"row", "column"}, {{"seq", 16}});
            y = b.mul(y, b.softmax(y, {"seq"}));
            Value z = b.map(Function::Silu, {b.dot(y, read("w"), {"seq"})});
            Value u = b.mul(b.expandTo(b.reduce(Reduction::Max, z, {"key"}), tensor(z)), z);
            Value picked = b.map(Function::Tanh, {b.pick(b.mul(y, y), "seq", 9)});
            Value part = b.sum(b.slice(y, "seq", 3, 8), {"seq"});
            Value parts = b.relabel(b.mul(y, y), {"seq"}, {{"quarter", 4}, {"inner", 4}});
            Value total = b.sum(b.cumsum(parts, "quarter"), {"quarter", "inner"});
            Value out = b.dot(b.sub(u, b.expandTo(b.logSumExp(z, {"key"}).getResult(), tensor(z))), read("v"), {"key"});
            Value sum = b.add(b.add(b.sum(b.mul(out, out), {"out"}), picked), b.sub(part, b.neg(total)));
            lossOf(b, b.mean(sum, {"batch"}));
          }};
}

OwningOpRef<ModuleOp> echelon::test::build(MLIRContext &context, const Model &model, int micro) {
  context.loadDialect<EchDialect, dist::DistDialect, run::RunDialect>();
  std::string text = "module attributes {ech.micro = " + std::to_string(micro) +
                     " : i64, ech.batch = 8 : i64, "
                     "ech.batch_axis = \"batch\", ech.keep_gradients, ech.clip = 0.5} {\n"
                     "run.optimize \"adamw\" on [\"*\"] with {beta1 = 0.9, beta2 = 0.95, epsilon = 1.0e-8, "
                     "decay = 0.1} rate <kind = constant, peak = 1.0e-3>\n" +
                     model.declarations + "ech.step @train {\n}\n}\n";
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    llvm::report_fatal_error("the test's declarations do not parse");
  StepOp step = *module->getOps<StepOp>().begin();
  OpBuilder builder = OpBuilder::atBlockEnd(&step.getBody().front());
  Build b(builder, UnknownLoc::get(&context), builder.getF64Type());
  SymbolTable symbols(*module);
  llvm::StringMap<Value> known;
  model.body(b, [&](StringRef name) {
    Value &value = known[name];
    if (!value) {
      Operation *symbol = symbols.lookup(name);
      Type type = isa<VariableOp>(symbol) ? cast<VariableOp>(symbol).getType() : cast<InputOp>(symbol).getType();
      value = ReadOp::create(b.builder, b.loc, type, name).getValue();
    }
    return value;
  });
  PassManager passes(&context);
  passes.addPass(createDifferentiate());
  passes.addPass(createSplitTime());
  passes.addPass(createExpandUpdate());
  passes.addPass(createSimplify());
  if (failed(passes.run(*module)))
    llvm::report_fatal_error("the test's model cannot be differentiated");
  return module;
}

Feed echelon::test::startValues(ModuleOp module) {
  Feed feed;
  std::mt19937 random(7);
  for (Operation &op : *module.getBody())
    if (auto input = dyn_cast<InputOp>(op)) {
      Array x(cast<Tensor>(input.getType()));
      for (double &v : x.data)
        v = input.getBelow() ? double(random() % input.getBelow()) : std::normal_distribution<>()(random);
      feed.emplace(input.getSymName().str(), x);
    } else if (auto variable = dyn_cast<VariableOp>(op)) {
      Array x(cast<Tensor>(variable.getType()).withState({}));
      for (double &v : x.data)
        v = variable.getKind() == VariableKind::Param ? std::normal_distribution<>(0, 0.4)(random) : 0.01;
      feed.emplace(variable.getSymName().str(), x);
    }
  return feed;
}
