// The layout clauses behind states and messages.
#include "passes/layout/Clauses.h"
#include "ir/ech/SourcePlace.h"
#include "passes/Passes.h"
#include "passes/Phase.h"
#include "passes/pipeline/Row.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::layout;

static std::string withPlace(std::string text, Location loc) {
  std::string place = ech::sourcePlace(loc);
  return place.empty() ? text : text + " (" + place + ")";
}

/// " with zigzag", " as (7, 8, 8, 7)"; nothing of equal blocks.
static std::string withMap(const OwnerMap &map) {
  return !map.isEqual() ? " as " + spellSizes(map) : map.isBlocks() ? "" : " with " + spell(map);
}

std::string echelon::layout::nameInSource(Operation *op) {
  std::string name = op->getName().stripDialect().str();
  if (auto map = dyn_cast<ech::MapOp>(op))
    name = ech::stringifyFunction(map.getFunction()).str();
  else if (auto reduce = dyn_cast<ech::ReduceOp>(op))
    name = ech::stringifyReduction(reduce.getKind()).str();
  else if (auto write = dyn_cast<ech::WriteOp>(op))
    name += " of " + write.getTarget().str();
  else if (auto report = dyn_cast<ech::ReportOp>(op))
    name += " of " + report.getName().str();
  else if (auto gradient = dyn_cast<ech::GradientOp>(op))
    name += " of " + gradient.getParameter().str();
  else if (isa<ech::HandInOp>(op))
    name = "packed gradients";
  else if (auto each = dyn_cast<ech::PerWorkerOp>(op))
    name = each.getApart() ? "what workers hand in" : "gradients to pack";
  else if (isa<ech::GlobalNormOp>(op))
    name = op->hasAttr(kParameters) ? "the norm of all gradients" : "a norm of the update";
  return withPlace(name, op->getLoc());
}

std::string echelon::layout::gradientInSource(ArrayRef<ech::VariableOp> parameters) {
  std::string text = parameters.size() == 1 ? "gradient of " : "gradients of ";
  for (auto [i, parameter] : llvm::enumerate(SmallVector<ech::VariableOp>(parameters)))
    text += (i ? ", " : "") + parameter.getSymName().str();
  ech::VariableOp first = parameters.front();
  return withPlace(text, first.getLoc());
}

bool Clauses::isWritten(int m, StringAttr axis) const {
  auto lines = module->getAttrOfType<DictionaryAttr>(kLines);
  return !lines || lines.contains((mesh.nameOf(m) + "." + axis.getValue()).str());
}
Location Clauses::place(int m, StringAttr axis, Location otherwise) const {
  auto lines = module->getAttrOfType<DictionaryAttr>(kLines);
  std::string key = mesh.nameOf(m).str() + "." + (axis ? axis.str() : "store");
  auto loc = lines ? lines.getAs<LocationAttr>(key) : LocationAttr();
  return loc ? Location(loc) : otherwise;
}
/// The clause that workers on this mesh axis are of.
std::string Clauses::ofWorkers(int m) const {
  auto lines = module->getAttrOfType<DictionaryAttr>(kLines);
  auto sync = lines ? lines.getAs<LocationAttr>(mesh.nameOf(m).str() + ".sync") : LocationAttr();
  return sync ? withPlace("sync over " + mesh.nameOf(m).str(), sync)
              : "compress gradients over " + mesh.nameOf(m).str();
}
/// Whether the iterations of repeats are split over a mesh axis: its coordinates are stages.
bool Clauses::isRow(int m) const {
  auto schedules = module->getAttrOfType<DictionaryAttr>(kSchedules);
  return schedules && schedules.contains(mesh.nameOf(m));
}
std::string Clauses::splits(int m) const {
  if (mesh.getAxes()[m].list.empty())
    return "over " + mesh.nameOf(m).str();
  if (isRow(m))
    return text(m, cast<StringAttr>(mesh.getAxes()[m].list[0]));
  std::string names;
  std::optional<OwnerMap> map; // of all of them
  for (auto name : mesh.getAxes()[m].list.getAsRange<StringAttr>())
    if (isWritten(m, name)) {
      names += (names.empty() ? "" : ", ") + name.str();
      map = map.value_or(mesh.mapOf(m, name)) == mesh.mapOf(m, name) ? mesh.mapOf(m, name) : OwnerMap();
    }
  return names.empty()
             ? ofWorkers(m)
             : withPlace("split " + names + " over " + mesh.nameOf(m).str() + withMap(*map),
                         place(m, cast<StringAttr>(mesh.getAxes()[m].list[0]), UnknownLoc::get(mesh.getContext())));
}
std::string Clauses::text(int m, StringAttr axis) const {
  const bool split = axis && mesh.place(m, axis) >= 0;
  const SmallVector<StringRef> stored = storedOver(module, mesh.nameOf(m));
  const bool isOfRow = split && isRow(m);
  const std::string names = isOfRow ? pipeline::namesOfRow(mesh, m) : axis ? axis.str() : "";
  const std::string text = split ? "split " + names : "store " + llvm::join(stored, ", ");
  if (split && !isWritten(m, axis))
    return ofWorkers(m);
  if (!split && stored.empty()) // an axis that was split by another name
    return splits(m);
  const OwnerMap map = isOfRow ? pipeline::rowOf(mesh, m) : split ? mesh.mapOf(m, axis) : OwnerMap();
  return withPlace(text + " over " + mesh.nameOf(m).str() + withMap(map),
                   place(m, split ? axis : StringAttr(), UnknownLoc::get(mesh.getContext())));
}

std::string Clauses::why(StateAttr from, StateAttr to, StringRef use) const {
  std::string text;
  for (int m = 0; m < mesh.size(); ++m) {
    if (from[m] == to[m])
      continue;
    auto isListed = [&](const Entry &entry) {
      return entry.hold == Hold::Split && mesh.place(m, entry.axis) >= 0; // a rename may have split what is not
    };
    StringAttr axis = isListed(from[m]) ? from[m].axis : isListed(to[m]) ? to[m].axis : StringAttr();
    std::string clause;
    if (axis || from[m].isCut() || to[m].isCut())
      clause = this->text(m, axis);
    else // a sum: some axis of the list was summed away
      clause = splits(m);
    if (text.find(clause) == std::string::npos)
      text += (text.empty() ? "" : ", ") + clause;
  }
  return text + ": " + use.str();
}

std::string Clauses::whyInside(ArrayRef<StringAttr> divided, ArrayRef<int> inside, Operation *op) const {
  std::string text;
  for (int m : inside)
    text += (text.empty() ? "" : ", ") + this->text(m, divided[m]);
  return text + ": inside " + nameInSource(op);
}

std::string Clauses::whyRing(int m, Operation *attention) const {
  std::string clause = splits(m);
  clause.insert(std::min(clause.find(" ("), clause.size()), " with ring");
  return clause + ": " + nameInSource(attention);
}
Location Clauses::ringPlace(int m, Location otherwise) const {
  auto lines = module->getAttrOfType<DictionaryAttr>(kLines);
  auto loc = lines ? lines.getAs<LocationAttr>((mesh.nameOf(m) + ".ring").str()) : LocationAttr();
  return loc ? Location(loc) : otherwise;
}

/// A size that does not divide into the chunks of a map; false: there is none.
bool Clauses::complainOfMap(Tensor laid, Operation *user) {
  bool found = false;
  for (const ech::Axis &axis : laid.getAxes()) {
    int64_t left = axis.size;
    if (std::optional<OwnerMap> unequal = unequalMap(laid, axis.name, mesh)) {
      const int m = dividers(laid, axis.name, mesh).front().mesh;
      found = true;
      if (told.insert({m, axis.name}).second)
        emitError(place(m, axis.name, user->getLoc()))
            << "cannot split " << axis.name.str() << " = " << axis.size << " over " << mesh.nameOf(m) << " = "
            << mesh.sizeOf(m) << withMap(*unequal) << ", which is " << unequal->total() << " in all";
      continue;
    }
    for (const Divider &divider : dividers(laid, axis.name, mesh)) {
      const int64_t chunks = divider.map.chunks * divider.size;
      if (!divider.map.isBlocks() && left % chunks != 0) {
        found = true;
        if (!told.insert({divider.mesh, axis.name}).second)
          break;
        const std::string name = axis.name.str(), over = mesh.nameOf(divider.mesh).str();
        const int64_t others = axis.size / left;
        InFlightDiagnostic diagnostic =
            emitError(place(divider.mesh, axis.name, user->getLoc()))
            << "cannot split " << name << " = " << axis.size << " over " << over << " = " << divider.size << " with "
            << spell(divider.map) << ", which makes " << chunks << " chunks of "
            << (others > 1 ? "the " + std::to_string(left) + " positions of each part" : "it") << "; " << name << " = "
            << llvm::alignTo(left, chunks) * others << " would do, or leave `with " << spell(divider.map) << "` out";
        diagnostic.attachNote(user->getLoc())
            << StringRef(nameInSource(user)).split(" (").first << " is divided along " << name;
        break;
      }
      left = llvm::divideCeil(left, divider.size);
    }
  }
  return found;
}

bool Clauses::complain(Tensor type, StateAttr state, Operation *user) {
  if (succeeded(checkState(type, state, mesh)))
    return false;
  Tensor laid = type.withState(state);
  bool found = false;
  for (const ech::Axis &axis : type.getAxes()) {
    SmallVector<int> divided = over(laid, axis.name, mesh);
    int64_t all = parts(laid, axis.name, mesh);
    if (divided.empty() || axis.size % all == 0 || unequalMap(laid, axis.name, mesh) ||
        (isInBlocks(laid, axis.name, mesh) &&
         llvm::any_of(divided, [&](int m) { return mesh.isPadded(m, axis.name); })))
      continue;
    found = true;
    int m = divided.back();
    if (!told.insert({m, axis.name}).second)
      continue;
    int64_t others = all / mesh.sizeOf(m), n = mesh.sizeOf(m), below = 0, above = 0;
    for (int64_t k = 1; k <= axis.size / others && k <= 64 * n; ++k)
      if (axis.size % (k * others) == 0) {
        if (k < n)
          below = k;
        else if (!above)
          above = k;
      }
    std::string over;
    for (int k : divided)
      over += (over.empty() ? "" : " x ") + mesh.nameOf(k).str() + " = " + std::to_string(mesh.sizeOf(k));
    std::string name = axis.name.str(), remedy;
    if (isInBlocks(laid, axis.name, mesh))
      remedy = "; pad " + name + " to " + std::to_string(llvm::alignTo(axis.size, all)) + " (with padding)";
    if (below || above)
      remedy += (remedy.empty() ? "; use " : ", or use ") + mesh.nameOf(m).str() + " = " +
                (below ? std::to_string(below) : "") + (below && above ? " or " : "") +
                (above ? std::to_string(above) : "");
    InFlightDiagnostic diagnostic = emitError(place(m, axis.name, user->getLoc()))
                                    << "cannot split " << name << " = " << axis.size << " over " << over << remedy;
    diagnostic.attachNote(user->getLoc())
        << StringRef(nameInSource(user)).split(" (").first << " is divided along " << name;
  }
  if (!found)
    found = complainOfMap(laid, user);
  if (!found)
    user->emitError() << "internal error: the state of " << nameInSource(user) << " is not legal, please report";
  return true;
}

/// The path of the parameter that x is, in another type or at an index of its repeats; empty of other values.
static StringRef parameterPath(Value x) {
  if (auto argument = dyn_cast<BlockArgument>(x)) {
    auto loop = dyn_cast<ech::RepeatOp>(argument.getOwner()->getParentOp());
    const unsigned number = argument.getArgNumber(), carried = loop ? loop.getCarried().size() : 0;
    return loop && number >= carried ? parameterPath(loop.getSlices()[number - carried]) : StringRef();
  }
  if (auto cast = x.getDefiningOp<ech::MapOp>(); cast && cast.getFunction() == ech::Function::Cast)
    return parameterPath(cast.getOperands()[0]);
  auto read = x.getDefiningOp<ech::ReadOp>();
  auto variable = read ? SymbolTable::lookupNearestSymbolFrom<ech::VariableOp>(read, read.getSourceAttr()) : nullptr;
  return variable && variable.getKind() == ech::VariableKind::Param ? variable.getSymName() : StringRef();
}

void Clauses::warnOfGathers(Operation *op, ArrayRef<StateAttr> now, const Decision &decision) {
  if (phaseOf(op) != "forward")
    return;
  for (auto [operand, state, taken] : llvm::zip(op->getOperands(), now, decision.operands))
    for (int m = 0; m < mesh.size(); ++m) {
      const bool isGathered = state && state[m].hold == Hold::Split && taken[m].hold == Hold::Whole;
      if (!isGathered || !decision.divided[m] || decision.divided[m] != ech::batchAxisOf(module))
        continue;
      const StringAttr axis = state[m].axis;
      const StringRef path = parameterPath(operand);
      if (path.empty() || !isWritten(m, axis) || !gathered.insert({m, axis}).second)
        continue;
      const std::string batch = decision.divided[m].str(), name = axis.str(), over = mesh.nameOf(m).str();
      emitWarning(place(m, axis, op->getLoc()))
          << "E0603: " << over << " splits " << batch << " before " << name << ", so that " << path << ", split along "
          << name << ", is gathered for each use; with " << name << " first, as in `split " << name << ", " << batch
          << " over " << over << "`, samples go to where it is";
    }
}
