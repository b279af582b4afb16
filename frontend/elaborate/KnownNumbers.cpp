#include "frontend/elaborate/KnownNumbers.h"
#include "frontend/elaborate/Fold.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;
using ech::Function;

namespace {

Bounds ofBounds(Function function, ArrayRef<Bounds> x) {
  switch (function) {
  case Function::Cast:
  case Function::StopGradient:
    return x[0];
  case Function::Neg:
    return {-x[0].high, -x[0].low};
  case Function::Max:
    return {std::max(x[0].low, x[1].low), std::max(x[0].high, x[1].high)};
  case Function::Min:
    return {std::min(x[0].low, x[1].low), std::min(x[0].high, x[1].high)};
  case Function::Select:
    return {std::min(x[1].low, x[2].low), std::max(x[1].high, x[2].high)};
  case Function::Sigmoid:
    return {0, 1};
  case Function::Add:
  case Function::Sub:
  case Function::Mul:
  case Function::Div: {
    if (function == Function::Div && x[1].low <= 0 && x[1].high >= 0)
      return {};
    Bounds all = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
    for (double a : {x[0].low, x[0].high})
      for (double b : {x[1].low, x[1].high}) { // the ends lie at ends
        const double end = *fold(function, {a, b});
        if (!std::isfinite(end))
          return {};
        all = {std::min(all.low, end), std::max(all.high, end)};
      }
    return all;
  }
  default:
    return {};
  }
}

double lastPosition(ech::PositionOp position) {
  for (auto r = position->getParentOfType<ech::RepeatOp>(); r; r = r->getParentOfType<ech::RepeatOp>())
    if (r.getAxis() == position.getAxis())
      return static_cast<double>(r.getCount()) - 1;
  return std::numeric_limits<double>::infinity();
}

/// The operations that `value` is made by, each after those of its operands; without those whose results are `done`.
/// Nothing where there are more than `most`.
template <typename T>
std::optional<std::vector<Operation *>> sources(Value value, const llvm::DenseMap<Value, T> &done,
                                                size_t most = std::numeric_limits<size_t>::max()) {
  std::vector<Operation *> order;
  llvm::DenseSet<Operation *> seen;
  std::vector<std::pair<Operation *, unsigned>> open; // and its next operand
  auto look = [&](Value v) {
    Operation *op = v.getDefiningOp();
    if (op && op->getNumResults() == 1 && !done.count(v) && seen.insert(op).second)
      open.emplace_back(op, 0);
  };
  for (look(value); !open.empty() && seen.size() <= most;) {
    auto &[op, next] = open.back();
    if (isa<ech::MapOp>(op) && next < op->getNumOperands()) {
      look(op->getOperand(next++));
      continue;
    }
    order.push_back(op);
    open.pop_back();
  }
  if (!open.empty())
    return std::nullopt;
  return order;
}

std::optional<double> numberOf(Operation *op, const llvm::StringMap<int64_t> &positions,
                               const llvm::DenseMap<Value, double> &numbers) {
  if (auto constant = dyn_cast<ech::ConstantOp>(op))
    return constant.getValue().convertToDouble();
  if (auto position = dyn_cast<ech::PositionOp>(op))
    return positions.lookup(position.getAxis());
  auto map = dyn_cast<ech::MapOp>(op);
  if (!map)
    return std::nullopt;
  SmallVector<double> x;
  for (Value operand : map.getOperands()) {
    auto number = numbers.find(operand);
    if (number == numbers.end())
      return std::nullopt;
    x.push_back(number->second);
  }
  return fold(map.getFunction(), x);
}

} // namespace

Bounds KnownNumbers::bounds(Value value) {
  const auto order = sources(value, known);
  for (Operation *op : *order) {
    SmallVector<Bounds> x;
    for (Value operand : op->getOperands())
      x.push_back(known.lookup(operand));
    Bounds &of = known[op->getResult(0)];
    if (auto constant = dyn_cast<ech::ConstantOp>(op))
      of.low = of.high = constant.getValue().convertToDouble();
    else if (auto position = dyn_cast<ech::PositionOp>(op))
      of = {0, lastPosition(position)};
    else if (auto map = dyn_cast<ech::MapOp>(op))
      of = ofBounds(map.getFunction(), x);
  }
  return known.lookup(value);
}

std::optional<std::vector<double>> KnownNumbers::atPositions(Operation *op, Value value) {
  llvm::DenseMap<Value, double> numbers;
  const auto order = sources(value, numbers, work);
  if (!order)
    return std::nullopt;
  std::vector<double> list;
  if (order->empty())
    return list;
  SmallVector<ech::RepeatOp> repeats;
  size_t count = 1, most = work / order->size();
  for (auto r = op->getParentOfType<ech::RepeatOp>(); r; r = r->getParentOfType<ech::RepeatOp>()) {
    repeats.push_back(r);
    count *= std::min<size_t>(r.getCount(), most + 1);
  }
  const bool isTooMuch = count > most;
  for (size_t i = 0; i < (isTooMuch ? 1 : count); ++i) { // the first tells whether there are numbers at all
    llvm::StringMap<int64_t> positions;
    size_t rest = i;
    for (ech::RepeatOp r : repeats) {
      positions[r.getAxis()] = static_cast<int64_t>(rest % r.getCount());
      rest /= r.getCount();
    }
    for (Operation *source : *order) {
      std::optional<double> number = numberOf(source, positions, numbers);
      if (!number)
        return std::vector<double>();
      numbers[source->getResult(0)] = *number;
    }
    work -= order->size();
    list.push_back(numbers.lookup(value));
  }
  if (isTooMuch)
    return std::nullopt;
  return list;
}

std::string echelon::frontend::positionsOf(Operation *op, size_t index) {
  std::string text;
  for (auto r = op->getParentOfType<ech::RepeatOp>(); r; r = r->getParentOfType<ech::RepeatOp>()) {
    text = r.getAxis().str() + " = " + std::to_string(index % r.getCount()) + (text.empty() ? "" : ", ") + text;
    index /= r.getCount();
  }
  return text;
}
