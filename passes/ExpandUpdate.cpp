// Gradients become written parameters.
// 1. Every parameter finds its optimizer line: the first whose pattern matches its path.
// 2. The norm of all gradients is reported; with a clip, the gradients are scaled by min(1, clip / (norm + 1e-6)).
//    Where the run scales its loss, the norm and the gradients are divided by the scale, a power of two, on their way.
// 3. Each line's rule (passes/update/), as ordinary element-wise operations, over new variables for what it keeps.
// 4. Where the run has averages: after each update a = d a + (1 - d) w, in a new variable beside what the rule keeps; a
//    starts as w (@train.start), and @exchange has both change places, so that an evaluation reads it.
// Weight decay takes only `decayed` parameters.
#include "ir/ech/Reverse.h"
#include "passes/Passes.h"
#include "passes/compress/Workers.h"
#include "passes/update/MarkUpdate.h"
#include "passes/update/Rule.h"
#include "llvm/Support/GlobPattern.h"

namespace echelon {
#define GEN_PASS_DEF_EXPANDUPDATE
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

bool echelon::matchesPattern(StringRef pattern, StringRef path) {
  auto glob = llvm::GlobPattern::create(pattern);
  if (!glob)
    llvm::consumeError(glob.takeError());
  return glob && glob->match(path);
}

namespace {

struct ExpandUpdate : echelon::impl::ExpandUpdateBase<ExpandUpdate> {
  void runOnOperation() override {
    for (auto step : llvm::make_early_inc_range(getOperation().getOps<StepOp>()))
      if ((step.getSymName() == "train" || step.getSymName() == "update") && failed(expand(step)))
        return signalPassFailure();
  }

  LogicalResult expand(StepOp step) {
    SmallVector<GradientOp> gradients(step.getBody().front().getOps<GradientOp>());
    if (gradients.empty())
      return success();
    if (failed(checkRules(step)))
      return failure();
    fillTables(step);
    SmallVector<run::OptimizeOp> chosen;
    bool complete = true;
    for (GradientOp gradient : gradients) {
      chosen.push_back(update::lineOf(getOperation(), gradient.getParameter()));
      if (!chosen.back()) {
        variable(gradient)->emitError() << "no optimize line takes parameter " << gradient.getParameter()
                                        << "; add its pattern to one, or a line without `on`";
        complete = false;
      }
    }
    if (!complete || failed(checkPatterns(step, gradients)))
      return failure();

    update::MarkUpdate mark;
    OpBuilder builder(&getContext(), &mark);
    builder.setInsertionPointToEnd(&step.getBody().front());
    Location place = placeOf(step.getLoc());
    Build build(builder, place, tensor(gradients.front().getValue()).getElement());
    auto policy = run::only<run::SyncOp>(getOperation());
    if (run::only<run::LossScaleOp>(getOperation()) && (!policy || policy.isLocal())) // else it is gone
      lossScale = build.scalar("loss_scale");
    Value scale = factor(build, gradients);
    auto average = run::only<run::AverageOp>(getOperation());
    auto meet = getOperation().lookupSymbol<StepOp>("meet"); // of workers that train by themselves
    SmallVector<VariableOp> averages, averaged;
    for (auto [gradient, line] : llvm::zip(gradients, chosen)) {
      Value next = update(build, gradient, line, scale);
      if (average && !meet && failed(averageOf(build, variable(gradient), next, average.getDecay(), averages)))
        return failure();
      if (average && meet)
        averaged.push_back(variable(gradient));
      if (getOperation()->hasAttr(ech::kKeepGradients))
        WriteOp::create(builder, build.loc, beside(variable(gradient), "gradient.").getSymName(),
                        unscaled(build, gradient.getValue()));
      gradient.erase();
    }
    if (meet && failed(averageWhatMeets(build, meet, averaged, averages)))
      return failure();
    if (average)
      placeAverages(step, averages);
    return success();
  }

  //===- lines and patterns --------------------------------------------------------------------------------------===//

  LogicalResult checkRules(StepOp step) {
    auto lines = getOperation().getOps<run::OptimizeOp>();
    if (lines.empty())
      return step.emitOpError() << "has gradients, and the module names no optimizer";
    for (run::OptimizeOp line : lines)
      if (!update::findRule(line.getRule()))
        return step.emitOpError() << "is to be optimized by '" << line.getRule() << "', which is not built";
    return success();
  }

  LogicalResult checkPatterns(StepOp step, ArrayRef<GradientOp> gradients) {
    bool all = true;
    for (auto line : getOperation().getOps<run::OptimizeOp>())
      for (auto pattern : line.getPatterns().getAsRange<StringAttr>())
        if (llvm::none_of(gradients, [&](GradientOp g) { return matchesPattern(pattern, g.getParameter()); })) {
          step.emitError() << "no parameter matches " << pattern << " of an optimize line";
          all = false;
        }
    return success(all);
  }

  VariableOp variable(GradientOp gradient) { return variables.lookup(gradient.getParameterAttr().getAttr()); }

  //===- the norm ------------------------------------------------------------------------------------------------===//

  Value unscaled(Build &build, Value v) { return lossScale ? build.div(v, lossScale) : v; }

  /// Reports the norm; what gradients are multiplied by on their way to the rules, null where they stay as they are.
  Value factor(Build &build, ArrayRef<GradientOp> gradients) {
    SmallVector<Value> values = llvm::map_to_vector(gradients, [](GradientOp g) -> Value { return g.getValue(); });
    Value norm = named(build, "norm", build.globalNorm(values));
    SmallVector<StringRef> names =
        llvm::map_to_vector(gradients, [](GradientOp g) -> StringRef { return g.getParameter(); });
    norm.getDefiningOp()->setAttr(echelon::kParameters, build.builder.getStrArrayAttr(names));
    norm = named(build, "norm", unscaled(build, norm));
    auto policy = run::only<run::SyncOp>(getOperation());
    ReportOp::create(build.builder, build.loc, ReportKind::Norm, "norm",
                     policy && policy.isLocal() ? compress::meanOverWorkers(build, getOperation(), norm) : norm);
    auto limit = getOperation()->getAttrOfType<FloatAttr>(ech::kClip);
    if (!limit)
      return lossScale ? named(build, "scale", unscaled(build, build.constant(1))) : Value();
    // Here and below one argument at most builds something: C++ does not say which of two comes first.
    Value divisor = build.add(norm, build.constant(1e-6));
    Value ratio = build.div(build.constant(limit.getValueAsDouble()), divisor);
    Value clipped = named(build, "scale", build.map(Function::Min, {build.constant(1), ratio}));
    return lossScale ? named(build, "unscale", unscaled(build, clipped)) : clipped;
  }

  //===- rules ---------------------------------------------------------------------------------------------------===//

  /// A rule's update, over the variables of this module.
  struct UpdateOfVariable : update::Update {
    UpdateOfVariable(ExpandUpdate &pass, Build &build, run::OptimizeOp line, VariableOp param)
        : Update(build, line, param), pass(pass) {}
    VariableOp variable(StringRef name) {
      VariableOp &known = variables[name];
      if (!known)
        known = pass.beside(param, ("optimizer." + name + ".").str());
      return known;
    }
    Value kept(StringRef name) override { return pass.read(build, variable(name)); }
    Value keep(StringRef name, Value value) override { return pass.write(build, variable(name), value); }

    ExpandUpdate &pass;
    llvm::StringMap<VariableOp> variables;
  };

  Value update(Build &build, GradientOp gradient, run::OptimizeOp line, Value scale) {
    const update::Rule &rule = *update::findRule(line.getRule());
    VariableOp param = variable(gradient);
    build.loc = placeOf(gradient.getLoc());
    UpdateOfVariable u(*this, build, line, param);
    u.w = read(build, param);
    u.g = gradient.getValue();
    if (scale)
      u.g = named(build, ("d_" + param.getSymName()).str(), build.mul(u.g, scale));
    const double decay = param.getDecayed() ? line.number("decay") : 0;
    const bool isSpared = !param.getDecayed() && (line.number("decay") != 0 || rule.setsWeightsApart);
    param->setAttr(kUpdateRule, build.builder.getStringAttr(line.getRule() + (isSpared ? "_without_decay" : "")));
    if (rule.decaysApart)
      u.decay = decay;
    else if (decay != 0)
      u.g = build.add(u.g, build.mul(u.w, build.constant(decay)));
    u.lr = named(build, "lr", build.scalar("learning_rate", numberOf(line)));
    Value next = rule.next(u);
    WriteOp::create(build.builder, build.loc, param.getSymName(), named(build, param.getSymName(), next));
    return next;
  }

  //===- averages ------------------------------------------------------------------------------------------------===//

  /// With d = 0 it is w, to the last bit.
  LogicalResult averageOf(Build &build, VariableOp param, Value next, const APFloat &decay,
                          SmallVectorImpl<VariableOp> &averages) {
    const std::string path = ("average." + param.getSymName()).str();
    if (variables.count(StringAttr::get(&getContext(), path)))
      return variables.lookup(StringAttr::get(&getContext(), path))->emitError()
             << "E0103: " << path << " is what the average of " << param.getSymName()
             << " is called; give the block another name than average";
    VariableOp average = beside(param, "average.", VariableKind::Average);
    Value kept = named(build, "average_kept", build.scalar("average_decay", 0, decay.convertToDouble()));
    Value before = build.mul(read(build, average), kept);
    Value share = named(build, "average_share", build.sub(build.constant(1), kept));
    Value now = build.mul(next, share);
    write(build, average, build.add(before, now));
    averages.push_back(average);
    return success();
  }

  /// Between meetings there is no one parameter: the average is of what workers go on with.
  LogicalResult averageWhatMeets(Build &build, StepOp meet, ArrayRef<VariableOp> params,
                                 SmallVectorImpl<VariableOp> &averages) {
    build.builder.setInsertionPointToEnd(&meet.getBody().front());
    reads.clear();
    for (VariableOp param : params)
      for (auto write : llvm::make_early_inc_range(meet.getBody().front().getOps<WriteOp>())) {
        StringRef target = write.getTarget();
        target.consume_front("copy.");
        if (target != param.getSymName())
          continue;
        build.loc = placeOf(write.getLoc());
        if (failed(averageOf(build, param, write.getValue(), run::only<run::AverageOp>(getOperation()).getDecay(),
                             averages)))
          return failure();
        break;
      }
    return success();
  }

  /// Averages start as the parameters, and change places with them for an evaluation. Where parameters have fewer bytes
  /// they are kept beside it instead, and averages stay as they are.
  void placeAverages(StepOp step, ArrayRef<VariableOp> averages) {
    OpBuilder builder(step);
    const Location place = step.getLoc();
    auto atEndOf = [&](StringRef name) {
      auto found = getOperation().lookupSymbol<StepOp>(name);
      if (!found) {
        builder.setInsertionPoint(step);
        found = StepOp::create(builder, place, name);
      }
      builder.setInsertionPointToEnd(&found.getBody().front());
    };
    auto readNow = [&](StringRef path, Type type) {
      return ReadOp::create(builder, NameLoc::get(builder.getStringAttr(path), place), cast<Tensor>(type), path);
    };
    atEndOf("train.start");
    for (VariableOp average : averages) {
      const StringRef path = average.getSymName().drop_front(StringRef("average.").size());
      WriteOp::create(builder, place, average.getSymName(), readNow(path, average.getType()));
    }
    if (!getOperation().lookupSymbol<StepOp>("evaluate"))
      return;
    auto precision = run::only<run::PrecisionOp>(getOperation());
    const bool isRounded = precision && precision.getParams();
    for (VariableOp average : averages) {
      const StringRef path = average.getSymName().drop_front(StringRef("average.").size());
      VariableOp kept = average;
      if (isRounded)
        kept = beside(getOperation().lookupSymbol<VariableOp>(path), "kept.", VariableKind::Copy);
      atEndOf("exchange");
      Value w = readNow(path, average.getType()), a = readNow(average.getSymName(), average.getType());
      WriteOp::create(builder, place, path, a);
      WriteOp::create(builder, place, kept.getSymName(), w);
      if (isRounded) {
        atEndOf("restore");
        WriteOp::create(builder, place, path, readNow(kept.getSymName(), average.getType()));
      }
    }
  }

  int64_t numberOf(run::OptimizeOp line) {
    auto lines = getOperation().getOps<run::OptimizeOp>();
    return std::distance(lines.begin(), llvm::find(lines, line));
  }

  //===- variables -----------------------------------------------------------------------------------------------===//

  /// Variables by their names, what the step reads, and where variables that are together end.
  void fillTables(StepOp step) {
    variables.clear();
    reads.clear();
    rowOf.clear();
    rowEnds.clear();
    for (auto op : step.getBody().front().getOps<ReadOp>())
      reads.try_emplace(op.getSourceAttr().getAttr(), op.getValue());
    for (auto variable : getOperation().getOps<VariableOp>()) {
      if (!isa_and_nonnull<VariableOp>(variable->getPrevNode()))
        rowEnds.push_back(variable);
      variables[variable.getSymNameAttr()] = variable;
      rowOf[variable] = rowEnds.size() - 1;
      rowEnds.back() = variable;
    }
  }
  Value read(Build &build, VariableOp source) {
    Value &known = reads[source.getSymNameAttr()];
    if (!known)
      known = named(build, source.getSymName(),
                    ReadOp::create(build.builder, build.loc, cast<Tensor>(source.getType()), source.getSymName()));
    return known;
  }
  Value write(Build &build, VariableOp target, Value value) {
    named(build, target.getSymName(), value);
    WriteOp::create(build.builder, build.loc, target.getSymName(), value);
    return value;
  }
  /// A variable that lives where the update of a parameter works: zeros of its type, its path after `prefix`; after
  /// the variables that are together with the parameter.
  VariableOp beside(VariableOp param, const Twine &prefix, VariableKind kind = VariableKind::Optimizer) {
    std::string path = (prefix + param.getSymName()).str();
    OpBuilder builder(&getContext());
    Operation *&end = rowEnds[rowOf.lookup(param)];
    builder.setInsertionPointAfter(end);
    auto made = VariableOp::create(builder, param.getLoc(), path, kind, param.getType(), Distribution::Constant,
                                   APFloat(0.0), APFloat(0.0), param.getStacked(),
                                   /*decayed=*/false);
    end = made;
    return made;
  }
  Value named(Build &build, StringRef name, Value value) {
    value.getDefiningOp()->setLoc(NameLoc::get(build.builder.getStringAttr(name), build.loc));
    return value;
  }

  DenseMap<StringAttr, VariableOp> variables; // by name
  DenseMap<StringAttr, Value> reads;          // by the variable's or input's name
  DenseMap<Operation *, size_t> rowOf;
  SmallVector<Operation *> rowEnds; // the last variable of each row
  Value lossScale;                  // null: there is none
};

} // namespace
