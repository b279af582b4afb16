#include "test/interpret/Functions.h"
#include "runtime/kernels/Elementwise.h"
#include <algorithm>
#include <cmath>

using namespace echelon::ech;

static constexpr double kPi = 3.14159265358979323846;

static double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
static double geluGrad(double x) {
  return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) + x * std::exp(-x * x / 2) / std::sqrt(2 * kPi);
}
static double geluTanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x))); }
static double geluTanhGrad(double x) {
  double c = std::sqrt(2 / kPi), t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}
static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
static bool areNumbers(double a, double b) { return !std::isnan(a) && !std::isnan(b); }

double echelon::interpret::apply(Function f, const double *x, bool toInteger) {
  double a = x[0], b = x[1];
  switch (f) {
  case Function::Add:
    return a + b;
  case Function::Sub:
    return a - b;
  case Function::Mul:
    return a * b;
  case Function::Div:
    return a / b;
  case Function::Pow:
    return std::pow(a, b);
  case Function::Neg:
    return -a;
  case Function::Exp:
    return std::exp(a);
  case Function::Log:
    return std::log(a);
  case Function::Sqrt:
    return std::sqrt(a);
  case Function::Rsqrt:
    return 1 / std::sqrt(a);
  case Function::Sin:
    return std::sin(a);
  case Function::Cos:
    return std::cos(a);
  case Function::Tanh:
    return std::tanh(a);
  case Function::Erf:
    return std::erf(a);
  case Function::Sigmoid:
    return sigmoid(a);
  case Function::Relu:
    return a > 0 || std::isnan(a) ? a : 0;
  case Function::Gelu:
    return gelu(a);
  case Function::GeluTanh:
    return geluTanh(a);
  case Function::Silu:
    return a * sigmoid(a);
  case Function::Abs:
    return std::fabs(a);
  case Function::Floor:
    return std::floor(a);
  case Function::Mod:
    return a - b * std::floor(a / b);
  case Function::Max:
    return areNumbers(a, b) ? std::max(a, b) : NAN;
  case Function::Min:
    return areNumbers(a, b) ? std::min(a, b) : NAN;
  case Function::Eq:
    return a == b;
  case Function::Ne:
    return a != b;
  case Function::Lt:
    return a < b;
  case Function::Le:
    return a <= b;
  case Function::Gt:
    return a > b;
  case Function::Ge:
    return a >= b;
  case Function::And:
    return a != 0 && b != 0;
  case Function::Or:
    return a != 0 || b != 0;
  case Function::Not:
    return a == 0;
  case Function::Select:
    return a != 0 ? b : x[2];
  case Function::Cast:
    return toInteger ? std::trunc(a) : a;
  case Function::StopGradient:
    return a;
  case Function::Sign:
    return a > 0 ? 1 : a < 0 ? -1 : a;
  case Function::GeluGrad:
    return geluGrad(a);
  case Function::GeluTanhGrad:
    return geluTanhGrad(a);
  case Function::SiluGrad:
    return sigmoid(a) * (1 + a * (1 - sigmoid(a)));
  case Function::RoundTf32: // as of a cast, what is kept is rounded
  case Function::RoundE4M3:
  case Function::RoundE5M2:
    return a;
  case Function::Round:
    return std::nearbyint(a);
  case Function::PowerOfTwo:
    return echelon::runtime::math::power_of_two(static_cast<float>(a));
  }
  llvm_unreachable("every function is here");
}
