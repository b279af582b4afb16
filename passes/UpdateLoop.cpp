#include "passes/UpdateLoop.h"

using namespace mlir;
using namespace echelon;

UpdateLoop::UpdateLoop(rt::FusedOp loop, const SymbolTable &symbols) : loop(loop), symbols(symbols) {
  for (int64_t size : loop.getSizes())
    count *= size;
  if (count > 1 && collect())
    describe();
}

/// Before arenas are planned two buffers of the step's work may.
bool UpdateLoop::mayOverlap(Value a, Value b) {
  rt::AllocOp x = rt::allocOf(a), y = rt::allocOf(b);
  if (x.getArena() != y.getArena())
    return false;
  if (x.getArena() == rt::Arena::State)
    return x.getOf() == y.getOf();
  return !x.getOffset() || !y.getOffset() || rt::overlap(a, b);
}

bool UpdateLoop::collect() {
  if (!llvm::all_of(loop.getModes(), [](Attribute mode) { return cast<StringAttr>(mode).getValue() == "store"; }) ||
      !loop.getBody().front().getOps<rt::AlongOp>().empty())
    return false;
  for (Value out : loop.getOutputs()) {
    if (!isRow(out))
      return false;
    ech::VariableOp variable = variableOf(out);
    if (variable && variable.getKind() == ech::VariableKind::Param)
      param = variable;
  }
  for (Value v : llvm::concat<Value>(llvm::to_vector(loop.getOutputs()), llvm::to_vector(loop.getInputs())))
    if (isRow(v)) {
      if (!llvm::is_contained(rows, v))
        rows.push_back(v);
    } else if (rt::buffer(v).count() != 1) {
      return false;
    }
  for (Value out : loop.getOutputs())
    for (Value row : rows)
      if (row != out && mayOverlap(row, out))
        return false;
  if (!param)
    return false;
  // the parameter first, then what is no state of its own: the gradient
  auto rank = [&](Value v) {
    ech::VariableOp variable = variableOf(v);
    return variable == param ? 0 : !variable ? 1 : 2;
  };
  llvm::stable_sort(rows, [&](Value a, Value b) { return rank(a) < rank(b); });
  for (Value out : loop.getOutputs())
    written.push_back(llvm::find(rows, out) - rows.begin());
  llvm::sort(written);
  for (Value in : loop.getInputs())
    if (!isRow(in))
      numbers.push_back(in);
  llvm::append_range(numbers, loop.getNumbers());
  return true;
}

std::string UpdateLoop::nameOf(Value row) const {
  ech::VariableOp variable = variableOf(row);
  if (variable == param)
    return "w";
  StringRef path = variable ? variable.getSymName() : "";
  if (variable && variable.getKind() == ech::VariableKind::Average)
    return "average";
  if (path.consume_front("optimizer."))
    return path.split('.').first.str();
  return "d_w";
}

/// All that the computation depends on but its buffers and its length.
void UpdateLoop::describe() {
  llvm::raw_string_ostream os(key);
  DenseMap<Value, unsigned> index;
  Block &body = loop.getBody().front();
  for (Value argument : body.getArguments())
    index.try_emplace(argument, index.size());
  auto slot = [&](Value v) { return llvm::find(rows, v) - rows.begin(); };
  for (Value in : loop.getInputs())
    os << (isRow(in) ? slot(in) : -1) << rt::buffer(in).getElement() << " ";
  for (Value number : loop.getNumbers())
    os << number.getType() << " ";
  for (Value out : loop.getOutputs())
    os << slot(out) << rt::buffer(out).getElement() << " ";
  for (Value row : rows)
    os << nameOf(row) << " ";
  for (Operation &op : body) {
    os << op.getName() << op.getAttrDictionary();
    if (auto compute = dyn_cast<rt::ComputeOp>(op))
      os << compute.getFunction();
    if (auto literal = dyn_cast<rt::LiteralOp>(op))
      os << literal.getValueAttr();
    for (Value operand : op.getOperands())
      os << " " << index.lookup(operand);
    for (Value result : op.getResults()) {
      os << ":" << result.getType();
      index.try_emplace(result, index.size());
    }
  }
}
