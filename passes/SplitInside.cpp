// dist-split-inside: what an operation sends inside becomes messages.
//
// Of each operation that layout marked (dist.inside), along the axes that are divided:
//
//   maximum, minimum   local extreme -> all_reduce
//   softmax, logsumexp local maximum -> all_reduce; sum of exp(x - maximum) -> all_reduce; the rest is local
//   cross-entropy      the same; what the label picks travels with the sum
//   argmax             largest value and its place -> collect; the largest of all
//   norms              count, mean, squares about it -> collect, combined in rank order; rms: squares -> all_reduce
//   their derivatives  sums of dy and dy * y -> all_reduce
//   global norm        sum of squares -> all_reduce; the root
#include "ir/dist/State.h"
#include "ir/ech/Build.h"
#include "mlir/IR/Builders.h"
#include "passes/Passes.h"
#include "passes/Phase.h"
#include "llvm/ADT/TypeSwitch.h"

namespace echelon {
#define GEN_PASS_DEF_SPLITINSIDE
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using dist::Combination;
using dist::Hold;
using dist::Partial;

namespace {
/// Builds the parts of one operation where it stands.
class Parts {
public:
  Parts(Operation *op, dist::MeshAttr mesh)
      : op(op), mesh(mesh), builder(op), over(op->getAttrOfType<ArrayAttr>(dist::kInside)) {
    for (StringRef name : strings(over))
      inside.push_back(mesh.index(name));
    auto reason = op->getAttrOfType<StringAttr>(kWhy);
    why = reason ? reason : builder.getStringAttr("split axis");
  }

  /// The type of what remains of x without `along`: of x's state, but `hold` over the mesh axes inside.
  Tensor without(Value x, ArrayAttr along, Hold hold, Type element = {}) {
    Tensor type = tensor(x);
    SmallVector<Axis> axes =
        llvm::filter_to_vector(type.getAxes(), [&](const Axis &a) { return !has(along, a.name.getValue()); });
    return laidOut(axes, element ? element : type.getElement(), cast<dist::StateAttr>(type.getState()), hold);
  }
  Tensor laidOut(ArrayRef<Axis> axes, Type element, dist::StateAttr state, Hold hold) {
    for (int m : inside)
      state = state.with(m, hold);
    return Tensor::get(builder.getContext(), axes, element, state);
  }
  /// The same with one more axis of a name that the others do not have.
  Tensor withAxis(Tensor type, StringRef wanted, int64_t size, bool isFirst) {
    std::string name = wanted.str();
    while (type.has(name))
      name += "_";
    SmallVector<Axis> axes(type.getAxes());
    axes.insert(isFirst ? axes.begin() : axes.end(), Axis{builder.getStringAttr(name), size});
    return Tensor::get(builder.getContext(), axes, type.getElement(), type.getState());
  }

  SmallVector<Value> partial(Partial kind, ValueRange operands, ArrayAttr along, TypeRange types) {
    auto made = dist::PartialOp::create(builder, op->getLoc(), types, kind, operands, along);
    made->setLoc(NameLoc::get(builder.getStringAttr(made.nameOf(0)), op->getLoc()));
    return SmallVector<Value>(inPhase(made)->getResults());
  }
  /// The extreme along an axis of what all ranks hold.
  Value extreme(Reduction kind, Value x, ArrayAttr along) {
    auto own = inPhase(ReduceOp::create(builder, op->getLoc(), without(x, along, Hold::Own), kind, x, along));
    return allReduce(own->getResults(), kind == Reduction::Max ? "max" : "min")[0];
  }
  /// The same of the maximum along several axes.
  Value maximum(Value x, ArrayAttr along) {
    return allReduce(partial(Partial::Maximum, x, along, without(x, along, Hold::Own)), "max")[0];
  }
  SmallVector<Value> allReduce(ValueRange values, StringRef reduction = "") {
    SmallVector<Type> types = llvm::map_to_vector(values.getTypes(), [&](Type type) -> Type {
      auto whole = cast<Tensor>(type);
      return laidOut(whole.getAxes(), whole.getElement(), cast<dist::StateAttr>(whole.getState()), Hold::Whole);
    });
    auto message = dist::AllReduceOp::create(builder, op->getLoc(), types, values, over, why, algorithm("all_reduce"),
                                             reduction.empty() ? StringAttr() : builder.getStringAttr(reduction));
    return SmallVector<Value>(inPhase(message)->getResults());
  }
  Value collect(Value own, StringRef name) {
    int64_t ranks = 1;
    for (int m : inside)
      ranks *= mesh.sizeOf(m);
    Tensor from = tensor(own);
    Tensor to = withAxis(laidOut(from.getAxes(), from.getElement(), dist::stateOf(from), Hold::Whole), "rank", ranks,
                         /*isFirst=*/true);
    Location loc = NameLoc::get(builder.getStringAttr(name), op->getLoc());
    return inPhase(
               dist::CollectOp::create(builder, loc, to, own, to.getAxes()[0].name, over, why, algorithm("all_gather")))
        ->getResult(0);
  }
  /// Replaces the operation's results by those of the combination, first to first.
  void combine(Combination kind, ValueRange operands, ArrayAttr along, ValueRange replaced) {
    auto made = dist::CombineOp::create(builder, op->getLoc(), replaced.getTypes(), kind, operands, along);
    inPhase(made);
    for (auto [before, now] : llvm::zip(replaced, made.getResults()))
      before.replaceAllUsesWith(now);
  }

  Type f64() { return builder.getF64Type(); }
  ArrayAttr noAxes() { return builder.getStrArrayAttr({}); }

private:
  StringAttr algorithm(StringRef kind) {
    return builder.getStringAttr(dist::algorithmOf(op->getParentOfType<ModuleOp>(), kind, inside));
  }
  Operation *inPhase(Operation *made) {
    copyPhase(op, made);
    return made;
  }

  Operation *op;
  dist::MeshAttr mesh;
  OpBuilder builder;
  ArrayAttr over;
  SmallVector<int> inside;
  StringAttr why;
};

void split(Parts &parts, ReduceOp op) {
  op.getResult().replaceAllUsesWith(parts.extreme(op.getKind(), op.getOperand(), op.getOver()));
}

void split(Parts &parts, ArgMaxOp op) {
  Value x = op.getOperand();
  Tensor both = parts.withAxis(parts.without(x, op.getOver(), Hold::Own), "part", 2, /*isFirst=*/true);
  Value all = parts.collect(parts.partial(Partial::Largest, x, op.getOver(), both)[0], "largest_of_all");
  parts.combine(Combination::ArgMax, all, op.getOver(), op->getResults());
}

/// The maximum along the axes and the sum of exp(x - maximum), over all ranks.
std::pair<Value, Value> maximumAndSum(Parts &parts, Value x, ArrayAttr along) {
  Value maximum = parts.maximum(x, along);
  Type sum = parts.without(x, along, Hold::Sum);
  return {maximum, parts.allReduce(parts.partial(Partial::SumOfExp, {x, maximum}, along, sum))[0]};
}

void split(Parts &parts, SoftmaxOp op) {
  auto [maximum, sum] = maximumAndSum(parts, op.getOperand(), op.getOver());
  parts.combine(Combination::Softmax, {op.getOperand(), maximum, sum}, op.getOver(), op->getResults());
}

void split(Parts &parts, LogSumExpOp op) {
  auto [maximum, sum] = maximumAndSum(parts, op.getOperand(), op.getOver());
  parts.combine(Combination::LogSumExp, {maximum, sum}, op.getOver(), op->getResults());
}

void split(Parts &parts, CrossEntropyOp op) {
  Value x = op.getLogits();
  Value maximum = parts.maximum(x, op.getOver());
  Type sum = parts.without(x, op.getOver(), Hold::Sum);
  const bool hasTarget = tensor(op.getLabels()).has(strings(op.getOver())[0]);
  SmallVector<Value> found = parts.partial(Partial::CrossEntropy, {x, maximum, op.getLabels()}, op.getOver(),
                                           SmallVector<Type>(hasTarget ? 3 : 2, sum));
  op.getShift().replaceAllUsesWith(maximum);
  parts.combine(Combination::CrossEntropy, parts.allReduce(found), op.getOver(), {op.getLoss(), op.getLogSum()});
}

void split(Parts &parts, NormalizeOp op) {
  Value x = op.getOperand();
  if (op.getRms()) {
    Type squares = parts.without(x, op.getOver(), Hold::Sum, parts.f64());
    Value all = parts.allReduce(parts.partial(Partial::Squares, x, op.getOver(), squares))[0];
    return parts.combine(Combination::RmsNormalize, {x, all}, op.getOver(), {op.getResult(), op.getRstd()});
  }
  Tensor moments = parts.withAxis(parts.without(x, op.getOver(), Hold::Own, parts.f64()), "moment", 3, false);
  Value all = parts.collect(parts.partial(Partial::Moments, x, op.getOver(), moments)[0], "moments_of_all");
  if (op.getResult().use_empty())
    parts.combine(Combination::Statistics, all, op.getOver(), op->getResults().drop_front());
  else
    parts.combine(Combination::Normalize, {x, all}, op.getOver(), op->getResults());
}

void split(Parts &parts, NormalizeGradOp op) {
  Value dy = op.getCotangent(), y = op.getResult();
  Tensor sums =
      parts.withAxis(parts.without(y, op.getOver(), Hold::Sum, parts.f64()), "part", op.getRms() ? 1 : 2, false);
  Partial kind = op.getRms() ? Partial::RmsSums : Partial::NormSums;
  Value all = parts.allReduce(parts.partial(kind, {dy, y}, op.getOver(), sums))[0];
  parts.combine(op.getRms() ? Combination::RmsGrad : Combination::NormalizeGrad, {dy, y, op.getRstd(), all},
                op.getOver(), op->getResults());
}

void split(Parts &parts, GlobalNormOp op) {
  Tensor sum = parts.laidOut({}, parts.f64(), dist::stateOf(op.getResult()), Hold::Sum);
  SmallVector<Value> found = parts.partial(Partial::AllSquares, op.getOperands(), parts.noAxes(), sum);
  if (Attribute names = op->getAttr(kParameters))
    found[0].getDefiningOp()->setAttr(kParameters, names);
  parts.combine(Combination::Root, parts.allReduce(found), parts.noAxes(), op->getResults());
}

struct SplitInside : echelon::impl::SplitInsideBase<SplitInside> {
  void runOnOperation() override {
    dist::MeshAttr mesh = dist::meshOf(getOperation());
    SmallVector<Operation *> marked;
    getOperation().walk([&](Operation *op) {
      if (op->hasAttr(dist::kInside))
        marked.push_back(op);
    });
    for (Operation *op : marked) {
      Parts parts(op, mesh);
      bool known = llvm::TypeSwitch<Operation *, bool>(op)
                       .Case<ReduceOp, ArgMaxOp, SoftmaxOp, LogSumExpOp, CrossEntropyOp, NormalizeOp, NormalizeGradOp,
                             GlobalNormOp>([&](auto each) {
                         split(parts, each);
                         return true;
                       })
                       .Default(false);
      if (!known) {
        op->emitError() << "internal error, please report: " << op->getName() << " sends inside, and nothing says what";
        return signalPassFailure();
      }
      op->erase();
    }
  }
};
} // namespace
