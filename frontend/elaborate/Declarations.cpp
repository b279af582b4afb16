// What a model declares: axes, inputs, parameters, states, random values.
#include "frontend/elaborate/Constants.h"
#include "frontend/elaborate/Elaborator.h"
#include "frontend/elaborate/Walk.h"
#include "mlir/IR/IRMapping.h"
#include <cmath>

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

//===- axes -------------------------------------------------------------------------------------------------------===//

/// The axes of `body` in `names`, and whether they count samples under another name.
static void nameAxes(const Body &body, std::map<std::string, bool> &names) {
  std::set<std::string> samples; // those that count them under any; in a block known at a call alone
  forEachStatement(body, [&](const Statement &s) {
    if (const auto *axis = dynCast<AxisStatement>(&s)) {
      const bool likeBatch = axis->like && samples.count(axis->like->text);
      names[axis->name.text] |= likeBatch;
      if (likeBatch || axis->open())
        samples.insert(axis->name.text);
    } else if (const auto *repeat = dynCast<RepeatStatement>(&s)) {
      names.emplace(repeat->axis.text, false);
    }
  });
}

void Elaborator::nameAllAxes() {
  nameAxes(shared.options.model->body, shared.likeBatch);
  for (const auto &[name, counts] : shared.likeBatch)
    shared.axisOwners[name] = nullptr;
  for (const auto &file : shared.program.files)
    for (const Block &block : file->blocks)
      nameAxes(block.body, shared.likeBatch);
}

std::string Elaborator::uniqueAxisName(const Ident &name, bool likeBatch) {
  std::string unique = name.text;
  for (int n = 2;; unique = name.text + "_" + std::to_string(n++)) {
    auto meaning = shared.likeBatch.find(unique); // the same wherever it stands, in both steps
    if (meaning != shared.likeBatch.end() && meaning->second != likeBatch)
      continue;
    if (shared.axisOwners.emplace(unique, &name).first->second == &name)
      return unique;
  }
}

const AxisInfo *Elaborator::declareAxis(const Ident &name, std::optional<int64_t> size, const AxisInfo *like,
                                        bool isBatch, bool isRepeat) {
  auto [it, isNew] = here().axes.try_emplace(name.text, nullptr);
  if (!isNew && it->second) { // else a use above was reported
    const bool canBeRunAlong = !it->second->countsSamples() && !loops.isWalked(it->second->name);
    std::string mend;
    if (isRepeat)
      mend = "; a repeat declares an axis of its own, so choose another name" +
             (canBeRunAlong ? ", or write repeat along " + name.text + " { … } to run along that one" : "");
    error(Code::E0103, name.range, "axis " + name.text + " is declared already" + mend).note(it->second->range, "here");
    return isRepeat ? nullptr : it->second;
  }
  const bool likeBatch = like && like->countsSamples();
  const std::string unique = here().block ? uniqueAxisName(name, likeBatch) : name.text;
  shared.likeBatch[unique] |= likeBatch;
  AxisInfo info{builder.getStringAttr(unique),           size.value_or(1), like,      isBatch, isRepeat,
                static_cast<unsigned>(axisStore.size()), name.range,       likeBatch, !size};
  axisStore.push_back(info);
  it->second = &axisStore.back();
  recordAxis(axisStore.back());
  return it->second;
}

void Elaborator::recordAxis(const AxisInfo &axis) {
  if (!training || shared.facts.axis(axis.name.str()))
    return;
  AxisFacts fact;
  fact.name = axis.name.str();
  fact.size = axis.size;
  fact.isBatch = axis.isBatch;
  fact.isRepeat = axis.isRepeat;
  fact.isPrivate = here().block != nullptr;
  fact.range = axis.range;
  shared.facts.axes.push_back(fact);
  if (axis.isBatch && shared.facts.batchAxis.empty())
    shared.facts.batchAxis = fact.name;
}

void Elaborator::axisStatement(const AxisStatement &s) {
  if (s.open()) {
    if (here().block) {
      error(Code::E0018, s.range, "an open axis belongs to the model; give axis " + s.name.text + " a size, or `like`");
      declareAxis(s.name, 1, nullptr, false, false);
      return;
    }
    if (!openAxes.empty())
      error(Code::E0126, s.name.range, "a second open axis; only one is sized by the run, the others need a size")
          .note(openAxes.front(), "the first is here");
    openAxes.push_back(s.name.range);
    const AxisInfo *axis = declareAxis(s.name, shared.options.batch, nullptr, true, false);
    if (!batchAxis)
      batchAxis = axis;
    return;
  }
  std::optional<int64_t> n;
  const AxisInfo *like = nullptr;
  if (s.like) {
    like = scopes.axis(*s.like);
    if (like && !like->isWrong)
      n = like->size;
  } else {
    n = read.size(*s.size, "axis " + s.name.text);
  }
  bool likeBatch = like && like->countsSamples();
  if (!here().block && !likeBatch)
    for (const auto &[name, size] : shared.options.sizes)
      if (name == s.name.text)
        n = size;
  declareAxis(s.name, n, like, false, false);
}

std::optional<SmallVector<ech::Axis>> Elaborator::declaredAxes(const std::vector<Ident> &names, const char *what,
                                                               bool batchAllowed) {
  SmallVector<ech::Axis> axes;
  bool good = true;
  for (const Ident &name : names) {
    const AxisInfo *axis = scopes.axis(name);
    if (!axis) {
      good = false;
      continue;
    }
    if (llvm::any_of(axes, [&](const ech::Axis &a) { return a.name == axis->name; })) {
      error(Code::E0203, name.range,
            "axis " + name.text + " appears twice in one tensor; declare `axis " + name.text + "2 like " + name.text +
                "`");
      good = false;
      continue;
    }
    if (axis->countsSamples() && !batchAllowed) {
      error(Code::E0217, name.range,
            std::string("a ") + what + " is the same for all samples, so it has no axis " + name.text);
      good = false;
      continue;
    }
    if (loops.isWalked(axis->name)) {
      error(Code::E0219, name.range,
            "inside its repeat " + name.text + " is a position, not an axis" +
                (axis->isRepeat ? "; parameters are stacked along it by themselves" : ""));
      good = false;
      continue;
    }
    axes.push_back({axis->name, axis->size});
    good = good && !axis->isWrong; // nothing follows from a size that could not be worked out
  }
  if (!good)
    return std::nullopt;
  double count = 1;
  for (const ech::Axis &axis : axes)
    count *= static_cast<double>(axis.size);
  if (count > 9e15) {
    error(Code::E0202, names.front().range, std::string("this ") + what + " has more than 2^53 elements");
    return std::nullopt;
  }
  return axes;
}

bool Elaborator::declareOnce(const Ident &name) {
  auto [it, isNew] = here().declared.emplace(name.text, name.range);
  if (!isNew) {
    error(Code::E0103, name.range, name.text + " is declared already").note(it->second, "here");
    return false;
  }
  auto value = here().values.find(name.text);
  if (value == here().values.end() || value->second.isPoison())
    return true;
  const auto &formals = here().block ? here().block->formals : shared.options.model->formals;
  auto formal = llvm::find_if(formals, [&](const Formal &f) { return f.name.text == name.text; });
  auto &d = error(Code::E0103, name.range, name.text + " is a value already; choose another name");
  if (formal != formals.end())
    d.note(formal->name.range, "an argument of " + (here().block ? here().block->name.text : "the model"));
  return false;
}

bool Elaborator::isOwnName(const std::string &path, const Ident &name, const char *what) {
  if (path != "train" && path != "evaluate" && path != "train.start" && path != "exchange")
    return false;
  error(Code::E0103, name.range, path + " is a name of the compiler's own; choose another for this " + what);
  return true;
}

static bool hasOpenAxis(const Body &body) {
  return llvm::any_of(body, [](const StatementPtr &s) {
    const auto *axis = s ? dynCast<AxisStatement>(s) : nullptr;
    return axis && axis->open();
  });
}

//===- inputs, parameters, states ---------------------------------------------------------------------------------===//

Value Elaborator::readAtTop(StringRef symbol, ech::Tensor type, Location loc) {
  OpBuilder::InsertionGuard guard(builder);
  if (lastRead)
    builder.setInsertionPointAfter(lastRead);
  else
    builder.setInsertionPointToStart(&step.getBody().front());
  auto read = ech::ReadOp::create(builder, loc, type, symbol);
  lastRead = read;
  return read;
}

void Elaborator::inputStatement(const InputStatement &s) {
  if (here().block) {
    error(Code::E0018, s.range, "inputs belong to the model; a block takes values as arguments");
    return;
  }
  if (loops.depth() > 0) { // that has been reported
    here().values[s.name.text] = Val::poison();
    shared.wrongInputs.push_back(s.name.text);
    return;
  }
  bool isNew = declareOnce(s.name);
  auto axes = declaredAxes(s.axes, "input", true);
  if (axes)
    for (const Ident &name : s.axes)
      if (here().axes[name.text]->likeBatch) {
        error(Code::E0217, name.range,
              "an input comes sample by sample, and " + name.text + " counts samples; rename its batch axis instead");
        axes.reset();
        break;
      }
  const AxisInfo *below = s.below ? scopes.axis(*s.below) : nullptr;
  if (below && below->countsSamples()) {
    error(Code::E0217, s.below->range,
          "the number of samples is the run's, so no values are known to lie below " + s.below->text);
    below = nullptr;
  }
  here().values[s.name.text] = Val::poison();
  if (!axes || !isNew || (s.below && (!below || below->isWrong)) || isOwnName(s.name.text, s.name, "input")) {
    shared.wrongInputs.push_back(s.name.text);
    return;
  }
  if (llvm::none_of(s.axes, [&](const Ident &a) { return here().axes[a.text] && here().axes[a.text]->isBatch; })) {
    if (hasOpenAxis(shared.options.model->body)) // else that is reported
      error(Code::E0217, s.name.range,
            "input " + s.name.text + " has no batch axis; inputs come sample by sample" +
                (batchAxis ? ": add " + batchAxis->name.str() : ""));
    shared.wrongInputs.push_back(s.name.text);
    return;
  }
  Type element = s.element == InputStatement::Float ? build.real
                 : s.element == InputStatement::Int ? Type(builder.getI32Type())
                                                    : Type(builder.getI1Type());
  auto type = ech::Tensor::get(&shared.context, *axes, element);
  Location loc = NameLoc::get(builder.getStringAttr(s.name.text), scopes.location(s.name.range));
  if (training) {
    InputFacts fact{
        s.name.text, {}, s.element, below ? below->size : 0, s.name.range, below ? s.below->text : std::string()};
    for (const ech::Axis &axis : *axes)
      fact.axes.emplace_back(axis.name.str(), axis.size);
    shared.facts.inputs.push_back(fact);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(step);
    ech::InputOp::create(builder, loc, s.name.text, static_cast<uint64_t>(shared.facts.inputs.size() - 1), type,
                         static_cast<uint64_t>(fact.below));
  }
  Val v;
  v.kind = Val::Tensor;
  v.value = readAtTop(s.name.text, type, loc);
  if (below)
    v.range = Interval{0, below->size - 1};
  here().values[s.name.text] = v;
}

std::optional<Elaborator::Start> Elaborator::startOf(const Method &method, const char *what, bool forParameters,
                                                     const SmallVectorImpl<ech::Axis> *axes) {
  const std::string &name = method.name.text;
  auto args = [&](const std::vector<std::string> &names, const std::set<std::string> &required) {
    return bind(method.arguments, names, required, name, method.range);
  };
  if (name == "zeros" || name == "ones") {
    if (!forParameters) {
      error(Code::E0221, method.range, std::string(what) + " is drawn from normal(std) or uniform(lo, hi)");
      return std::nullopt;
    }
    if (!args({}, {}))
      return std::nullopt;
    return Start{ech::Distribution::Constant, name == "ones" ? 1.0 : 0.0, 0};
  }
  if (name == "normal") {
    auto a = args({"std"}, {"std"});
    auto std = a ? read.known((*a)["std"], "the standard deviation") : std::nullopt;
    if (!std)
      return std::nullopt;
    if (!(std->value() > 0)) {
      error(Code::E0218, (*a)["std"]->range,
            "the standard deviation is " + std->text() + "; it must be above 0 (`zeros` starts from 0)");
      return std::nullopt;
    }
    checkElement(scopes, build, *std, (*a)["std"]->range);
    return Start{ech::Distribution::Normal, 0, std->value()};
  }
  if (name == "uniform") {
    auto a = args({"lo", "hi"}, {"lo", "hi"});
    auto lo = a ? read.known((*a)["lo"], "the lower end") : std::nullopt;
    auto hi = a ? read.known((*a)["hi"], "the upper end") : std::nullopt;
    if (!lo || !hi)
      return std::nullopt;
    if (!(*lo < *hi)) {
      error(Code::E0218, method.range,
            "uniform(" + lo->text() + ", " + hi->text() + ") has no values between; the lower end comes first");
      return std::nullopt;
    }
    checkElement(scopes, build, *lo, (*a)["lo"]->range);
    checkElement(scopes, build, *hi, (*a)["hi"]->range);
    return Start{ech::Distribution::Uniform, lo->value(), hi->value()};
  }
  if (name == "kaiming" && forParameters) {
    auto a = args({"over"}, {"over"});
    auto over = a ? read.axisList(*(*a)["over"], "`over`") : std::nullopt;
    if (!over)
      return std::nullopt;
    for (const AxisInfo *axis : *over)
      if (axes && llvm::none_of(*axes, [&](const ech::Axis &a) { return a.name == axis->name; })) {
        error(Code::E0206, (*a)["over"]->range,
              "the parameter has no axis " + axis->name.str() + "; kaiming takes the axes that it is contracted over");
        return std::nullopt;
      }
    double n = 1;
    for (const AxisInfo *axis : *over)
      n *= static_cast<double>(axis->size);
    return Start{ech::Distribution::Normal, 0, std::sqrt(2 / n)};
  }
  std::vector<std::string> all{"normal", "uniform"};
  if (forParameters)
    all.insert(all.end(), {"zeros", "ones", "kaiming"});
  error(Code::E0221, method.name.range,
        "no distribution is called " + quoted(name) +
            (nearest(name, all).empty() ? "; there are " + listed(all) : didYouMean(name, all)));
  return std::nullopt;
}

Stored *Elaborator::declareVariable(const Ident &name, ech::VariableKind kind, ArrayRef<ech::Axis> axes, Start start) {
  std::string path = here().prefix + name.text;
  SmallVector<ech::Axis> all = loops.stackingAxes();
  size_t stacked = all.size();
  all.append(axes.begin(), axes.end());
  auto type = ech::Tensor::get(&shared.context, all, build.real);
  Location loc = NameLoc::get(builder.getStringAttr(path), scopes.location(name.range));

  auto found = stored.find(path);
  if (here().sharing) {
    if (found == stored.end()) {
      error(Code::E0124, here().callRange,
            "the call that is shared has no parameter " + name.text + "; both calls must take the same branches");
      return nullptr;
    }
    Stored *old = found->second;
    SmallVector<ech::Axis> own(old->type.getAxes());
    for (const ech::Axis &axis : ArrayRef(own).take_front(old->type.rank() - axes.size()))
      if (!loops.isWalked(axis.name)) {
        error(Code::E0124, here().callRange,
              "the parameters of the call that is shared are stacked along " + axis.name.str() +
                  ", and this call is outside of that repeat");
        return nullptr;
      }
    if (old->type.rank() < static_cast<int64_t>(axes.size()) || ArrayRef(own).take_back(axes.size()) != axes) {
      error(Code::E0124, here().callRange,
            "the call that is shared has " + name.text + " over " + ech::describe(old->type) + ", this one over " +
                ech::describe(ech::Tensor::get(&shared.context, axes, build.real)))
          .note(old->range, "declared here");
      return nullptr;
    }
    return old;
  }
  if (found != stored.end()) {
    error(Code::E0103, name.range, "there is a parameter or state " + path + " already")
        .note(found->second->range, "here");
    return nullptr;
  }
  if (isOwnName(path, name, "parameter"))
    return nullptr;
  const bool isNew = !shared.variables.count(path);
  if (isNew) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(
        &*llvm::find_if(*shared.module.getBody(), [](Operation &op) { return isa<ech::StepOp>(op); }));
    auto variable = ech::VariableOp::create(
        builder, loc, builder.getStringAttr(path), ech::VariableKindAttr::get(&shared.context, kind),
        TypeAttr::get(type), ech::DistributionAttr::get(&shared.context, start.kind), builder.getF64FloatAttr(start.a),
        builder.getF64FloatAttr(start.b), builder.getI64IntegerAttr(static_cast<int64_t>(stacked)), UnitAttr());
    shared.variables[path] = variable;
  }
  storedStore.push_back({path, type, loops.depth(), name.range, scopes.usersPlace(name.range), isNew, false, {}});
  stored[path] = &storedStore.back();
  Val v;
  v.kind = Val::Tensor;
  v.value = readAtTop(path, type, loc);
  topReads[path] = v.value;
  return &storedStore.back();
}

void Elaborator::paramStatement(const ParamStatement &s) {
  bool isNew = declareOnce(s.name);
  auto axes = declaredAxes(s.axes, "parameter", false);
  auto start = startOf(s.start, "a parameter", true, axes ? &*axes : nullptr);
  here().values[s.name.text] = Val::poison();
  if (!isNew || !axes || !start)
    return;
  if (Stored *p = declareVariable(s.name, ech::VariableKind::Param, *axes, *start)) {
    Val v;
    v.kind = Val::Tensor;
    v.value = topReads[p->path];
    here().values[s.name.text] = v;
  }
}

void Elaborator::stateStatement(const StateStatement &s) {
  bool isNew = declareOnce(s.name);
  auto axes = declaredAxes(s.axes, "state", false);
  Val first = s.value ? eval(*s.value) : Val::poison();
  here().values[s.name.text] = Val::poison();
  here().states[s.name.text] = nullptr;
  if (!isNew || !axes || first.isPoison())
    return;
  if (!first.isTensor() && first.kind != Val::Known) {
    error(Code::E0208, s.value->range, "a state starts from a number, or from what is made of parameters");
    return;
  }
  if (first.kind == Val::Known)
    checkElement(scopes, build, first.number, s.value->range);
  double number = first.kind == Val::Known ? first.number.value() : 0;
  Stored *p = declareVariable(s.name, ech::VariableKind::State, *axes, {ech::Distribution::Constant, number, 0});
  if (!p)
    return;
  if (first.isTensor() && training)
    startFrom(*p, first, s.value->range);
  Val v;
  v.kind = Val::Tensor;
  v.value = topReads[p->path];
  here().values[s.name.text] = v;
  here().states[s.name.text] = p;
}

void Elaborator::startFrom(const Stored &state, const Val &first, SourceRange range) {
  if (loops.depth() > 0) {
    error(Code::E0208, range, "inside a repeat a state starts from a number known when compiling");
    return;
  }
  Value value = loops.coerce(first, state.type, Code::E0213, range, "what the state starts from");
  if (!value)
    return;
  llvm::DenseSet<Operation *> needed;
  SmallVector<Value> open{value};
  bool steady = true; // made of what is there before the first step
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || !needed.insert(op).second)
      continue;
    op->walk([&](Operation *inner) {
      if (auto read = dyn_cast<ech::ReadOp>(inner)) {
        auto source = shared.variables.find(read.getSource().str());
        steady &= source != shared.variables.end() && source->second.getKind() == ech::VariableKind::Param;
      }
      steady &= !isa<ech::RandomOp, ech::ScalarOp>(inner);
      for (Value operand : inner->getOperands())
        if (!op->isAncestor(operand.getParentBlock()->getParentOp()))
          open.push_back(operand);
    });
  }
  if (!steady) {
    error(Code::E0208, range,
          "a state starts from a number, or from what is made of parameters; this is a value of the step");
    return;
  }
  OpBuilder::InsertionGuard guard(builder);
  if (!starts) {
    builder.setInsertionPoint(step);
    starts = ech::StepOp::create(builder, step.getLoc(), "train.start");
  }
  builder.setInsertionPointToEnd(&starts.getBody().front());
  IRMapping mapping;
  for (Operation &op : step.getBody().front())
    if (needed.contains(&op))
      builder.clone(op, mapping);
  ech::WriteOp::create(builder, scopes.location(range), state.path, mapping.lookup(value));
}

void Elaborator::randomStatement(const RandomStatement &s) {
  auto axes = declaredAxes(s.axes, "random value", true);
  auto start = startOf(s.distribution, "a random value", false);
  here().values[s.name.text] = Val::poison();
  if (!axes || !start)
    return;
  std::string site = randomSite(s.name.text);
  build.loc = NameLoc::get(builder.getStringAttr(s.name.text), scopes.location(s.range));
  Value value =
      build.random(start->kind, site, start->a, start->b, ech::Tensor::get(&shared.context, *axes, build.real));
  here().values[s.name.text] = tensor(value, false, s.range);
}
