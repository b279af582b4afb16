// ech.repeat and ech.step: structure of a program. The loop's derivative is in ops/RepeatDerivative.cpp.
#include "ir/ech/Build.h"
#include "ir/ech/Ech.h"

using namespace mlir;
using namespace echelon::ech;

void StepOp::build(OpBuilder &builder, OperationState &state, StringRef name) {
  state.addAttribute(SymbolTable::getSymbolAttrName(), builder.getStringAttr(name));
  state.addRegion()->emplaceBlock();
}

void RepeatOp::build(OpBuilder &builder, OperationState &state, StringRef axis, int64_t count, ValueRange carried,
                     ValueRange slices, TypeRange finals, TypeRange stacks, TypeRange sums) {
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.axis = builder.getStringAttr(axis);
  properties.count = builder.getI64IntegerAttr(count);
  properties.operandSegmentSizes = {static_cast<int32_t>(carried.size()), static_cast<int32_t>(slices.size())};
  properties.resultSegmentSizes = {static_cast<int32_t>(finals.size()), static_cast<int32_t>(stacks.size()),
                                   static_cast<int32_t>(sums.size())};
  state.addOperands(carried);
  state.addOperands(slices);
  state.addTypes(finals);
  state.addTypes(stacks);
  state.addTypes(sums);
  state.addRegion();
}

YieldOp RepeatOp::yield() { return llvm::cast<YieldOp>(block()->getTerminator()); }
ValueRange RepeatOp::carriedArguments() { return ValueRange(block()->getArguments()).take_front(getCarried().size()); }
ValueRange RepeatOp::sliceArguments() { return ValueRange(block()->getArguments()).drop_front(getCarried().size()); }

// %r:3 = ech.repeat "layer" = 4 reverse carry(%x : T) slice(%w : T) -> (T) stack (T) sum (T) { … }
void RepeatOp::print(OpAsmPrinter &printer) {
  printer << " " << getAxisAttr() << " = " << getCount();
  if (getReverse())
    printer << " reverse";
  if (getAlong())
    printer << " along";
  if (getTime())
    printer << " time";
  auto operands = [&](StringRef word, ValueRange values) {
    if (values.empty())
      return;
    printer << " " << word << "(" << values << " : " << values.getTypes() << ")";
  };
  operands("carry", getCarried());
  operands("slice", getSlices());
  printer << " ->";
  auto results = [&](StringRef word, ValueRange values) {
    printer << " ";
    if (!word.empty())
      printer << word << " ";
    printer << "(" << values.getTypes() << ")";
  };
  results("", getFinals());
  if (!getStacks().empty())
    results("stack", getStacks());
  if (!getSums().empty())
    results("sum", getSums());
  printer << " ";
  printer.printRegion(getBody());
  printer.printOptionalAttrDict(
      (*this)->getAttrs(), {"axis", "count", "reverse", "along", "time", "operandSegmentSizes", "resultSegmentSizes"});
}

ParseResult RepeatOp::parse(OpAsmParser &parser, OperationState &state) {
  Properties &properties = state.getOrAddProperties<Properties>();
  int64_t count;
  if (parser.parseAttribute(properties.axis) || parser.parseEqual() || parser.parseInteger(count))
    return failure();
  Builder &builder = parser.getBuilder();
  properties.count = builder.getI64IntegerAttr(count);
  if (succeeded(parser.parseOptionalKeyword("reverse")))
    properties.reverse = builder.getUnitAttr();
  if (succeeded(parser.parseOptionalKeyword("along")))
    properties.along = builder.getUnitAttr();
  if (succeeded(parser.parseOptionalKeyword("time")))
    properties.time = builder.getUnitAttr();
  auto operands = [&](StringRef word, int32_t &size) -> ParseResult {
    size = 0;
    if (failed(parser.parseOptionalKeyword(word)))
      return success();
    SmallVector<OpAsmParser::UnresolvedOperand> values;
    SmallVector<Type> types;
    SMLoc at = parser.getCurrentLocation();
    if (parser.parseLParen() || parser.parseOperandList(values) || parser.parseColonTypeList(types) ||
        parser.parseRParen())
      return failure();
    size = values.size();
    return parser.resolveOperands(values, types, at, state.operands);
  };
  auto results = [&](int32_t &size) -> ParseResult {
    SmallVector<Type> types;
    auto one = [&] { return parser.parseType(types.emplace_back()); };
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, one))
      return failure();
    size = types.size();
    state.addTypes(types);
    return success();
  };
  auto &in = properties.operandSegmentSizes;
  auto &out = properties.resultSegmentSizes;
  if (operands("carry", in[0]) || operands("slice", in[1]) || parser.parseArrow() || results(out[0]))
    return failure();
  out[1] = out[2] = 0;
  if (succeeded(parser.parseOptionalKeyword("stack")) && results(out[1]))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("sum")) && results(out[2]))
    return failure();
  if (parser.parseRegion(*state.addRegion()) || parser.parseOptionalAttrDict(state.attributes))
    return failure();
  return success();
}

LogicalResult RepeatOp::verifyRegions() {
  auto end = llvm::dyn_cast<YieldOp>(block()->getTerminator());
  if (!end)
    return emitOpError() << "over " << getAxis() << " ends its body with ech.yield";
  auto say = [&](Twine what) { return emitOpError() << "over " << getAxis() << ": " << what; };
  if (block()->getNumArguments() != getCarried().size() + getSlices().size())
    return say("needs one block argument for each carried value and each slice");
  if (end.getCarried().size() != getCarried().size() || getFinals().size() != getCarried().size())
    return say("carries as many values as it yields and results in");
  if (end.getStacked().size() != getStacks().size() || end.getSummed().size() != getSums().size())
    return say("results in as many stacks and sums as it yields");
  for (auto [in, argument, out, final] : llvm::zip(getCarried(), carriedArguments(), end.getCarried(), getFinals()))
    if (in.getType() != argument.getType() || in.getType() != out.getType() || in.getType() != final.getType())
      return say("a carried value keeps its type");
  for (auto [whole, slice] : llvm::zip(getSlices(), sliceArguments())) {
    if (!tensor(whole).has(getAxis()) ||
        (!getTime() && tensor(whole).sizeOf(getAxis()) != static_cast<int64_t>(getCount())))
      return say("a sliced value has the axis at its full size");
    if (without(tensor(whole), getAxis()).withState({}) != tensor(slice).withState({}))
      return say("the block argument of a slice is the sliced value without the axis");
  }
  for (auto [part, stack] : llvm::zip(end.getStacked(), getStacks()))
    if (stackedType(tensor(part), getAxis(), getCount()).withState({}) != tensor(stack).withState({}))
      return say("a stack is the yielded value with the axis added as the slowest");
  for (auto [part, sum] : llvm::zip(end.getSummed(), getSums()))
    if (tensor(part).withState({}) != tensor(sum).withState({})) // over stages, a sum of what each has added up
      return say("a sum has the type of what it adds up");
  return success();
}

// An axis that is walked step by step, each from the one before, has no pieces to divide. Over a layer stack that would
// be a pipeline.
Division RepeatOp::division(StringRef axis) { return axis == getAxis() ? Division::Never : Division::Freely; }
