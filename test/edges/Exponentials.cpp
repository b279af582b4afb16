// The softmax family of Reals: an offset of all changes nothing, and errors do not grow with it.
#include "test/edges/Real.h"

#include <algorithm>

namespace echelon::edges {

namespace {
/// exp(x - m) and its sum, and what is wrong with them.
struct Exponentials {
  Wide top = -kInfinity, total = 0;
  Wide wrong = 0; // the relative error of the sum: terms, then additions
  std::vector<size_t> at;
  std::vector<Wide> share, relative; // of the sum; relative error of a term
  Exponentials(const Reals &x, const std::vector<bool> &mask) {
    for (size_t i = 0; i < x.size(); ++i)
      if (mask.empty() || mask[i])
        at.push_back(i), top = std::max(top, x[i].value());
    for (size_t i : at)
      total += std::exp(x[i].value() - top);
    for (size_t i : at) {
      const Wide down = magnitude(x[i].value() - top);
      share.push_back(std::exp(x[i].value() - top) / total);
      // the difference's rounding and the operand's error become relative ones
      relative.push_back(down > 1000 ? 0 : u * (down + kFunction) + x[i].error());
      wrong += share.back() * relative.back();
    }
    wrong += u * at.size();
  }
};
} // namespace

namespace {
/// `separate`: of the sum p_i d_i that the backward pass subtracts, where it is not made of the same d_i, but of that
/// many products and additions of what they are made of.
Reals softmaxOf(const Reals &x, const std::vector<bool> &mask, Wide separate) {
  const Exponentials e(x, mask);
  Reals y(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    if (!mask.empty() && !mask[i])
      y[i] = Real(0);
  for (size_t i = 0; i < e.at.size(); ++i) {
    const Wide p = e.share[i], off = e.relative[i] + e.wrong + u;
    std::vector<Real::Edge> edges;
    // p_j (d_j - sum of p_i d_i): products, additions, a subtraction, a product
    const Wide more = u * (e.at.size() + 3);
    for (size_t j = 0; j < e.at.size(); ++j) {
      const Wide q = e.share[j], offQ = e.relative[j] + e.wrong + u;
      const Wide apart = separate == 0 ? 0 : p * q * (u * separate + 2 * off) + (i == j ? p * u * separate : 0);
      edges.push_back({x[e.at[j]], i == j ? p * (1 - p) : -p * q,
                       (i == j ? p * (off + more) * (1 + p) : p * q * (off + offQ + more)) + kFlushed, apart});
    }
    y[e.at[i]] = Real::result(p, p * off + kFlushed, edges);
  }
  return y;
}
} // namespace
Reals softmax(const Reals &x, const std::vector<bool> &mask) { return softmaxOf(x, mask, 0); }

// The kernel's backward pass has sum p_i d_i as the product of y and its derivative (as FlashAttention has): products
// over e of sums over j, each with a division by the sum of exponentials.
Reals attend(const Reals &scores, const std::vector<bool> &mask, const std::vector<Reals> &values) {
  const Reals p = softmaxOf(scores, mask, Wide(values.size()) + Wide(values[0].size()) + 3);
  Reals y;
  for (size_t e = 0; e < values[0].size(); ++e) {
    Reals column;
    for (const Reals &v : values)
      column.push_back(v[e]);
    y.push_back(dot(p, column));
  }
  return y;
}

// The value rounds; what it is made of, the maximum and log of a sum, has no error that grows with an offset, and
// neither have shares.
Real logSumExp(const Reals &x, const std::vector<bool> &mask) {
  const Exponentials e(x, mask);
  if (e.at.empty())
    return Real(-kInfinity);
  const Wide log = std::log(e.total), v = e.top + log;
  std::vector<Real::Edge> edges;
  for (size_t j = 0; j < e.at.size(); ++j)
    edges.push_back({x[e.at[j]], e.share[j], e.share[j] * (e.relative[j] + e.wrong + 2 * u) + kFlushed});
  return Real::result(v, e.wrong + kFunction * u * log + u * magnitude(v), edges);
}

Reals logSoftmax(const Reals &x, const std::vector<bool> &mask) {
  const Exponentials e(x, mask);
  const Wide log = std::log(e.total);
  Reals y(x.size());
  for (size_t i = 0; i < e.at.size(); ++i) {
    const Wide down = x[e.at[i]].value() - e.top;
    std::vector<Real::Edge> edges;
    for (size_t j = 0; j < e.at.size(); ++j)
      edges.push_back({x[e.at[j]], Wide(i == j) - e.share[j],
                       e.share[j] * (e.relative[j] + e.wrong + u * (e.at.size() + 2)) + u * (i == j) + kFlushed});
    y[e.at[i]] = Real::result(
        down - log,
        x[e.at[i]].error() + u * magnitude(down) + e.wrong + kFunction * u * log + u * magnitude(down - log), edges);
  }
  return y;
}

Real crossEntropy(const Reals &x, size_t label) {
  Reals target;
  for (size_t i = 0; i < x.size(); ++i)
    target.push_back(Real(i == label));
  return crossEntropy(x, target);
}
// mass log(sum) - sum of target (x - m); in x: mass p - target.
Real crossEntropy(const Reals &x, const Reals &target) {
  const Exponentials e(x, {});
  const Wide log = std::log(e.total);
  Wide v = 0, error = 0, mass = 0;
  for (Real t : target)
    mass += t.value();
  std::vector<Real::Edge> edges;
  for (size_t i = 0; i < x.size(); ++i) {
    const Wide t = target[i].value(), down = x[i].value() - e.top;
    v += t * (log - down);
    error += magnitude(t) * (x[i].error() + u * magnitude(down) * 3 + e.wrong + kFunction * u * log + 2 * u * log) +
             (magnitude(down) + log) * (target[i].error() + (t != 0 ? x.size() * u * magnitude(t) : 0));
    edges.push_back({x[i], mass * e.share[i] - t,
                     magnitude(mass) * e.share[i] * (e.relative[i] + e.wrong + u * x.size() + 2 * u) +
                         u * magnitude(t) + target[i].error() + kFlushed});
    edges.push_back(
        {target[i], log - down,
         x[i].error() + e.wrong + u * (kFunction + 1) * log + u * magnitude(down) + u * magnitude(log - down)});
  }
  return Real::result(v, error + u * magnitude(v), edges);
}

} // namespace echelon::edges
