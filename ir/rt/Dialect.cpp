// The dialect itself, its types' spelling, and the operations that are structure only.
#include "ir/rt/Chosen.h"
#include "ir/rt/Offload.h"
#include "ir/rt/Rt.h"
#include "ir/rt/Together.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace echelon::rt;
using echelon::ech::Axis;

namespace {
/// [32, 128]; [?] of rows of any length.
ParseResult parseLengths(OpAsmParser &parser, DenseI64ArrayAttr &lengths) {
  SmallVector<int64_t> values;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
        if (succeeded(parser.parseOptionalQuestion()))
          return values.push_back(kAnyLength), success();
        return parser.parseInteger(values.emplace_back());
      }))
    return failure();
  lengths = parser.getBuilder().getDenseI64ArrayAttr(values);
  return success();
}
/// (!rt.buffer<…>, …), or none: ().
ParseResult parseTypes(OpAsmParser &parser, SmallVectorImpl<Type> &types) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren,
                                        [&] { return parser.parseType(types.emplace_back()); });
}
void printTypes(OpAsmPrinter &printer, Operation *, TypeRange types) {
  printer << "(";
  llvm::interleaveComma(types, printer);
  printer << ")";
}
void printLengths(OpAsmPrinter &printer, Operation *, DenseI64ArrayAttr lengths) {
  printer << "[";
  llvm::interleaveComma(lengths.asArrayRef(), printer,
                        [&](int64_t length) { length == kAnyLength ? printer << "?" : printer << length; });
  printer << "]";
}
} // namespace

#include "ir/rt/RtDialect.cpp.inc"
#include "ir/rt/RtEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/rt/RtTypes.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/rt/RtAttrs.cpp.inc"
#include "ir/rt/RtInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "ir/rt/RtOps.cpp.inc"

void RtDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/rt/RtTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/rt/RtAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/rt/RtOps.cpp.inc"
      >();
  addOperations<TogetherOp, LetGoOp, WillNeedOp, FetchOp, WriteBackOp>();
}

//===- buffers ---------------------------------------------------------------------------------------------------===//

namespace {
SmallVector<int64_t> denseStrides(ArrayRef<Axis> axes) {
  SmallVector<int64_t> strides(axes.size(), 1);
  for (size_t i = axes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * axes[i].size;
  return strides;
}
} // namespace

Buffer Buffer::dense(ArrayRef<Axis> axes, Type element) {
  return get(element.getContext(), axes, element, denseStrides(axes));
}
int Buffer::position(StringRef axis) const {
  const Axis *at = llvm::find_if(getAxes(), [&](const Axis &a) { return a.name == axis; });
  return at == getAxes().end() ? -1 : at - getAxes().begin();
}
int64_t Buffer::sizeOf(StringRef axis) const {
  int at = position(axis);
  return at < 0 ? 1 : getAxes()[at].size;
}
int64_t Buffer::strideOf(StringRef axis) const {
  int at = position(axis);
  return at < 0 ? 0 : getStrides()[at];
}
int64_t Buffer::count() const {
  int64_t count = 1;
  for (const Axis &a : getAxes())
    count *= a.size;
  return count;
}
int64_t Buffer::elementBytes() const { return runtime::bytesOf(*elementOf(getElement())); }
int64_t Buffer::extent() const {
  if (isDense())
    return count();
  int64_t last = 0;
  for (auto [axis, stride] : llvm::zip(getAxes(), getStrides()))
    last += (axis.size - 1) * stride;
  return last + 1;
}
bool Buffer::isDense() const {
  SmallVector<int64_t> dense = denseStrides(getAxes());
  for (auto [axis, has, wants] : llvm::zip(getAxes(), getStrides(), dense))
    if (axis.size != 1 && has != wants)
      return false;
  return true;
}

namespace {
/// batch=32, n=?
ParseResult parseAxes(AsmParser &parser, AsmParser::Delimiter delimiter, SmallVector<Axis> &axes) {
  return parser.parseCommaSeparatedList(delimiter, [&]() -> ParseResult {
    std::string name;
    int64_t size;
    if (parser.parseKeywordOrString(&name) || parser.parseEqual())
      return failure();
    if (succeeded(parser.parseOptionalQuestion()))
      size = kAnyLength;
    else if (parser.parseInteger(size))
      return failure();
    axes.push_back({StringAttr::get(parser.getContext(), name), size});
    return success();
  });
}
void printAxes(AsmPrinter &printer, ArrayRef<Axis> axes) {
  llvm::interleaveComma(axes, printer, [&](const Axis &axis) {
    printer.printKeywordOrString(axis.name.getValue());
    printer << "=";
    axis.size == kAnyLength ? printer << "?" : printer << axis.size;
  });
}
} // namespace

Type Buffer::parse(AsmParser &parser) {
  SmallVector<Axis> axes;
  SmallVector<int64_t> strides;
  Type element;
  if (parser.parseLess() || parseAxes(parser, AsmParser::Delimiter::Square, axes) || parser.parseComma() ||
      parser.parseType(element))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                       [&] { return parser.parseInteger(strides.emplace_back()); }))
      return {};
  } else {
    strides = denseStrides(axes);
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<Buffer>(parser.getContext(), axes, element, strides);
}
void Buffer::print(AsmPrinter &printer) const {
  printer << "<[";
  printAxes(printer, getAxes());
  printer << "], " << getElement();
  if (getStrides() != ArrayRef(denseStrides(getAxes())))
    printer << ", [" << getStrides() << "]";
  printer << ">";
}
LogicalResult Buffer::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<Axis> axes, Type element,
                             ArrayRef<int64_t> strides) {
  if (axes.size() != strides.size())
    return emitError() << "a buffer has one stride an axis";
  if (!elementOf(element))
    return emitError() << "elements are f32, f64, i32 or i1, not " << element;
  return success();
}

//===- sizes -----------------------------------------------------------------------------------------------------===//

int64_t SizeAttr::count() const {
  int64_t count = 1;
  for (const Axis &axis : getAxes())
    count *= axis.size;
  return count;
}
Attribute SizeAttr::parse(AsmParser &parser, Type) {
  SmallVector<Axis> axes;
  if (parseAxes(parser, AsmParser::Delimiter::LessGreater, axes))
    return {};
  return get(parser.getContext(), axes);
}
void SizeAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printAxes(printer, getAxes());
  printer << ">";
}

//===- structure -------------------------------------------------------------------------------------------------===//

void FunctionOp::build(OpBuilder &builder, OperationState &state, StringRef name) {
  state.addAttribute(SymbolTable::getSymbolAttrName(), builder.getStringAttr(name));
  state.addRegion()->emplaceBlock();
}

void ForOp::build(OpBuilder &builder, OperationState &state, StringRef axis, int64_t count, bool reverse, bool time,
                  Value own) {
  if (own)
    state.addOperands(own);
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.axis = builder.getStringAttr(axis);
  properties.count = builder.getI64IntegerAttr(count);
  properties.reverse = reverse ? builder.getUnitAttr() : UnitAttr();
  properties.time = time ? builder.getUnitAttr() : UnitAttr();
  state.addRegion()->emplaceBlock().addArgument(builder.getIndexType(), state.location);
  state.addRegion(); // ahead
}

Block *ForOp::addAhead() {
  Block &block = getAhead().emplaceBlock();
  block.addArgument(position().getType(), getLoc());
  return &block;
}
LogicalResult ForOp::verifyRegions() {
  const auto next = llvm::count_if(getBody().front(), [](Operation &op) { return isa<NextOp>(op); });
  if (!ahead())
    return next == 0 ? success() : emitOpError() << "does nothing ahead, and has an rt.next";
  if (ahead()->getNumArguments() != 1 || !ahead()->getArgument(0).getType().isIndex())
    return emitOpError() << "has one argument in what it does ahead, the position";
  return next == 1 ? success() : emitOpError() << "does something ahead, and has " << next << " rt.next, not one";
}

void StagesOp::build(OpBuilder &builder, OperationState &state, StringRef axis, int64_t count, StringRef schedule,
                     int64_t mesh, StringRef over, int64_t slots, int64_t chunks, int64_t parts) {
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.axis = builder.getStringAttr(axis);
  properties.count = builder.getI64IntegerAttr(count);
  properties.schedule = builder.getStringAttr(schedule);
  properties.mesh = builder.getI64IntegerAttr(mesh);
  properties.over = builder.getStringAttr(over);
  properties.slots = builder.getI64IntegerAttr(slots);
  properties.chunks = builder.getI64IntegerAttr(chunks);
  for (int64_t i = 0; i < 3; ++i) { // forward, backward, weights: the micro batch, its slot, the chunk, the buffer
    Region *region = state.addRegion();
    if (i >= parts)
      continue;
    Block &block = region->emplaceBlock();
    for (int64_t argument = 0; argument < (chunks > 1 ? 4 : 2); ++argument)
      block.addArgument(builder.getIndexType(), state.location);
  }
}

SmallVector<Block *, 2> echelon::rt::blocksOf(Operation *op) {
  SmallVector<Block *, 2> blocks;
  if (isa<ForOp, AtOp, StagesOp>(op))
    for (Region &region : op->getRegions())
      if (!region.empty())
        blocks.push_back(&region.front());
  return blocks;
}
std::optional<echelon::ech::Axis> echelon::rt::passesOf(Operation *op) {
  if (auto loop = dyn_cast<ForOp>(op); loop && loop.getTime())
    return ech::Axis{loop.getAxisAttr(), static_cast<int64_t>(loop.getCount())};
  if (auto stages = dyn_cast<StagesOp>(op))
    return ech::Axis{stages.getAxisAttr(), static_cast<int64_t>(stages.getCount())};
  return std::nullopt;
}

bool AtOp::isAt(int64_t coordinate, int64_t chunk, int64_t stages) {
  const auto own = static_cast<int64_t>(getCoordinate());
  if (!getUntil())
    return (coordinate == own && (!getTurn() || chunk == static_cast<int64_t>(*getChunk()))) != getExcept();
  const int64_t first = own + (getTurn() ? static_cast<int64_t>(*getChunk()) * stages : 0);
  const int64_t place = coordinate + (getTurn() ? chunk * stages : 0);
  return first <= place && place <= static_cast<int64_t>(*getUntil());
}
LogicalResult AtOp::verify() {
  if (getExcept() && getUntil())
    return emitOpError() << "is all but one place, or some in a row";
  if (bool(getTurn()) != getChunk().has_value())
    return emitOpError() << "names a chunk of those that turns have";
  return success();
}

LogicalResult ViewOp::verify() {
  if (getIndices().size() != getFactors().size())
    return emitOpError() << "has one factor an index";
  if (buffer(getBase()).getElement() != buffer(getView()).getElement())
    return emitOpError() << "keeps the element type";
  return success();
}
OpFoldResult ViewOp::fold(FoldAdaptor) {
  if (getOffset() == 0 && getIndices().empty() && getBase().getType() == getView().getType())
    return getBase();
  return {};
}

LogicalResult GroupOp::verifyRegions() {
  Block &body = getBody().front();
  if (body.getArgumentTypes() != getInputs().getTypes())
    return emitOpError() << "has one block argument for each input, of its type";
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield || yield.getValues().getTypes() != getOutputs().getTypes())
    return emitOpError() << "yields one value for each output, of its type";
  return success();
}
LogicalResult ComputeOp::verify() {
  if (!ech::symbolizeFunction(getFunction()))
    return emitOpError() << "knows no function " << getFunction();
  return success();
}

namespace {
std::optional<SmallVector<Axis>> axesWithinType(Buffer type, int64_t stride) {
  SmallVector<std::pair<int64_t, Axis>> inside;
  for (auto [axis, own] : llvm::zip(type.getAxes(), type.getStrides()))
    if (own > 0 && own < stride && axis.size > 1)
      inside.push_back({own, axis});
  llvm::stable_sort(inside, [](const auto &a, const auto &b) { return a.first > b.first; });
  SmallVector<Axis> axes;
  for (const auto &[own, axis] : inside) {
    if (own * axis.size != stride)
      return std::nullopt;
    stride = own;
    axes.push_back(axis);
  }
  return stride == 1 ? std::optional(axes) : std::nullopt;
}
} // namespace

std::optional<SmallVector<Axis>> echelon::rt::axesWithin(Value v, int64_t stride) {
  if (auto axes = axesWithinType(buffer(v), stride))
    return axes;
  AllocOp alloc = allocOf(v);
  return alloc ? axesWithinType(buffer(alloc), stride) : std::nullopt;
}

AllocOp echelon::rt::allocOf(Value value) {
  while (auto view = value.getDefiningOp<ViewOp>())
    value = view.getBase();
  return value.getDefiningOp<AllocOp>();
}

bool echelon::rt::overlap(Value a, Value b) {
  AllocOp x = allocOf(a), y = allocOf(b);
  if (!x || !y)
    return a == b;
  if (x == y)
    return true;
  if (x.getArena() != y.getArena() || !x.getOffset() || !y.getOffset())
    return false;
  int64_t startX = *x.getOffset(), startY = *y.getOffset();
  return startX < startY + buffer(y).bytes() && startY < startX + buffer(x).bytes();
}

StringRef echelon::rt::nameOf(Location loc) {
  auto name = dyn_cast<NameLoc>(loc);
  return name && !name.getName().getValue().ends_with(".") ? name.getName().getValue() : "";
}
StringRef echelon::rt::callOf(Location loc) {
  auto name = dyn_cast<NameLoc>(loc);
  return name && name.getName().getValue().ends_with(".") ? name.getName().getValue() : "";
}

StringRef echelon::rt::functionOf(Operation *op) {
  for (; op && !isa<FunctionOp>(op); op = op->getParentOp())
    if (auto function = op->getAttrOfType<StringAttr>(kFunction))
      return function.getValue();
  return "";
}

std::optional<echelon::runtime::ElementType> echelon::rt::elementOf(Type type) {
  if (!type.isIntOrFloat())
    return std::nullopt;
  const std::string name = (type.isInteger() ? "i"
                            : type.isBF16()  ? "bf"
                                             : "f") +
                           std::to_string(type.getIntOrFloatBitWidth());
  for (const runtime::ElementNames &each : runtime::kElements)
    if (name == each.ir)
      return each.type;
  return std::nullopt;
}

StringRef echelon::rt::storedAs(Type element) {
  static constexpr StringRef kNames[] = {
#define ECHELON_ELEMENT(NAME, CPP, ...) #CPP,
#include "runtime/transport/Element.def"
#undef ECHELON_ELEMENT
  };
  return kNames[static_cast<size_t>(*elementOf(element))];
}

void echelon::rt::forEachUser(Value buffer, function_ref<void(Operation *)> visit) {
  for (Operation *user : buffer.getUsers())
    if (auto view = dyn_cast<ViewOp>(user))
      forEachUser(view.getView(), visit);
    else
      visit(user);
}

//===- what passes say of operations ------------------------------------------------------------------------------===//

LogicalResult RtDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  const StringRef name = attribute.getName();
  const Attribute value = attribute.getValue();
  auto check = [&](bool holds, const char *what) -> LogicalResult {
    return holds ? success() : op->emitOpError() << "has an attribute " << name << " that is not " << what;
  };
  auto isListOf = [&](auto is) {
    auto list = dyn_cast<ArrayAttr>(value);
    return list && llvm::all_of(list, is);
  };
  auto isTexts = [&] { return isListOf([](Attribute item) { return isa<StringAttr>(item); }); };
  auto isDictionaries = [&] { return isListOf([](Attribute item) { return isa<DictionaryAttr>(item); }); };
  if (name == kGroup)
    return check(isa<Communicates>(op) && isa<IntegerAttr>(value), "a place in rt.groups, on a message");
  if (name == kGroups)
    return check(isa<ModuleOp>(op) && isListOf([](Attribute item) { return isa<DenseI64ArrayAttr>(item); }),
                 "a list of mesh axes for each group, on the module");
  if (name == kScalars)
    return check(isa<ModuleOp>(op) && isListOf([](Attribute item) {
                   auto pair = dyn_cast<ArrayAttr>(item);
                   return pair && pair.size() == 2 && isa<StringAttr>(pair[0]) && isa<StringAttr>(pair[1]);
                 }),
                 "a list of [kind, name], on the module");
  if (name == kDraws || name == kSizes)
    return check(isa<ModuleOp>(op) && isDictionaries(), "a list of dictionaries, on the module");
  if (name == kAxes)
    return check(isa<ModuleOp>(op) && isa<DictionaryAttr>(value), "sizes of axes, on the module");
  if (name == kRead)
    return check(isa<AllocOp>(op) && isa<DictionaryAttr>(value), "a state, on a buffer");
  if (name == kMessage)
    return check(isa<AllocOp>(op) && isa<UnitAttr>(value), "a mark, on a buffer");
  if (name == kOffset)
    return check(isa<ech::VariableOp>(op) && isa<IntegerAttr>(value), "a byte, on a variable");
  if (name == kPlaces)
    return check(isa<ech::InputOp>(op) && isDictionaries(), "a list of places, on an input");
  if (name == kFunction)
    return check(isa<StringAttr>(value), "the name of a function");
  if (name == kMember)
    return check(isa<AllocOp, ViewOp, TicketsOp, CollectiveOp>(op) && isTexts() && cast<ArrayAttr>(value).size() == 2,
                 "[struct, member], on a buffer or a ticket");
  if (name == kStack || name == kPosition)
    return check(isa<AllocOp, ViewOp>(op) && op->hasAttr(kMember) && isa<IntegerAttr>(value),
                 "a number, on a member of a struct");
  if (name == kVariable)
    return check(isa<AllocOp>(op) && buffer(op->getResult(0)).count() == 1 && isa<UnitAttr>(value),
                 "a mark, on a buffer of one element");
  if (name == kName)
    return check(isa<FunctionOp, KernelOp, StagesOp>(op) ? isTexts() : isa<StringAttr>(value),
                 "a name, or those of the arguments of a function, a kernel or stages");
  if (name == kPack)
    return check(isa<KernelOp>(op) && isa<IntegerAttr>(value) && !cast<KernelOp>(op).sums(),
                 "a number of elements, on a kernel that sums over nothing");
  if (name == kOffloaded)
    return check(isa<ModuleOp>(op) && isa<DenseI64ArrayAttr>(value) && cast<DenseI64ArrayAttr>(value).size() == 2,
                 "[first byte, bytes], on the module");
  if (name == kStaged)
    return check(isa<ModuleOp>(op) && isa<UnitAttr>(value), "a mark, on the module");
  if (name == kOffloadedRows)
    return check(isa<InvokeOp>(op) && isa<DenseI64ArrayAttr>(value) &&
                     llvm::all_of(cast<DenseI64ArrayAttr>(value).asArrayRef(),
                                  [&](int64_t i) {
                                    return i >= 0 && i < static_cast<int64_t>(op->getNumOperands()) &&
                                           isa<Buffer>(op->getOperand(i).getType());
                                  }),
                 "a list of operands that are buffers, on an rt.invoke");
  if (name == kChosen)
    return check(isa<CollectiveOp>(op) && isa<StringAttr>(value), "a reason, on a collective");
  if (name == kTuner)
    return check(isa<ModuleOp>(op) && isDictionaries(), "a list of dictionaries, on the module");
  if (name == kStateBytes || name == kInputBytes || name == kWorkBytes)
    return check(isa<ModuleOp>(op) && isa<IntegerAttr>(value), "a number of bytes, on the module");
  return op->emitOpError() << "has an attribute " << name << ", which no pass says (ir/rt/Rt.h)";
}
