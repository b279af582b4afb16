// LAMB (You et al. 2020, arXiv:1904.00962, algorithm 2, without its bound phi): Adam's step, with the decay in it,
// scaled by how large the tensor is against it:
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   r = m / (1 - b1^t) / (sqrt(v) / sqrt(1 - b2^t) + epsilon) + decay w
//   w = w - lr |w| / |r| r
// The norms are of one tensor: a parameter at one index of its repeats. The ratio is 1 where one of them is 0, and for
// gains and biases, which the decay leaves out: a bias that is 0 would never move.
#include "passes/update/Adam.h"

using namespace echelon;
using namespace echelon::update;

/// The norm of a value of the parameter's shape, one for each index of its repeats.
static Value norm(Update &u, Value x) {
  ech::Build &b = u.build;
  const ech::Tensor type = ech::tensor(x);
  const size_t stacked = u.param.getStacked();
  if (stacked == 0)
    return b.globalNorm({x});
  llvm::SmallVector<llvm::StringRef> own;
  for (const ech::Axis &axis : type.getAxes().drop_front(stacked))
    own.push_back(axis.name.getValue());
  return b.map(ech::Function::Sqrt, {b.sum(b.mul(x, x), own)});
}

static Value next(Update &u) {
  ech::Build &b = u.build;
  const Moments moments = adamMoments(u);
  Value one = u.constant(1);
  Value unbias = u.named("m_scale", b.div(one, moments.ofM));
  Value scale = adamScale(u, moments.v);
  Value r = b.mul(b.div(moments.m, scale), unbias);
  if (u.decay != 0)
    r = b.add(r, b.mul(u.w, u.constant(u.decay)));
  r = u.named("r", r);
  Value rate = u.lr;
  if (u.param.getDecayed()) {
    Value sizeOfW = u.named("w_norm", norm(u, u.w));
    Value sizeOfR = u.named("r_norm", norm(u, r));
    Value least = b.map(ech::Function::Min, {sizeOfW, sizeOfR});
    Value isMoved = b.map(ech::Function::Gt, {least, u.constant(0)});
    Value ratio = u.named("ratio", b.select(isMoved, b.div(sizeOfW, sizeOfR), one));
    rate = u.named("rate", b.mul(ratio, u.lr));
  }
  return b.sub(u.w, b.mul(r, rate));
}

constexpr Rule update::kLamb{"lamb", /*decaysApart=*/true, next, describeAdam,
                             /*setsWeightsApart=*/true};
