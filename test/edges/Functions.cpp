// Element-wise functions of Reals: their errors are those that Elementwise.h promises.
#include "test/edges/Real.h"

#include <algorithm>

namespace echelon::edges {

Real sin(Real a) {
  const Wide s = std::sin(a.value()), c = std::cos(a.value());
  return apply(a, s, c, 1);
}
Real cos(Real a) {
  const Wide s = std::sin(a.value()), c = std::cos(a.value());
  return apply(a, c, -s, 1);
}
Real exp(Real a) {
  const Wide y = std::exp(a.value());
  return apply(a, y, y, y, kFunction, kFlushed, kFunction, kFlushed);
}
// 1 - y^2 of the rounded y.
Real tanh(Real a) {
  const Wide y = std::tanh(a.value()), slope = 1 / std::cosh(a.value()) / std::cosh(a.value());
  return apply(a, y, slope, 0.77L, kFunction, 0, 1, u * (2 * kFunction * y * y + y * y));
}
// y (1 - y) of the rounded y.
Real sigmoid(Real a) {
  const Wide y = 1 / (1 + std::exp(-a.value())), rest = 1 / (1 + std::exp(a.value()));
  const Wide own = kFunction + 2; // exp, an addition, a division
  return apply(a, y, y * rest, 0.1L, own, kFlushed, 2, u * (own + 1) * y + kFlushed);
}
// x sigmoid(x); s (1 + x (1 - s)), its second factor a sum of three terms.
Real silu(Real a) {
  const Wide x = a.value(), s = 1 / (1 + std::exp(-x)), rest = 1 / (1 + std::exp(x));
  const Wide xs = s == 0 ? 0 : x * s, xrest = rest == 0 ? 0 : x * rest;
  // where exp overflows or is 0, s is wrong by kFlushed, times x; further than 105 down, nothing is left of s
  const Wide flushed = kFlushed * (1 + std::min<Wide>(105, magnitude(x)));
  return apply(a, xs, s == 0 ? 0 : s + xs * rest, 0.5L, kFunction + 3, flushed, 0,
               s == 0 ? flushed : u * (2 * kFunction + 8) * (s + magnitude(s * xrest)) + flushed);
}
// Elementwise.h promises an absolute error of 3e-7 max(1, |x|) of gelu and of 2e-7 of the normal distribution, which
// its derivative has a part of; the other, x phi(x), has exp of a rounded square.
Real gelu(Real a) {
  const Wide x = a.value(), p = std::erfc(-x / std::sqrt(2.0L)) / 2;
  const Wide bell = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0L));
  const Wide xp = p == 0 ? 0 : x * p, xbell = bell == 0 ? 0 : x * bell;
  return apply(a, xp, p + xbell, 1.2L, 0, 3e-7L * std::max<Wide>(1, magnitude(x)), 0,
               2e-7L + (xbell == 0 ? 0 : u * (kFunction + 4 + x * x) * magnitude(xbell)));
}
// x sigmoid(2 w), w = sqrt(2 / pi) (x + 0.044715 x^3): the argument's rounding (4 u |2 w|) is sigmoid's relative error
// where 1 - s is not small.
Real geluTanh(Real a) {
  const Wide x = a.value(), c = 2 * std::sqrt(2 / std::acos(-1.0L)), w = c * (x + 0.044715L * x * x * x);
  const Wide s = 1 / (1 + std::exp(-w)), rest = 1 / (1 + std::exp(w)), dw = c * (1 + 3 * 0.044715L * x * x);
  const Wide xs = s == 0 ? 0 : x * s, turn = s == 0 || rest == 0 ? 0 : xs * rest * dw;
  const Wide relative = kFunction + 3 + (rest == 0 ? 0 : 4 * magnitude(w) * rest);
  // as silu's, at the argument where s is 0
  const Wide flushed = kFlushed * (1 + std::min<Wide>(10.6L, magnitude(x)) * c * (1 + 3 * 0.044715L * 10.6L * 10.6L));
  return apply(a, xs, s + turn, 1.2L, relative, flushed, 0,
               u * (relative + 2) * s + (turn == 0 ? 0 : u * (2 * relative + 10 + 4 * magnitude(w)) * magnitude(turn)) +
                   flushed);
}
Real relu(Real a) { // 0 at the kink
  const bool on = a.value() > 0;
  return Real::result(on ? a.value() : 0, a.error(), {{a, Wide(on), 0}});
}
Real rsqrt(Real a) {
  const Wide y = 1 / std::sqrt(a.value());
  return apply(a, y, -y * y * y / 2, 0.75L * y * y * y * y * y, 2, 0, 9); // y has 2 roundings, y^3 / 2 three more
}
Real square(Real a) { return a * a; }

} // namespace echelon::edges
