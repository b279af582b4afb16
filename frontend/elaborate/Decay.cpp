// Each value is written as a sum of products. Its factors are what is no product itself: parameters (or functions of
// parameters alone), numbers, values of samples. Where a sum takes such a product along an axis, it contracts what
// varies along that axis, and the parameters among it are the weights; of them a gain of another is left out.
//
// Products are followed through scaling, masks, negation, division, renames, slices, expansions, concatenations, sums
// that contract nothing, and additions. A product of two sums that both depend on samples is one factor: it is not
// linear in what they are made of.
#include "frontend/elaborate/Decay.h"
#include "frontend/elaborate/Products.h"
#include "frontend/elaborate/StartValues.h"
#include "frontend/elaborate/SumUses.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;
using ech::Function;

namespace {

bool meets(const AxisSet &a, const AxisSet &b) {
  return llvm::any_of(a, [&](StringAttr axis) { return llvm::is_contained(b, axis); });
}

AxisSet axesOf(ArrayAttr names) {
  auto range = names.getAsRange<StringAttr>();
  return AxisSet(range.begin(), range.end());
}

Value unexpanded(Value value) {
  while (auto expand = value.getDefiningOp<ech::ExpandOp>())
    value = expand.getOperand();
  return value;
}

class Decay {
public:
  Decay(ModuleOp module, const llvm::StringSet<> &samples) : samples(samples) {
    for (auto variable : module.getOps<ech::VariableOp>()) {
      const bool isParameter = variable.getKind() == ech::VariableKind::Param;
      read[variable.getSymNameAttr()] = isParameter ? Origin::Parameters : Origin::Numbers;
      if (isParameter)
        variables[variable.getSymNameAttr()] = variable;
    }
  }

  void run(ech::StepOp step) {
    Origins all(step, read, samples);
    SumUses ofSums(all, samples);
    origins = &all;
    uses = &ofSums;
    visit(step.getBody().front());
  }

private:
  //===- sums of products ----------------------------------------------------------------------------------------===//

  Origin::Kind kind(Value value) const { return (*origins)[value].kind; }

  /// The value as one factor.
  Term leaf(Value value) const {
    const Origin &origin = (*origins)[value];
    Factor factor;
    factor.value = value;
    factor.kind = origin.kind;
    for (const ech::Axis &axis : ech::tensor(value).getAxes())
      factor.axes.push_back(axis.name);
    for (Operation *op = value.getParentBlock()->getParentOp(); op; op = op->getParentOp())
      if (auto loop = dyn_cast<ech::RepeatOp>(op); loop && loop.getAlong())
        addAxis(factor.axes, loop.getAxisAttr());
    for (const auto &[parameter, axes] : origin.along)
      factor.along.emplace_back(parameter, axes);
    Term term;
    term.factors.push_back(std::move(factor));
    return term;
  }

  const Terms &terms(Value value) const { return known.find(value)->second; }

  /// Each factor as it is in a result of `op`.
  Terms through(Operation *op, OpOperand &operand, Value result) const {
    Terms moved = terms(operand.get());
    for (Term &term : moved)
      carry(term, op, operand, result);
    return moved;
  }

  /// What two values come to in a product; `whole` is the product, where it counts as one factor.
  Terms product(Value a, Value b, const Terms &first, const Terms &second, Value whole) const {
    const bool ofSamples = kind(a) == Origin::Data && kind(b) == Origin::Data;
    if (first.empty() || second.empty())
      return {};
    const bool areSums = ofSamples && first.size() > 1 && second.size() > 1;
    if (a != b && !areSums)
      return expanded(a, b, first, second, ofSamples);
    const Terms x = essential(first, a), y = essential(second, b);
    const bool isLinear = a != b && (x.size() == 1 || y.size() == 1);
    Terms result = isLinear ? expanded(a, b, x, y, ofSamples) : Terms{leaf(whole)};
    if (ofSamples)
      cross(first, second, result);
    if (ofSamples && a != b)
      cross(second, first, result);
    return result;
  }

  /// The terms of a value that have parameters which are no biases; the others are one.
  Terms essential(const Terms &list, Value whole) const {
    Terms result;
    bool hasOther = false;
    for (const Term &term : list) {
      auto isOf = [&](Origin::Kind kind, bool isAdded) {
        return llvm::any_of(term.factors, [&](const Factor &f) { return f.kind == kind && f.isAdded == isAdded; });
      };
      if (isOf(Origin::Parameters, false))
        result.push_back(term);
      else
        hasOther |= !isOf(Origin::Parameters, true);
    }
    if (hasOther || result.empty())
      result.push_back(leaf(whole));
    return result;
  }

  Terms expanded(Value a, Value b, const Terms &first, const Terms &second, bool ofSamples) const {
    auto longest = [](const Terms &list) {
      size_t most = 0;
      for (const Term &term : list)
        most = std::max(most, term.factors.size());
      return most;
    };
    const bool tooMany = first.size() * second.size() > maxTerms || longest(first) + longest(second) > maxFactors;
    const Terms asOne{leaf(a)}, asOther{leaf(b)};
    Terms result;
    for (const Term &x : tooMany ? asOne : first)
      for (const Term &y : tooMany ? asOther : second) {
        std::optional<Term> both = multiplied(x, y);
        if (!both)
          continue;
        for (const Factor &f : ofSamples ? llvm::ArrayRef(x.factors) : llvm::ArrayRef<Factor>())
          for (const auto &[parameter, axes] : f.along)
            if (llvm::any_of(y.factors, [&, p = parameter](const Factor &g) {
                  return llvm::any_of(g.along, [&](const auto &entry) { return entry.first == p; });
                }))
              both->squared.push_back(parameter);
        result.push_back(std::move(*both));
      }
    return result;
  }

  /// What several values come to in a sum. What is of parameters alone beside values of samples is a bias there, and so
  /// is what lacks axes of something else of parameters (of a learned query's projection, say).
  Terms sum(Value whole, MutableArrayRef<OpOperand> operands) const {
    const bool ofSamples =
        llvm::any_of(operands, [&](OpOperand &operand) { return kind(operand.get()) == Origin::Data; });
    int64_t widest = 0;
    for (OpOperand &operand : operands)
      if (kind(operand.get()) == Origin::Parameters)
        widest = std::max(widest, ech::tensor(operand.get()).rank());
    Terms result;
    for (OpOperand &operand : operands) {
      const Origin::Kind of = kind(operand.get());
      if (of == Origin::Numbers && kind(whole) == Origin::Parameters && numberOf(operand.get()) != 0.0)
        return {leaf(whole)}; // 1 + gain
      const bool isOuter =
          ofSamples && of == Origin::Parameters && llvm::none_of(operands, [&](OpOperand &other) {
            return kind(other.get()) == Origin::Data && hasAxesOf(unexpanded(other.get()), operand.get());
          });
      for (Term &term : through(whole.getDefiningOp(), operand, whole)) {
        if (of == Origin::Parameters && (ofSamples || ech::tensor(operand.get()).rank() < widest))
          for (Factor &factor : term.factors) {
            factor.isAdded = true;
            factor.isOuter = isOuter;
          }
        result.push_back(std::move(term));
      }
    }
    return fewer(std::move(result), whole);
  }

  static bool hasAxesOf(Value large, Value small) {
    return llvm::all_of(ech::tensor(unexpanded(small)).getAxes(),
                        [&](const ech::Axis &axis) { return ech::tensor(large).has(axis.name); });
  }

  Terms fewer(Terms all, Value whole) const {
    if (all.size() > maxTerms)
      all = essential(all, whole);
    return all.size() > maxTerms ? Terms{leaf(whole)} : all;
  }

  /// The parts of a concatenation, each at its place.
  Terms joined(ech::ConcatOp op) const {
    Terms result;
    for (OpOperand &operand : op->getOpOperands())
      llvm::append_range(result, through(op, operand, op.getResult()));
    return fewer(std::move(result), op.getResult());
  }

  Terms termsOf(Operation *op, Value result) {
    if (kind(result) == Origin::Numbers) {
      if (auto value = numberOf(result))
        return *value == 0 ? Terms{} : Terms(1);
      if (ech::tensor(result).rank() == 0)
        return Terms(1);
    }
    MutableArrayRef<OpOperand> operands = op->getOpOperands();
    if (auto map = dyn_cast<ech::MapOp>(op)) {
      auto value = [&](unsigned i) { return map.getOperands()[i]; };
      switch (map.getFunction()) {
      case Function::Neg:
      case Function::Cast:
      case Function::StopGradient:
        return terms(value(0));
      case Function::Add:
      case Function::Sub:
        return sum(result, operands);
      case Function::Mul:
        return product(value(0), value(1), terms(value(0)), terms(value(1)), result);
      case Function::Div:
        return product(value(0), value(1), terms(value(0)),
                       terms(value(1)).size() == 1 ? terms(value(1)) : Terms{leaf(value(1))}, result);
      case Function::Select: {
        Terms chosen = sum(result, operands.drop_front());
        return kind(value(0)) == Origin::Data ? product(value(0), result, Terms{leaf(value(0))}, chosen, result)
                                              : chosen;
      }
      case Function::Pow:
        if (numberOf(value(1)) == 2.0)
          return product(value(0), value(0), terms(value(0)), terms(value(0)), result);
        return {leaf(result)};
      default:
        return {leaf(result)};
      }
    }
    if (isa<ech::ExpandOp, ech::RelabelOp, ech::PickOp, ech::SliceOp>(op))
      return through(op, operands[0], result);
    if (auto concat = dyn_cast<ech::ConcatOp>(op))
      return joined(concat);
    if (auto dot = dyn_cast<ech::DotOp>(op))
      return contracted(product(dot.getLhs(), dot.getRhs(), terms(dot.getLhs()), terms(dot.getRhs()), result),
                        axesOf(dot.getOver()), result);
    if (auto reduce = dyn_cast<ech::ReduceOp>(op); reduce && reduce.getKind() == ech::Reduction::Sum) {
      if (kind(result) == Origin::Data && uses->isTakenOut(result, reduce.getOperand()))
        return {leaf(result)};
      return contracted(terms(reduce.getOperand()), axesOf(reduce.getOver()), result, uses->endsInAverage(result));
    }
    if (auto running = dyn_cast<ech::CumSumOp>(op)) {
      contracted(terms(running.getOperand()), axesOf(running.getOver()), result);
    } else if (auto conv = dyn_cast<ech::ConvOp>(op)) {
      AxisSet summed = axesOf(conv.getOver());
      Terms image = terms(conv.getX());
      for (Attribute axis : conv.getKernel()) {
        addAxis(summed, cast<StringAttr>(axis));
        for (Term &term : image)
          for (Factor &factor : term.factors)
            if (factor.kind != Origin::Parameters)
              addAxis(factor.axes, cast<StringAttr>(axis));
      }
      contracted(product(conv.getX(), conv.getW(), image, terms(conv.getW()), result), summed, result);
    } else if (auto attention = dyn_cast<ech::AttentionOp>(op)) {
      contracted(product(attention.getQ(), attention.getK(), terms(attention.getQ()), terms(attention.getK()), result),
                 {attention.getKeyAttr()}, result);
      Term weights; // of samples, as a rule, and along `past` at least
      weights.factors.emplace_back();
      weights.factors.back().axes = {attention.getPastAttr()};
      contracted(product(result, attention.getV(), Terms{weights}, terms(attention.getV()), result),
                 {attention.getPastAttr()}, result);
    } else if (auto gather = dyn_cast<ech::GatherOp>(op)) {
      if (llvm::all_of(gather.getIndices(), isShifted)) // a rename or a slice
        return through(op, operands[0], result);
      const AxisSet axes = axesOf(gather.getAxes());
      if (kind(gather.getTable()) == Origin::Parameters)
        for (Term term : terms(gather.getTable())) {
          Factor index; // one place of each: a product with zeros and a one
          index.axes = axes;
          term.factors.push_back(index);
          take(term, axes);
        }
    }
    return {leaf(result)};
  }

  /// Whether a value is the position along an axis, plus a number perhaps.
  static bool isShifted(Value index) {
    index = unexpanded(index);
    if (index.getDefiningOp<ech::IndexOp>())
      return true;
    auto map = index.getDefiningOp<ech::MapOp>();
    if (!map)
      return false;
    ValueRange of = map.getOperands();
    switch (map.getFunction()) {
    case Function::Cast:
      return isShifted(of[0]);
    case Function::Add:
    case Function::Sub:
      return (numberOf(of[1]) && isShifted(of[0])) || (numberOf(of[0]) && isShifted(of[1]));
    default:
      return false;
    }
  }

  void visit(Block &block) {
    for (Operation &op : block) {
      if (auto loop = dyn_cast<ech::RepeatOp>(op)) {
        visit(loop);
        continue;
      }
      for (Value result : op.getResults())
        known[result] = termsOf(&op, result);
    }
  }

  void visit(ech::RepeatOp loop) {
    for (Value argument : loop.carriedArguments())
      known[argument] = {leaf(argument)};
    for (auto [argument, slice] : llvm::zip(loop.sliceArguments(), loop.getSlices()))
      known[argument] = Terms(terms(slice));
    repeats.push_back(loop.getAxisAttr());
    visit(*loop.block());
    repeats.pop_back();
    ech::YieldOp yield = loop.yield();
    if (loop.getAlong()) // what is added up from position to position is a sum along the axis
      for (auto [argument, next] : llvm::zip(loop.carriedArguments(), yield.getCarried()))
        if (llvm::any_of(terms(next), [&, a = argument](const Term &term) {
              return term.factors.size() == 1 && term.factors[0].value == a;
            }))
          contracted(terms(next), {loop.getAxisAttr()}, next);
    for (Value result : loop.getResults())
      known[result] = {leaf(result)};
    for (auto [result, value] : llvm::zip(loop.getStacks(), yield.getStacked()))
      known[result] = Terms(terms(value));
  }

  //===- contractions --------------------------------------------------------------------------------------------===//

  /// Sums products along axes: takes the weights among their factors, and gives what they come to, as factors of what
  /// follows.
  Terms contracted(const Terms &list, const AxisSet &axes, Value result, bool isOfAverage = false) {
    Terms left;
    bool isOne = false; // a contraction is one factor
    for (const Term &term : list) {
      if (take(term, axes, isOfAverage)) {
        isOne = true;
        continue;
      }
      sumAway(left.emplace_back(term), axes);
    }
    if (isOne)
      left.push_back(leaf(result));
    return left;
  }

  struct Candidate {
    StringAttr parameter;
    AxisSet along, summed; // the latter among the former
    const Factor *factor;
  };

  /// Takes the weights of one product that is summed along axes. False: it has none, and is no contraction.
  /// `isOfAverage`: the sum is a part of an average over samples, where a gain may appear without another parameter.
  bool take(const Term &term, const AxisSet &summed, bool isOfAverage = false) {
    llvm::SmallVector<Candidate, 4> candidates;
    const bool averages = llvm::any_of(summed, [&](StringAttr axis) { return samples.contains(axis.getValue()); });
    for (const Factor &factor : term.factors)
      for (const auto &[parameter, along] : factor.along) {
        Candidate candidate{parameter, {}, {}, &factor};
        for (StringAttr axis : along) {
          const bool isSummed = llvm::is_contained(summed, axis);
          if (isSummed)
            candidate.summed.push_back(axis);
          if (isSummed || !llvm::is_contained(repeats, axis))
            candidate.along.push_back(axis);
        }
        if (!candidate.summed.empty() && !factor.isAdded && !llvm::is_contained(term.squared, parameter) &&
            hasPartner(term, candidate) &&
            !((averages || (isOfAverage && startsAsScale(factor.value))) && onlyScales(term, candidate)))
          candidates.push_back(candidate);
      }
    for (const Candidate &candidate : candidates)
      if (!isGain(term, candidate, candidates))
        variables.lookup(candidate.parameter)->setAttr("decayed", UnitAttr::get(candidate.parameter.getContext()));
    return !candidates.empty();
  }

  /// Whether something else varies along an axis that both are summed along: without, a sum is one of the parameter
  /// alone.
  static bool hasPartner(const Term &term, const Candidate &candidate) {
    return llvm::any_of(term.factors, [&](const Factor &other) {
      if (other.kind != Origin::Parameters)
        return meets(other.axes, candidate.summed);
      return &other != candidate.factor && llvm::any_of(other.along, [&](const auto &entry) {
        return entry.first != candidate.parameter && meets(entry.second, candidate.summed);
      });
    });
  }

  /// Whether some value of samples has all the parameter's axes. An average over samples makes no weight of such.
  static bool onlyScales(const Term &term, const Candidate &candidate) {
    return llvm::any_of(term.factors, [&](const Factor &factor) {
      return factor.kind == Origin::Data && within(candidate.along, factor.axes);
    });
  }

  /// Whether a parameter only scales what another contracts, or starts as the scale of what is contracted anyway.
  bool isGain(const Term &term, const Candidate &candidate, llvm::ArrayRef<Candidate> candidates) const {
    unsigned scaled = 0; // values of samples that it is a scale of
    bool isContractedAnyway = false, isNormed = false;
    for (const Factor &factor : term.factors) {
      if (factor.kind == Origin::Parameters || !meets(factor.axes, candidate.summed))
        continue;
      isContractedAnyway = true;
      if (factor.kind != Origin::Data || !within(candidate.along, factor.axes))
        continue;
      ++scaled;
      auto norm = factor.value ? factor.value.getDefiningOp<ech::NormalizeOp>() : ech::NormalizeOp();
      isNormed |=
          norm && llvm::any_of(candidate.summed, [&](StringAttr axis) { return ech::has(norm.getOver(), axis); });
    }
    const bool startsSo = startsAsScale(candidate.factor->value);
    for (const Candidate &other : candidates) {
      if (other.parameter == candidate.parameter || !within(candidate.along, other.along))
        continue;
      // Of a product of two parameters alone, both are weights: it has low rank.
      const bool isThird = isContractedAnyway || llvm::any_of(candidates, [&](const Candidate &third) {
                             return third.parameter != candidate.parameter && third.parameter != other.parameter;
                           });
      if (isThird && (!within(other.along, candidate.along) || (startsSo && !startsAsScale(other.factor->value))))
        return true;
    }
    return startsSo && (scaled > 1 || isNormed);
  }

  /// Whether a factor starts from the same number everywhere, and not from 0, as gains do.
  bool startsAsScale(Value value) const { return startOf(value, variables).value_or(0) != 0; }

  const llvm::StringSet<> &samples;
  llvm::DenseMap<StringAttr, ech::VariableOp> variables;
  llvm::DenseMap<StringAttr, Origin::Kind> read;
  const Origins *origins = nullptr;
  SumUses *uses = nullptr;
  llvm::DenseMap<Value, Terms> known;
  AxisSet repeats; // around what is looked at
};

} // namespace

void echelon::frontend::markDecayed(ModuleOp module, const llvm::StringSet<> &samples) {
  Decay decay(module, samples);
  for (auto step : module.getOps<ech::StepOp>())
    if (step.getSymName() == "train")
      decay.run(step);
}
