#include "frontend/elaborate/Fold.h"

#include <algorithm>
#include <cmath>

using echelon::ech::Function;

std::optional<double> echelon::frontend::fold(Function function, llvm::ArrayRef<double> x) {
  switch (function) {
  case Function::Cast:
  case Function::StopGradient:
    return x[0];
  case Function::Exp:
    return std::exp(x[0]);
  case Function::Log:
    return std::log(x[0]);
  case Function::Sqrt:
    return std::sqrt(x[0]);
  case Function::Rsqrt:
    return 1 / std::sqrt(x[0]);
  case Function::Sin:
    return std::sin(x[0]);
  case Function::Cos:
    return std::cos(x[0]);
  case Function::Tanh:
    return std::tanh(x[0]);
  case Function::Erf:
    return std::erf(x[0]);
  case Function::Sigmoid:
    return 1 / (1 + std::exp(-x[0]));
  case Function::Relu:
    return x[0] < 0 ? 0 : x[0]; // no number of none
  case Function::Silu:
    return x[0] / (1 + std::exp(-x[0]));
  case Function::Gelu:
    return 0.5 * x[0] * (1 + std::erf(x[0] / std::sqrt(2.0)));
  case Function::Abs:
    return std::abs(x[0]);
  case Function::Mod:
    return x[0] - x[1] * std::floor(x[0] / x[1]);
  case Function::Neg:
    return -x[0];
  case Function::Add:
    return x[0] + x[1];
  case Function::Sub:
    return x[0] - x[1];
  case Function::Mul:
    return x[0] * x[1];
  case Function::Div:
    return x[0] / x[1];
  case Function::Pow:
    return std::pow(x[0], x[1]);
  case Function::Floor:
    return std::floor(x[0]);
  case Function::Round:
    return std::nearbyint(x[0]);
  case Function::Max: // no number where either is none
    return std::isnan(x[1]) ? x[1] : std::max(x[0], x[1]);
  case Function::Min:
    return std::isnan(x[1]) ? x[1] : std::min(x[0], x[1]);
  case Function::And:
    return x[0] != 0 && x[1] != 0;
  case Function::Or:
    return x[0] != 0 || x[1] != 0;
  case Function::Not:
    return x[0] == 0;
  case Function::Eq:
    return x[0] == x[1];
  case Function::Ne:
    return x[0] != x[1];
  case Function::Lt:
    return x[0] < x[1];
  case Function::Le:
    return x[0] <= x[1];
  case Function::Gt:
    return x[0] > x[1];
  case Function::Ge:
    return x[0] >= x[1];
  case Function::Select:
    return x[0] != 0 ? x[1] : x[2];
  case Function::GeluTanh:
  case Function::Sign:
  case Function::GeluGrad:
  case Function::GeluTanhGrad:
  case Function::SiluGrad:
  case Function::RoundTf32:
  case Function::RoundE4M3:
  case Function::RoundE5M2:
  case Function::PowerOfTwo:
    return std::nullopt;
  }
  llvm_unreachable("a function of the enumeration");
}

const std::map<std::string, Function> &echelon::frontend::unaryFunctions() {
  static const std::map<std::string, Function> table{
      {"exp", Function::Exp},         {"log", Function::Log},     {"sqrt", Function::Sqrt}, {"rsqrt", Function::Rsqrt},
      {"sin", Function::Sin},         {"cos", Function::Cos},     {"tanh", Function::Tanh}, {"erf", Function::Erf},
      {"sigmoid", Function::Sigmoid}, {"relu", Function::Relu},   {"silu", Function::Silu}, {"gelu", Function::Gelu},
      {"abs", Function::Abs},         {"floor", Function::Floor},
  };
  return table;
}
