// The written-out softmax pattern becomes one ech.attention.
//
//   1. from a dot over one axis (`past`) whose one operand is a softmax over `past`: that operand holds the weights
//   2. off the weights: a select that gives 0 where the mask is false
//   3. off the scores: a select with -inf (mask, causal, or both; where a row allows nothing the front end's mask lets
//      the row through and step 2 gives 0: attention does the same), an added bias, scales by constants
//   4. what is left is a dot over one axis (`key`): q has no `past`, k has
//   5. axes as ech.attention takes them: k, v, mask and bias within q's and past, `query` q's own; nothing between used
//      elsewhere
#include "ir/ech/Build.h"
#include "passes/Passes.h"
#include <cmath>

namespace echelon {
#define GEN_PASS_DEF_RECOGNISEATTENTION
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon::ech;

namespace {

struct Pattern {
  Value q, k, v, mask, bias;
  StringAttr query, past, key;
  double scale = 1;
  bool causal = false;
  Operation *root = nullptr;
};

std::optional<double> constant(Value value) {
  auto op = value.getDefiningOp<ConstantOp>();
  if (!op || tensor(value).rank() != 0)
    return std::nullopt;
  return op.getValue().convertToDouble();
}

MapOp mapOf(Value value, Function function) {
  auto op = value.getDefiningOp<MapOp>();
  return op && op.getFunction() == function ? op : MapOp();
}

/// index(a) >= index(b): the axes a and b.
std::optional<std::pair<StringAttr, StringAttr>> causalAxes(Value mask) {
  auto compare = mask.getDefiningOp<MapOp>();
  if (!compare || (compare.getFunction() != Function::Ge && compare.getFunction() != Function::Le))
    return std::nullopt;
  bool ge = compare.getFunction() == Function::Ge;
  auto later = compare.getOperands()[ge ? 0 : 1].getDefiningOp<IndexOp>();
  auto earlier = compare.getOperands()[ge ? 1 : 0].getDefiningOp<IndexOp>();
  if (!later || !earlier)
    return std::nullopt;
  return std::make_pair(later.getAxisAttr(), earlier.getAxisAttr());
}

/// The mask m of `m or not (m allows something over past)`, or null: the front end writes it so that a row without
/// any allowed place has no infinities in its derivative.
Value guardedMask(Value allowed) {
  MapOp either = mapOf(allowed, Function::Or);
  if (!either)
    return nullptr;
  Value mask = either.getOperands()[0];
  MapOp none = mapOf(either.getOperands()[1], Function::Not);
  MapOp any = none ? mapOf(none.getOperands()[0], Function::Gt) : MapOp();
  if (!any || constant(any.getOperands()[1]) != 0.0)
    return nullptr;
  Value count = any.getOperands()[0];
  if (auto sum = count.getDefiningOp<ReduceOp>(); sum && sum.getKind() == Reduction::Sum)
    count = sum.getOperand();
  MapOp numbers = mapOf(count, Function::Cast);
  return numbers && numbers.getOperands()[0] == mask ? mask : nullptr;
}

struct Matcher {
  /// Whether a value is needed by the pattern alone.
  static bool once(Value value) { return value.hasOneUse(); }

  static std::optional<Pattern> match(DotOp dot) {
    if (dot.getOver().size() != 1)
      return std::nullopt;
    auto past = llvm::cast<StringAttr>(dot.getOver()[0]);
    for (bool swapped : {false, true}) {
      Pattern p;
      p.root = dot;
      p.past = past;
      p.v = swapped ? dot.getLhs() : dot.getRhs();
      if (weights(swapped ? dot.getRhs() : dot.getLhs(), p) && fits(p, dot))
        return p;
    }
    return std::nullopt;
  }

  static bool weights(Value value, Pattern &p) {
    Value zeroed;
    if (MapOp select = mapOf(value, Function::Select)) {
      if (constant(select.getOperands()[2]) != 0.0 || !once(value))
        return false;
      zeroed = select.getOperands()[0];
      value = select.getOperands()[1];
    }
    auto softmax = value.getDefiningOp<SoftmaxOp>();
    if (!softmax || !once(value) || softmax.getOver().size() != 1 || softmax.getOver()[0] != p.past)
      return false;
    return masked(softmax.getOperand(), zeroed, p);
  }

  static bool masked(Value value, Value zeroed, Pattern &p) {
    if (MapOp select = mapOf(value, Function::Select)) {
      auto low = constant(select.getOperands()[2]);
      if (!low || !std::isinf(*low) || *low > 0 || !once(value))
        return false;
      Value mask = select.getOperands()[0];
      if (Value inner = guardedMask(mask)) {
        if (zeroed != inner)
          return false; // a row without any place would not be 0
        mask = inner;
      } else if (zeroed ? zeroed != mask : !causalAxes(mask)) {
        return false; // a mask that may allow nothing, whose row is not 0
      }
      takeMask(mask, p);
      value = select.getOperands()[1];
    } else if (zeroed) {
      return false;
    }
    return biased(value, p);
  }

  static void takeMask(Value mask, Pattern &p) {
    auto isCausal = [&](Value m) {
      auto axes = causalAxes(m);
      if (!axes || axes->second != p.past)
        return false;
      p.query = axes->first;
      return true;
    };
    if (isCausal(mask)) {
      p.causal = true;
      return;
    }
    if (MapOp both = mapOf(mask, Function::And))
      for (unsigned i : {0u, 1u})
        if (isCausal(both.getOperands()[i])) {
          p.causal = true;
          p.mask = both.getOperands()[1 - i];
          return;
        }
    p.mask = mask;
  }

  static bool biased(Value value, Pattern &p) {
    if (!scaled(value, p)) {
      MapOp add = mapOf(value, Function::Add);
      if (!add || !once(value))
        return false;
      for (unsigned i : {0u, 1u}) {
        p.scale = 1;
        if (scaled(add.getOperands()[i], p)) {
          p.bias = add.getOperands()[1 - i];
          return true;
        }
      }
      return false;
    }
    return true;
  }

  static bool scaled(Value value, Pattern &p) {
    while (true) {
      if (!once(value))
        return false;
      MapOp mul = mapOf(value, Function::Mul), div = mapOf(value, Function::Div);
      if (mul) {
        auto left = constant(mul.getOperands()[0]), right = constant(mul.getOperands()[1]);
        if (!left && !right)
          return false;
        p.scale *= left ? *left : *right;
        value = mul.getOperands()[left ? 1 : 0];
      } else if (div) {
        auto by = constant(div.getOperands()[1]);
        if (!by)
          return false;
        p.scale /= *by;
        value = div.getOperands()[0];
      } else {
        break;
      }
    }
    auto dot = value.getDefiningOp<DotOp>();
    if (!dot || dot.getOver().size() != 1)
      return false;
    p.key = llvm::cast<StringAttr>(dot.getOver()[0]);
    p.q = dot.getLhs();
    p.k = dot.getRhs();
    if (tensor(p.q).has(p.past))
      std::swap(p.q, p.k);
    return !tensor(p.q).has(p.past) && tensor(p.k).has(p.past);
  }

  static bool fits(Pattern &p, DotOp root) {
    Tensor q = tensor(p.q);
    auto within = [&](Value value) {
      return llvm::all_of(tensor(value).getAxes(), [&](const Axis &a) {
        return a.name == p.past || (q.has(a.name) && q.sizeOf(a.name) == a.size);
      });
    };
    auto overScores = [&](Value value) { return !value || (within(value) && !tensor(value).has(p.key)); };
    if (!q.isFloat() || !within(p.k) || !within(p.v) || !tensor(p.v).has(p.key) || !overScores(p.mask) ||
        !overScores(p.bias))
      return false;
    if (p.bias && !tensor(p.bias).isFloat())
      return false;
    if (p.causal && (!q.has(p.query) || tensor(p.k).has(p.query) || tensor(p.v).has(p.query)))
      return false;
    // The result has q's axes, and so has the dot that it stands for.
    Tensor result = tensor(root.getResult());
    if (result.rank() != q.rank())
      return false;
    if (!p.query) {
      SmallVector<StringAttr> own;
      for (const Axis &a : q.getAxes())
        if (!tensor(p.k).has(a.name) && !tensor(p.v).has(a.name))
          own.push_back(a.name);
      if (own.size() == 1)
        p.query = own[0];
    }
    return true;
  }
};

struct RecogniseAttention : echelon::impl::RecogniseAttentionBase<RecogniseAttention> {
  void runOnOperation() override {
    SmallVector<DotOp> dots;
    getOperation()->walk([&](DotOp dot) { dots.push_back(dot); });
    for (DotOp dot : dots)
      if (auto p = Matcher::match(dot))
        replace(dot, *p);
  }

  void replace(DotOp dot, const Pattern &p) {
    OpBuilder builder(dot);
    Build build(builder, dot.getLoc(), tensor(p.q).getElement());
    StringRef query = p.query ? p.query.getValue() : StringRef();
    Value result = build.attention(p.q, p.k, p.v, p.mask, p.bias, query, p.past, p.key, p.scale, p.causal).getResult();
    Tensor wanted = tensor(dot.getResult());
    if (tensor(result) != wanted) // the same axes in another order of storage
      result = build.relabel(result, builder.getArrayAttr({}), builder.getArrayAttr({}), wanted);
    dot.getResult().replaceAllUsesWith(result);
    // What the pattern was made of, from its end to its beginning; a mask's parts may serve others.
    SmallVector<Operation *> dead{dot};
    while (!dead.empty()) {
      Operation *op = dead.pop_back_val();
      if (!op->use_empty() || !isMemoryEffectFree(op))
        continue;
      SmallVector<Value> operands(op->getOperands());
      op->erase();
      for (Value operand : operands)
        if (Operation *source = operand.getDefiningOp(); source && !llvm::is_contained(dead, source))
          dead.push_back(source);
    }
  }
};
} // namespace
