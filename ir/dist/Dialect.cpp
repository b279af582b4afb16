// The dialect itself, and the spelling of the mesh and of states.
#include "ir/dist/Placed.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include <numeric>

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;

#include "ir/dist/DistDialect.cpp.inc"
#include "ir/dist/DistEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/dist/DistAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/dist/DistTypes.cpp.inc"

void DistDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/dist/DistAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/dist/DistTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/dist/DistOps.cpp.inc"
      >();
}

//===- the mesh -------------------------------------------------------------------------------------------------===//

static ParseResult parseName(AsmParser &parser, StringAttr &name) {
  std::string text;
  if (parser.parseKeywordOrString(&text))
    return failure();
  name = StringAttr::get(parser.getContext(), text);
  return success();
}

/// "zigzag", "cyclic 3", "cyclic 2 (1, 2, 2, 1)", "blocks (7, 8, 8, 7)"; "blocks", or nothing: equal ones.
static ParseResult parseMap(AsmParser &parser, OwnerMap &map) {
  if (succeeded(parser.parseOptionalKeyword("zigzag"))) {
    map = OwnerMap::zigzag();
    return success();
  }
  if (succeeded(parser.parseOptionalKeyword("cyclic"))) {
    if (parser.parseInteger(map.chunks))
      return failure();
  } else if (failed(parser.parseOptionalKeyword("blocks"))) {
    return success();
  }
  auto parseSize = [&]() -> ParseResult {
    const SMLoc at = parser.getCurrentLocation();
    if (parser.parseInteger(map.sizes.emplace_back()))
      return failure();
    if (map.sizes.back() < 0)
      return parser.emitError(at) << "a chunk has no fewer than 0 positions, not " << map.sizes.back();
    return success();
  };
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::OptionalParen, parseSize);
}

std::string echelon::dist::spell(const OwnerMap &map) {
  if (map.isZigzag)
    return "zigzag";
  return (map.chunks == 1 ? "blocks" : "cyclic " + std::to_string(map.chunks)) +
         (map.isEqual() ? "" : " " + spellSizes(map));
}
std::string echelon::dist::spellSizes(const OwnerMap &map) {
  std::string text;
  for (int64_t size : map.sizes)
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "(" + text + ")";
}

Attribute MapAttr::parse(AsmParser &parser, Type) {
  OwnerMap map;
  if (parser.parseLess() || parseMap(parser, map) || parser.parseGreater())
    return {};
  return parser.getChecked<MapAttr>(parser.getContext(), map.chunks, map.isZigzag, map.sizes);
}
void MapAttr::print(AsmPrinter &printer) const { printer << "<" << spell(map()) << ">"; }
LogicalResult MapAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t chunks, bool zigzag,
                              ArrayRef<int64_t> sizes) {
  if (chunks < 1 || (zigzag && chunks != 2))
    return emitError() << (zigzag ? "zigzag has two chunks" : "cyclic has one chunk or more") << ", not " << chunks;
  if (zigzag && !sizes.empty())
    return emitError() << "the chunks of zigzag are of equal size";
  for (int64_t size : sizes)
    if (size < 0)
      return emitError() << "a chunk has no fewer than 0 positions, not " << size;
  return success();
}

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  SmallVector<MeshAxis> axes;
  auto parseAxis = [&]() -> ParseResult {
    MeshAxis axis;
    SmallVector<Attribute> list;
    SmallVector<bool> padded;
    SmallVector<OwnerMap> maps;
    auto parseListed = [&]() -> ParseResult {
      StringAttr name;
      if (parseName(parser, name))
        return failure();
      list.push_back(name);
      padded.push_back(succeeded(parser.parseOptionalKeyword("padded")));
      return parseMap(parser, maps.emplace_back());
    };
    if (parseName(parser, axis.name) || parser.parseEqual() || parser.parseInteger(axis.size) ||
        parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseListed))
      return failure();
    axis.list = ArrayAttr::get(parser.getContext(), list);
    axis.padded = DenseBoolArrayAttr::get(parser.getContext(), padded);
    axis.maps = listMaps(parser.getContext(), maps);
    axes.push_back(axis);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseAxis))
    return {};
  return parser.getChecked<MeshAttr>(parser.getContext(), axes);
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getAxes(), printer, [&](const MeshAxis &axis) {
    printer.printKeywordOrString(axis.name.getValue());
    printer << " = " << axis.size << " [";
    llvm::interleaveComma(llvm::enumerate(axis.list.getAsRange<StringAttr>()), printer, [&](auto listed) {
      printer.printKeywordOrString(listed.value().getValue());
      if (axis.padded[listed.index()])
        printer << " padded";
      if (axis.maps && !cast<MapAttr>(axis.maps[listed.index()]).map().isBlocks())
        printer << " " << spell(cast<MapAttr>(axis.maps[listed.index()]).map());
    });
    printer << "]";
  });
  printer << ">";
}

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<MeshAxis> axes) {
  llvm::SmallDenseSet<StringAttr> names;
  for (const MeshAxis &axis : axes) {
    if (!names.insert(axis.name).second)
      return emitError() << "mesh axis " << axis.name.getValue() << " appears twice in the mesh";
    if (axis.size < 1)
      return emitError() << "mesh axis " << axis.name.getValue() << " has size " << axis.size;
    if (axis.list.size() != size_t(axis.padded.size()))
      return emitError() << "the list of mesh axis " << axis.name.getValue()
                         << " does not say for each axis whether it is padded";
    if (axis.maps && axis.list.size() != axis.maps.size())
      return emitError() << "the list of mesh axis " << axis.name.getValue()
                         << " does not say for each axis which map it has";
    for (size_t i = 0; axis.maps && i < axis.maps.size(); ++i)
      if (axis.padded[i] && !cast<MapAttr>(axis.maps[i]).map().isBlocks())
        return emitError() << "axis " << axis.list[i] << " has a map over mesh axis " << axis.name.getValue()
                           << ", so that it cannot be padded";
    for (size_t i = 0; axis.maps && i < axis.maps.size(); ++i)
      if (OwnerMap map = cast<MapAttr>(axis.maps[i]).map();
          !map.isEqual() && int64_t(map.sizes.size()) != map.chunks * axis.size)
        return emitError() << "axis " << axis.list[i] << " has " << map.sizes.size() << " chunks over mesh axis "
                           << axis.name.getValue() << " = " << axis.size << ", which holds " << map.chunks * axis.size;
    llvm::SmallDenseSet<Attribute> listed;
    for (Attribute name : axis.list)
      if (!isa<StringAttr>(name) || !listed.insert(name).second)
        return emitError() << "axis " << name << " is listed twice for mesh axis " << axis.name.getValue();
  }
  return success();
}

int64_t MeshAttr::ranks() const {
  int64_t n = 1;
  for (const MeshAxis &axis : getAxes())
    n *= axis.size;
  return n;
}
int MeshAttr::index(StringRef name) const {
  for (auto [m, axis] : llvm::enumerate(getAxes()))
    if (axis.name == name)
      return m;
  return -1;
}
int MeshAttr::place(int m, StringRef axis) const {
  for (auto [i, name] : llvm::enumerate(getAxes()[m].list.getAsRange<StringAttr>()))
    if (name == axis)
      return i;
  return -1;
}
bool MeshAttr::isPadded(int m, StringRef axis) const {
  int i = place(m, axis);
  return i >= 0 && getAxes()[m].padded.asArrayRef()[i];
}
OwnerMap MeshAttr::mapOf(int m, StringRef axis) const {
  const int i = getAxes()[m].maps ? place(m, axis) : -1;
  return i < 0 ? OwnerMap() : cast<MapAttr>(getAxes()[m].maps[i]).map();
}
OwnerMap MeshAttr::mapOf(int m, StringRef axis, int64_t size) const {
  OwnerMap map = mapOf(m, axis);
  const int64_t total = map.total();
  for (int64_t &n : map.sizes)
    n = n * size / total;
  return map;
}
ArrayAttr echelon::dist::listMaps(MLIRContext *context, ArrayRef<OwnerMap> maps) {
  if (llvm::all_of(maps, [](const OwnerMap &map) { return map.isBlocks(); }))
    return {};
  return ArrayAttr::get(
      context, llvm::map_to_vector(maps, [&](const OwnerMap &map) -> Attribute { return MapAttr::get(context, map); }));
}
SmallVector<int> MeshAttr::nest(StringRef axis) const {
  SmallVector<int> order(size());
  std::iota(order.begin(), order.end(), 0);
  auto key = [&](int m) { return unsigned(place(m, axis)); }; // not listed: last
  llvm::stable_sort(order, [&](int a, int b) { return key(a) < key(b); });
  return order;
}
StringRef MeshAttr::firstListed(int m, Tensor type) const {
  for (StringAttr name : getAxes()[m].list.getAsRange<StringAttr>())
    if (type.has(name))
      return name.getValue();
  return {};
}
std::string MeshAttr::names(ArrayRef<int> over) const {
  std::string text;
  for (int m : over)
    text += (text.empty() ? "" : "+") + nameOf(m).str();
  return text;
}

//===- states ---------------------------------------------------------------------------------------------------===//

std::string echelon::dist::spell(const Entry &entry) {
  switch (entry.hold) {
  case Hold::Whole:
    return placedAt(entry) ? "whole at " + std::to_string(*placedAt(entry)) : "whole";
  case Hold::Sum:
    return "sum";
  case Hold::Own:
    return "own";
  case Hold::Flat:
    return entry.axis ? "flat below " + entry.axis.str() : "flat";
  case Hold::Split:
    return "split " + entry.axis.str();
  case Hold::Cut:
    return "cut " + entry.axis.str();
  }
  llvm_unreachable("all holds are named");
}

Attribute StateAttr::parse(AsmParser &parser, Type) {
  SmallVector<Entry> entries;
  auto parseEntry = [&]() -> ParseResult {
    Entry entry;
    StringRef hold;
    if (parseName(parser, entry.over) || parser.parseEqual() || parser.parseKeyword(&hold))
      return failure();
    if (!llvm::is_contained({"whole", "split", "sum", "own", "cut", "flat"}, hold))
      return parser.emitError(parser.getCurrentLocation(), "expected whole, split, sum, own, cut or flat, not ")
             << hold;
    entry.hold = llvm::StringSwitch<Hold>(hold)
                     .Case("split", Hold::Split)
                     .Case("sum", Hold::Sum)
                     .Case("own", Hold::Own)
                     .Case("cut", Hold::Cut)
                     .Case("flat", Hold::Flat)
                     .Default(Hold::Whole);
    const bool isBelow = entry.hold == Hold::Flat && succeeded(parser.parseOptionalKeyword("below"));
    if ((entry.hold == Hold::Split || entry.hold == Hold::Cut || isBelow) && parseName(parser, entry.axis))
      return failure();
    if (int64_t at = 0; entry.hold == Hold::Whole && succeeded(parser.parseOptionalKeyword("at"))) {
      if (parser.parseInteger(at))
        return failure();
      entry = placedEntry(entry.over, at);
    }
    entries.push_back(entry);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseEntry))
    return {};
  return parser.getChecked<StateAttr>(parser.getContext(), entries);
}

void StateAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getEntries(), printer, [&](const Entry &entry) {
    printer.printKeywordOrString(entry.over.getValue());
    printer << " = ";
    switch (entry.hold) {
    case Hold::Split:
    case Hold::Cut:
      printer << (entry.hold == Hold::Split ? "split " : "cut ");
      printer.printKeywordOrString(entry.axis.getValue());
      break;
    case Hold::Flat:
      printer << "flat";
      if (entry.axis) {
        printer << " below ";
        printer.printKeywordOrString(entry.axis.getValue());
      }
      break;
    default:
      printer << spell(entry);
    }
  });
  printer << ">";
}

LogicalResult StateAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<Entry> entries) {
  llvm::SmallDenseSet<StringAttr> names;
  for (const Entry &entry : entries) {
    if (!names.insert(entry.over).second)
      return emitError() << "mesh axis " << entry.over.getValue() << " appears twice in the state";
    const bool isAlong = entry.hold == Hold::Split || entry.hold == Hold::Cut;
    if (isAlong ? !entry.axis : entry.axis && entry.hold != Hold::Flat && placedAt(entry).value_or(-1) < 0)
      return emitError() << "a split and a cut name an axis, a flat one may, what is whole a coordinate";
  }
  return success();
}

StateAttr StateAttr::with(int m, Hold hold, StringAttr axis) const {
  return with(m, Entry{getEntries()[m].over, hold, axis});
}
StateAttr StateAttr::with(int m, const Entry &entry) const {
  SmallVector<Entry> entries(getEntries());
  entries[m] = entry;
  return get(getContext(), entries);
}
bool StateAttr::isWhole() const {
  return llvm::all_of(getEntries(), [](const Entry &entry) { return entry.hold == Hold::Whole; });
}
