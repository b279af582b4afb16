// Element-wise functions: one table says each one's name, number of operands, cost and derivative.
#include "ir/ech/ops/Check.h"
#include "ir/ech/ops/Derive.h"

using namespace mlir;
using namespace echelon::ech;

//===- the table -------------------------------------------------------------------------------------------------===//

namespace {

/// What a derivative is made of. `operand` is the one whose cotangent is asked.
struct Site {
  Build &build;
  MapOp op;
  Value d; // the result's cotangent
  unsigned operand;

  Value x(unsigned i = 0) { return op.getOperands()[i]; }
  Value y() { return op.getResult(); }
  Tensor type() { return tensor(x(operand)); }
  Value number(double value) { return build.constant(value); }
  Value map(Function f, ValueRange values) { return build.map(f, values); }
  /// d, summed to the operand's axes.
  Value pass() { return inOrder(build, build.sumTo(d, type()), type()); }
  Value pass(Value v) { return inOrder(build, build.sumTo(v, type()), type()); }
  /// d times the local derivative, summed to the operand's axes.
  Value times(Value derivative) {
    if (isNumber(derivative))
      return inOrder(build, build.mul(build.sumTo(d, type()), derivative), type());
    return productTo(build, d, derivative, type());
  }
  /// d where the condition holds, 0 elsewhere; `flip` the other way round.
  Value where(Value condition, bool flip = false) {
    Value zero = number(0);
    return pass(flip ? build.select(condition, zero, d) : build.select(condition, d, zero));
  }
};
using Derivative = Value (*)(Site);

Value none(Site) { return {}; }
/// Functions that come with or after the derivative, which is not derived again.
Value never(Site s) { llvm::report_fatal_error("internal error: a derivative is derived again"); }

Value addTo(Site s) { return s.pass(); }
Value subtract(Site s) { return s.operand == 0 ? s.pass() : s.build.neg(s.pass()); }
Value multiply(Site s) { return s.times(s.x(1 - s.operand)); }
Value divide(Site s) {
  Value b = s.x(1);
  if (s.operand == 1) // -y / b
    return s.build.neg(s.times(s.build.div(s.y(), b)));
  if (missingAxes(tensor(b), s.type()).empty()) // dividing after the sum is cheaper
    return s.build.div(s.pass(), b);
  return s.times(s.build.div(s.number(1), b));
}
Value power(Site s) {
  Value a = s.x(0), b = s.x(1);
  auto exponent = b.getDefiningOp<ConstantOp>();
  double c = exponent ? exponent.getValue().convertToDouble() : 0;
  if (s.operand == 1) { // y log a, and 0 where a is
    Value zero = s.number(0);
    Value positive = s.map(Function::Gt, {a, zero});
    Value log = s.map(Function::Log, {s.build.select(positive, a, s.number(1))});
    return s.times(s.build.mul(s.y(), log));
  }
  if (exponent && c == 0)
    return {};
  if (exponent && c == 1)
    return s.pass();
  if (exponent && c == 2)
    return s.times(s.build.mul(b, a));
  if (exponent)
    return s.times(s.build.mul(b, s.map(Function::Pow, {a, s.number(c - 1)})));
  Value slope = s.build.mul(b, s.map(Function::Pow, {a, s.build.sub(b, s.number(1))}));
  return s.times(s.build.select(s.map(Function::Eq, {b, s.number(0)}), s.number(0), slope)); // 0^0 is flat in a
}
Value negate(Site s) { return s.build.neg(s.pass()); }
Value exponential(Site s) { return s.times(s.y()); }
Value logarithm(Site s) { return s.build.div(s.d, s.x()); }
Value root(Site s) { return s.build.div(s.build.mul(s.d, s.number(0.5)), s.y()); }
Value reciprocalRoot(Site s) { // -y^3 / 2
  Value cube = s.build.mul(s.build.mul(s.y(), s.y()), s.y());
  return s.times(s.build.mul(cube, s.number(-0.5)));
}
Value sine(Site s) { return s.times(s.map(Function::Cos, {s.x()})); }
Value cosine(Site s) { return s.build.neg(s.times(s.map(Function::Sin, {s.x()}))); }
Value hyperbolicTangent(Site s) { return s.times(s.build.sub(s.number(1), s.build.mul(s.y(), s.y()))); }
Value errorFunction(Site s) { // 2 / sqrt(pi) * exp(-x^2)
  Value bell = s.map(Function::Exp, {s.build.neg(s.build.mul(s.x(), s.x()))});
  return s.times(s.build.mul(bell, s.number(1.1283791670955126)));
}
Value logistic(Site s) { return s.times(s.build.mul(s.y(), s.build.sub(s.number(1), s.y()))); }
Value rectify(Site s) { return s.where(s.map(Function::Gt, {s.y(), s.number(0)})); } // 0 at the kink
Value gelu(Site s) { return s.times(s.map(Function::GeluGrad, {s.x()})); }
Value geluTanh(Site s) { return s.times(s.map(Function::GeluTanhGrad, {s.x()})); }
Value silu(Site s) { return s.times(s.map(Function::SiluGrad, {s.x()})); }
Value absolute(Site s) { return s.times(s.map(Function::Sign, {s.x()})); } // 0 at the kink
Value modulo(Site s) {                                                     // a - b floor(a / b)
  if (s.operand == 0)
    return s.pass();
  // floor(a / b) is (a - y) / b, rounded: a / b itself may have been rounded to the next integer
  Value quotient = s.build.div(s.build.sub(s.x(0), s.y()), s.x(1));
  return s.build.neg(s.times(s.map(Function::Floor, {s.build.add(quotient, s.number(0.5))})));
}
Value larger(Site s) { return s.where(s.map(Function::Ge, {s.x(0), s.x(1)}), s.operand == 1); } // ties: the first
Value smaller(Site s) { return s.where(s.map(Function::Le, {s.x(0), s.x(1)}), s.operand == 1); }
Value choose(Site s) { return s.operand == 0 ? Value() : s.where(s.x(0), s.operand == 2); }
Value convert(Site s) { return s.build.cast(s.d, s.type().getElement()); }

struct Entry {
  Function function;
  unsigned arity;
  int64_t flops; // per element; an estimate for what is no single instruction
  Derivative derivative;
  bool isOfReals = false; // its operands are made real numbers, and so is its result
};
constexpr bool ofReals = true;
// In the order of the enumeration. Comparisons and logic give truth values; `mod` has the sign of the divisor;
// `gelu` is exact, `gelu_tanh` its approximation; the *_grad functions are the derivatives of gelu, gelu_tanh, silu in
// x. What types ask for, round_*, comes behind the derivative.
const Entry table[] = {
    {Function::Add, 2, 1, addTo},
    {Function::Sub, 2, 1, subtract},
    {Function::Mul, 2, 1, multiply},
    {Function::Div, 2, 1, divide, ofReals},
    {Function::Pow, 2, 20, power, ofReals},
    {Function::Neg, 1, 1, negate},
    {Function::Exp, 1, 10, exponential, ofReals},
    {Function::Log, 1, 10, logarithm, ofReals},
    {Function::Sqrt, 1, 1, root, ofReals},
    {Function::Rsqrt, 1, 2, reciprocalRoot, ofReals},
    {Function::Sin, 1, 15, sine, ofReals},
    {Function::Cos, 1, 15, cosine, ofReals},
    {Function::Tanh, 1, 15, hyperbolicTangent, ofReals},
    {Function::Erf, 1, 15, errorFunction, ofReals},
    {Function::Sigmoid, 1, 12, logistic, ofReals},
    {Function::Relu, 1, 1, rectify},
    {Function::Gelu, 1, 20, gelu, ofReals},
    {Function::GeluTanh, 1, 20, geluTanh, ofReals},
    {Function::Silu, 1, 13, silu, ofReals},
    {Function::Abs, 1, 1, absolute},
    {Function::Floor, 1, 1, none},
    {Function::Mod, 2, 4, modulo},
    {Function::Max, 2, 1, larger},
    {Function::Min, 2, 1, smaller},
    {Function::Eq, 2, 1, none},
    {Function::Ne, 2, 1, none},
    {Function::Lt, 2, 1, none},
    {Function::Le, 2, 1, none},
    {Function::Gt, 2, 1, none},
    {Function::Ge, 2, 1, none},
    {Function::And, 2, 1, none},
    {Function::Or, 2, 1, none},
    {Function::Not, 1, 1, none},
    {Function::Select, 3, 1, choose},
    {Function::Cast, 1, 1, convert},
    {Function::StopGradient, 1, 0, none},
    {Function::Sign, 1, 1, none},
    {Function::GeluGrad, 1, 25, never, ofReals},
    {Function::GeluTanhGrad, 1, 25, never, ofReals},
    {Function::SiluGrad, 1, 15, never, ofReals},
    {Function::RoundTf32, 1, 3, never, ofReals},
    {Function::Round, 1, 1, none, ofReals},
    {Function::RoundE4M3, 1, 8, never, ofReals},
    {Function::RoundE5M2, 1, 8, never, ofReals},
    {Function::PowerOfTwo, 1, 3, never, ofReals},
};
const Entry &entry(Function function) {
  const Entry &e = table[static_cast<unsigned>(function)];
  assert(e.function == function && "the table is in the order of the enumeration");
  return e;
}

bool isLogic(Function f) { return f == Function::And || f == Function::Or || f == Function::Not; }
bool isComparison(Function f) { return f >= Function::Eq && f <= Function::Ge; }
} // namespace

bool echelon::ech::isOfReals(Function function) { return entry(function).isOfReals; }

//===- the operation ---------------------------------------------------------------------------------------------===//

LogicalResult MapOp::verify() {
  Function f = getFunction();
  if (getOperands().size() != entry(f).arity)
    return emitOpError() << stringifyFunction(f) << " takes " << entry(f).arity << " operands, not "
                         << getOperands().size();
  if (failed(checkSizesAgree(*this, (*this)->getOperandTypes())) ||
      failed(checkAxes(*this, tensor(getResult()), unionOfAxes((*this)->getOperandTypes()), "the result")))
    return failure();
  Type truth = IntegerType::get(getContext(), 1);
  if (f == Function::Cast)
    return success();
  unsigned first = f == Function::Select;
  Type element = tensor(getOperands()[first]).getElement();
  if (f == Function::Select && failed(checkElement(*this, tensor(getOperands()[0]), truth, "the condition")))
    return failure();
  if (isLogic(f) && element != truth)
    return emitOpError() << stringifyFunction(f) << " is of truth values, not " << element;
  if ((f == Function::RoundTf32 || f >= Function::RoundE4M3) && !element.isF32())
    return emitOpError() << stringifyFunction(f) << " is of f32, not " << element;
  if (isOfReals(f) && !isa<FloatType>(element))
    return emitOpError() << stringifyFunction(f) << " is of real numbers, not " << element;
  for (Value v : getOperands().drop_front(first + 1))
    if (tensor(v).getElement() != element)
      return emitOpError() << stringifyFunction(f) << " meets elements " << element << " and "
                           << tensor(v).getElement();
  return checkElement(*this, tensor(getResult()), isLogic(f) || isComparison(f) ? truth : element, "the result");
}

SmallVector<Value> MapOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  SmallVector<Value> result;
  for (unsigned i = 0; i < getOperands().size(); ++i)
    result.push_back(wanted[i] ? entry(getFunction()).derivative({build, *this, cotangents[0], i}) : Value());
  return result;
}

Freedom MapOp::freedom() { return Freedom::IfOperandsAre; }
Linearity MapOp::linearIn(ArrayRef<bool> partial) {
  switch (getFunction()) {
  case Function::Neg:
  case Function::StopGradient:
    return {true};
  case Function::Cast:
    return {tensor(getResult()).isFloat()};
  case Function::Add:
  case Function::Sub:
    return {true, 0};
  case Function::Mul:
    return {llvm::count(partial, true) == 1};
  case Function::Div:
    return {!partial[1]};
  case Function::Select:
    return {!partial[0], 1};
  default:
    return {};
  }
}
int64_t MapOp::flops() { return tensor(getResult()).count() * entry(getFunction()).flops; }

PendingRule MapOp::pendingRule() {
  switch (getFunction()) {
  case Function::Neg:
  case Function::StopGradient:
    return PendingRule::Through;
  case Function::Cast: { // to double or back; to two bytes a whole sum is rounded, once
    Tensor from = tensor(getOperands()[0]), to = tensor(getResult());
    return from.isFloat() && to.isFloat() && !isNarrow(to.getElement()) ? PendingRule::Through : PendingRule::Resolve;
  }
  case Function::Mul:
    return llvm::any_of(getOperands(), isNumber) ? PendingRule::Through : PendingRule::Resolve;
  case Function::Div:
    return isNumber(getOperands()[1]) ? PendingRule::Through : PendingRule::Resolve;
  case Function::Add:
  case Function::Sub:
    return PendingRule::Add;
  default:
    return PendingRule::Resolve;
  }
}

//===- expansion -------------------------------------------------------------------------------------------------===//

LogicalResult ExpandOp::verify() {
  Tensor from = tensor(getOperand()), to = tensor(getResult());
  if (failed(checkSizesAgree(*this, {from, to})) || failed(checkElement(*this, to, from.getElement(), "the result")))
    return failure();
  if (auto gone = llvm::find_if(from.getAxes(), [&](const Axis &a) { return !to.has(a.name); });
      gone != from.getAxes().end())
    return emitOpError() << "adds axes, and the result " << describe(to) << " lacks " << gone->name.getValue();
  return success();
}
SmallVector<Value> ExpandOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool>) {
  return {inOrder(build, build.sumTo(cotangents[0], tensor(getOperand())), tensor(getOperand()))};
}
Freedom ExpandOp::freedom() { return Freedom::IfOperandsAre; }
Linearity ExpandOp::linearIn(ArrayRef<bool>) { return {true}; }
