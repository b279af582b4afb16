// Adam (Kingma and Ba 2014, arXiv:1412.6980, algorithm 1) in PyTorch's form, and AdamW (Loshchilov and Hutter 2017,
// arXiv:1711.05101), which decays the parameter and not the gradient:
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   w = (1 - lr decay) w - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon)
#include "passes/update/Adam.h"
#include "ir/ech/Decimal.h"

using namespace echelon;
using namespace echelon::update;

// One argument at most of a call builds something: C++ does not say which of two comes first.
Moments update::adamMoments(Update &u) {
  ech::Build &b = u.build;
  auto mix = [&](llvm::StringRef name, double beta, Value x) {
    Value share = u.constant(1 - beta), now = b.mul(x, share);
    Value rest = u.constant(beta), before = b.mul(u.kept(name), rest);
    return u.keep(name, b.add(before, now));
  };
  const double b1 = u.number("beta1");
  Value m = mix("m", b1, u.g);
  Value v = mix("v", u.number("beta2"), b.mul(u.g, u.g));
  return {m, v, u.named("m_correction", b.scalar("bias_correction", 0, b1))};
}

Value update::adamScale(Update &u, Value v) {
  ech::Build &b = u.build;
  Value ofV = u.named("v_correction", b.scalar("bias_correction", 0, u.number("beta2")));
  Value root = u.named("v_root", b.map(ech::Function::Sqrt, {ofV}));
  Value epsilon = u.constant(u.number("epsilon"));
  return b.add(b.div(b.map(ech::Function::Sqrt, {v}), root), epsilon);
}

static Value next(Update &u) {
  ech::Build &b = u.build;
  const Moments moments = adamMoments(u);
  Value rate = u.named("rate", b.div(u.lr, moments.ofM));
  Value scale = adamScale(u, moments.v);
  Value w = u.w;
  if (u.decay != 0) {
    Value lost = b.mul(u.lr, u.constant(u.decay));
    w = b.mul(w, u.named("kept", b.sub(u.constant(1), lost)));
  }
  return b.sub(w, b.mul(b.div(moments.m, scale), rate));
}

llvm::SmallVector<NamedValue> update::describeAdam(run::OptimizeOp line) {
  return {{"betas", shortestDecimal(line.number("beta1")) + ", " + shortestDecimal(line.number("beta2"))},
          {"epsilon", shortestDecimal(line.number("epsilon"))}};
}

constexpr Rule update::kAdam{"adam", /*decaysApart=*/false, next, describeAdam};
constexpr Rule update::kAdamW{"adamw", /*decaysApart=*/true, next, describeAdam};
