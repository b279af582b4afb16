// Element-wise functions: values of every size and both signs, pairs of them.
#include "test/edges/Case.h"

#include <cfloat>

namespace echelon::edges {

namespace {

using Unary = std::function<Real(Real)>;
using Binary = std::function<Real(Real, Real)>;

constexpr int64_t kRows = 16, kColumns = 32;
const std::vector<double> kSizes = {0,     1e-45, 1e-40, 1.17549435e-38,
                                    1e-30, 1e-25, 1e-19, 1e-10,
                                    1e-5,  1e-3,  0.1,   0.25,
                                    0.5,   0.6,   0.75,  1,
                                    1.25,  1.5,   2,     2.5,
                                    3,     3.9,   4.1,   5,
                                    5.7,   8.8,   8.95,  12,
                                    16.5,  20,    40,    69.5,
                                    80,    87.2,  87.95, 88.5,
                                    89,    100,   103.5, 1000,
                                    1e4,   99999, 1e6,   1e8,
                                    1.1e9, 1e12,  1e15,  1e19,
                                    1e25,  1e30,  3e38};

Real log(Real a) {
  const Wide x = a.value();
  return apply(a, x < 0 ? NAN : std::log(x), 1 / x, 1 / x / x, kFunction, 0, 1);
}
Real sqrt(Real a) {
  const Wide y = std::sqrt(a.value());
  return apply(a, y, 0.5L / y, 0, 1, 0, 2);
}
Real erf(Real a) { // exp(-x^2) of the rounded square
  const Wide x = a.value(), bell = 2 / std::sqrt(std::acos(-1.0L)) * std::exp(-x * x);
  return apply(a, std::erf(x), bell, 0.86L, kFunction, 0, 0,
               bell == 0 ? kFlushed : u * (kFunction + 3 + x * x) * bell + kFlushed);
}
Real pow(Real a, Real b) {
  const Wide x = a.value(), y = b.value(), v = std::pow(x, y);
  const Wide power = std::pow(x, y - 1); // it may be beyond fp32 where y times it is not, as PyTorch's
  const Wide inX = y == 0                       ? 0
                   : std::fabs(power) > FLT_MAX ? y * INFINITY
                                                : y * power,
             inY = x > 0 ? v * std::log(x) : 0;
  // y - 1 is rounded, as PyTorch's is: what that does to the power is known
  const Wide rounded = std::pow(x, Wide(float(y - 1)));
  const Wide moved = !std::isfinite(inX) || rounded == power ? 0 : std::fabs(y) * std::fabs(rounded - power);
  return Real::result(
      v, kFunction * u * std::fabs(v),
      {{a, inX, (kFunction + 2) * u * std::fabs(inX) + moved}, {b, inY, (2 * kFunction + 1) * u * std::fabs(inY)}});
}
Real chosen(Real a, Real b, bool first) {
  return Real::result(first ? a.value() : b.value(), 0, {{a, Wide(first), 0}, {b, Wide(!first), 0}});
}
Real flat(Wide value) { return Real(value); }
Wide floorMod(Wide a, Wide b) {
  const Wide r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/// The remainder is exact, but for one rounding where it gets the divisor's sign.
Real mod(Real a, Real b) {
  const Wide x = a.value(), y = b.value(), r = floorMod(x, y), q = std::round((x - r) / y);
  return Real::result(r, u * std::fabs(r), {{a, 1, 0}, {b, -q, 3 * u * std::fabs(q)}}); // (a - r) / b, rounded
}

struct Unaries {
  const char *name, *text;
  Unary f;
};
const std::vector<Unaries> &unaries() {
  static const std::vector<Unaries> list = {
      {"neg", "-$v", [](Real x) { return -x; }},
      {"exp", "exp($v)", [](Real x) { return exp(x); }},
      {"log", "log($v)", log},
      {"sqrt", "sqrt($v)", sqrt},
      {"rsqrt", "rsqrt($v)", [](Real x) { return rsqrt(x); }},
      {"sin", "sin($v)", [](Real x) { return sin(x); }},
      {"cos", "cos($v)", [](Real x) { return cos(x); }},
      {"tanh", "tanh($v)", [](Real x) { return tanh(x); }},
      {"erf", "erf($v)", erf},
      {"sigmoid", "sigmoid($v)", [](Real x) { return sigmoid(x); }},
      {"relu", "relu($v)", [](Real x) { return relu(x); }},
      {"gelu", "gelu($v)", [](Real x) { return gelu(x); }},
      {"tanhgelu", "gelu($v, tanh = true)", [](Real x) { return geluTanh(x); }},
      {"silu", "silu($v)", [](Real x) { return silu(x); }},
      {"abs", "abs($v)",
       [](Real x) {
         const Wide s = x.value() > 0 ? 1 : x.value() < 0 ? -1 : 0;
         return Real::result(std::fabs(x.value()), 0, {{x, s, 0}});
       }},
      {"ceil", "$v * ceil(2.25)", [](Real x) { return x * Real(3); }},
      {"floor", "floor($v)", [](Real x) { return flat(std::floor(x.value())); }},
      {"stop", "stop_gradient($v) + 0 * $v", [](Real x) { return Real::result(x.value(), 0, {}); }},
      {"square", "$v ^ 2", [](Real x) { return square(x); }},
      {"cube", "$v ^ 3", [](Real x) { return pow(x, Real(3)); }},
      {"power", "$v ^ -1.5", [](Real x) { return pow(x, Real(-1.5L)); }},
      {"root", "$v ^ 0.5", [](Real x) { return pow(x, Real(0.5L)); }},
      {"one", "$v ^ 1", [](Real x) { return x; }},
      {"none", "$v ^ 0 + 0 * $v", [](Real x) { return Real::result(1, 0, {}); }},
      {"two", "2 ^ $v", [](Real x) { return pow(Real(2), x); }},
      {"inverse", "1 / $v", [](Real x) { return Real(1) / x; }},
      {"clamp", "clamp($v, -0.5, 1.5)",
       [](Real x) {
         const Wide v = x.value();
         return Real::result(std::min(std::max(v, -0.5L), 1.5L), 0, {{x, Wide(v >= -0.5L && v <= 1.5L), 0}});
       }},
      {"logic", "where(not ($v < 1) and ($v <= 4 or $v >= 100), $v, 0.5)",
       [](Real x) {
         const Wide v = x.value();
         const bool on = !(v < 1) && (v <= 4 || v >= 100);
         return Real::result(on ? v : 0.5L, 0, {{x, Wide(on), 0}});
       }},
  };
  return list;
}

struct Binaries {
  const char *name, *text;
  Binary f;
};
const std::vector<Binaries> &binaries() {
  static const std::vector<Binaries> list = {
      {"add", "$a + $b", [](Real a, Real b) { return a + b; }},
      {"sub", "$a - $b", [](Real a, Real b) { return a - b; }},
      {"mul", "$a * $b", [](Real a, Real b) { return a * b; }},
      {"div", "$a / $b", [](Real a, Real b) { return a / b; }},
      {"pow", "$a ^ $b", pow},
      {"mod", "mod($a, $b)", mod},
      {"max", "max($a, $b)", [](Real a, Real b) { return chosen(a, b, a.value() >= b.value()); }},
      {"min", "min($a, $b)", [](Real a, Real b) { return chosen(a, b, a.value() <= b.value()); }},
      {"where", "where($a > $b, $a, $b) + where($a == $b, 1, 0) + where($a != $b, 0, 2)",
       [](Real a, Real b) { return chosen(a, b, a.value() > b.value()) + Real(a.value() == b.value() ? 3 : 0); }},
  };
  return list;
}

bool isOrdinary(Wide x) { return std::isfinite(x) && std::fabs(x) < 1e37L; }

} // namespace

Family elementwise(bool finite) {
  Family family{finite ? "elementwise" : "elementwise-all",
                "  axis n = 32\n",
                {{"n", kColumns}},
                kRows,
                finite ? std::vector<std::string>{"mesh(tp = 2) { split n over tp }"} : std::vector<std::string>{},
                {}};
  for (const Unaries &each : unaries()) {
    std::vector<double> sizes, negative;
    for (double sign : {1.0, -1.0})
      for (double size : asFloats(kSizes)) {
        forget();
        Real x = Real(sign * size);
        const Real y = each.f(x);
        derive({y}, {1});
        if (finite && !(isOrdinary(y.value()) && isOrdinary(x.slope()) && isOrdinary(x.value())))
          continue;
        sizes.push_back(size);
        negative.push_back(sign < 0);
      }
    Unary f = each.f;
    // zeros of both signs: an input's 0, negated
    family.cases.push_back({std::string("e_") + each.name,
                            std::string("$v = where($neg, -$x, $x)\n$y = ") + each.text,
                            {{"x", {"n"}, sizes}, {"neg", {"n"}, negative, Kind::Bool}},
                            {"n"},
                            [f](Values &v) {
                              Reals y;
                              for (size_t i = 0; i < v.real("x").size(); ++i) {
                                const Real x = v.real("x")[i];
                                y.push_back(f(v.other("neg")[i] ? -x : x));
                              }
                              return y;
                            },
                            true,
                            finite});
  }
  const std::vector<double> some = asFloats({0, 1e-40, 1e-30, 1e-3, 1, 2.5, 3, 12345, 1e8, 1e19, 1e30});
  for (const Binaries &each : binaries()) {
    std::vector<double> as, bs;
    for (double a : some)
      for (double b : some)
        for (double signs : {1, 2, 3, 4}) {
          a = signs == 1 || signs == 3 ? std::fabs(a) : -std::fabs(a);
          b = signs <= 2 ? std::fabs(b) : -std::fabs(b);
          forget();
          Real x = Real(a), y = Real(b), z = each.f(x, y);
          derive({z}, {1});
          if (finite && !(isOrdinary(z.value()) && isOrdinary(x.slope()) && isOrdinary(y.slope())))
            continue;
          as.push_back(a);
          bs.push_back(b);
        }
    Binary f = each.f;
    family.cases.push_back({std::string("e_") + each.name,
                            std::string("$y = ") + each.text,
                            {{"a", {"n"}, as}, {"b", {"n"}, bs}},
                            {"n"},
                            [f](Values &v) {
                              Reals y;
                              for (size_t i = 0; i < v.real("a").size(); ++i)
                                y.push_back(f(v.real("a")[i], v.real("b")[i]));
                              return y;
                            },
                            true,
                            finite});
  }
  return family;
}

} // namespace echelon::edges
