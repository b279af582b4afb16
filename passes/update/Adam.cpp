// Adam (Kingma and Ba 2014, arXiv:1412.6980, algorithm 1) in PyTorch's form, and AdamW (Loshchilov and Hutter 2017,
// arXiv:1711.05101), which decays the parameter and not the gradient:
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   w = (1 - lr decay) w - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon)
#include "ir/ech/Decimal.h"
#include "passes/update/Rule.h"

using namespace echelon;
using namespace echelon::update;

// One argument at most of a call builds something: C++ does not say which of two comes first.
static Value next(Update &u) {
  ech::Build &b = u.build;
  auto mix = [&](llvm::StringRef name, double beta, Value x) {
    Value share = u.constant(1 - beta), now = b.mul(x, share);
    Value rest = u.constant(beta), before = b.mul(u.kept(name), rest);
    return u.keep(name, b.add(before, now));
  };
  const double b1 = u.number("beta1"), b2 = u.number("beta2");
  Value m = mix("m", b1, u.g);
  Value v = mix("v", b2, b.mul(u.g, u.g));
  Value ofM = u.named("m_correction", b.scalar("bias_correction", 0, b1));
  Value rate = u.named("rate", b.div(u.lr, ofM));
  Value ofV = u.named("v_correction", b.scalar("bias_correction", 0, b2));
  Value root = u.named("v_root", b.map(ech::Function::Sqrt, {ofV}));
  Value epsilon = u.constant(u.number("epsilon"));
  Value scale = b.add(b.div(b.map(ech::Function::Sqrt, {v}), root), epsilon);
  Value w = u.w;
  if (u.decay != 0) {
    Value lost = b.mul(u.lr, u.constant(u.decay));
    w = b.mul(w, u.named("kept", b.sub(u.constant(1), lost)));
  }
  return b.sub(w, b.mul(b.div(m, scale), rate));
}

static llvm::SmallVector<NamedValue> describe(run::OptimizeOp line) {
  return {{"betas", shortestDecimal(line.number("beta1")) + ", " + shortestDecimal(line.number("beta2"))},
          {"epsilon", shortestDecimal(line.number("epsilon"))}};
}

constexpr Rule update::kAdam{"adam", /*decaysApart=*/false, next, describe};
constexpr Rule update::kAdamW{"adamw", /*decaysApart=*/true, next, describe};
