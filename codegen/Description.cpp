// The program's tables.
#include "codegen/Description.h"
#include "codegen/Fingerprints.h"
#include "codegen/Printer.h"
#include "codegen/StepFunctions.h"
#include "codegen/Text.h"
#include "ir/dist/Placed.h"
#include "ir/ech/Decimal.h"
#include "ir/ech/SourcePlace.h"
#include "ir/rt/Chosen.h"
#include "ir/rt/Offload.h"
#include "ir/run/Run.h"
#include "passes/Moments.h"
#include "passes/cost/CallName.h"
#include "passes/cost/ProgramCost.h"
#include "runtime/sync/SyncPolicy.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include <set>

using namespace mlir;
using namespace echelon;

namespace {
using codegen::quoted;
template <typename List, typename F> std::string braced(const List &list, F one) {
  std::string text = "{";
  for (const auto &item : list)
    text += (text.size() > 1 ? ", " : "") + one(item);
  return text + "}";
}
std::string text(Attribute name) { return name ? quoted(cast<StringAttr>(name).getValue()) : "\"\""; }
std::string texts(ArrayAttr names) { return names ? braced(names, text) : "{}"; }
std::string numbers(DenseF64ArrayAttr list) { return list ? braced(list.asArrayRef(), shortestDecimal) : "{}"; }

std::string transformText(Attribute attribute) {
  auto t = cast<run::TransformAttr>(attribute);
  const std::string names = t.getAxes() || t.getInputs() ? ", " + texts(t.getAxes()) + ", " + texts(t.getInputs()) : "";
  return "{" + text(t.getKind()) + ", " + numbers(t.getArgs()) + names + "}";
}

std::string sourceText(Attribute attribute) {
  auto data = cast<run::SourceAttr>(attribute);
  auto all = [](ArrayAttr list, auto one) { return list ? braced(list, one) : "{}"; };
  return "{" + text(data.getKind()) + ", " + texts(data.getPaths()) + ", " + text(data.getName()) + ", " +
         numbers(data.getArgs()) + ", " + all(data.getOf(), sourceText) + ", " +
         all(data.getTransforms(), transformText) + (data.getColumns() ? ", " + texts(data.getColumns()) : "") + "}";
}

class Tables {
public:
  Tables(ModuleOp module, const codegen::Target &target, raw_ostream &os, bool profile)
      : module(module), target(target), symbols(module), mesh(dist::meshOf(module)), os(os), profile(profile) {}
  void print();

private:
  void field(const Twine &name, const Twine &value) { os << "  p." << name << " = " << value << ";\n"; }
  std::string number(StringRef attribute) {
    auto value = module->getAttrOfType<IntegerAttr>(attribute);
    return std::to_string(value ? value.getInt() : 0);
  }
  std::string shape(ech::Tensor type);
  std::string placed(std::pair<int, int64_t> place);
  std::string element(ech::Tensor type) {
    static constexpr StringRef kNames[] = {
#define ECHELON_ELEMENT(NAME, ...) #NAME,
#include "runtime/transport/Element.def"
#undef ECHELON_ELEMENT
    };
    return ("ElementType::" + kNames[static_cast<size_t>(*rt::elementOf(type.getElement()))]).str();
  }
  std::string init(ech::VariableOp op);
  void stored();
  void inputs();
  void scalars();
  void clauses(run::TrainOp train, run::CheckpointOp checkpoint);
  void functions();
  void draws();
  void fingerprints();
  void sync(run::SyncOp policy);
  void choices();
  void tuner();
  void rows();
  void partialFunctions();
  void profiled();

  ModuleOp module;
  const codegen::Target &target;
  SymbolTable symbols;
  dist::MeshAttr mesh;
  raw_ostream &os;
  bool profile;
};

/// One position, which one coordinate has: "@pp=1:4/pp:1:0,0,0,1".
std::string Tables::placed(std::pair<int, int64_t> place) {
  const std::string axis = mesh.nameOf(place.first).str();
  const int64_t size = mesh.sizeOf(place.first);
  std::string text = "@" + axis + "=1:" + std::to_string(size) + "/" + axis + ":1";
  for (int64_t c = 0; c < size; ++c)
    text += (c ? "," : ":") + std::string(c == place.second ? "1" : "0");
  return text;
}

/// As runtime::layoutOf reads it.
std::string Tables::shape(ech::Tensor type) {
  const bool laidOut = mesh && type.getState();
  std::string text;
  auto over = [&](int m) { text += "/" + mesh.getAxes()[m].name.str(); };
  if (const dist::Place place = laidOut ? dist::placeOf(dist::stateOf(type)) : std::nullopt)
    text = placed(*place);
  const size_t above = laidOut ? dist::axesAboveFlat(type) : 0;
  for (auto [i, axis] : llvm::enumerate(type.getAxes())) {
    if (i && i == above)
      text += " |";
    text += (text.empty() ? "" : " ") + axis.name.str() + "=" + std::to_string(axis.size);
    if (!laidOut)
      continue;
    if (dist::isPadded(type, axis.name, mesh))
      text += ":" + std::to_string(dist::paddedSize(type, axis.name, mesh));
    for (const dist::Divider &divider : dist::dividers(type, axis.name, mesh)) {
      over(divider.mesh);
      if (!divider.map.isBlocks())
        text += ":" + (divider.map.isZigzag ? "zigzag" : std::to_string(divider.map.chunks));
      for (auto [i, size] : llvm::enumerate(divider.map.sizes))
        text += (i ? "," : ":") + std::to_string(size);
    }
  }
  if (laidOut && !dist::flatCuts(type).empty()) {
    text += text.empty() ? "flat" : " flat";
    llvm::for_each(dist::flatCuts(type), over);
  }
  return quoted(text);
}

std::string Tables::init(ech::VariableOp op) {
  double a = op.getA().convertToDouble(), b = op.getB().convertToDouble();
  switch (op.getInit()) {
  case ech::Distribution::Normal:
    return "{Init::Normal, " + shortestDecimal(b) + "}";
  case ech::Distribution::Uniform:
    return "{Init::Uniform, " + shortestDecimal(a) + ", " + shortestDecimal(b) + "}";
  default:
    return a == 0 ? "{Init::Zeros}" : a == 1 ? "{Init::Ones}" : "{Init::Constant, " + shortestDecimal(a) + "}";
  }
}

void Tables::stored() {
  const llvm::MapVector<StringRef, int64_t> moments = momentsLikeParams(module);
  auto policy = run::only<run::SyncOp>(module);
  for (auto op : module.getOps<ech::VariableOp>()) {
    auto type = cast<ech::Tensor>(op.getType());
    const char *kind = op.getKind() == ech::VariableKind::Param     ? "Stored::Param"
                       : op.getKind() == ech::VariableKind::State   ? "Stored::State"
                       : op.getKind() == ech::VariableKind::Average ? "Stored::Average"
                                                                    : "Stored::Optimizer";
    if (op.getKind() == ech::VariableKind::Copy || op.getKind() == ech::VariableKind::HandedIn)
      continue; // workers make it anew
    auto at = op->getAttrOfType<IntegerAttr>(rt::kOffset);
    const std::string offset = std::to_string(at ? at.getInt() : 0);
    if (moments.count(momentOf(op).first))
      continue;
    const bool isOfWorker =
        policy && policy.isLocal() && (policy.isOneRank() || !policy.getOver().empty()) &&
        (op.getKind() == ech::VariableKind::Optimizer || op.getKind() == ech::VariableKind::Compression) &&
        !isSharedByWorkers(op);
    SmallVector<std::string> arguments{quoted(op.getSymName()), shape(type), init(op), offset};
    if (!isOfWorker)
      arguments.insert(arguments.begin(), kind);
    if (!type.getElement().isF32())
      arguments.push_back(element(type));
    os << codegen::filled(isOfWorker ? "p.storeOfWorkers(" : "p.store(", arguments, ");", 2) << "\n";
  }
  for (const auto &[name, shift] : moments)
    if (name == "average")
      os << "  p.storeAverages(" << shift << ");\n";
    else
      os << "  p.storeMoments(" << quoted(name) << ", " << shift << ");\n";
}

void Tables::inputs() {
  for (auto op : module.getOps<ech::InputOp>()) {
    if (op.getPlace() == static_cast<uint64_t>(-1))
      continue;
    auto type = cast<ech::Tensor>(op.getType());
    auto names = [](Attribute group) {
      return braced(cast<ArrayAttr>(group).getAsRange<StringAttr>(), [](StringAttr a) { return quoted(a.getValue()); });
    };
    SmallVector<std::string> arguments{quoted(op.getSymName()), std::to_string(op.getPlace()), shape(type),
                                       element(type), std::to_string(op.getBelow())};
    arguments.push_back(braced(op->getAttrOfType<ArrayAttr>(rt::kPlaces), [&](Attribute item) {
      auto place = cast<DictionaryAttr>(item);
      std::string renamed;
      if (auto from = place.getAs<ArrayAttr>("from"))
        renamed = ", " + braced(llvm::zip(from, place.getAs<ArrayAttr>("to")), [&](auto pair) {
                    return "{" + names(std::get<0>(pair)) + ", " + names(std::get<1>(pair)) + "}";
                  });
      return "{" + shape(cast<ech::Tensor>(place.getAs<TypeAttr>("type").getValue())) + ", " +
             std::to_string(place.getAs<IntegerAttr>("offset").getInt()) + renamed + "}";
    }));
    os << codegen::filled("p.take(", arguments, ");", 2) << "\n";
  }
}

/// What random statements drew can be written by --dump.
void Tables::draws() {
  auto list = module->getAttrOfType<ArrayAttr>(rt::kDraws);
  if (!list)
    return;
  for (Attribute item : list) {
    auto draw = cast<DictionaryAttr>(item);
    bool inDouble = draw.getAs<BoolAttr>("double").getValue();
    double a = draw.getAs<FloatAttr>("a").getValueAsDouble();
    std::string perIndex;
    if (auto chances = draw.getAs<DenseF64ArrayAttr>("chance")) {
      // in the precision in which the program compares
      auto chance = [&](double c) { return inDouble ? c : static_cast<double>(static_cast<float>(c)); };
      a = chance(chances[0]);
      if (chances.size() > 1)
        perIndex = ", " + braced(chances.asArrayRef(), [&](double c) { return shortestDecimal(chance(c)); });
    }
    os << "  p.draws.push_back({" << quoted(draw.getAs<StringAttr>("site").getValue()) << ", "
       << braced(draw.getAs<DenseI64ArrayAttr>("sizes").asArrayRef(), [](int64_t n) { return std::to_string(n); })
       << ", Distribution::" << draw.getAs<StringAttr>("kind").getValue() << ", " << shortestDecimal(a) << ", "
       << shortestDecimal(draw.getAs<FloatAttr>("b").getValueAsDouble()) << perIndex << "});\n";
  }
}

/// The algorithms that `collective` lines name, by the groups that they are of.
void Tables::choices() {
  auto clauses = module->getAttrOfType<ArrayAttr>(dist::kAlgorithms);
  auto groups = module->getAttrOfType<ArrayAttr>(rt::kGroups);
  if (!clauses || !groups)
    return;
  for (auto clause : clauses.getAsRange<DictionaryAttr>()) {
    SmallVector<int64_t> over;
    for (StringRef name : ech::strings(clause.getAs<ArrayAttr>("over")))
      over.push_back(mesh.index(name));
    llvm::sort(over); // as groups have them
    const auto *group = llvm::find(groups, Attribute(DenseI64ArrayAttr::get(module.getContext(), over)));
    if (group == groups.end() || clause.getAs<StringAttr>("algorithm") == dist::kHierarchical)
      continue; // in three messages
    const StringRef kind = clause.getAs<StringAttr>("op").getValue();
    os << "  p.choices.push_back({Collective::" << llvm::convertToCamelFromSnakeCase(kind, true) << ", "
       << group - groups.begin() << ", Algorithm::" << clause.getAs<StringAttr>("algorithm").getValue() << "});\n";
  }
}

/// What the compiler chose of the library's algorithms and protocols, by group and size.
void Tables::tuner() {
  auto rows = module->getAttrOfType<ArrayAttr>(rt::kTuner);
  if (!rows)
    return;
  for (auto row : rows.getAsRange<DictionaryAttr>()) {
    auto number = [&](StringRef name) { return std::to_string(row.getAs<IntegerAttr>(name).getInt()); };
    auto word = [&](StringRef name) { return quoted(row.getAs<StringAttr>(name).getValue()); };
    const StringRef kind = row.getAs<StringAttr>("op").getValue();
    os << "  // " << row.getAs<StringAttr>("why").getValue()
       << "\n  p.tuner.push_back({Collective::" << llvm::convertToCamelFromSnakeCase(kind, true) << ", "
       << number("group") << ", " << word("algorithm") << ", " << word("protocol") << ", " << number("channels") << ", "
       << number("most") << "});\n";
  }
}

/// Of the groups, those whose ranks send to their neighbours.
void Tables::rows() {
  std::set<int64_t> found;
  module.walk([&](Operation *op) {
    if (isa<rt::SendOp, rt::ReceiveOp>(op))
      found.insert(op->getAttrOfType<IntegerAttr>(rt::kGroup).getInt());
  });
  if (!found.empty())
    field("rows", braced(llvm::to_vector(found), [](int64_t group) { return std::to_string(group); }));
}

/// What a message of a loss that is not finite names.
void Tables::partialFunctions() {
  auto functions = module->getAttrOfType<ArrayAttr>(ech::kPartialFunctions);
  if (!functions)
    return;
  auto texts = llvm::map_to_vector(functions.getAsRange<NameLoc>(), [](NameLoc function) {
    return function.getName().str() + " (" + ech::sourcePlace(function) + ")";
  });
  constexpr size_t most = 6;
  if (texts.size() > most) {
    std::string others = "and " + std::to_string(texts.size() - most) + " more";
    texts.truncate(most);
    texts.push_back(others);
  }
  field("partialFunctions", quoted(llvm::join(texts, ", ")));
}

/// A text as C++ strings, one a line of it, each at a column.
std::string linesOf(StringRef text, size_t column) {
  std::string out;
  for (size_t at = 0, end; at < text.size(); at = end) {
    end = std::min(text.find('\n', at), text.size() - 1) + 1;
    out += "\n" + std::string(column, ' ') + quoted(text.slice(at, end));
  }
  return out;
}

/// Snapshots keep them.
void Tables::fingerprints() {
  for (auto &[category, text] : codegen::fingerprints(module)) {
    const bool isLong = text.find('\n') + 1 < text.size() && text.find('\n') != text.npos;
    os << "  p.fingerprints.push_back({" << quoted(category) << "," << (isLong ? linesOf(text, 6) : " " + quoted(text))
       << "});\n";
  }
}

/// What each of several workers on one rank has for itself, in one piece: the copies that it computes at, or where
/// workers train by themselves all that is not shared.
std::pair<int64_t, int64_t> ownOfWorkers(ModuleOp module, bool isLocal) {
  int64_t first = INT64_MAX, end = 0;
  for (auto variable : module.getOps<ech::VariableOp>()) {
    if (isLocal ? isSharedByWorkers(variable) : variable.getKind() != ech::VariableKind::Copy)
      continue;
    auto type = cast<ech::Tensor>(variable.getType());
    if (dist::MeshAttr mesh = dist::meshOf(module); mesh && type.getState())
      type = dist::localType(type, mesh);
    const int64_t at = variable->getAttrOfType<IntegerAttr>(rt::kOffset).getInt();
    first = std::min(first, at);
    end = std::max(end, at + rt::Buffer::dense(type.getAxes(), type.getElement()).bytes());
  }
  return {end ? first : 0, end ? end - first : 0};
}

void Tables::sync(run::SyncOp policy) {
  field("sync.kind", Twine("SyncPolicy::") + runtime::policyNamed(policy.getPolicy())->enumerator);
  field("sync.k", Twine(policy.getK()));
  field("sync.workers", Twine(policy.getWorkers()));
  if (policy.getStalenessAttr().getInt() != -1)
    field("sync.staleness", Twine(int64_t(policy.getStaleness())));
  if (policy.getDamp())
    field("sync.damps", "true");
  if (auto numbers = policy.getNumbers()) {
    const std::string delay = policy.getDelay() == "exponential" ? "Exponential"
                              : policy.getDelay() == "shifted"   ? "Shifted"
                                                                 : "Each";
    field("sync.delay",
          "{Delay::" + delay + ", " + braced(*numbers, [](double x) { return shortestDecimal(x); }) + "}");
  }
  SmallVector<int64_t> axes;
  for (int m = 0; mesh && m < mesh.size(); ++m)
    if (ech::has(policy.getOver(), mesh.nameOf(m)))
      axes.push_back(m);
  if (!axes.empty())
    field("sync.meshAxes", braced(axes, [](int64_t m) { return std::to_string(m); }));
  if (policy.getEvery())
    field("sync.every", Twine(policy.getEvery()));
  if ((policy.isAsync() || policy.isLocal()) && policy.isOneRank()) {
    const auto [offset, bytes] = ownOfWorkers(module, policy.isLocal());
    field("sync.own", "{" + Twine(offset) + ", " + Twine(bytes) + "}");
  }
}

void Tables::scalars() {
  if (auto scalars = module->getAttrOfType<ArrayAttr>(rt::kScalars))
    for (Attribute item : scalars) {
      StringRef kind = cast<StringAttr>(cast<ArrayAttr>(item)[0]).getValue();
      StringRef name = cast<StringAttr>(cast<ArrayAttr>(item)[1]).getValue();
      const char *word = kind == "loss"         ? "Loss"
                         : kind == "named_loss" ? "NamedLoss"
                         : kind == "metric"     ? "Metric"
                                                : "Norm";
      os << "  p.scalars.push_back({Scalar::" << word << ", " << quoted(name) << "});\n";
    }
}

/// What ends a run, keeps it going and goes on from it.
void Tables::clauses(run::TrainOp train, run::CheckpointOp checkpoint) {
  if (auto until = run::only<run::UntilOp>(module)) {
    static constexpr StringRef kNames[] = {"Above", "AtLeast", "Below", "AtMost"};
    const double price = until.getPrice().convertToDouble();
    field("until", "{" + quoted(until.getMetric()) + ", Until::" + kNames[static_cast<size_t>(until.getComparison())] +
                       ", " + shortestDecimal(until.getValue().convertToDouble()) + ", " +
                       quoted(until.getEvaluation()) + (price != 0 ? ", " + shortestDecimal(price) : "") + "}");
  }
  if (auto onNan = run::only<run::OnNanOp>(module))
    field("onNan", Twine(onNan.getAction() == run::NanAction::Skip ? "{OnNan::Skip, " : "{OnNan::RollBack, ") +
                       Twine(onNan.getTimes()) + "}");
  if (auto scale = run::only<run::LossScaleOp>(module))
    field("lossScale", "{" + Twine(scale.getStart()) + (scale.getDynamic() ? ", true}" : "}"));
  if (checkpoint)
    os << "  p.checkpoint = {" << checkpoint.getSteps() << ", "
       << shortestDecimal(checkpoint.getSeconds().convertToDouble()) << ", " << quoted(checkpoint.getDirectory())
       << ", " << checkpoint.getKeep() << "};\n";
  if (train.getRestarts())
    field("restarts", Twine(train.getRestarts()));
}

void Tables::functions() {
  if (SymbolTable::lookupSymbolIn(module, "train"))
    field("step", target.entry("step", true));
  for (const codegen::StepFunction &f : codegen::kStepFunctions)
    if (SymbolTable::lookupSymbolIn(module, f.step))
      field(f.member, target.entry(f.function, f.takesRate));
  if (SymbolTable::lookupSymbolIn(module, "evaluate")) {
    field("evaluateBegin", target.entry("evaluate_begin", false));
    field("evaluateBatch", target.entry("evaluate_batch", false));
    field("evaluateEnd", target.entry("evaluate_end", false));
  }
  field("learningRate", "learning_rate");
  if (target.hasDevice())
    field("device", "device");
}

void Tables::print() {
  os << "/// What the training loop, snapshots and logs know of the program.\nProgram describe() {\n  Program p;\n";
  auto train = run::only<run::TrainOp>(module);
  field("name", quoted(train.getName()));
  field("model", quoted(train.getModel()));
  field("spec", quoted(train.getSpec()));
  field("folder", quoted(train.getFolder()));
  if (mesh)
    field("mesh", braced(mesh.getAxes(), [](const dist::MeshAxis &m) {
            return "{" + quoted(m.name) + ", " + std::to_string(m.size) + "}";
          }));
  if (auto name = module->getAttrOfType<StringAttr>(ech::kBatchAxis))
    field("batchAxis", quoted(name.getValue()));
  field("seed", Twine(train.getSeed()));
  field("batch", Twine(train.getBatch()));
  field("steps", Twine(train.getSteps()));
  if (auto policy = run::only<run::SyncOp>(module))
    sync(policy);
  field("stateBytes", number(rt::kStateBytes));
  field("inputBytes", number(rt::kInputBytes));
  field("workBytes", number(rt::kWorkBytes));
  auto checkpoint = run::only<run::CheckpointOp>(module);
  const ProgramCost cost = programCost(module, static_cast<bool>(checkpoint));
  if (const auto &offload = cost.offload)
    field("offload", "{" + quoted(offload->directory) + ", " + Twine(offload->from) + ", " + Twine(offload->bytes) +
                         ", " + Twine(offload->ofHost()) + (offload->isOfGpu ? ", " + Twine(offload->piece) : Twine()) +
                         "}");
  stored();
  inputs();
  if (auto data = run::only<run::DataOp>(module))
    field("data", sourceText(data.getSource()));
  if (auto groups = module->getAttrOfType<ArrayAttr>(rt::kGroups); groups && !groups.empty())
    field("groups", braced(groups, [](Attribute group) {
            return braced(cast<DenseI64ArrayAttr>(group).asArrayRef(), [](int64_t m) { return std::to_string(m); });
          }));
  rows();
  if (target.hasDevice()) {
    choices();
    tuner();
  }
  scalars();
  draws();
  partialFunctions();
  for (auto e : module.getOps<run::EvaluateOp>())
    os << "  p.evaluations.push_back({" << quoted(e.getName()) << ", "
       << (e.getSourceAttr() ? sourceText(e.getSourceAttr()) : "{}") << ", " << e.getEvery() << ", " << e.getBatches()
       << "});\n";
  clauses(train, checkpoint);
  if (checkpoint) // else there is nothing that a run goes on from
    fingerprints();
  os << "  p.plan =" << linesOf(cost.text(), 6) << ";\n";
  field("version", quoted(ECHELON_VERSION));
  functions();
  if (profile)
    profiled();
  os << "  return p;\n}\n";
}

/// What stands beside the probes, and what their times are held against.
void Tables::profiled() {
  field("profiled", "profiled");
  auto by = module->getAttrOfType<StringAttr>(kPredictedBy);
  if (!by)
    return;
  auto seconds = [&](StringRef name) {
    auto value = module->getAttrOfType<FloatAttr>(name);
    return llvm::format("%.4g", value ? value.getValueAsDouble() : -1);
  };
  os << "  p.prediction = {" << quoted(by.getValue()) << ", " << seconds(kPredictedStep) << ", "
     << seconds(kPredictedData) << "};\n";
}
} // namespace

void codegen::printDescription(ModuleOp module, const Target &target, raw_ostream &os, bool profile) {
  Tables(module, target, os, profile).print();
}
