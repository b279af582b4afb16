#include "tools/driver/compile/BuildRun.h"

#include "ir/run/Run.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::frontend;

namespace {
class RunBuilder {
public:
  RunBuilder(ModuleOp module, const SourceManager &sources)
      : b(OpBuilder::atBlockBegin(module.getBody())), loc(b.getUnknownLoc()), sources(sources) {}

  void train(const RunSettings &settings);
  void optimize(const OptimizerLine &line);
  void evaluate(const EvaluationSettings &evaluation);
  void data(const RunSettings &settings);
  void until(const RunSettings &settings);
  void compress(const CompressSettings &c) {
    llvm::SmallVector<llvm::StringRef> over(c.over.begin(), c.over.end());
    run::CompressOp::create(b, placeOf(c.range), b.getStringAttr(c.kind), b.getStrArrayAttr(over),
                            b.getF64FloatAttr(c.amount), c.feedback ? b.getUnitAttr() : UnitAttr(),
                            c.ofDeltas ? b.getUnitAttr() : UnitAttr());
  }
  void sync(const SyncSettings &s) {
    llvm::SmallVector<llvm::StringRef> over(s.over.begin(), s.over.end());
    run::SyncOp::create(b, loc, text(s.policy), b.getI64IntegerAttr(s.k), b.getI64IntegerAttr(s.workers),
                        b.getStrArrayAttr(over), b.getI64IntegerAttr(s.staleness.value_or(-1)),
                        s.damps ? b.getUnitAttr() : UnitAttr(), text(s.delay), some(s.delayNumbers),
                        b.getI64IntegerAttr(s.every), text(s.outer), b.getF64FloatAttr(s.rate),
                        b.getF64FloatAttr(s.momentum));
  }
  void average(double decay) { run::AverageOp::create(b, loc, b.getF64FloatAttr(decay)); }
  void onNan(const RunSettings &settings);
  void precision(const PrecisionSettings &p);
  void lossScale(const RunSettings &settings) {
    run::LossScaleOp::create(b, loc, settings.lossScale.start, settings.lossScale.isDynamic);
  }
  void checkpoint(const RunSettings &settings, const std::string &mathematics);

private:
  /// Of a clause that a pass may say something about.
  Location placeOf(const SourceRange &at) {
    return FileLineColLoc::get(text(sources.name(at.file)), at.line, at.column);
  }
  StringAttr text(llvm::StringRef s) { return b.getStringAttr(s); }
  ArrayAttr texts(const std::vector<std::string> &list) {
    return b.getArrayAttr(llvm::map_to_vector(list, [&](const std::string &s) -> Attribute { return text(s); }));
  }
  // What is empty is left out of the text.
  ArrayAttr some(const std::vector<std::string> &list) { return list.empty() ? ArrayAttr() : texts(list); }
  DenseF64ArrayAttr some(const std::vector<double> &list) {
    return list.empty() ? DenseF64ArrayAttr() : b.getDenseF64ArrayAttr(list);
  }
  run::SourceAttr source(const runtime::DataSpec &data);
  run::TransformAttr transform(const runtime::TransformSpec &t) {
    return run::TransformAttr::get(b.getContext(), text(t.kind), some(t.args), some(t.axes), some(t.inputs));
  }
  run::ScheduleAttr schedule(const Schedule &s);
  DictionaryAttr numbers(const OptimizerLine &line);

  OpBuilder b;
  Location loc;
  const SourceManager &sources;
};

run::SourceAttr RunBuilder::source(const runtime::DataSpec &data) {
  SmallVector<Attribute> of, transforms;
  for (const runtime::DataSpec &child : data.children)
    of.push_back(source(child));
  for (const runtime::TransformSpec &t : data.transforms)
    transforms.push_back(transform(t));
  return run::SourceAttr::get(b.getContext(), text(data.kind), some(data.paths),
                              data.name.empty() ? StringAttr() : text(data.name), some(data.args),
                              of.empty() ? ArrayAttr() : b.getArrayAttr(of),
                              transforms.empty() ? ArrayAttr() : b.getArrayAttr(transforms), some(data.columns));
}

run::ScheduleAttr RunBuilder::schedule(const Schedule &s) {
  static constexpr run::ScheduleKind kKinds[] = {run::ScheduleKind::Constant, run::ScheduleKind::Cosine,
                                                 run::ScheduleKind::Linear, run::ScheduleKind::Wsd,
                                                 run::ScheduleKind::StepsAt};
  const bool isInSteps = s.kind == Schedule::StepsAt;
  const bool falls = s.kind != Schedule::Constant && !isInSteps;
  return run::ScheduleAttr::get(b.getContext(), kKinds[s.kind], b.getF64FloatAttr(s.peak),
                                falls ? b.getF64FloatAttr(s.floor) : FloatAttr(), s.warmup,
                                s.kind == Schedule::Wsd ? s.decaySteps : 0,
                                isInSteps ? b.getDenseI64ArrayAttr(s.drops) : DenseI64ArrayAttr(),
                                isInSteps ? b.getF64FloatAttr(s.by) : FloatAttr());
}

DictionaryAttr RunBuilder::numbers(const OptimizerLine &line) {
  NamedAttrList numbers;
  numbers.set("decay", b.getF64FloatAttr(line.decay));
  for (const auto &[name, value] : line.numbers)
    numbers.set(name, b.getF64FloatAttr(value));
  return numbers.getDictionary(b.getContext());
}

void RunBuilder::train(const RunSettings &settings) {
  const std::string spec = settings.modelRange.valid() ? sources.path(settings.modelRange.file) : "";
  const std::string folder = llvm::sys::path::parent_path(spec).str();
  run::TrainOp::create(
      b, loc, text(settings.name), text(settings.model ? settings.model->name.text : ""), text(spec),
      text(folder.empty() ? "." : folder), b.getI64IntegerAttr(settings.batch), b.getI64IntegerAttr(settings.steps),
      b.getIntegerAttr(b.getIntegerType(64, false), APInt(64, settings.seed)), b.getI64IntegerAttr(settings.restarts));
}

void RunBuilder::data(const RunSettings &settings) {
  std::vector<std::string> inputs;
  for (const auto &[name, range] : settings.inputs)
    inputs.push_back(name);
  run::DataOp::create(b, loc, source(settings.data), texts(inputs));
}

void RunBuilder::optimize(const OptimizerLine &line) {
  std::vector<std::string> patterns;
  for (const frontend::Pattern &pattern : line.patterns)
    patterns.push_back(pattern.text);
  if (patterns.empty())
    patterns.emplace_back("*");
  run::OptimizeOp::create(b, loc, text(line.rule), texts(patterns), numbers(line), schedule(line.schedule),
                          line.patterns.empty());
}

void RunBuilder::evaluate(const EvaluationSettings &e) {
  run::EvaluateOp::create(b, loc, text(e.name), b.getI64IntegerAttr(e.everySteps), b.getI64IntegerAttr(e.batches),
                          e.source ? source(*e.source) : run::SourceAttr());
}

/// It looks at the unnamed evaluation, or at the first where all have names.
void RunBuilder::until(const RunSettings &settings) {
  const UntilSettings &u = *settings.until;
  const run::Comparison comparison = u.comparison == ">"    ? run::Comparison::Above
                                     : u.comparison == ">=" ? run::Comparison::AtLeast
                                     : u.comparison == "<"  ? run::Comparison::Below
                                                            : run::Comparison::AtMost;
  const auto &all = settings.evaluations;
  const bool hasUnnamed = llvm::any_of(all, [](const EvaluationSettings &e) { return e.name.empty(); });
  run::UntilOp::create(b, loc, text(u.metric), run::ComparisonAttr::get(b.getContext(), comparison),
                       b.getF64FloatAttr(u.value), text(hasUnnamed ? "" : all.front().name),
                       b.getF64FloatAttr(settings.dollarsPerHour()));
}

void RunBuilder::onNan(const RunSettings &settings) {
  const auto action = settings.onNan.action == OnNanClause::Skip ? run::NanAction::Skip : run::NanAction::RollBack;
  run::OnNanOp::create(b, loc, run::NanActionAttr::get(b.getContext(), action),
                       b.getI64IntegerAttr(settings.onNan.times));
}

void RunBuilder::checkpoint(const RunSettings &settings, const std::string &mathematics) {
  const auto &c = settings.checkpoint;
  run::CheckpointOp::create(b, loc, text(c.directory), b.getI64IntegerAttr(c.everySteps),
                            b.getF64FloatAttr(c.everySeconds), b.getI64IntegerAttr(c.keep));
  run::MathematicsOp::create(b, loc, text(mathematics));
}

void RunBuilder::precision(const PrecisionSettings &p) {
  if (p.compute.empty() && p.params.empty() && p.reduce.empty())
    return;
  auto type = [&](const std::string &word) -> TypeAttr {
    return TypeAttr::get(word == "tf32"   ? Type(b.getTF32Type())
                         : word == "bf16" ? Type(b.getBF16Type())
                         : word == "fp16" ? Type(b.getF16Type())
                         : word == "fp8"  ? Type(Float8E4M3FNType::get(b.getContext()))
                                          : Type(b.getF32Type()));
  };
  std::vector<std::string> keep;
  for (const frontend::Pattern &pattern : p.keep)
    keep.push_back(pattern.text);
  auto part = [&](const std::string &word) { return word.empty() ? TypeAttr() : type(word); };
  run::PrecisionOp::create(b, keep.empty() ? loc : placeOf(p.keep.front().range), type(p.compute), part(p.params),
                           part(p.reduce), keep.empty() ? ArrayAttr() : texts(keep));
}
} // namespace

void echelon::buildRun(ModuleOp module, const RunSettings &settings, const SourceManager &sources,
                       const std::string &mathematics) {
  RunBuilder builder(module, sources);
  builder.train(settings);
  builder.data(settings);
  for (const OptimizerLine &line : settings.optimizers)
    builder.optimize(line);
  for (const EvaluationSettings &evaluation : settings.evaluations)
    builder.evaluate(evaluation);
  if (settings.until)
    builder.until(settings);
  if (settings.compress)
    builder.compress(*settings.compress);
  if (settings.sync)
    builder.sync(*settings.sync);
  if (settings.averageDecay)
    builder.average(*settings.averageDecay);
  if (settings.onNan.action != OnNanClause::Stop)
    builder.onNan(settings);
  if (!settings.doublePrecision) {
    builder.precision(settings.precision);
    if (settings.lossScale.start)
      builder.lossScale(settings);
  }
  if (!settings.checkpoint.directory.empty())
    builder.checkpoint(settings, mathematics);
}
