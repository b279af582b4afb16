// What is one call: kernels, collectives, reports, waits.
#include "ir/ech/Ech.h"
#include "ir/rt/Rt.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace echelon::rt;

//===- rt.call ---------------------------------------------------------------------------------------------------===//

namespace {
/// Number of places for operands among arguments.
size_t placesIn(ArrayAttr args) {
  size_t places = 0;
  for (Attribute arg : args)
    places += isa<UnitAttr>(arg) ? 1 : isa<ArrayAttr>(arg) ? placesIn(cast<ArrayAttr>(arg)) : 0;
  return places;
}

std::string spell(Attribute arg, OperandRange operands, size_t &next, Writer &writer) {
  if (isa<UnitAttr>(arg))
    return writer.name(operands[next++]);
  if (auto number = dyn_cast<IntegerAttr>(arg)) {
    if (number.getType().isInteger(1))
      return number.getInt() ? "true" : "false";
    return std::to_string(number.getInt());
  }
  if (auto number = dyn_cast<FloatAttr>(arg))
    return literal(number.getValueAsDouble(), Float64Type::get(arg.getContext()));
  if (auto word = dyn_cast<StringAttr>(arg))
    return word.str();
  // a list that starts with "NAME(" is a call in itself
  ArrayAttr list = cast<ArrayAttr>(arg);
  if (auto head = list.empty() ? StringAttr() : dyn_cast<StringAttr>(list[0]); head && head.getValue().ends_with("(")) {
    std::string text = head.str();
    for (size_t i = 1; i < list.size(); ++i)
      text += (i > 1 ? ", " : "") + spell(list[i], operands, next, writer);
    return text + ")";
  }
  std::string text = "{";
  for (Attribute part : list)
    text += (text.size() > 1 ? ", " : "") + spell(part, operands, next, writer);
  return text + "}";
}
} // namespace

void CallOp::emit(Writer &writer) {
  SmallVector<std::string> arguments;
  size_t next = 0;
  for (Attribute arg : getArgs())
    arguments.push_back(spell(arg, getOperands(), next, writer));
  writer.call(*this, getCallee(), arguments);
}

LogicalResult CallOp::verify() {
  if (placesIn(getArgs()) != getOperands().size())
    return emitOpError() << "has as many places for operands as operands";
  if (getShare().size() % 2 != 0)
    return emitOpError() << "shares memory between pairs of operands";
  for (int64_t i : llvm::concat<const int64_t>(getWritten(), getRead(), getShare()))
    if (i < 0 || i >= static_cast<int64_t>(getOperands().size()))
      return emitOpError() << "names operands that it has";
  return success();
}

SmallVector<Value> CallOp::reads() {
  return llvm::map_to_vector(getRead(), [&](int64_t i) { return Value(getOperands()[i]); });
}
SmallVector<Value> CallOp::writes() {
  return llvm::map_to_vector(getWritten(), [&](int64_t i) { return Value(getOperands()[i]); });
}
bool CallOp::mayShare(Value written, Value read) {
  ArrayRef<int64_t> pairs = getShare();
  for (size_t i = 0; i + 1 < pairs.size(); i += 2)
    if (getOperands()[pairs[i]] == written && getOperands()[pairs[i + 1]] == read)
      return true;
  return false;
}

// rt.call "gemm"(%c, %a, %b, 32, "Form::nn", [32, %d]) writes [0] reads [1, 2] : types of the operands
void CallOp::print(OpAsmPrinter &printer) {
  printer << " " << getCalleeAttr() << "(";
  size_t next = 0;
  auto one = [&](auto &self, Attribute arg) -> void {
    if (isa<UnitAttr>(arg)) {
      printer << getOperands()[next++];
    } else if (auto list = dyn_cast<ArrayAttr>(arg)) {
      printer << "[";
      llvm::interleaveComma(list, printer, [&](Attribute part) { self(self, part); });
      printer << "]";
    } else if (auto number = dyn_cast<IntegerAttr>(arg); number && number.getType().isInteger(64)) {
      printer << number.getInt();
    } else {
      printer << arg;
    }
  };
  llvm::interleaveComma(getArgs(), printer, [&](Attribute arg) { one(one, arg); });
  printer << ") writes [" << getWritten() << "] reads [" << getRead() << "]";
  if (!getShare().empty())
    printer << " share [" << getShare() << "]";
  if (getWork())
    printer << " does " << getWorkAttr() << " " << getFlops().value_or(0);
  if (getMoved())
    printer << " moves " << *getMoved();
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {"callee", "args", "written", "read", "share", "work", "flops", "moved"});
  printer << " : " << getOperandTypes();
}

ParseResult CallOp::parse(OpAsmParser &parser, OperationState &state) {
  Builder &builder = parser.getBuilder();
  Properties &properties = state.getOrAddProperties<Properties>();
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<Type> types;
  auto list = [&](auto &self, AsmParser::Delimiter delimiter, ArrayAttr &into) -> ParseResult {
    SmallVector<Attribute> parts;
    auto one = [&]() -> ParseResult {
      OpAsmParser::UnresolvedOperand operand;
      OptionalParseResult isOperand = parser.parseOptionalOperand(operand);
      if (isOperand.has_value()) {
        operands.push_back(operand);
        parts.push_back(builder.getUnitAttr());
        return *isOperand;
      }
      ArrayAttr inner;
      if (succeeded(parser.parseOptionalLSquare())) {
        if (failed(parser.parseOptionalRSquare()) &&
            (self(self, AsmParser::Delimiter::None, inner) || parser.parseRSquare()))
          return failure();
        parts.push_back(inner ? inner : builder.getArrayAttr({}));
        return success();
      }
      return parser.parseAttribute(parts.emplace_back());
    };
    if (parser.parseCommaSeparatedList(delimiter, one))
      return failure();
    into = builder.getArrayAttr(parts);
    return success();
  };
  auto numbers = [&](StringRef word, bool optional, DenseI64ArrayAttr &into) -> ParseResult {
    SmallVector<int64_t> values;
    if (failed(parser.parseOptionalKeyword(word))) {
      into = builder.getDenseI64ArrayAttr({});
      return optional ? success() : parser.emitError(parser.getCurrentLocation()) << "expected '" << word << "'";
    }
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                       [&] { return parser.parseInteger(values.emplace_back()); }))
      return failure();
    into = builder.getDenseI64ArrayAttr(values);
    return success();
  };
  auto cost = [&]() -> ParseResult {
    int64_t flops = 0, moved = 0;
    if (succeeded(parser.parseOptionalKeyword("does"))) {
      if (parser.parseAttribute(properties.work) || parser.parseInteger(flops))
        return failure();
      properties.flops = builder.getI64IntegerAttr(flops);
    }
    if (succeeded(parser.parseOptionalKeyword("moves"))) {
      if (parser.parseInteger(moved))
        return failure();
      properties.moved = builder.getI64IntegerAttr(moved);
    }
    return success();
  };
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseAttribute(properties.callee) || list(list, AsmParser::Delimiter::Paren, properties.args) ||
      numbers("writes", false, properties.written) || numbers("reads", false, properties.read) ||
      numbers("share", true, properties.share) || cost() || parser.parseOptionalAttrDict(state.attributes) ||
      (operands.empty() ? parser.parseColon() : parser.parseColonTypeList(types)))
    return failure();
  return parser.resolveOperands(operands, types, at, state.operands);
}

//===- rt.invoke -------------------------------------------------------------------------------------------------===//

namespace {
FunctionOp calleeOf(InvokeOp op) { return SymbolTable::lookupNearestSymbolFrom<FunctionOp>(op, op.getCalleeAttr()); }
} // namespace

LogicalResult InvokeOp::verify() {
  FunctionOp callee = calleeOf(*this);
  if (!callee)
    return emitOpError() << "invokes " << getCallee() << ", which is no function of the module";
  SmallVector<Type> wanted;
  for (Type type : callee.getBody().getArgumentTypes())
    if (!type.isIndex())
      wanted.push_back(type);
  if (wanted.size() != getOperands().size())
    return emitOpError() << "has " << getOperands().size() << " operands, and " << getCallee() << " takes "
                         << wanted.size();
  for (auto [operand, type] : llvm::zip(getOperands(), wanted)) {
    auto has = dyn_cast<Buffer>(operand.getType()), takes = dyn_cast<Buffer>(type);
    if (takes ? !has || has.getElement() != takes.getElement() || !has.isDense() || has.count() != static_cast<int64_t>(getCount())
              : (has && has.count() == 1 ? has.getElement() : operand.getType()) != type)
      return emitOpError() << "gives " << operand.getType() << " where " << getCallee() << " takes " << type;
  }
  for (int64_t i : getWritten())
    if (i < 0 || i >= static_cast<int64_t>(getOperands().size()))
      return emitOpError() << "names operands that it has";
  return success();
}

SmallVector<Value> InvokeOp::writes() {
  return llvm::map_to_vector(getWritten(), [&](int64_t i) { return Value(getOperands()[i]); });
}
SmallVector<Value> InvokeOp::reads() {
  return llvm::filter_to_vector(getOperands(), [](Value v) { return isa<Buffer>(v.getType()); });
}

void InvokeOp::emit(Writer &writer) {
  SmallVector<std::string> arguments;
  auto operands = getOperands().begin();
  for (Type type : calleeOf(*this).getBody().getArgumentTypes()) {
    if (type.isIndex()) {
      auto row = llvm::find_if(getOperands(), [&](Value v) {
        auto buffer = dyn_cast<Buffer>(v.getType());
        return buffer && buffer.count() == static_cast<int64_t>(getCount());
      });
      arguments.push_back(writer.size(buffer(*row).getAxes()));
      continue;
    }
    Value operand = *operands++;
    arguments.push_back(isa<Buffer>(operand.getType()) && !isa<Buffer>(type) ? writer.element(operand)
                                                                             : writer.name(operand));
  }
  writer.call(*this, getCallee(), arguments);
}

//===- collectives -----------------------------------------------------------------------------------------------===//

int64_t CollectiveOp::messageBytes() {
  int64_t bytes = getCount() * buffer(getIn()).elementBytes();
  return getKind() == "all_reduce" || getKind() == "broadcast" ? bytes : bytes * getRanks();
}

LogicalResult CollectiveOp::verify() {
  if (getTickets() && getTicket())
    return emitOpError() << "has a ticket of its own or keeps it in rt.tickets, not both";
  auto loop = (*this)->getParentOfType<ForOp>();
  if (getTickets() && (!loop || loop.position() != getPosition()))
    return emitOpError() << "keeps its ticket at the position of the loop that it stands in";
  auto kept = getTickets() ? getTickets().getDefiningOp<TicketsOp>() : TicketsOp();
  if (getTickets() && (!kept || kept.getCount() != loop.getCount()))
    return emitOpError() << "keeps " << loop.getCount() << " tickets, which one rt.tickets has room for";
  if (!getRuns())
    return success();
  if (getKind() != "all_gather" && getKind() != "reduce_scatter")
    return emitOpError() << "has rows in runs, which all_gather and reduce_scatter take alone";
  if (*getRuns() < 2 || getCount() % *getRuns() != 0)
    return emitOpError() << "has rows of " << getCount() << " elements in " << *getRuns()
                         << " runs: there are two or more, equally long";
  return success();
}

void CollectiveOp::emit(Writer &writer) {
  SmallVector<std::string> arguments{
      "r", "r.group(" + std::to_string((*this)->getAttrOfType<IntegerAttr>("rt.group").getInt()) + ")"};
  arguments.push_back(writer.name(getOut()));
  if (getIn() != getOut())
    arguments.push_back(writer.name(getIn()));
  std::string head = getKind().str();
  if (getRuns()) {
    head += "_inner";
    arguments.push_back(std::to_string(*getRuns()));
  }
  arguments.push_back(std::to_string(getCount() / getRuns().value_or(1)));
  if (getReduction())
    arguments.push_back(getReduction()->str());
  arguments.push_back(("Algorithm::" + getAlgorithm()).str());
  if (std::string place = writer.place(*this); !place.empty()) // for who waits in vain
    arguments.push_back(place);
  if (getTicket())
    head = writer.define(getTicket()) + " = " + head + "_start";
  if (getTickets())
    head = writer.name(getTickets()) + "[" + writer.name(getPosition()) + "] = " + head + "_start";
  double megabytes = static_cast<double>(messageBytes()) / 1e6;
  std::string size = megabytes >= 0.01 ? llvm::formatv("{0:f2} MB", megabytes).str()
                                       : llvm::formatv("{0} bytes", messageBytes()).str();
  writer.call(*this, head, arguments, (llvm::Twine(getRanks()) + " ranks, " + size + ": " + getWhy()).str());
}
SmallVector<Value> CollectiveOp::reads() { return {getIn()}; }
SmallVector<Value> CollectiveOp::writes() { return {getOut()}; }

LogicalResult TicketsOp::verify() {
  auto keeps = [](Operation *user) { return isa<CollectiveOp>(user); };
  if (getCount() < 1 || llvm::count_if(getTickets().getUsers(), keeps) != 1)
    return emitOpError() << "has room for a ticket or more, which one collective keeps there";
  return success();
}
void TicketsOp::emit(Writer &writer) { writer.tickets(getTickets(), getCount()); }
void WaitOp::emit(Writer &writer) { writer.call(*this, "wait", {writer.name(getTicket())}); }

//===- numbers ---------------------------------------------------------------------------------------------------===//

void ReportOp::emit(Writer &writer) {
  writer.call(*this, "r.report", {std::to_string(getSlot()), writer.element(getValue())}, getName());
  if (getKind() == ech::stringifyReportKind(ech::ReportKind::Norm)) {
    writer.line("if (r.isBroken())");
    writer.line("  return; // a loss or the norm is not finite: nothing is updated");
  }
}
SmallVector<Value> ReportOp::reads() { return {getValue()}; }
SmallVector<Value> ReportOp::writes() { return {}; }

void OffsetOp::emit(Writer &writer) {
  std::string text;
  for (auto [mesh, factor] : llvm::zip(getMesh(), getFactors())) {
    text += text.empty() ? (factor < 0 ? "-" : "") : (factor < 0 ? " - " : " + ");
    text += "r.coordinate(" + std::to_string(mesh) + ")";
    if (std::abs(factor) != 1)
      text += " * " + std::to_string(std::abs(factor));
  }
  if (text.empty() || getPlus() != 0)
    text += (text.empty() ? "" : " + ") + std::to_string(getPlus());
  writer.line("const int64_t " + writer.name(getResult()) + " = " + text + ";");
}

//===- loops -----------------------------------------------------------------------------------------------------===//

void ForOp::emit(Writer &writer) {
  std::string i = writer.name(position());
  ech::Axis axis{getAxisAttr(), static_cast<int64_t>(getCount())};
  std::string n = writer.size(axis);
  if (getReverse())
    writer.open("for (int64_t " + i + " = " + n + " - 1; " + i + " >= 0; --" + i + ") {");
  else
    writer.open("for (int64_t " + i + " = 0; " + i + " < " + n + "; ++" + i + ") {");
  writer.block(getBody().front());
  writer.close();
}
