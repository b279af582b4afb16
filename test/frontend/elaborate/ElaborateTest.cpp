// What models come to: names, paths, axes and types in the ech dialect.
#include "frontend/elaborate/Elaborate.h"
#include "frontend/Parse.h"
#include "ir/ech/Ech.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include <gtest/gtest.h>

using namespace echelon::frontend;
namespace ech = echelon::ech;

namespace {

class Elaborate : public ::testing::Test {
protected:
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  SourceManager sources;
  Diagnostics diagnostics{sources};
  std::unique_ptr<Program> program;
  ModelFacts facts;
  mlir::OwningOpRef<mlir::ModuleOp> module;

  void elaborate(std::string text, std::vector<std::pair<std::string, Number>> set = {}) {
    program = parseProgram(sources, sources.add("test.ech", std::move(text)), diagnostics);
    ASSERT_FALSE(diagnostics.hasErrors()) << diagnostics.text();
    ElaborateOptions options;
    options.model = &program->main().models[0];
    options.file = &program->main();
    options.batch = 4;
    options.set = std::move(set);
    facts = {};
    module = echelon::frontend::elaborate(context, sources, *program, options, diagnostics, facts);
    ASSERT_TRUE(module) << diagnostics.text();
    EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
  }

  std::vector<std::string> variables(bool decayedOnly = false) {
    std::vector<std::string> names;
    for (auto v : module->getOps<ech::VariableOp>())
      if (!decayedOnly || v.getDecayed())
        names.push_back(v.getSymName().str() + " " + ech::describe(llvm::cast<ech::Tensor>(v.getType())));
    return names;
  }
  ech::StepOp step(llvm::StringRef name) { return module->lookupSymbol<ech::StepOp>(name); }
  template <typename Op> int count(llvm::StringRef stepName) {
    int n = 0;
    step(stepName)->walk([&](Op) { ++n; });
    return n;
  }
  // The type of the value written to a state.
  std::string written(llvm::StringRef state) {
    std::string found;
    step("train")->walk([&](ech::WriteOp w) {
      if (w.getTarget() == state)
        found = ech::describe(ech::tensor(w.getValue()));
    });
    return found;
  }
};

using Strings = std::vector<std::string>;

// Parameters of a repeat are stacked along it; unnamed calls are numbered by place, the repeat's apart from the others.
TEST_F(Elaborate, PathsOfParameters) {
  elaborate(R"(
block lin(x, from: axis, to: axis) {
  param w[from, to] ~ ones
  return dot(x, w, over = from)
}
model M(layers = 3) {
  axis batch
  axis a = 2
  axis b like a
  input x[batch, a] : float
  y = lin(lin(x, a, b), b, a)
  repeat layer = layers {
    y = y + lin(y, a, b)[b -> a]
    repeat sub = 2 { y = y + (lin(y, a, b) as up)[b -> a] }
  }
  y = lin(y, a, b)[b -> a]
  loss mean(y)
}
)");
  EXPECT_EQ(variables(),
            (Strings{"lin_2.w [a = 2, b = 2]", "lin.w [b = 2, a = 2]", "layer.lin.w [layer = 3, a = 2, b = 2]",
                     "layer.sub.up.w [layer = 3, sub = 2, a = 2, b = 2]", "lin_3.w [a = 2, b = 2]"}));
}

// What comes of a model does not grow with the number of layers.
TEST_F(Elaborate, DepthCostsNothing) {
  std::string text = R"(
import nn
model M(layers = 4) {
  axis batch
  axis seq = 8
  axis past like seq
  axis embed = 8
  axis head = 2
  axis key = 4
  axis ff = 16
  input x[batch, seq, embed] : float
  y = x
  repeat layer = layers {
    y = y + nn.attention(nn.layernorm(y, embed), embed, head, key, seq, past, causal = true)
    y = y + nn.mlp(nn.layernorm(y, embed), embed, ff)
  }
  loss mean(y)
}
)";
  auto operations = [&] {
    int n = 0;
    module->walk([&](mlir::Operation *) { ++n; });
    return n;
  };
  elaborate(text);
  int shallow = operations();
  elaborate(text, {{"layers", Number::whole(96)}});
  EXPECT_EQ(operations(), shallow);
}

// Weight decay takes what a dot, conv or gather reads, also under another name, not what is added or multiplied.
TEST_F(Elaborate, DecayedParameters) {
  elaborate(R"(
model M {
  axis batch
  axis a = 2
  axis b like a
  axis v = 5
  input x[batch, a] : float
  input ids[batch] : int below v
  param table[v, a] ~ ones
  param w[a, b] ~ ones
  param tied[b] ~ ones
  param bias[a] ~ zeros
  param gain[a] ~ ones
  y = (x + table[v = ids]) * gain + bias
  z = dot(dot(y, w, over = a)[b -> a], tied[b -> a], over = a)
  loss mean(z)
}
)");
  EXPECT_EQ(variables(true), (Strings{"table [v = 5, a = 2]", "w [a = 2, b = 2]", "tied [b = 2]"}));
}

// dropout and survive act in training only; states are written in training only.
TEST_F(Elaborate, TrainingAndEvaluationDiffer) {
  elaborate(R"(
model M {
  axis batch
  axis a = 2
  input x[batch, a] : float
  state s[a] = 0
  next s = s + mean(x, over = batch)
  loss mean(survive(dropout(x, 0.5), 0.5))
}
)");
  EXPECT_EQ(count<ech::RandomOp>("train"), 2);
  EXPECT_EQ(count<ech::RandomOp>("evaluate"), 0);
  EXPECT_EQ(count<ech::WriteOp>("train"), 1);
  EXPECT_EQ(count<ech::WriteOp>("evaluate"), 0);
}

// Which share of a draw is kept is noted at each position of the repeats around it, where numbers and positions decide
// it; where a value of the model does, nothing is noted.
TEST_F(Elaborate, ChancesOfDraws) {
  elaborate(R"(
block thin(x, p) { return survive(x, p) }
model M {
  axis batch
  axis a = 2
  input x[batch, a] : float
  input share[batch] : float
  y = dropout(x, 0.25)
  repeat outer = 2 {
    repeat inner = 2 { y = thin(y, 1 - (2 * index(outer) + index(inner)) / 8) }
  }
  loss mean(survive(y, clamp(mean(share, over = batch), 0.1, 0.9)))
}
)");
  std::vector<std::pair<std::string, std::vector<double>>> chances;
  step("train")->walk([&](ech::RandomOp draw) {
    auto noted = draw->getAttrOfType<mlir::DenseF64ArrayAttr>("ech.chance");
    chances.emplace_back(draw.getSite().str(), noted ? noted.asArrayRef().vec() : std::vector<double>());
  });
  std::vector<std::pair<std::string, std::vector<double>>> expected = {
      {"dropout", {0.75}}, {"outer.inner.thin.survive", {1, 0.875, 0.75, 0.625}}, {"survive", {}}};
  EXPECT_EQ(chances, expected);
}

// A recurrence: outer values are seen at the position, locals that are read afterwards are stacked, parameters shared.
TEST_F(Elaborate, RepeatAlong) {
  elaborate(R"(
import nn
model M {
  axis batch
  axis seq = 5
  axis a = 2
  axis h = 3
  axis h2 like h
  input x[batch, seq, a] : float
  state kept[seq, h] = 0
  s = 0 * mean(nn.linear(x, a, h) as start, over = seq)
  repeat along seq {
    s = tanh(nn.linear(x, a, h) + nn.linear(s[h -> h2], h2, h))
    seen = s
    unseen = s + 1
  }
  next kept = mean(seen, over = batch)
  loss mean(s) + mean(seen)
}
)");
  EXPECT_EQ(variables(),
            (Strings{"kept [seq = 5, h = 3]", "start.w [a = 2, h = 3]", "start.b [h = 3]", "linear.w [a = 2, h = 3]",
                     "linear.b [h = 3]", "linear_2.w [h2 = 3, h = 3]", "linear_2.b [h = 3]"}));
  EXPECT_EQ(written("kept"), "[seq = 5, h = 3]");
  step("train")->walk([&](ech::RepeatOp loop) {
    EXPECT_TRUE(loop.getAlong());
    EXPECT_EQ(loop.getSlices().size(), 1u);
    EXPECT_EQ(loop.getStacks().size(), 1u);
  });
}

// What only a branch not taken assigns is not carried, and a name that stands for it is the value of before.
TEST_F(Elaborate, NotCarriedWithoutItsBranch) {
  elaborate(R"(
model M(flip = false) {
  axis batch
  axis seq = 5
  input x[batch, seq] : float
  a = mean(x, over = seq)
  b = 2 * a
  repeat along seq {
    seen = b
    a = a + x
    if flip { b = a }
  }
  repeat layer = 2 {
    a = 0.5 * a
    a = b
    if flip { b = a }
  }
  loss mean(a) + mean(seen)
}
)");
  std::vector<size_t> carried;
  step("train")->walk([&](ech::RepeatOp loop) { carried.push_back(loop.getCarried().size()); });
  EXPECT_EQ(carried, (std::vector<size_t>{1, 1}));
}

// Losses and metrics in repeats are summed over the iterations, those of one name from several calls are one report;
// metrics are evaluation's alone.
TEST_F(Elaborate, LossesInRepeats) {
  elaborate(R"(
block f(x) {
  loss aux = mean(x)
  metric m = mean(x)
  return x
}
model M {
  axis batch
  input x[batch] : float
  y = f(x)
  repeat layer = 2 { y = f(y) }
  loss mean(y)
}
)");
  auto reports = [&](llvm::StringRef name) {
    Strings all;
    step(name)->walk(
        [&](ech::ReportOp r) { all.push_back(ech::stringifyReportKind(r.getKind()).str() + " " + r.getName().str()); });
    return all;
  };
  EXPECT_EQ(reports("train"), (Strings{"named_loss aux", "loss loss"}));
  EXPECT_EQ(reports("evaluate"), (Strings{"named_loss aux", "metric m", "loss loss"}));
}

// What is made of index, size and numbers goes with anything, also after an assignment.
TEST_F(Elaborate, FreeBroadcast) {
  elaborate(R"(
model M {
  axis batch
  axis seq = 4
  axis past like seq
  axis a = 2
  input x[batch, a] : float
  state s[a, seq, past] = 0
  causal = index(seq) >= index(past)
  y = where(causal, x, 0)
  next s = mean(y, over = batch)
  loss mean(y)
}
)");
  EXPECT_EQ(written("s"), "[a = 2, seq = 4, past = 4]");
}

// Keys that each query has for itself are no form that the fused attention knows.
TEST_F(Elaborate, AttentionToOwnKeys) {
  auto spec = [](const std::string &keys) {
    return R"(
model M {
  axis batch
  axis seq = 4
  axis past like seq
  axis key = 8
  input q[batch, seq, key] : float
  input k[batch, )" +
           keys + R"(past, key] : float
  loss mean(attention(q, k, k, over = past, key = key, query = seq))
}
)";
  };
  elaborate(spec(""));
  EXPECT_EQ(count<ech::AttentionOp>("train"), 1);
  elaborate(spec("seq, "));
  EXPECT_EQ(count<ech::AttentionOp>("train"), 0);
}

// A power of zero is 1 at every place.
TEST_F(Elaborate, ZerothPower) {
  elaborate(R"(
model M {
  axis batch
  axis a = 4
  input x[batch, a] : float
  state s[a] = 0
  next s = mean(x^0, over = batch)
  loss mean(x)
}
)");
  EXPECT_EQ(written("s"), "[a = 4]");
}

// Several places of one bracket act at once, on the original's names.
TEST_F(Elaborate, PlacesActAtOnce) {
  elaborate(R"(
model M {
  axis batch
  axis seq = 4
  axis past like seq
  axis a = 4
  axis two = 2
  axis half = 2
  input x[batch, seq, a] : float
  input ids[batch, seq] : int below a
  state s[seq, past] = 0
  state t[seq, two, half] = 0
  state u[a, seq] = 0
  next s = mean(x[seq -> past, a = ids], over = batch)
  next t = mean(x[a -> (two, half)], over = batch)
  next u = mean(x[seq -> a, a -> seq], over = batch)
  loss mean(x)
}
)");
  EXPECT_EQ(written("s"), "[seq = 4, past = 4]");
  EXPECT_EQ(written("t"), "[seq = 4, two = 2, half = 2]");
  EXPECT_EQ(written("u"), "[a = 4, seq = 4]");
}

// Parameters shared with an earlier call are declared once.
TEST_F(Elaborate, SharedCalls) {
  elaborate(R"(
import nn
model M {
  axis batch
  axis a = 2
  axis b like a
  input x[batch, a] : float
  y = nn.linear(x, a, b) as up
  repeat layer = 3 { y = y + nn.linear(y[b -> a], a, b) with up }
  loss mean(y)
}
)");
  EXPECT_EQ(variables(), (Strings{"up.w [a = 2, b = 2]", "up.b [b = 2]"}));
}

// A block's private axis does not meet an axis of the same name that its argument brings along.
TEST_F(Elaborate, PrivateAxesAreApart) {
  elaborate(R"(
block f(x, a: axis) {
  axis k = 3
  param w[a, k] ~ ones
  return sum(dot(x, w, over = a), over = k)
}
model M {
  axis batch
  axis a = 2
  axis k = 5
  input x[batch, a, k] : float
  state s[k] = 0
  next s = mean(f(x, a), over = batch)
  loss mean(x)
}
)");
  EXPECT_EQ(written("s"), "[k = 5]");
  EXPECT_EQ(variables(), (Strings{"s [k = 5]", "f.w [a = 2, k_2 = 3]"}));
}

// Sizes are fractions until they must be whole: no rounding of 0.1.
TEST_F(Elaborate, SizesAreExact) {
  elaborate(R"(
model M(width = 10) {
  axis batch
  axis a = ceil(width / 4)
  axis b = 0.1 * width * 3
  axis c = 2 ^ 3 - size(a)
  axis d = min(ceil(width / 4), size(c))
  axis e = max(0.1 * width * 3, min(2.5, 7 / 2))
  input x[batch, a, b, c, d, e] : float
  loss mean(x)
}
)");
  EXPECT_EQ(facts.axis("a")->size, 3);
  EXPECT_EQ(facts.axis("b")->size, 3);
  EXPECT_EQ(facts.axis("c")->size, 5);
  EXPECT_EQ(facts.axis("d")->size, 3);
  EXPECT_EQ(facts.axis("e")->size, 3);
}

} // namespace
