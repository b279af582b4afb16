// The dialect itself, its type's spelling, and what the interfaces answer by default.
#include "ir/ech/Ech.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace echelon::ech;

#include "ir/ech/EchDialect.cpp.inc"
#include "ir/ech/EchEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/ech/EchTypes.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/ech/EchAttrs.cpp.inc"
#include "ir/ech/EchInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "ir/ech/EchOps.cpp.inc"

void EchDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/ech/EchTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/ech/EchAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/ech/EchOps.cpp.inc"
      >();
}

//===- the tensor type ------------------------------------------------------------------------------------------===//

Type Tensor::parse(AsmParser &parser) {
  SmallVector<Axis> axes;
  Type element;
  Attribute state;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    int64_t size;
    if (parser.parseKeywordOrString(&name) || parser.parseEqual() || parser.parseInteger(size))
      return failure();
    axes.push_back({StringAttr::get(parser.getContext(), name), size});
    return success();
  };
  if (parser.parseLess() || parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis) ||
      parser.parseComma() || parser.parseType(element))
    return {};
  if (succeeded(parser.parseOptionalComma()) && parser.parseAttribute(state))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<Tensor>(parser.getContext(), axes, element, state);
}

void Tensor::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(getAxes(), printer, [&](const Axis &axis) {
    printer.printKeywordOrString(axis.name.getValue());
    printer << "=" << axis.size;
  });
  printer << "], " << getElement();
  if (getState())
    printer << ", " << getState();
  printer << ">";
}

LogicalResult Tensor::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<Axis> axes, Type element,
                             Attribute state) {
  llvm::SmallDenseSet<StringAttr> seen;
  for (const Axis &axis : axes) {
    if (!seen.insert(axis.name).second)
      return emitError() << "axis " << axis.name.getValue() << " appears twice in one tensor";
    if (axis.size < 0)
      return emitError() << "axis " << axis.name.getValue() << " has a negative size";
  }
  if (!element.isF32() && !element.isF64() && !isNarrow(element) && !element.isInteger(32) && !element.isInteger(8) &&
      !element.isInteger(1))
    return emitError() << "elements are f32, f64, bf16, f16, i32, i8 or i1, not " << element;
  return success();
}

int Tensor::position(StringRef axis) const {
  for (auto [i, a] : llvm::enumerate(getAxes()))
    if (a.name == axis)
      return i;
  return -1;
}

int64_t Tensor::sizeOf(StringRef axis) const {
  int i = position(axis);
  assert(i >= 0 && "the tensor lacks the axis");
  return getAxes()[i].size;
}
int64_t Tensor::count() const {
  int64_t n = 1;
  for (const Axis &axis : getAxes())
    n *= axis.size;
  return n;
}
Tensor Tensor::withState(Attribute state) const { return get(getContext(), getAxes(), getElement(), state); }
Tensor Tensor::withAxes(ArrayRef<Axis> axes) const { return get(getContext(), axes, getElement(), getState()); }
Tensor Tensor::withElement(Type element) const { return get(getContext(), getAxes(), element, getState()); }
SmallVector<StringRef> Tensor::names() const {
  SmallVector<StringRef> result;
  for (const Axis &axis : getAxes())
    result.push_back(axis.name.getValue());
  return result;
}

//===- what passes ask of any operation ---------------------------------------------------------------------------===//

std::string echelon::ech::describe(Tensor type) {
  std::string text = "[";
  for (const Axis &axis : type.getAxes())
    text += (text.size() > 1 ? ", " : "") + axis.name.str() + " = " + std::to_string(axis.size);
  return text + "]";
}

int64_t echelon::ech::elementwiseFlops(Operation *op) {
  return op->getNumResults() ? tensor(op->getResult(0)).count() : 0;
}

Padding echelon::ech::paddingOfSum(Operation *op, StringRef axis, Division division) {
  if (division == Division::Inside)
    return {Padding::Unknown};
  bool kept = llvm::all_of(op->getResults(), [&](Value v) { return tensor(v).has(axis); });
  return kept ? Padding() : Padding::number(0);
}

StringRef echelon::ech::batchAxisOf(ModuleOp module) {
  auto name = module->getAttrOfType<StringAttr>(ech::kBatchAxis);
  return name ? name.getValue() : "batch";
}

bool echelon::ech::isNumber(Value value) {
  if (tensor(value).rank() != 0)
    return false;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<ConstantOp, CountOp, ScalarOp>(op))
    return true;
  return isa<MapOp>(op) && llvm::all_of(op->getOperands(), isNumber);
}
