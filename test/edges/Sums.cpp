// Sums, products, extremes and norms of Reals.
#include "test/edges/Real.h"

#include <algorithm>

namespace echelon::edges {

Real sum(const Reals &x, Wide additions) {
  Wide v = 0, size = 0, error = 0;
  std::vector<Real::Edge> edges;
  for (Real r : x) {
    v += r.value(), size += magnitude(r.value()), error += r.error();
    edges.push_back({r, 1, 0});
  }
  return Real::result(v, error + (additions < 0 ? Wide(x.size()) - 1 : additions) * u * size + u * magnitude(v), edges);
}
Real dot(const Reals &a, const Reals &b) {
  Wide v = 0, error = 0;
  std::vector<Real::Edge> edges;
  for (size_t i = 0; i < a.size(); ++i) {
    const Wide p = a[i].value() * b[i].value();
    v += p;
    error += times(a[i].error(), b[i].value()) + times(b[i].error(), a[i].value()) + a.size() * u * magnitude(p);
    edges.push_back({a[i], b[i].value(), b[i].error()});
    edges.push_back({b[i], a[i].value(), a[i].error()});
  }
  return Real::result(v, error, edges);
}

static Real extreme(const Reals &x, Wide sign) {
  size_t best = 0;
  for (size_t i = 1; i < x.size(); ++i)
    if (sign * x[i].value() > sign * x[best].value())
      best = i;
  return Real::result(x[best].value(), x[best].error(), {{x[best], 1, 0}});
}
Real maximum(const Reals &x) { return extreme(x, 1); }
Real minimum(const Reals &x) { return extreme(x, -1); }
size_t argmax(const Reals &x) {
  size_t best = 0;
  for (size_t i = 1; i < x.size(); ++i)
    if (x[i].value() > x[best].value())
      best = i;
  return best;
}

// Normalize.cpp. The mean is a sum in blocks; where it is more than twice the deviation, of differences from a number
// near it. So its terms are at most 3 deviations large. The variance is a sum in blocks of (x - near)^2, with 3
// roundings each; what is wrong with the mean is of second order in it. y = (x - near) rstd - (mean - near) rstd: two
// roundings and rstd's, which is half of the variance's and its own; a last one; and (mean - near) rstd's two. Of
// subnormal numbers nothing finer than kTiny is seen. dx = rstd (d - mean(d) - y mean(d y)): sums of d and d y in lanes
// of 8, 256 / 8 + 3 additions; the product d y, two subtractions, two products, a division, and what is wrong with rstd
// and both y.
Norm normalize(const Reals &x, bool rms) {
  constexpr Wide kEpsilon = 1e-5L;
  const Wide n = x.size(), sums = std::min<Wide>(n - 1, kBlockedAdditions), sumsBack = std::min<Wide>(n - 1, 35);
  Wide mean = 0, size = 0, variance = 0, operands = 0, along = 0;
  for (Real r : x)
    mean += r.value() / n, size += magnitude(r.value()) / n, operands += r.error() / n;
  const Wide center = rms ? 0 : mean;
  for (Real r : x)
    variance += (r.value() - center) * (r.value() - center) / n;
  const Wide deviation = std::sqrt(variance), rstd = 1 / std::sqrt(variance + kEpsilon);
  const Wide meanOff = operands + (sums + 1) * u * std::min(size, 3 * deviation) + kTiny;
  const Wide rstdOff = ((sums + 3) / 2 + 1) * u; // relative
  for (Real r : x)
    along += magnitude((r.value() - center) * rstd) * r.error() / n;
  std::vector<Wide> off;
  for (size_t i = 0; i < x.size(); ++i) {
    const Wide z = magnitude((x[i].value() - center) * rstd);
    off.push_back(z * (3 * u + rstdOff + along * rstd) +
                  rstd * (x[i].error() + (rms ? 0 : meanOff + 2 * u * u * magnitude(mean)) + 2 * kTiny));
  }
  Norm norm;
  std::vector<Real::Edge> ofMean, ofVariance;
  for (size_t i = 0; i < x.size(); ++i) {
    const Wide away = x[i].value() - center, y = away * rstd;
    std::vector<Real::Edge> edges;
    for (size_t j = 0; j < x.size(); ++j) {
      const Wide z = (x[j].value() - center) * rstd, common = rms ? 0 : 1 / n, cross = magnitude(y * z) / n;
      edges.push_back({x[j], rstd * (Wide(i == j) - common - y * z / n),
                       rstd * ((u * (sumsBack + 6) + rstdOff) * (common + cross) + (i == j ? 3 * u + rstdOff : 0) +
                               (off[i] * magnitude(z) + off[j] * magnitude(y)) / n +
                               rstd * along * (Wide(i == j) + common + cross))});
    }
    norm.y.push_back(Real::result(y, off[i], edges));
    ofMean.push_back({x[i], 1 / n, 2 * u / n});
    ofVariance.push_back({x[i], 2 * away / n, 8 * u * magnitude(away) / n + 2 * (x[i].error() + meanOff) / n});
  }
  norm.mean = Real::result(mean, u * magnitude(mean) + meanOff, ofMean);
  norm.variance = Real::result(variance, (sums + 4) * u * variance + 2 * along / rstd + kTiny, ofVariance);
  return norm;
}

} // namespace echelon::edges
