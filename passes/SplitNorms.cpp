// dist-split-norms: what a norm over channels does element by element becomes element-wise operations.
//
// In each block:
// 1. `ech.normalize` of whose operand the axes that are kept do not lie first (rows are better read once, by one
//    kernel) is left its statistics; its result becomes (x - mean) * rstd - mean_low * rstd, again in each phase that
//    reads it.
// 2. Its derivative becomes rstd * (dy - sum(dy) / n - y * sum(dy * y) / n). A factor of dy that is the same all over a
//    channel moves out of the sums: those of what remains are the derivatives by gain and bias, if it is a gain.
// 3. Where the sums are over several ranks, both travel in one message.
#include "ir/dist/State.h"
#include "ir/ech/ops/Derive.h"
#include "mlir/IR/Builders.h"
#include "passes/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace echelon {
#define GEN_PASS_DEF_SPLITNORMS
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

namespace {

struct SplitNorms : echelon::impl::SplitNormsBase<SplitNorms> {
  void runOnOperation() override {
    mesh = dist::meshOf(getOperation());
    SmallVector<Operation *> norms;
    getOperation().walk([&](Operation *op) {
      if (isa<NormalizeOp, NormalizeGradOp>(op))
        norms.push_back(op);
    });
    for (Operation *op : norms) {
      if (auto norm = dyn_cast<NormalizeOp>(op);
          norm && !norm.getRms() && isByChannels(norm.getOperand(), norm.getOver()))
        splitNormalize(norm);
      auto grad = dyn_cast<NormalizeGradOp>(op);
      if (grad && !grad.getRms() && isByChannels(grad.getResult(), grad.getOver()))
        splitDerivative(grad);
    }
  }

  dist::MeshAttr mesh;
  Tensor local(Value v) {
    Tensor type = tensor(v);
    return mesh && type.getState() ? dist::localType(type, mesh) : type;
  }

  /// Whether something is reduced over that lies outside of what is kept.
  bool isByChannels(Value x, ArrayAttr over) {
    bool reduced = false;
    for (const Axis &axis : local(x).getAxes()) {
      if (axis.size == 1)
        continue;
      if (!llvm::is_contained(strings(over), axis.name.getValue()) && reduced)
        return true;
      reduced |= llvm::is_contained(strings(over), axis.name.getValue());
    }
    return false;
  }

  /// Builds operations of one phase at one place; a result has the type of one operand.
  struct Maps {
    OpBuilder builder;
    Location loc;
    Attribute phase;
    template <typename Op> Op marked(Op op) {
      if (phase)
        op->setAttr(kPhase, phase);
      return op;
    }
    Value map(Function f, Value like, Value a, Value b) {
      return marked(MapOp::create(builder, loc, like.getType(), f, ValueRange{a, b})).getResult();
    }
  };

  void splitNormalize(NormalizeOp op) {
    llvm::MapVector<Attribute, SmallVector<OpOperand *>> readers;
    Block *block = op->getBlock();
    for (OpOperand &use : op.getResult().getUses())
      readers[block->findAncestorOpInBlock(*use.getOwner())->getAttr(kPhase)].push_back(&use);
    for (auto &[phase, uses] : readers) {
      Operation *first = block->findAncestorOpInBlock(*uses[0]->getOwner());
      for (OpOperand *use : uses)
        if (Operation *at = block->findAncestorOpInBlock(*use->getOwner()); at->isBeforeInBlock(first))
          first = at;
      Maps at{OpBuilder(first), op.getLoc(), phase};
      auto map = [&](Function f, Value like, Value a, Value b) { return at.map(f, like, a, b); };
      Value again = normalizedAgain(map, op.getResult(), op.getRstd(), op.getOperand(), op.getMean(), op.getMeanLow());
      for (OpOperand *use : uses)
        use->set(again);
    }
  }

  /// The factor of a product that has none of the axes, and the other one.
  static std::pair<Value, Value> factorWithout(Value product, ArrayAttr over) {
    auto map = product.getDefiningOp<MapOp>();
    if (!map || map.getFunction() != Function::Mul)
      return {};
    for (int i : {0, 1}) {
      Value factor = map.getOperands()[i], rest = map.getOperands()[1 - i];
      if (rest.getType() == product.getType() &&
          llvm::none_of(strings(over), [&](StringRef axis) { return tensor(factor).has(axis); }))
        return {factor, rest};
    }
    return {};
  }

  /// The sum, or inner product, of values over axes: one that is there already before `before`, or a new one.
  template <typename Op>
  static Value sumOf(ValueRange of, ArrayAttr over, Type type, Operation *before, function_ref<Value()> make) {
    for (Operation *user : of[0].getUsers()) {
      auto known = dyn_cast<Op>(user);
      if (!known || user->getBlock() != before->getBlock() || !user->isBeforeInBlock(before) ||
          known.getType() != type || known.getOver() != over || user->getAttr(kPhase) != before->getAttr(kPhase))
        continue;
      if constexpr (std::is_same_v<Op, ReduceOp>) {
        if (known.getKind() != Reduction::Sum)
          continue;
      }
      if (SmallVector<Value>(known->getOperands()) == SmallVector<Value>(of) ||
          SmallVector<Value>(llvm::reverse(known->getOperands())) == SmallVector<Value>(of))
        return known.getResult();
    }
    return make();
  }

  void splitDerivative(NormalizeGradOp op) {
    Maps at{OpBuilder(op), op.getLoc(), op->getAttr(kPhase)};
    auto over = op.getOverAttr();
    Value dy = op.getCotangent(), y = op.getResult(), rstd = op.getRstd();
    const std::pair<Value, Value> parts = factorWithout(dy, over);
    Value factor = parts.first, rest = factor ? parts.second : dy;
    auto inside = op->getAttrOfType<ArrayAttr>(dist::kInside);
    Tensor whole = tensor(rstd), partial = whole;
    if (inside) {
      auto state = cast<dist::StateAttr>(whole.getState());
      for (StringRef name : strings(inside))
        state = state.with(mesh.index(name), dist::Hold::Sum);
      partial = whole.withState(state);
    }
    Value sum = sumOf<ReduceOp>(rest, over, partial, op, [&]() -> Value {
      return at.marked(ReduceOp::create(at.builder, at.loc, partial, Reduction::Sum, rest, over)).getResult();
    });
    Value product = sumOf<DotOp>({rest, y}, over, partial, op, [&]() -> Value {
      return at.marked(DotOp::create(at.builder, at.loc, partial, rest, y, over)).getResult();
    });
    if (inside) {
      auto why = op->getAttrOfType<StringAttr>(kWhy);
      auto message = at.marked(
          dist::AllReduceOp::create(at.builder, at.loc, TypeRange{whole, whole}, ValueRange{sum, product}, inside,
                                    why ? why : at.builder.getStringAttr("sums of a norm's derivative"),
                                    at.builder.getStringAttr("auto"), StringAttr()));
      sum = message.getResult(0), product = message.getResult(1);
    }
    Tensor scalar = Tensor::get(&getContext(), {}, whole.getElement(), mesh ? dist::wholeState(mesh) : Attribute());
    int64_t count = 1; // of what the sums are over: of all ranks, or this one's
    for (const Axis &axis : (inside ? tensor(y) : local(y)).getAxes())
      count *= llvm::is_contained(strings(over), axis.name.getValue()) ? axis.size : 1;
    Value n = at.marked(ConstantOp::create(at.builder, at.loc, scalar, at.builder.getF64FloatAttr(double(count))));
    auto mean = [&](Value total) {
      Value of = at.map(Function::Div, rstd, total, n);
      return factor ? at.map(Function::Mul, rstd, of, factor) : of;
    };
    Value centred = at.map(Function::Sub, y, dy, mean(sum));
    Value along = at.map(Function::Mul, y, y, mean(product));
    Value dx = at.map(Function::Mul, y, at.map(Function::Sub, y, centred, along), rstd);
    op.getOperandCotangent().replaceAllUsesWith(dx);
    op.erase();
  }
};

} // namespace
