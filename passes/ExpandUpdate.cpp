// Gradients become written parameters.
// 1. Every parameter finds its optimizer line: the first whose pattern matches its path.
// 2. The norm of all gradients is reported; with a clip, the gradients are scaled by min(1, clip / (norm + 1e-6)).
// 3. Each line's rule, as ordinary element-wise operations, over new variables for the moments.
// Weight decay takes only `decayed` parameters. Momentum and Nesterov are PyTorch's, Adam's and AdamW's formulas too.
#include "ir/ech/Reverse.h"
#include "passes/Passes.h"
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

/// One `optimize` line: an entry of the module attribute ech.optimizers.
struct Line {
  DictionaryAttr attributes;
  StringRef kind() const {
    auto name = attributes.getAs<StringAttr>("kind");
    return name ? name.getValue() : "";
  }
  ArrayAttr patterns() const { return attributes.getAs<ArrayAttr>("patterns"); }
  double number(StringRef name) const {
    auto value = attributes.getAs<FloatAttr>(name);
    return value ? value.getValueAsDouble() : 0;
  }
  int64_t index() const { return attributes.getAs<IntegerAttr>("line").getInt(); }
  bool nesterov() const {
    auto value = attributes.getAs<BoolAttr>("nesterov");
    return value && value.getValue();
  }
};

struct MarkUpdate : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    op->setAttr(kPhase, StringAttr::get(op->getContext(), "update"));
  }
};

struct ExpandUpdate : echelon::impl::ExpandUpdateBase<ExpandUpdate> {
  void runOnOperation() override {
    for (auto step : llvm::make_early_inc_range(getOperation().getOps<StepOp>()))
      if (step.getSymName() == "train" && failed(expand(step)))
        return signalPassFailure();
  }

  LogicalResult expand(StepOp step) {
    SmallVector<GradientOp> gradients(step.getBody().front().getOps<GradientOp>());
    if (gradients.empty())
      return success();
    if (failed(readLines(step)))
      return failure();
    fillTables(step);
    SmallVector<Line *> chosen;
    bool complete = true;
    for (GradientOp gradient : gradients) {
      chosen.push_back(choose(gradient.getParameter()));
      if (!chosen.back()) {
        variable(gradient)->emitError() << "no optimize line takes parameter " << gradient.getParameter()
                                        << "; add its pattern to one, or a line without `on`";
        complete = false;
      }
    }
    if (!complete || failed(checkPatterns(step, gradients)))
      return failure();

    MarkUpdate mark;
    OpBuilder builder(&getContext(), &mark);
    builder.setInsertionPointToEnd(&step.getBody().front());
    Location place = placeOf(step.getLoc());
    Build build(builder, place, tensor(gradients.front().getValue()).getElement());
    Value scale = clip(build, gradients);
    for (auto [gradient, line] : llvm::zip(gradients, chosen)) {
      update(build, gradient, *line, scale);
      if (getOperation()->hasAttr("ech.keep_gradients"))
        WriteOp::create(builder, build.loc, beside(variable(gradient), "gradient.").getSymName(), gradient.getValue());
      gradient.erase();
    }
    return success();
  }

  //===- lines and patterns --------------------------------------------------------------------------------------===//

  LogicalResult readLines(StepOp step) {
    auto list = getOperation()->getAttrOfType<ArrayAttr>("ech.optimizers");
    if (!list || list.empty())
      return step.emitOpError() << "has gradients, and the module names no optimizer";
    lines.clear();
    for (auto attributes : list.getAsRange<DictionaryAttr>())
      lines.push_back({attributes});
    for (const Line &line : lines) {
      if (line.kind() != "sgd" && line.kind() != "adam" && line.kind() != "adamw")
        return step.emitOpError() << "is to be optimized by '" << line.kind() << "', which is not built";
      if (!line.patterns() || !line.attributes.getAs<IntegerAttr>("line"))
        return step.emitOpError() << "has an optimizer line without patterns or number";
    }
    return success();
  }

  Line *choose(StringRef path) {
    for (Line &line : lines)
      for (auto pattern : line.patterns().getAsRange<StringAttr>())
        if (matchesPattern(pattern, path))
          return &line;
    return nullptr;
  }

  LogicalResult checkPatterns(StepOp step, ArrayRef<GradientOp> gradients) {
    bool all = true;
    for (const Line &line : lines)
      for (auto pattern : line.patterns().getAsRange<StringAttr>())
        if (llvm::none_of(gradients, [&](GradientOp g) { return matchesPattern(pattern, g.getParameter()); })) {
          step.emitError() << "no parameter matches " << pattern << " of an optimize line";
          all = false;
        }
    return success(all);
  }

  VariableOp variable(GradientOp gradient) { return variables.lookup(gradient.getParameterAttr().getAttr()); }

  //===- the norm ------------------------------------------------------------------------------------------------===//

  /// Reports the norm; the factor that clips, null where nothing is clipped.
  Value clip(Build &build, ArrayRef<GradientOp> gradients) {
    SmallVector<Value> values = llvm::map_to_vector(gradients, [](GradientOp g) -> Value { return g.getValue(); });
    Value norm = named(build, "norm", build.globalNorm(values));
    SmallVector<StringRef> names =
        llvm::map_to_vector(gradients, [](GradientOp g) -> StringRef { return g.getParameter(); });
    norm.getDefiningOp()->setAttr(echelon::kParameters, build.builder.getStrArrayAttr(names));
    ReportOp::create(build.builder, build.loc, ReportKind::Norm, "norm", norm);
    auto limit = getOperation()->getAttrOfType<FloatAttr>("ech.clip");
    if (!limit)
      return {};
    // Here and below one argument at most builds something: C++ does not say which of two comes first.
    Value divisor = build.add(norm, build.constant(1e-6));
    Value ratio = build.div(build.constant(limit.getValueAsDouble()), divisor);
    return named(build, "scale", build.map(Function::Min, {build.constant(1), ratio}));
  }

  //===- rules ---------------------------------------------------------------------------------------------------===//

  void update(Build &build, GradientOp gradient, const Line &line, Value scale) {
    VariableOp param = variable(gradient);
    build.loc = placeOf(gradient.getLoc());
    Value w = read(build, param), g = gradient.getValue();
    if (scale)
      g = named(build, ("d_" + param.getSymName()).str(), build.mul(g, scale));
    double decay = param.getDecayed() ? line.number("decay") : 0;
    const bool isSpared = decay == 0 && line.number("decay") != 0;
    param->setAttr(kUpdateRule, build.builder.getStringAttr(line.kind() + (isSpared ? "_without_decay" : "")));
    if (decay != 0 && line.kind() != "adamw")
      g = build.add(g, build.mul(w, build.constant(decay)));
    Value lr = named(build, "lr", build.scalar("learning_rate", line.index()));
    Value next = line.kind() == "sgd" ? sgd(build, param, line, w, g, lr) : adam(build, param, line, w, g, lr, decay);
    WriteOp::create(build.builder, build.loc, param.getSymName(), named(build, param.getSymName(), next));
  }

  // v = momentum v + g; w - lr v, or with Nesterov w - lr (g + momentum v)
  Value sgd(Build &build, VariableOp param, const Line &line, Value w, Value g, Value lr) {
    if (line.number("momentum") != 0) {
      Value momentum = build.constant(line.number("momentum"));
      VariableOp velocity = moment(param, "momentum");
      Value v = build.add(build.mul(read(build, velocity), momentum), g);
      write(build, velocity, v);
      g = line.nesterov() ? build.add(g, build.mul(v, momentum)) : v;
    }
    return build.sub(w, build.mul(g, lr));
  }

  // m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; w - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon);
  // AdamW multiplies w by 1 - lr decay first
  Value adam(Build &build, VariableOp param, const Line &line, Value w, Value g, Value lr, double decay) {
    double b1 = line.number("beta1"), b2 = line.number("beta2");
    auto mix = [&](VariableOp state, double beta, Value x) {
      Value share = build.constant(1 - beta), now = build.mul(x, share);
      Value rest = build.constant(beta), kept = build.mul(read(build, state), rest);
      return write(build, state, build.add(kept, now));
    };
    Value m = mix(moment(param, "m"), b1, g);
    Value v = mix(moment(param, "v"), b2, build.mul(g, g));
    Value ofM = named(build, "m_correction", build.scalar("bias_correction", 0, b1));
    Value step = named(build, "rate", build.div(lr, ofM));
    Value ofV = named(build, "v_correction", build.scalar("bias_correction", 0, b2));
    Value root = named(build, "v_root", build.map(Function::Sqrt, {ofV}));
    Value epsilon = build.constant(line.number("epsilon"));
    Value scale = build.add(build.div(build.map(Function::Sqrt, {v}), root), epsilon);
    if (line.kind() == "adamw" && decay != 0) {
      Value lost = build.mul(lr, build.constant(decay));
      w = build.mul(w, named(build, "kept", build.sub(build.constant(1), lost)));
    }
    return build.sub(w, build.mul(build.div(m, scale), step));
  }

  //===- variables -----------------------------------------------------------------------------------------------===//

  /// Variables by their names, what the step reads, and where variables that stand together end.
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
  /// optimizer.m.PATH
  VariableOp moment(VariableOp param, StringRef name) { return beside(param, ("optimizer." + name + ".").str()); }
  /// A variable that lives where the update of a parameter works: zeros of its type, its path behind `prefix`; behind
  /// the variables that stand together with the parameter.
  VariableOp beside(VariableOp param, const Twine &prefix) {
    std::string path = (prefix + param.getSymName()).str();
    OpBuilder builder(&getContext());
    Operation *&end = rowEnds[rowOf.lookup(param)];
    builder.setInsertionPointAfter(end);
    auto made = VariableOp::create(builder, param.getLoc(), path, VariableKind::Optimizer, param.getType(),
                                   Distribution::Constant, APFloat(0.0), APFloat(0.0), param.getStacked(),
                                   /*decayed=*/false);
    end = made;
    return made;
  }
  Value named(Build &build, StringRef name, Value value) {
    value.getDefiningOp()->setLoc(NameLoc::get(build.builder.getStringAttr(name), build.loc));
    return value;
  }

  SmallVector<Line> lines;
  DenseMap<StringAttr, VariableOp> variables; // by name
  DenseMap<StringAttr, Value> reads;          // by the variable's or input's name
  DenseMap<Operation *, size_t> rowOf;
  SmallVector<Operation *> rowEnds; // the last variable of each row
};

} // namespace
