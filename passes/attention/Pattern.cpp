// How the pattern is recognised:
//
//   1. from a dot over one axis (`past`) whose one operand is a softmax over `past`: that operand holds the weights
//   2. off the weights: a select that gives 0 where the mask is false
//   3. off the scores: a select with -inf (mask, causal, or both; where a row allows nothing the front end's mask lets
//      the row through and step 2 gives 0: attention does the same), an added bias, scales by constants
//   4. what is left is a dot over one axis (`key`): q has no `past`, k has
//   5. axes as ech.attention takes them: k, v, mask and bias within q's and past, `query` q's own; nothing between used
//      elsewhere
#include "passes/attention/Pattern.h"
#include "ir/ech/Build.h"
#include <cmath>

using namespace mlir;
using namespace echelon::ech;

namespace {

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

/// Whether the mask compares a draw.
bool isDrawn(Value mask) {
  MapOp below = mapOf(mask, Function::Lt);
  return below && below.getOperands()[0].getDefiningOp<RandomOp>();
}

/// The function that gave the value, as a spec writes it.
std::string writtenAs(Value value) {
  auto map = value.getDefiningOp<MapOp>();
  if (!map)
    return value.getDefiningOp() ? value.getDefiningOp()->getName().stripDialect().str() : "a value of the loop";
  switch (map.getFunction()) {
  case Function::Add:
  case Function::Sub:
  case Function::Mul:
  case Function::Div:
  case Function::Pow:
    return std::string("`") + "+-*/^"[static_cast<unsigned>(map.getFunction())] + "`";
  case Function::Select:
    return "where";
  default:
    return stringifyFunction(map.getFunction()).str();
  }
}

class Matcher {
public:
  std::string why; // the last match failed

  std::optional<AttentionPattern> match(DotOp dot, bool swapped) {
    if (dot.getOver().size() != 1)
      return std::nullopt;
    AttentionPattern p;
    p.past = llvm::cast<StringAttr>(dot.getOver()[0]);
    p.v = swapped ? dot.getLhs() : dot.getRhs();
    if (weights(swapped ? dot.getRhs() : dot.getLhs(), p) && fits(p, dot))
      return p;
    return std::nullopt;
  }

private:
  bool no(const llvm::Twine &reason) {
    why = reason.str();
    return false;
  }

  /// Whether a value is needed by the pattern alone.
  bool once(Value value, const char *what) {
    return value.hasOneUse() || no("its " + llvm::Twine(what) + " are read elsewhere, too");
  }

  bool weights(Value value, AttentionPattern &p) {
    Value zeroed;
    MapOp select = mapOf(value, Function::Select);
    if (select && constant(select.getOperands()[2]) == 0.0) {
      if (!once(value, "weights"))
        return false;
      zeroed = select.getOperands()[0];
      if (isDrawn(zeroed))
        return no("its weights go through dropout");
      value = select.getOperands()[1];
    }
    auto softmax = value.getDefiningOp<SoftmaxOp>();
    if (!softmax)
      return no(isExponentialOverSum(value)
                    ? "its softmax is written out; softmax(…, over = " + p.past.getValue() + ") stands for it"
                    : "its weights come from " + llvm::Twine(writtenAs(value)) + " and not from softmax alone");
    if (!once(value, "weights"))
      return false;
    if (softmax.getOver().size() != 1 || softmax.getOver()[0] != p.past)
      return no("its softmax does not run over " + p.past.getValue() + " alone");
    return masked(softmax.getOperand(), zeroed, p);
  }

  static bool isExponentialOverSum(Value value) {
    MapOp quotient = mapOf(value, Function::Div);
    if (!quotient)
      return false;
    Value power = quotient.getOperands()[0];
    if (MapOp masked = mapOf(power, Function::Select))
      power = masked.getOperands()[1];
    return mapOf(power, Function::Exp) != nullptr;
  }

  bool masked(Value value, Value zeroed, AttentionPattern &p) {
    const char *unguarded = "a row whose mask allows nothing would not be 0";
    if (MapOp select = mapOf(value, Function::Select)) {
      if (!once(value, "scores"))
        return false;
      const bool first = constant(select.getOperands()[1]).has_value();
      auto low = constant(select.getOperands()[first ? 1 : 2]);
      if (low && std::isfinite(*low))
        return no("`where` gives the scores that its mask forbids the number " + number(*low) + "; softmax(…, over = " +
                  p.past.getValue() + ", where = MASK) leaves them out, and gives 0 in a row that allows none");
      if (!low || first || *low > 0)
        return no("its scores come from where");
      Value mask = select.getOperands()[0];
      if (Value inner = guardedMask(mask)) {
        if (zeroed != inner)
          return no(unguarded);
        mask = inner;
      } else if (zeroed ? zeroed != mask : !causalAxes(mask)) {
        return no(unguarded);
      }
      takeMask(mask, p);
      value = select.getOperands()[1];
    } else if (zeroed) {
      return no("its weights come from where and not from softmax alone");
    }
    return biased(value, p);
  }

  static std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g", value);
    return text;
  }

  static void takeMask(Value mask, AttentionPattern &p) {
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

  bool biased(Value value, AttentionPattern &p) {
    if (scaled(value, p))
      return true;
    MapOp add = mapOf(value, Function::Add);
    if (!add || !once(value, "scores"))
      return false;
    std::string first = why;
    for (unsigned i : {0u, 1u}) {
      p.scale = 1;
      if (scaled(add.getOperands()[i], p)) {
        p.bias = add.getOperands()[1 - i];
        return true;
      }
    }
    return no(first);
  }

  bool scaled(Value value, AttentionPattern &p) {
    while (true) {
      if (!once(value, "scores"))
        return false;
      MapOp mul = mapOf(value, Function::Mul), div = mapOf(value, Function::Div);
      if (mul) {
        auto left = constant(mul.getOperands()[0]), right = constant(mul.getOperands()[1]);
        if (!left && !right)
          return no("its scores are scaled by what is no number; q or k may be, before their product");
        p.scale *= left ? *left : *right;
        value = mul.getOperands()[left ? 1 : 0];
      } else if (div) {
        auto by = constant(div.getOperands()[1]);
        if (!by)
          return no("its scores are scaled by what is no number; q or k may be, before their product");
        p.scale /= *by;
        value = div.getOperands()[0];
      } else {
        break;
      }
    }
    auto dot = value.getDefiningOp<DotOp>();
    if (!dot)
      return no("its scores come from " + llvm::Twine(writtenAs(value)) + " and not from a dot, scaled and biased");
    if (dot.getOver().size() != 1)
      return no("its scores are a dot over several axes");
    p.key = llvm::cast<StringAttr>(dot.getOver()[0]);
    p.q = dot.getLhs();
    p.k = dot.getRhs();
    if (tensor(p.q).has(p.past))
      std::swap(p.q, p.k);
    return (!tensor(p.q).has(p.past) && tensor(p.k).has(p.past)) ||
           no("of its scores' two operands not exactly one has the axis " + p.past.getValue());
  }

  bool fits(AttentionPattern &p, DotOp root) {
    Tensor q = tensor(p.q);
    auto within = [&](Value value) {
      return llvm::all_of(tensor(value).getAxes(), [&](const Axis &a) {
        return a.name == p.past || (q.has(a.name) && q.sizeOf(a.name) == a.size);
      });
    };
    auto overScores = [&](Value value) { return !value || (within(value) && !tensor(value).has(p.key)); };
    if (!tensor(p.v).has(p.key) && !q.isFloat())
      return no("its queries are no real numbers");
    if (!tensor(p.v).has(p.key))
      return no("its values have no axis " + p.key.getValue() + ", as its keys have: they are " +
                describe(tensor(p.v)));
    for (auto [value, what] : {std::pair(p.k, "keys"), std::pair(p.v, "values")})
      if (!within(value))
        return no("its " + llvm::Twine(what) + " have axes besides " + p.past.getValue() +
                  " that its queries lack: they are " + describe(tensor(value)) + ", the queries " + describe(q));
    if (!q.isFloat() || !overScores(p.mask) || !overScores(p.bias) || (p.bias && !tensor(p.bias).isFloat()))
      return no("its mask or bias has axes that its scores lack");
    if (p.causal && (!q.has(p.query) || tensor(p.k).has(p.query) || tensor(p.v).has(p.query)))
      return no("its mask compares positions along an axis that is not its queries' own");
    // The result has q's axes, and so has the dot that it stands for.
    Tensor result = tensor(root.getResult());
    if (result.rank() != q.rank())
      return no("what it gives has other axes than its queries");
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

/// Whether the value is made, element by element or by a softmax, of an exponential of products over `past` of queries
/// and keys, and the keys are of samples.
bool isOfScores(Value weights, StringAttr past, StringRef batchAxis) {
  constexpr size_t mostOperations = 64; // of one attention
  SmallVector<Operation *> open;
  llvm::SmallPtrSet<Operation *, 16> seen;
  bool exponential = false, scores = false;
  auto follow = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (op && tensor(value).has(past) && seen.size() < mostOperations && seen.insert(op).second)
      open.push_back(op);
  };
  follow(weights);
  while (!open.empty()) {
    Operation *op = open.pop_back_val();
    if (auto dot = dyn_cast<DotOp>(op)) {
      Tensor a = tensor(dot.getLhs()), b = tensor(dot.getRhs());
      if (a.has(past) != b.has(past))
        scores |= (a.has(past) ? a : b).has(batchAxis);
    } else if (isa<MapOp, SoftmaxOp, ExpandOp, RelabelOp>(op)) {
      auto map = dyn_cast<MapOp>(op);
      exponential |= isa<SoftmaxOp>(op) || (map && map.getFunction() == Function::Exp);
      llvm::for_each(op->getOperands(), follow);
    }
  }
  return exponential && scores;
}

} // namespace

std::optional<AttentionPattern> echelon::ech::matchAttention(DotOp dot) {
  for (bool swapped : {false, true})
    if (auto found = Matcher().match(dot, swapped))
      return found;
  return std::nullopt;
}

std::optional<std::string> echelon::ech::whyNoAttention(DotOp dot, StringRef batchAxis) {
  if (dot.getOver().size() != 1)
    return std::nullopt;
  auto past = llvm::cast<StringAttr>(dot.getOver()[0]);
  for (bool swapped : {false, true}) {
    Value weights = swapped ? dot.getRhs() : dot.getLhs(), values = swapped ? dot.getLhs() : dot.getRhs();
    Matcher matcher;
    if (tensor(values).has(batchAxis) && isOfScores(weights, past, batchAxis) && !matcher.match(dot, swapped))
      return matcher.why;
  }
  return std::nullopt;
}
