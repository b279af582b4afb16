// rt-outline-updates: an optimizer's rule is written once.
//
// 1. A loop of the update over rows of equal length, which stores a parameter, is a rule applied to its buffers.
// 2. Loops that compute the same of other buffers are one rule; with two or more of them it becomes a function of
//    rows of any length; with one, too, where the update goes piece by piece.
// 3. Each of the loops becomes an rt.invoke of it. What is one number for the whole row is given as a number.
// 4. What is offloaded is updated piece by piece (PieceUpdates.h).
#include "ir/rt/Offload.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/Passes.h"
#include "passes/Phase.h"
#include "passes/PieceUpdates.h"
#include "llvm/ADT/StringMap.h"

namespace echelon {
#define GEN_PASS_DEF_OUTLINEUPDATES
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;

namespace {
constexpr llvm::StringLiteral kRow = "n"; // the axis of a rule's rows

/// One loop as a rule on buffers: what it is given, in the order of the rule's arguments.
class Rule {
public:
  Rule(rt::FusedOp loop, const SymbolTable &symbols);
  bool isOne() const { return param && !key.empty(); }

  rt::FusedOp loop;
  ech::VariableOp param;        // that it stores
  std::string key;              // equal for loops that compute the same
  int64_t count = 1;            // elements of a row
  SmallVector<Value> rows;      // the parameter, its gradient, the optimizer's state
  SmallVector<Value> numbers;   // one for the whole row: buffers of one element, and numbers
  SmallVector<int64_t> written; // of the rows

  /// What the rule calls a row.
  std::string nameOf(Value row) const;

private:
  ech::VariableOp variableOf(Value v) const {
    rt::AllocOp alloc = rt::allocOf(v);
    return alloc && alloc.getOf() ? symbols.lookup<ech::VariableOp>(*alloc.getOf()) : ech::VariableOp();
  }
  bool isRow(Value v) const { return rt::buffer(v).isDense() && rt::buffer(v).count() == count; }
  /// Before arenas are planned, any two buffers may.
  static bool mayOverlap(Value a, Value b) {
    return !rt::allocOf(a).getOffset() || !rt::allocOf(b).getOffset() || rt::overlap(a, b);
  }
  bool collect();
  void describe();

  const SymbolTable &symbols;
};

Rule::Rule(rt::FusedOp loop, const SymbolTable &symbols) : loop(loop), symbols(symbols) {
  for (int64_t size : loop.getSizes())
    count *= size;
  if (count > 1 && collect())
    describe();
}

bool Rule::collect() {
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

std::string Rule::nameOf(Value row) const {
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
void Rule::describe() {
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

struct OutlineUpdates : echelon::impl::OutlineUpdatesBase<OutlineUpdates> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    std::vector<std::vector<Rule>> rules;
    llvm::StringMap<size_t> known; // rules, by the optimizer's name and the key
    for (auto step : getOperation().getOps<rt::FunctionOp>())
      step.walk([&](rt::FusedOp loop) {
        if (!isOfUpdate(loop))
          return;
        Rule rule(loop, symbols);
        if (!rule.isOne())
          return;
        auto [at, isNew] = known.try_emplace(optimizerOf(rule.param) + " " + rule.key, rules.size());
        if (isNew)
          rules.emplace_back();
        rules[at->second].push_back(rule);
      });
    const bool isInPieces = getOperation()->hasAttr(rt::kOffloaded); // of which functions run
    for (const auto &loops : rules)
      if (loops.size() > 1 || isInPieces)
        outline(optimizerOf(loops.front().param), loops, symbols);
    pieceUpdates(getOperation());
  }

  static std::string optimizerOf(ech::VariableOp param) {
    auto rule = param->getAttrOfType<StringAttr>(ech::kUpdateRule);
    return rule ? rule.getValue().str() : "update_parameter";
  }

  void outline(StringRef optimizer, ArrayRef<Rule> loops, SymbolTable &symbols) {
    const Rule &first = loops.front();
    OpBuilder b(first.loop->getParentOfType<rt::FunctionOp>());
    std::string name = optimizer.str();
    for (int i = 2; symbols.lookup(name); ++i)
      name = (optimizer + "_" + Twine(i)).str();
    auto function = rt::FunctionOp::create(b, b.getUnknownLoc(), name);
    symbols.insert(function);
    Block &block = function.getBody().front();
    auto named = [&](StringRef name) { return NameLoc::get(b.getStringAttr(name)); };
    auto rowType = [&](Value v) {
      return rt::Buffer::dense({ech::Axis{b.getStringAttr(kRow), rt::kAnyLength}}, rt::buffer(v).getElement());
    };
    IRMapping arguments;
    for (Value row : first.rows)
      arguments.map(row, block.addArgument(rowType(row), named(first.nameOf(row))));
    block.addArgument(b.getIndexType(), named(kRow));
    SmallVector<Value> numbers;
    for (Value number : first.numbers) {
      auto buffer = dyn_cast<rt::Buffer>(number.getType());
      Location loc = number.getDefiningOp() ? number.getDefiningOp()->getLoc() : number.getLoc();
      StringRef name = rt::nameOf(loc);
      if (auto provided = number.getDefiningOp<rt::NumberOp>(); provided && name.empty())
        name = provided.getKind() == rt::Number::LearningRate ? "lr" : rt::stringifyNumber(provided.getKind());
      numbers.push_back(
          block.addArgument(buffer ? buffer.getElement() : number.getType(), named(name.empty() ? "x" : name)));
    }
    b.setInsertionPointToEnd(&block);
    writeLoop(b, first, arguments, numbers);
    for (const Rule &rule : loops)
      invoke(rule, function.getSymName());
  }

  /// The loop over rows of any length.
  void writeLoop(OpBuilder &b, const Rule &rule, const IRMapping &arguments, ArrayRef<Value> numbers) {
    rt::FusedOp loop = rule.loop;
    SmallVector<Value> inputs, outputs;
    SmallVector<unsigned> whole; // inputs that are one number for the whole row
    for (auto [i, in] : llvm::enumerate(loop.getInputs()))
      if (arguments.contains(in))
        inputs.push_back(arguments.lookup(in));
      else
        whole.push_back(i);
    for (Value out : loop.getOutputs())
      outputs.push_back(arguments.lookup(out));
    auto made =
        rt::FusedOp::create(b, loop.getLoc(), b.getStrArrayAttr({kRow}), b.getDenseI64ArrayAttr({rt::kAnyLength}),
                            inputs, numbers, loop.getModes(), outputs);
    made->setLoc(b.getUnknownLoc());
    Block &old = loop.getBody().front(), &body = made.getBody().emplaceBlock();
    IRMapping scalars;
    for (auto [i, in] : llvm::enumerate(loop.getInputs()))
      if (arguments.contains(in))
        scalars.map(old.getArgument(i), body.addArgument(old.getArgument(i).getType(), b.getUnknownLoc()));
    for (unsigned i : whole)
      scalars.map(old.getArgument(i), body.addArgument(old.getArgument(i).getType(), b.getUnknownLoc()));
    for (Value number : old.getArguments().drop_front(loop.getInputs().size()))
      scalars.map(number, body.addArgument(number.getType(), b.getUnknownLoc()));
    OpBuilder inside = OpBuilder::atBlockEnd(&body);
    for (Operation &op : old)
      inside.clone(op, scalars)->setLoc(NameLoc::get(b.getStringAttr(nameInRule(rule.param, rt::nameOf(op.getLoc())))));
  }

  /// What a rule calls a value that is named after its parameter: "optimizer.m.layer.w1" is the next m.
  static std::string nameInRule(ech::VariableOp param, StringRef name) {
    StringRef path = param.getSymName(), rest = name;
    if (name == path)
      return "next_w";
    if (rest.consume_front("average.") && rest == path)
      return "next_average";
    rest = name;
    if (rest.consume_front("optimizer."))
      return ("next_" + rest.split('.').first).str();
    if (rest.consume_front("d_") && rest == path)
      return "g";
    return name.str();
  }

  void invoke(const Rule &rule, StringRef function) {
    rt::FusedOp loop = rule.loop;
    OpBuilder b(loop);
    SmallVector<Value> operands(rule.rows);
    llvm::append_range(operands, rule.numbers);
    auto call =
        rt::InvokeOp::create(b, ech::VariableOp(rule.param).getLoc(), function, operands, rule.count, rule.written);
    copyPhase(loop, call);
    loop.erase();
  }
};
} // namespace
