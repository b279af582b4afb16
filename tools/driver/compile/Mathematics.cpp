// Operations are numbered as they come. Words are the language's own where it has one, so that a change of the IR does
// not change the text.
#include "tools/driver/compile/Mathematics.h"

#include "codegen/Printer.h"
#include "frontend/Diagnostics.h"
#include "ir/ech/Decimal.h"
#include "ir/ech/Ech.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace echelon;

namespace {

class MathematicsWriter {
public:
  MathematicsWriter(ModuleOp module, const frontend::SourceManager &sources) : lines(sources), os(text) {
    perSample.insert(ech::batchAxisOf(module));
    for (auto step : module.getOps<ech::StepOp>())
      if (step.getSymName() == "train")
        train = step;
    if (train)
      train->walk([&](ech::RelabelOp op) { // `axis other like batch` is as long as the batch
        for (auto [from, to] : llvm::zip(op.getFrom().getAsRange<ArrayAttr>(), op.getTo().getAsRange<ArrayAttr>()))
          if (from.size() == 1 && to.size() == 1 && perSample.contains(word(from[0])))
            perSample.insert(word(to[0]));
      });
  }

  std::string write(ModuleOp module) {
    os << "mathematics 1\n";
    for (auto input : module.getOps<ech::InputOp>())
      if (input.getPlace() != static_cast<uint64_t>(-1))
        os << "input " << input.getSymName() << storage(cast<ech::Tensor>(input.getType())) << "\n";
    for (auto variable : module.getOps<ech::VariableOp>())
      if (variable.getKind() != ech::VariableKind::Optimizer)
        os << ech::stringifyVariableKind(variable.getKind()) << " " << variable.getSymName()
           << storage(cast<ech::Tensor>(variable.getType())) << "\n";
    if (!train)
      return text;
    train->walk([&](ech::MapOp op) { noteChance(op); });
    body(train.getBody().front());
    return text;
  }

private:
  static StringRef word(Attribute name) { return cast<StringAttr>(name).getValue(); }
  std::string sized(StringRef axis, int64_t size) {
    return ("'" + axis).str() + (perSample.contains(axis) ? "" : "=" + std::to_string(size));
  }
  std::string list(ech::Tensor type, const char *open, const char *close) {
    std::string axes;
    for (const ech::Axis &axis : type.getAxes())
      axes += sized(axis.name.getValue(), axis.size) + " ";
    std::string element;
    llvm::raw_string_ostream(element) << type.getElement();
    return std::string(" ") + open + " " + axes + close + " " + element;
  }
  /// The axes in order, as they lie in a file.
  std::string storage(ech::Tensor type) { return list(type, "(", ")"); }
  /// The axes as a set.
  std::string axesOf(Value value) { return list(ech::tensor(value), "[", "]"); }
  static std::string names(ArrayAttr axes) {
    std::string result = " [";
    for (Attribute axis : axes)
      result += (" '" + word(axis)).str();
    return result + " ]";
  }
  static std::string numbers(ArrayRef<int64_t> values) {
    std::string result;
    for (int64_t value : values)
      result += " " + std::to_string(value);
    return result;
  }
  static std::string literal(double value) {
    return " #" + shortestDecimal(std::fabs(value) < std::numeric_limits<double>::min() ? 0 : value);
  }

  std::string place(Location at) {
    const std::string line = lines.of(at);
    if (line.empty())
      return "";
    auto [known, isNew] = places.try_emplace(line, places.size());
    if (isNew)
      os << "line " << known->second << " " << frontend::printable(line) << "\n";
    return " @" + std::to_string(known->second);
  }

  static std::optional<double> number(Value value) {
    auto constant = value.getDefiningOp<ech::ConstantOp>();
    return constant ? std::optional(constant.getValue().convertToDouble()) : std::nullopt;
  }
  /// A number is written as it is; of anything else its number, and which of an operation's results it is.
  std::string operand(Value value) {
    if (std::optional<double> known = number(value))
      return literal(*known);
    auto result = dyn_cast<OpResult>(value);
    const bool isPart = result && !isa<ech::RepeatOp>(result.getOwner()) && result.getResultNumber() > 0;
    return " %" + std::to_string(keyed.lookup(key(value))) +
           (isPart ? "." + std::to_string(result.getResultNumber()) : "");
  }
  std::string operands(ValueRange values) {
    std::string result;
    for (Value value : values)
      result += operand(value);
    return result;
  }
  /// What has a number of its own: an operation, a result of a loop, an argument of its body.
  static const void *key(Value value) {
    auto result = dyn_cast<OpResult>(value);
    return result && !isa<ech::RepeatOp>(result.getOwner()) ? result.getOwner() : value.getAsOpaquePointer();
  }
  void give(Value value, const std::string &what, const std::string &at = "") {
    keyed[key(value)] = next;
    os << "%" << next++ << " = " << what << axesOf(value) << at << "\n";
  }

  void body(Block &block) {
    for (Operation &op : block) {
      if (auto report = dyn_cast<ech::ReportOp>(op)) {
        if (report.getKind() != ech::ReportKind::Metric)
          root("loss " + report.getName(), report.getValue(), op.getLoc());
      } else if (auto write = dyn_cast<ech::WriteOp>(op)) {
        root("next " + write.getTarget(), write.getValue(), op.getLoc());
      } else if (auto loop = dyn_cast<ech::RepeatOp>(op)) {
        repeat(loop);
      } else if (!isa<ech::YieldOp, ech::ConstantOp>(op) && !isInside.contains(&op)) {
        const std::string at = place(op.getLoc());
        give(op.getResult(0), operation(&op), at);
      }
    }
  }
  void root(const Twine &what, Value value, Location loc) {
    const std::string at = place(loc);
    os << what << operand(value) << at << "\n";
  }
  /// A carried value starts somewhere and has a next; a slice is the whole at the loop's position.
  void repeat(ech::RepeatOp loop) {
    const std::string over = (" '" + loop.getAxis() + "=" + Twine(loop.getCount())).str(),
                      way = over + (loop.getReverse() ? " reverse" : "");
    for (auto [argument, start] : llvm::zip(loop.carriedArguments(), loop.getCarried()))
      give(argument, "carried" + way + operand(start));
    for (auto [argument, whole] : llvm::zip(loop.sliceArguments(), loop.getSlices()))
      give(argument, "position" + over + operand(whole));
    body(*loop.block());
    ech::YieldOp yield = loop.yield();
    for (auto [argument, after] : llvm::zip(loop.carriedArguments(), yield.getCarried()))
      os << "carry" << operand(argument) << operand(after) << "\n";
    for (auto [result, argument] : llvm::zip(loop.getFinals(), loop.carriedArguments()))
      give(result, "after" + way + operand(argument));
    for (auto [result, value] : llvm::zip(loop.getStacks(), yield.getStacked()))
      give(result, "stack" + over + operand(value));
    for (auto [result, value] : llvm::zip(loop.getSums(), yield.getSummed()))
      give(result, "total" + over + operand(value));
  }
  /// Random values differ from iteration to iteration.
  static std::string loopsAround(Operation *op) {
    std::string result;
    for (auto loop = op->getParentOfType<ech::RepeatOp>(); loop; loop = loop->getParentOfType<ech::RepeatOp>())
      result += (" in '" + loop.getAxis()).str();
    return result;
  }

  //===- operations ----------------------------------------------------------------------------------------------===//

  /// `dropout` and `survive` are one operation each, as they are written: what they are made of is inside.
  struct Chance {
    ech::RandomOp draw;
    Value kept;
    double chance;
    bool isDropout;
  };
  void noteChance(ech::MapOp select) {
    if (select.getFunction() != ech::Function::Select || number(select.getOperands()[2]) != 0.0)
      return;
    auto keep = select.getOperands()[0].getDefiningOp<ech::MapOp>();
    if (!keep || keep.getFunction() != ech::Function::Lt)
      return;
    auto draw = keep.getOperands()[0].getDefiningOp<ech::RandomOp>();
    const std::optional<double> chance = number(keep.getOperands()[1]);
    if (!draw || !draw->hasAttr(ech::kChance) || !chance || !(*chance > 0))
      return;
    Value kept = select.getOperands()[1];
    auto scaled = kept.getDefiningOp<ech::MapOp>();
    const std::optional<double> scale =
        scaled && scaled.getFunction() == ech::Function::Mul ? number(scaled.getOperands()[1]) : std::nullopt;
    const bool isDropout = scale && std::fabs(*scale * *chance - 1) < 1e-12;
    chances[select] = {draw, isDropout ? scaled.getOperands()[0] : kept, *chance, isDropout};
    for (Operation *op : {keep.getOperation(), draw.getOperation(), isDropout ? scaled.getOperation() : nullptr})
      if (op && op->hasOneUse())
        isInside.insert(op);
  }
  std::string map(ech::MapOp op) {
    auto found = chances.find(op);
    if (found == chances.end())
      return ech::stringifyFunction(op.getFunction()).str() + operands(op.getOperands());
    Chance &chance = found->second;
    char number[40]; // 1 - 0.7 is 0.30000000000000004
    std::snprintf(number, sizeof(number), " #%.12g", chance.isDropout ? 1 - chance.chance : chance.chance);
    return (chance.isDropout ? "dropout" : "survive") + operand(chance.kept) + number +
           (" ~" + chance.draw.getSite()).str() + loopsAround(chance.draw) + axesOf(chance.draw);
  }

  std::string windows(ArrayAttr window, ArrayRef<int64_t> stride) {
    return " window" + names(window) + " stride" + numbers(stride);
  }

  std::string operation(Operation *op) {
    return llvm::TypeSwitch<Operation *, std::string>(op)
        .Case([&](ech::ReadOp o) { return ("value " + o.getSource()).str(); })
        .Case([&](ech::CountOp o) {
          std::string sizes = "count [";
          for (auto [axis, size] : llvm::zip(o.getOver(), o.getSizes()))
            sizes += " " + sized(word(axis), size);
          return sizes + " ]";
        })
        .Case([&](ech::ScalarOp o) { return ("run " + o.getName()).str(); })
        .Case([&](ech::IndexOp o) { return ("index '" + o.getAxis()).str(); })
        .Case([&](ech::PositionOp o) { return ("iteration '" + o.getAxis()).str(); })
        .Case([&](ech::RandomOp o) {
          return ("random " + ech::stringifyDistribution(o.getDistribution())).str() +
                 literal(o.getA().convertToDouble()) + literal(o.getB().convertToDouble()) +
                 (" ~" + o.getSite()).str() + loopsAround(o);
        })
        .Case([&](ech::MapOp o) { return map(o); })
        .Case([&](ech::ExpandOp o) { return "expand" + operands(o->getOperands()); })
        .Case([&](ech::DotOp o) { return "dot" + operands(o->getOperands()) + " over" + names(o.getOver()); })
        .Case([&](ech::ReduceOp o) {
          return ech::stringifyReduction(o.getKind()).str() + "_over" + operands(o->getOperands()) + names(o.getOver());
        })
        .Case([&](ech::NormalizeOp o) {
          return (o.getRms() ? "rms_normalize" : "normalize") + operands(o->getOperands()) + " over" +
                 names(o.getOver()) + (o->hasAttr(ech::kLocal) ? " local" : "");
        })
        .Case([&](ech::CumSumOp o) {
          return "cumsum" + operands(o->getOperands()) + " over" + names(o.getOver()) +
                 (o.getReverse() ? " reverse" : "");
        })
        .Case<ech::ArgMaxOp, ech::SoftmaxOp, ech::LogSumExpOp, ech::CrossEntropyOp>([&](auto o) {
          return o->getName().stripDialect().str() + operands(o->getOperands()) + " over" + names(o.getOver());
        })
        .Case([&](ech::TopOp o) {
          return "top" + operands(o->getOperands()) + " over" + names(o.getOver()) + (" into '" + o.getInto()).str();
        })
        .Case([&](ech::GatherOp o) {
          std::string axes;
          for (Attribute axis : o.getAxes())
            axes += (" '" + word(axis)).str();
          return "gather" + operands(o->getOperands()) + " at" + axes;
        })
        .Case([&](ech::PickOp o) {
          return "pick" + operands(o->getOperands()) + (" '" + o.getAxis() + " " + Twine(o.getPosition())).str();
        })
        .Case([&](ech::SliceOp o) {
          return "slice" + operands(o->getOperands()) + (" '" + o.getAxis() + " from " + Twine(o.getStart())).str();
        })
        .Case([&](ech::RelabelOp o) {
          auto groups = [](ArrayAttr list) {
            std::string result;
            for (auto group : list.getAsRange<ArrayAttr>()) {
              for (Attribute axis : group)
                result += (" '" + word(axis)).str();
              result += " ;";
            }
            return result;
          };
          return "rename" + operands(o->getOperands()) + groups(o.getFrom()) + " to" + groups(o.getTo());
        })
        .Case([&](ech::ConcatOp o) { return "concat" + operands(o->getOperands()) + (" '" + o.getAxis()).str(); })
        .Case([&](ech::ConvOp o) {
          return "conv" + operands(o->getOperands()) + " over" + names(o.getOver()) +
                 windows(o.getWindow(), o.getStride()) + " kernel" + names(o.getKernel()) + " pad" +
                 numbers(o.getPadLow()) + " and" + numbers(o.getPadHigh());
        })
        .Case([&](ech::PoolOp o) {
          return ech::stringifyPooling(o.getKind()).str() + "pool" + operands(o->getOperands()) +
                 windows(o.getWindow(), o.getStride()) + " size" + numbers(o.getSize()) + " pad" + numbers(o.getPad());
        })
        .Case([&](ech::AttentionOp o) {
          return "attention" + operands(o->getOperands()) + (o.getMask() ? " mask" : "") +
                 (o.getBias() ? " bias" : "") +
                 (" query '" + o.getQuery() + " past '" + o.getPast() + " key '" + o.getKey()).str() + " scale" +
                 literal(o.getScale().convertToDouble()) + (o.getCausal() ? " causal" : "");
        })
        .Default([&](Operation *o) { // none of a step that is not derived yet
          std::string attributes;
          llvm::raw_string_ostream(attributes) << o->getAttrDictionary();
          return o->getName().stripDialect().str() + operands(o->getOperands()) + " " + attributes;
        });
  }

  codegen::SourceLines lines;
  ech::StepOp train;
  llvm::StringSet<> perSample; // axes that are as long as the batch
  llvm::StringMap<size_t> places;
  llvm::DenseMap<const void *, unsigned> keyed;
  llvm::DenseMap<Operation *, Chance> chances;
  llvm::DenseSet<Operation *> isInside; // of what is told as one operation
  unsigned next = 0;
  std::string text;
  llvm::raw_string_ostream os;
};

} // namespace

void echelon::keepZeroWeights(ModuleOp module) {
  module->walk([](ech::MapOp op) {
    if (op.getFunction() != ech::Function::Mul)
      return;
    for (OpOperand &operand : op->getOpOperands())
      if (auto zero = operand.get().getDefiningOp<ech::ConstantOp>(); zero && zero.getValue().convertToDouble() == 0) {
        OpBuilder builder(zero);
        // the least number that is not 0, which is told as 0
        operand.set(ech::ConstantOp::create(builder, zero.getLoc(), zero.getType(),
                                            builder.getF64FloatAttr(std::numeric_limits<double>::denorm_min())));
      }
  });
}

std::string echelon::mathematicsOf(ModuleOp module, const frontend::SourceManager &sources) {
  return MathematicsWriter(module, sources).write(module);
}
