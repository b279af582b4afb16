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
#include "passes/UpdateLoop.h"
#include "llvm/ADT/StringMap.h"

namespace echelon {
#define GEN_PASS_DEF_OUTLINEUPDATES
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;

namespace {
constexpr llvm::StringLiteral kRow = "n"; // the axis of a rule's rows

struct OutlineUpdates : echelon::impl::OutlineUpdatesBase<OutlineUpdates> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    std::vector<std::vector<UpdateLoop>> rules;
    llvm::StringMap<size_t> known; // rules, by the optimizer's name and the key
    for (auto step : getOperation().getOps<rt::FunctionOp>())
      step.walk([&](rt::FusedOp loop) {
        if (!isOfUpdate(loop))
          return;
        UpdateLoop rule(loop, symbols);
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

  void outline(StringRef optimizer, ArrayRef<UpdateLoop> loops, SymbolTable &symbols) {
    const UpdateLoop &first = loops.front();
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
    for (const UpdateLoop &rule : loops)
      invoke(rule, function.getSymName());
  }

  /// The loop over rows of any length.
  void writeLoop(OpBuilder &b, const UpdateLoop &rule, const IRMapping &arguments, ArrayRef<Value> numbers) {
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

  void invoke(const UpdateLoop &rule, StringRef function) {
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
