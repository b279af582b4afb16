// C++ text of element-wise functions. Floating-point operators are printed in the order given: nothing is reassociated.
#include "codegen/Expression.h"
#include "ir/ech/Decimal.h"
#include "ir/rt/Rt.h"
#include <cmath>

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;
using ech::Function;

namespace {
struct Infix {
  const char *spelling;
  int strength;
};
/// Functions that are operators; all others are math::NAME. Logic has no short cuts: a load that a branch guards is
/// slow.
Infix infixOf(Function f) {
  switch (f) {
  case Function::Add:
    return {"+", 4};
  case Function::Sub:
    return {"-", 4};
  case Function::Mul:
    return {"*", 5};
  case Function::Div:
    return {"/", 5};
  case Function::Eq:
    return {"==", 3};
  case Function::Ne:
    return {"!=", 3};
  case Function::Lt:
    return {"<", 3};
  case Function::Le:
    return {"<=", 3};
  case Function::Gt:
    return {">", 3};
  case Function::Ge:
    return {">=", 3};
  case Function::And:
    return {"&", 2};
  case Function::Or:
    return {"|", 1};
  default:
    return {nullptr, 0};
  }
}

} // namespace

std::string codegen::literal(double value, Type type) {
  if (type.isInteger(1))
    return value != 0 ? "true" : "false";
  if (type.isInteger())
    return std::to_string(static_cast<int64_t>(value));
  if (ech::isNarrow(type))
    return (rt::storedAs(type) + "(" + literal(value, Float32Type::get(type.getContext())) + ")").str();
  const char *real = type.isF32() ? "float" : "double";
  if (std::isinf(value))
    return std::string(value < 0 ? "-" : "") + "std::numeric_limits<" + real + ">::infinity()";
  if (std::isnan(value))
    return std::string("std::numeric_limits<") + real + ">::quiet_NaN()";
  std::string text = shortestDecimal(value);
  if (text.find_first_of(".e") == std::string::npos)
    text += ".0";
  return type.isF32() ? text + "f" : text;
}

Expression codegen::apply(StringRef function, ArrayRef<Expression> x, ArrayRef<Type> types, Type result) {
  Function f = *ech::symbolizeFunction(function);
  if (Infix infix = infixOf(f); infix.spelling) {
    bool mixes = infix.strength <= 3; // logic and comparisons in each other: with brackets
    int left = mixes ? 4 : infix.strength, right = mixes ? 4 : infix.strength + 1;
    return {x[0].within(left) + " " + infix.spelling + " " + x[1].within(right), infix.strength};
  }
  switch (f) {
  case Function::Neg:
    return {"-" + x[0].within(9), 6};
  case Function::Not: // beside & and | compilers want it in brackets
    return {"!" + x[0].within(9), 3};
  case Function::StopGradient:
    return x[0];
  case Function::Cast:
    if (types[0] == result)
      return x[0];
    if (result.isInteger(1))
      return {x[0].within(4) + " != 0", 3};
    if (types[0].isInteger(1))
      return {x[0].within(3) + " ? " + literal(1, result) + " : " + literal(0, result), 0};
    return {("static_cast<" + rt::storedAs(result) + ">(" + x[0].text + ")").str(), 9};
  default:
    break;
  }
  std::string text = ("math::" + function + "(").str();
  for (const Expression &e : x)
    text += (&e == x.begin() ? "" : ", ") + e.text;
  return {text + ")", 9};
}
