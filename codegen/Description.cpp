// The program's tables.
#include "codegen/Description.h"
#include "codegen/Fingerprints.h"
#include "codegen/Plan.h"
#include "codegen/Printer.h"
#include "codegen/Text.h"
#include "ir/dist/State.h"
#include "ir/rt/ops/Expression.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

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
std::string dataText(const runtime::DataSpec &data) {
  auto text = [](const std::string &s) { return quoted(s); };
  return "{" + quoted(data.kind) + ", " + braced(data.paths, text) + ", " + quoted(data.name) + ", " +
         braced(data.args, rt::shortest) + ", " + braced(data.children, dataText) + ", " +
         braced(data.transforms,
                [&](const runtime::TransformSpec &t) {
                  std::string names;
                  if (!t.axes.empty() || !t.inputs.empty())
                    names = ", " + braced(t.axes, text) + ", " + braced(t.inputs, text);
                  return "{" + quoted(t.kind) + ", " + braced(t.args, rt::shortest) + names + "}";
                }) +
         (data.columns.empty() ? "" : ", " + braced(data.columns, text)) + "}";
}

class Tables {
public:
  Tables(ModuleOp module, const frontend::RunSettings &settings, const frontend::SourceManager &sources,
         raw_ostream &os, bool profile, const std::string &meaning)
      : module(module), symbols(module), settings(settings), sources(sources), mesh(dist::meshOf(module)), os(os),
        profile(profile), meaning(meaning) {}
  void print();

private:
  void field(const Twine &name, const Twine &value) { os << "  p." << name << " = " << value << ";\n"; }
  std::string number(StringRef attribute) {
    auto value = module->getAttrOfType<IntegerAttr>(attribute);
    return std::to_string(value ? value.getInt() : 0);
  }
  std::string shape(ech::Tensor type);
  std::string element(ech::Tensor type) {
    static constexpr StringRef kNames[] = {
#define ECHELON_ELEMENT(NAME, ...) #NAME,
#include "runtime/transport/Element.def"
#undef ECHELON_ELEMENT
    };
    return ("ElementType::" + kNames[static_cast<size_t>(*rt::elementOf(type.getElement()))]).str();
  }
  std::string init(ech::VariableOp op);
  ech::VariableOp momentOf(ech::VariableOp op);
  void stored();
  void inputs();
  void draws();
  void fingerprints();
  void partialFunctions();

  ModuleOp module;
  SymbolTable symbols;
  const frontend::RunSettings &settings;
  const frontend::SourceManager &sources;
  dist::MeshAttr mesh;
  raw_ostream &os;
  bool profile;
  const std::string &meaning;
};

/// As runtime::layoutOf reads it.
std::string Tables::shape(ech::Tensor type) {
  const bool laidOut = mesh && type.getState();
  std::string text;
  auto over = [&](ArrayRef<int> meshAxes) {
    for (int m : meshAxes)
      text += "/" + mesh.getAxes()[m].name.str();
  };
  for (const ech::Axis &axis : type.getAxes()) {
    text += (text.empty() ? "" : " ") + axis.name.str() + "=" + std::to_string(axis.size);
    if (!laidOut)
      continue;
    if (dist::isPadded(type, axis.name, mesh))
      text += ":" + std::to_string(dist::paddedSize(type, axis.name, mesh));
    over(dist::over(type, axis.name, mesh));
  }
  if (laidOut && !dist::flatCuts(type).empty()) {
    text += text.empty() ? "flat" : " flat";
    over(dist::flatCuts(type));
  }
  return quoted(text);
}

std::string Tables::init(ech::VariableOp op) {
  double a = op.getA().convertToDouble(), b = op.getB().convertToDouble();
  switch (op.getInit()) {
  case ech::Distribution::Normal:
    return "{Init::Normal, " + rt::shortest(b) + "}";
  case ech::Distribution::Uniform:
    return "{Init::Uniform, " + rt::shortest(a) + ", " + rt::shortest(b) + "}";
  default:
    return a == 0 ? "{Init::Zeros}" : a == 1 ? "{Init::Ones}" : "{Init::Constant, " + rt::shortest(a) + "}";
  }
}

/// "wq" of "optimizer.m.wq", whose type it has, and zeros; null for every other variable.
ech::VariableOp Tables::momentOf(ech::VariableOp op) {
  StringRef path = op.getSymName();
  if (op.getKind() != ech::VariableKind::Optimizer || !path.consume_front("optimizer.") || init(op) != "{Init::Zeros}")
    return {};
  auto param = symbols.lookup<ech::VariableOp>(path.split('.').second);
  return param && param.getKind() == ech::VariableKind::Param && param.getType() == op.getType() ? param
                                                                                                 : ech::VariableOp();
}

void Tables::stored() {
  llvm::MapVector<StringRef, SmallVector<std::string>> moments; // by parameter
  for (auto op : module.getOps<ech::VariableOp>()) {
    auto type = cast<ech::Tensor>(op.getType());
    const char *kind = op.getKind() == ech::VariableKind::Param   ? "Stored::Param"
                       : op.getKind() == ech::VariableKind::State ? "Stored::State"
                                                                  : "Stored::Optimizer";
    auto at = op->getAttrOfType<IntegerAttr>("rt.offset");
    const std::string offset = std::to_string(at ? at.getInt() : 0);
    if (ech::VariableOp param = momentOf(op)) {
      StringRef name = op.getSymName().drop_front(StringRef("optimizer.").size()).split('.').first;
      moments[param.getSymName()].push_back("{" + quoted(name) + ", " + offset + "}");
      continue;
    }
    SmallVector<std::string> arguments{kind, quoted(op.getSymName()), shape(type), init(op), offset};
    if (!type.getElement().isF32())
      arguments.push_back(element(type));
    os << codegen::filled("p.store(", arguments, ");", 2) << "\n";
  }
  for (auto &[path, list] : moments)
    os << codegen::filled(("p.storeMoments(" + quoted(path) + ", {"), list, "});", 2) << "\n";
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
    arguments.push_back(braced(op->getAttrOfType<ArrayAttr>("rt.places"), [&](Attribute item) {
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
  auto list = module->getAttrOfType<ArrayAttr>("rt.draws");
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
        perIndex = ", " + braced(chances.asArrayRef(), [&](double c) { return rt::shortest(chance(c)); });
    }
    os << "  p.draws.push_back({" << quoted(draw.getAs<StringAttr>("site").getValue()) << ", "
       << braced(draw.getAs<DenseI64ArrayAttr>("sizes").asArrayRef(), [](int64_t n) { return std::to_string(n); })
       << ", Distribution::" << draw.getAs<StringAttr>("kind").getValue() << ", " << rt::shortest(a) << ", "
       << rt::shortest(draw.getAs<FloatAttr>("b").getValueAsDouble()) << perIndex << "});\n";
  }
}

/// What a message of a loss that is not finite names.
void Tables::partialFunctions() {
  auto functions = module->getAttrOfType<ArrayAttr>(ech::kPartialFunctions);
  if (!functions)
    return;
  auto texts = llvm::map_to_vector(functions.getAsRange<NameLoc>(), [](NameLoc function) {
    return function.getName().str() + " (" + codegen::SourceLines::label(function) + ")";
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
  for (auto &[category, text] : codegen::fingerprints(module, settings, meaning)) {
    const bool isLong = text.find('\n') + 1 < text.size() && text.find('\n') != text.npos;
    os << "  p.fingerprints.push_back({" << quoted(category) << "," << (isLong ? linesOf(text, 6) : " " + quoted(text))
       << "});\n";
  }
}

void Tables::print() {
  os << "/// What the training loop, snapshots and logs know of the program.\nProgram describe() {\n  Program p;\n";
  field("name", quoted(settings.name));
  field("model", quoted(settings.model ? settings.model->name.text : ""));
  std::string spec = settings.modelRange.valid() ? sources.path(settings.modelRange.file) : "";
  field("spec", quoted(spec));
  std::string folder = llvm::sys::path::parent_path(spec).str();
  field("folder", quoted(folder.empty() ? "." : folder));
  if (mesh)
    field("mesh", braced(mesh.getAxes(), [](const dist::MeshAxis &m) {
            return "{" + quoted(m.name) + ", " + std::to_string(m.size) + "}";
          }));
  if (auto name = module->getAttrOfType<StringAttr>("ech.batch_axis"))
    field("batchAxis", quoted(name.getValue()));
  field("seed", Twine(settings.seed));
  field("batch", Twine(settings.batch));
  field("steps", Twine(settings.steps));
  stored();
  inputs();
  field("data", dataText(settings.data));
  field("stateBytes", number(rt::kStateBytes));
  field("inputBytes", number(rt::kInputBytes));
  field("workBytes", number(rt::kWorkBytes));
  if (auto groups = module->getAttrOfType<ArrayAttr>("rt.groups"); groups && !groups.empty())
    field("groups", braced(groups, [](Attribute group) {
            return braced(cast<DenseI64ArrayAttr>(group).asArrayRef(), [](int64_t m) { return std::to_string(m); });
          }));
  if (auto scalars = module->getAttrOfType<ArrayAttr>("rt.scalars"))
    for (Attribute item : scalars) {
      StringRef kind = cast<StringAttr>(cast<ArrayAttr>(item)[0]).getValue();
      StringRef name = cast<StringAttr>(cast<ArrayAttr>(item)[1]).getValue();
      const char *word = kind == "loss"         ? "Loss"
                         : kind == "named_loss" ? "NamedLoss"
                         : kind == "metric"     ? "Metric"
                                                : "Norm";
      os << "  p.scalars.push_back({Scalar::" << word << ", " << quoted(name) << "});\n";
    }
  draws();
  partialFunctions();
  for (const frontend::EvaluationSettings &e : settings.evaluations)
    os << "  p.evaluations.push_back({" << quoted(e.name) << ", "
       << (e.source ? dataText(*e.source) : std::string("{}")) << ", " << e.everySteps << ", " << e.batches << "});\n";
  if (!settings.checkpoint.directory.empty())
    os << "  p.checkpoint = {" << settings.checkpoint.everySteps << ", "
       << rt::shortest(settings.checkpoint.everySeconds) << ", " << quoted(settings.checkpoint.directory) << ", "
       << settings.checkpoint.keep << "};\n";
  if (settings.restarts)
    field("restarts", std::to_string(settings.restarts));
  if (!settings.checkpoint.directory.empty()) // else there is nothing that a run goes on from
    fingerprints();
  os << "  p.plan =" << linesOf(planOf(module, !settings.checkpoint.directory.empty()).text(), 6) << ";\n";
  field("version", quoted(ECHELON_VERSION));
  if (SymbolTable::lookupSymbolIn(module, "train.start"))
    field("start", "start");
  if (SymbolTable::lookupSymbolIn(module, "train"))
    field("step", "step");
  if (SymbolTable::lookupSymbolIn(module, "evaluate")) {
    field("evaluateBegin", "evaluate_begin");
    field("evaluateBatch", "evaluate_batch");
    field("evaluateEnd", "evaluate_end");
  }
  field("learningRate", "learning_rate");
  if (profile)
    field("profiled", "profiled");
  os << "  return p;\n}\n";
}
} // namespace

void codegen::printDescription(ModuleOp module, const frontend::RunSettings &settings,
                               const frontend::SourceManager &sources, raw_ostream &os, bool profile,
                               const std::string &meaning) {
  Tables(module, settings, sources, os, profile, meaning).print();
}
