// The statements of bodies, and the arguments of a model.
#include "frontend/elaborate/Elaborator.h"
#include "frontend/elaborate/Walk.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

namespace {

template <typename Map> std::vector<std::string> keys(const Map &map) {
  std::vector<std::string> result;
  for (const auto &entry : map)
    result.push_back(entry.first);
  return result;
}
} // namespace

//===- the model's arguments --------------------------------------------------------------------------------------===//

void Elaborator::bindModelArguments() {
  const Model &model = *shared.options.model;
  std::vector<std::string> names;
  std::set<std::string> required;
  for (const Formal &f : model.formals) {
    names.push_back(f.name.text);
    bool isSet = llvm::any_of(shared.options.set, [&](auto &s) { return s.first == f.name.text; });
    if (!f.value && !isSet)
      required.insert(f.name.text);
    if (f.isAxis)
      error(Code::E0209, f.range,
            "a model declares its own axes, so its arguments are numbers and truth values; drop `: axis`");
  }
  static const std::vector<Argument> none;
  const auto &arguments = shared.options.arguments ? *shared.options.arguments : none;
  SourceRange at = shared.options.modelRange.valid() ? shared.options.modelRange : model.name.range;
  auto args = bind(arguments, names, required, "model " + model.name.text, at);
  for (const auto &[name, number] : shared.options.set) {
    if (!llvm::is_contained(names, name))
      error(Code::E0117, model.name.range,
            "model " + model.name.text + " has no argument " + quoted(name) + didYouMean(name, names));
    here().values[name] = Val::known(number);
  }
  for (const Formal &f : model.formals) {
    if (here().values.count(f.name.text))
      continue;
    const Expr *given = args ? (*args)[f.name.text.c_str()] : nullptr;
    Scope outside; // arguments are in the train block: they see nothing of the model
    outside.file = shared.options.caller ? shared.options.caller : shared.options.file;
    Val v;
    {
      Scopes::Entered entered(scopes, given ? outside : here());
      v = given ? eval(*given) : f.value ? eval(*f.value) : Val::poison();
    }
    if (v.isTensor() || v.kind == Val::Word)
      v = poison(Code::E0208, given ? given->range : f.range,
                 "argument " + f.name.text + " of a model is a number or a truth value");
    here().values[f.name.text] = v;
  }
}

//===- bodies -----------------------------------------------------------------------------------------------------===//

void Elaborator::execute(const Body &body) {
  for (const StatementPtr &s : body) {
    if (!s)
      continue;
    if (here().result || exhausted(s->range))
      return;
    execute(*s);
  }
}

void Elaborator::execute(const Statement &s) {
  llvm::SaveAndRestore at(build.loc, scopes.location(s.range));
  switch (s.kind) {
  case StatementKind::Axis:
    return axisStatement(cast<AxisStatement>(s));
  case StatementKind::Input:
    return inputStatement(cast<InputStatement>(s));
  case StatementKind::Param:
    return paramStatement(cast<ParamStatement>(s));
  case StatementKind::State:
    return stateStatement(cast<StateStatement>(s));
  case StatementKind::Next:
    return nextStatement(cast<NextStatement>(s));
  case StatementKind::Random:
    return randomStatement(cast<RandomStatement>(s));
  case StatementKind::Repeat:
    return repeatStatement(cast<RepeatStatement>(s));
  case StatementKind::RepeatAlong:
    return repeatAlongStatement(cast<RepeatAlongStatement>(s));
  case StatementKind::If:
    return ifStatement(cast<IfStatement>(s));
  case StatementKind::Loss: {
    const auto &loss = cast<LossStatement>(s);
    return reportStatement(loss.name ? ech::ReportKind::NamedLoss : ech::ReportKind::Loss,
                           loss.name ? &*loss.name : nullptr, *loss.value, s.range);
  }
  case StatementKind::Metric: {
    const auto &metric = cast<MetricStatement>(s);
    return reportStatement(ech::ReportKind::Metric, &metric.name, *metric.value, s.range);
  }
  case StatementKind::Return: {
    const auto &end = cast<ReturnStatement>(s);
    if (!here().block) {
      error(Code::E0018, s.range, "`return` ends a block, and this is a model; `loss` says what is trained");
      return;
    }
    if (loops.isInside(here())) {
      error(Code::E0018, s.range, "`return` is inside a repeat; return what the repeat carried after it");
      here().result = Val::poison();
      return;
    }
    here().result = eval(*end.value);
    return;
  }
  case StatementKind::Assign:
    return assignStatement(cast<AssignStatement>(s));
  }
}

//===- single statements -----------------------------------------------------------------------------------------===//

void Elaborator::nextStatement(const NextStatement &s) {
  auto it = here().states.find(s.name.text);
  if (it == here().states.end()) {
    error(Code::E0220, s.name.range,
          "no state of this " + std::string(here().block ? "block" : "model") + " is called " + quoted(s.name.text) +
              didYouMean(s.name.text, keys(here().states)));
    return;
  }
  Stored *state = it->second;
  if (!training) { // states change in training only
    if (state && shared.isTrainingWhole && !shared.nextInTraining.count({&s, state->path}))
      error(Code::E0220, s.name.range,
            "states change in training only, and this is where `training` is false, so state " + s.name.text +
                " would keep its value; write " + (here().block ? "it, or what calls its block," : "it") +
                " outside of this `if`");
    return;
  }
  Val v = eval(*s.value);
  if (state)
    shared.nextInTraining.insert({&s, state->path});
  if (!state || v.isPoison())
    return;
  if (state->hasNext) {
    error(Code::E0220, s.name.range, "state " + s.name.text + " has two values after the step")
        .note(state->nextRange, "the other is here");
    return;
  }
  state->hasNext = true;
  state->nextRange = s.range;
  if (loops.isAlong()) {
    error(Code::E0220, s.name.range,
          "`next " + s.name.text +
              "` is in a repeat along an axis, all of which is in one step; a state changes once a step");
    return;
  }
  if (state->loops != loops.depth()) {
    error(Code::E0220, s.name.range,
          "`next " + s.name.text + "` is in a repeat around which the state is declared; it changes once a step");
    return;
  }
  SmallVector<ech::Axis> own;
  for (const ech::Axis &axis : state->type.getAxes())
    if (!loops.isWalked(axis.name))
      own.push_back(axis);
  Value value = loops.coerce(v, state->type.withAxes(own), Code::E0213, s.value->range,
                             "the value after the step of state " + s.name.text);
  if (!value)
    return;
  loops.writes().push_back({state, value, build.loc});
}

void Elaborator::leaveOut(const Body &body) {
  forEachStatement(body, [&](const Statement &s) {
    if (const auto *assign = dynCast<AssignStatement>(&s)) {
      here().values[assign->name.text] = Val::poison();
    } else if (const auto *param = dynCast<ParamStatement>(&s)) {
      here().values[param->name.text] = Val::poison();
    } else if (const auto *random = dynCast<RandomStatement>(&s)) {
      here().values[random->name.text] = Val::poison();
    } else if (const auto *axis = dynCast<AxisStatement>(&s)) {
      here().axes.emplace(axis->name.text, nullptr);
    } else if (const auto *state = dynCast<StateStatement>(&s)) {
      here().values[state->name.text] = Val::poison();
      here().states[state->name.text] = nullptr;
    }
    hasLoss |= s.kind == StatementKind::Loss;
    here().mayReturn |= s.kind == StatementKind::Return;
  });
}

void Elaborator::ifStatement(const IfStatement &s) {
  auto leaveOutBranches = [&] {
    for (const IfStatement::Branch &branch : s.branches)
      leaveOut(branch.body);
    if (s.otherwise)
      leaveOut(*s.otherwise);
  };
  for (const IfStatement::Branch &branch : s.branches) {
    Val v = eval(*branch.condition);
    if (v.isPoison())
      return leaveOutBranches();
    if (v.kind != Val::Truth) {
      error(Code::E0208, branch.condition->range,
            v.isTensor() ? "`if` is decided when compiling, and this is a value of the step; where(c, a, b) chooses "
                           "between values"
                         : "`if` takes a truth value: a comparison, `true`, `false` or `training`");
      return leaveOutBranches();
    }
    if (v.truth)
      return execute(branch.body);
  }
  if (s.otherwise)
    execute(*s.otherwise);
}

void Elaborator::reportStatement(ech::ReportKind kind, const Ident *name, const Expr &value, SourceRange range) {
  const char *what = kind == ech::ReportKind::Metric ? "metric" : "loss";
  if (kind != ech::ReportKind::Metric)
    hasLoss = true;
  if (name) {
    static const std::set<std::string> ofTheLog{"step", "eval",      "eval_loss",   "eval_time_s",   "loss",
                                                "lr",   "grad_norm", "step_time_s", "samples_per_s", "total_loss"};
    if (ofTheLog.count(name->text)) {
      error(Code::E0103, name->range, name->text + " is a name of the log's own; choose another for this " + what);
      return;
    }
    auto [it, isNew] = here().reported.emplace(name->text, name->range);
    if (!isNew) {
      error(Code::E0103, name->range,
            "there is a loss or metric " + name->text + " already; choose another name" +
                (kind == ech::ReportKind::Metric ? "" : " (losses add up, whatever they are called)"))
          .note(it->second, "here");
      return;
    }
  }
  const size_t partialBefore = shared.partialFunctions.size();
  auto v = read.realTensor(eval(value), value.range, what);
  while (kind == ech::ReportKind::Metric && shared.partialFunctions.size() > partialBefore) // no metric ends a run
    shared.partialFunctions.pop_back();
  if (!v)
    return;
  if (v->type().rank() != 0) {
    error(Code::E0212, value.range,
          std::string("a ") + what + " is one number, and this has the axes " + ech::describe(v->type()) +
              "; take its mean(…) or sum(…)");
    return;
  }
  if (kind == ech::ReportKind::Metric && !here().isLibrary) {
    auto isThis = [&](const ModelFacts::Metric &metric) { return metric.name.text == name->text; };
    auto known = llvm::find_if(shared.facts.metrics, isThis); // from reading the model for training
    if (known == shared.facts.metrics.end())
      shared.facts.metrics.push_back({*name, !training});
    else
      known->inEvaluation |= !training;
  }
  if (training && kind == ech::ReportKind::Metric)
    return; // evaluations report them
  std::string label = name ? name->text : "loss";
  Loops::Pending p{kind, label, loops.inside(*v, range), build.loc};
  if (name)
    p.loc = NameLoc::get(builder.getStringAttr(label), scopes.location(range));
  loops.reports().push_back(p);
}

void Elaborator::notePath(const Val &v, StringRef path) {
  if (training && shared.kept.areWanted() && loops.depth() > 0 && v.isTensor())
    shared.kept.value(v.value, path);
}

void Elaborator::assignStatement(const AssignStatement &s) {
  unsigned before = counter.order.size();
  Val v = eval(*s.value);
  if (v.kind == Val::Word) {
    error(Code::E0110, s.value->range, "nothing is called " + quoted(v.word));
    v = Val::poison();
  }
  if (v.isTensor()) {
    // The user's name goes with the operation that makes the value, to the last stage.
    Operation *op = v.value.getDefiningOp();
    if (op && counter.order.lookup(op) >= before && counter.order.count(op) && !isa<NameLoc>(op->getLoc()))
      op->setLoc(NameLoc::get(builder.getStringAttr(s.name.text), op->getLoc()));
  }
  notePath(v, here().prefix + s.name.text);
  loops.noteAssigned(s.name, v);
  here().gone.erase(s.name.text);
  here().values[s.name.text] = v;
}

void Elaborator::repeatStatement(const RepeatStatement &s) {
  auto count = read.size(*s.count, "repeat " + s.axis.text);
  const AxisInfo *axis = declareAxis(s.axis, count, nullptr, false, true);
  if (!axis)
    return leaveOut(s.body);
  std::string prefix = here().prefix;
  auto names = std::move(here().callNames);
  here().prefix += s.axis.text + ".";
  here().callNames = nameCalls(s.body, [&](const Path &p) { return isBlock(*here().file, p); });
  loops.repeat(*axis, false, s.body, s.range, s.end, [&] { execute(s.body); });
  here().callNames = std::move(names);
  here().prefix = prefix;
}

void Elaborator::repeatAlongStatement(const RepeatAlongStatement &s) {
  const AxisInfo *axis = scopes.axis(s.axis);
  if (axis && axis->countsSamples()) {
    error(Code::E0219, s.axis.range, "samples do not depend on each other, so no repeat runs along " + s.axis.text);
    axis = nullptr;
  } else if (axis && loops.isWalked(axis->name)) {
    error(Code::E0219, s.axis.range, "a repeat around this one runs over " + s.axis.text + " already");
    axis = nullptr;
  }
  if (!axis)
    return leaveOut(s.body);
  for (AxisFacts &fact : shared.facts.axes)
    if (fact.name == axis->name)
      fact.isWalked = true;
  loops.repeat(*axis, true, s.body, s.range, s.end, [&] { execute(s.body); });
}
