// What the operations that move data must satisfy.
#include "ir/dist/State.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;

#define GET_OP_CLASSES
#include "ir/dist/DistOps.cpp.inc"

/// Same axes and elements, both laid out, both states legal on the module's mesh.
static LogicalResult verifyPair(Operation *op, Tensor from, Tensor to, MeshAttr &mesh) {
  mesh = meshOf(op);
  if (!mesh)
    return op->emitOpError("is in a module without a dist.mesh");
  if (from.getAxes() != to.getAxes() || from.getElement() != to.getElement())
    return op->emitOpError("changes the state alone, not ") << ech::describe(from) << " to " << ech::describe(to);
  for (Tensor type : {from, to}) {
    StateAttr state = stateOf(type);
    if (!state)
      return op->emitOpError("needs laid-out types, not ") << type;
    if (failed(checkState(type, state, mesh, [&] { return op->emitOpError(); })))
      return failure();
  }
  return success();
}

static LogicalResult verifyMessage(Operation *op, StringRef kind, TypeRange from, TypeRange to, ArrayAttr names) {
  if (from.empty() || from.size() != to.size())
    return op->emitOpError("has ") << from.size() << " values and " << to.size() << " results";
  for (auto [a, b] : llvm::zip(from, to)) {
    auto source = cast<Tensor>(a), result = cast<Tensor>(b);
    MeshAttr mesh;
    if (failed(verifyPair(op, source, result, mesh)))
      return failure();
    for (Attribute name : names)
      if (mesh.index(cast<StringAttr>(name)) < 0)
        return op->emitOpError("is over ") << name << ", which the mesh lacks";
    for (int m = 0; m < mesh.size(); ++m) {
      const Entry &before = stateOf(source)[m], &after = stateOf(result)[m];
      bool named = ech::has(names, mesh.nameOf(m));
      if (!named && before != after)
        return op->emitOpError("changes the state over ") << mesh.nameOf(m) << ", which it does not name";
      // an exchange also names the mesh axes that take part without a change of their own
      if (named && !isLegal(kind, before, after) && !(kind == "exchange" && before == after))
        return op->emitOpError("does not make ")
               << spell(after) << " of " << spell(before) << " over " << mesh.nameOf(m);
    }
  }
  return success();
}

LogicalResult ConvertOp::verify() {
  MeshAttr mesh;
  return verifyPair(*this, ech::tensor(getValue()), ech::tensor(getResult()), mesh);
}
LogicalResult SliceOp::verify() {
  return verifyMessage(*this, "slice", getValue().getType(), getResult().getType(), getOver());
}
LogicalResult BroadcastOp::verify() {
  if (failed(verifyMessage(*this, "broadcast", getValues().getTypes(), getResults().getTypes(), getOver())))
    return failure();
  MeshAttr mesh = meshOf(*this);
  if (getOver().size() != 1)
    return emitOpError("is over one mesh axis");
  int64_t size = mesh.sizeOf(mesh.index(cast<StringAttr>(getOver()[0])));
  if (getRoot() >= uint64_t(size))
    return emitOpError("comes from coordinate ") << getRoot() << " of " << size;
  return success();
}
#define MESSAGE(OP, KIND)                                                                                              \
  LogicalResult OP::verify() {                                                                                         \
    return verifyMessage(*this, KIND, getValues().getTypes(), getResults().getTypes(), getOver());                     \
  }
static LogicalResult verifyStages(Operation *op, StringRef meshAxis) {
  MeshAttr mesh = meshOf(op);
  if (!mesh || mesh.index(meshAxis) < 0)
    return op->emitOpError("is over ") << meshAxis << ", which the mesh lacks";
  return success();
}
template <typename Op> static LogicalResult verifyMessageOfStages(Op op, StringRef neighbor) {
  if (neighbor != "previous" && neighbor != "next")
    return op.emitOpError("is with the previous or the next stage, not with ") << neighbor;
  if (op.getFirst() >= op.getLast())
    return op.emitOpError("goes from place ") << op.getFirst() << " to a later one, not to " << op.getLast();
  return verifyStages(op, op.getOver());
}
YieldOp AtOp::yield() { return cast<YieldOp>(block()->getTerminator()); }
LogicalResult AtOp::verify() {
  if (block()->empty() || !isa<YieldOp>(block()->back()) || yield().getValues().size() != getResults().size())
    return emitOpError("ends with a value for each of its ") << getResults().size() << " results";
  for (auto [value, result] : llvm::zip(yield().getValues(), getResults()))
    if (ech::tensor(value).withState({}) != ech::tensor(result).withState({}))
      return emitOpError("has a result ") << result.getType() << " of " << value.getType();
  return verifyStages(*this, getOver());
}
LogicalResult ReceiveOp::verify() { return verifyMessageOfStages(*this, getFrom()); }
LogicalResult SendOp::verify() { return verifyMessageOfStages(*this, getTo()); }
MESSAGE(ReduceScatterOp, "reduce_scatter")
MESSAGE(AllToAllOp, "all_to_all")
MESSAGE(AllGatherOp, "all_gather")
MESSAGE(ExchangeOp, "exchange")
#undef MESSAGE
LogicalResult AllReduceOp::verify() {
  std::string kind = "all_reduce";
  if (std::optional<StringRef> reduction = getReduction()) {
    if (*reduction != "max" && *reduction != "min")
      return emitOpError("is by max, by min, or a sum, not by ") << *reduction;
    kind += (" " + *reduction).str();
  }
  return verifyMessage(*this, kind, getValues().getTypes(), getResults().getTypes(), getOver());
}

//===- what ranks find of their parts ---------------------------------------------------------------------------===//

StringRef PartialOp::nameOf(unsigned result) {
  switch (getKind()) {
  case Partial::SumOfExp:
    return "sum_of_exp";
  case Partial::CrossEntropy:
    return result == 0 ? "sum_of_exp" : result == 1 ? "picked" : "mass";
  case Partial::Largest:
    return "largest";
  case Partial::Moments:
    return "moments";
  case Partial::Squares:
    return "squares";
  case Partial::NormSums:
  case Partial::RmsSums:
    return "sums";
  case Partial::AllSquares:
    return "sum_of_squares";
  case Partial::Maximum:
    return "maximum";
  }
  llvm_unreachable("all partials are named");
}

/// The mesh, if all types are laid out on it.
static FailureOr<MeshAttr> verifyLaidOut(Operation *op) {
  MeshAttr mesh = meshOf(op);
  if (!mesh)
    return op->emitOpError("is in a module without a dist.mesh");
  for (TypeRange types : {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
    for (Type type : types)
      if (!stateOf(cast<Tensor>(type)))
        return op->emitOpError("needs laid-out types, not ") << type;
  return mesh;
}
static LogicalResult verifyCounts(Operation *op, StringRef kind, unsigned operands, unsigned results) {
  if (op->getNumOperands() == operands && op->getNumResults() == results)
    return success();
  return op->emitOpError() << kind << " has " << operands << " operands and " << results << " results, not "
                           << op->getNumOperands() << " and " << op->getNumResults();
}

LogicalResult PartialOp::verify() {
  FailureOr<MeshAttr> mesh = verifyLaidOut(*this);
  if (failed(mesh))
    return failure();
  const bool hasTarget = getKind() == Partial::CrossEntropy && getNumResults() == 3;
  static constexpr unsigned kOperands[] = {2, 3, 1, 1, 1, 2, 2, 0, 1};
  unsigned operands = getKind() == Partial::AllSquares ? getNumOperands() : kOperands[unsigned(getKind())];
  if (failed(verifyCounts(*this, stringifyPartial(getKind()), operands,
                          getKind() != Partial::CrossEntropy ? 1
                          : hasTarget                        ? 3
                                                             : 2)))
    return failure();
  const bool isOwn = llvm::is_contained({Partial::Largest, Partial::Moments, Partial::Maximum}, getKind());
  for (Value result : getResults()) {
    StateAttr state = stateOf(ech::tensor(result));
    if (llvm::none_of(state.getEntries(), [&](const Entry &e) { return e.hold == (isOwn ? Hold::Own : Hold::Sum); }))
      return emitOpError("is ") << (isOwn ? "own" : "a sum") << " over the mesh axes that divide its operand, not "
                                << state;
  }
  return success();
}

LogicalResult CollectOp::verify() {
  FailureOr<MeshAttr> mesh = verifyLaidOut(*this);
  if (failed(mesh))
    return failure();
  Tensor from = ech::tensor(getValue()), to = ech::tensor(getResult());
  int64_t ranks = 1;
  for (Attribute name : getOver()) {
    int m = mesh->index(cast<StringAttr>(name));
    if (m < 0)
      return emitOpError("is over ") << name << ", which the mesh lacks";
    if (!isLegal("collect", stateOf(from)[m], stateOf(to)[m]))
      return emitOpError("does not make ")
             << spell(stateOf(to)[m]) << " of " << spell(stateOf(from)[m]) << " over " << mesh->nameOf(m);
    ranks *= mesh->sizeOf(m);
  }
  ArrayRef<ech::Axis> axes = to.getAxes();
  if (axes.empty() || axes[0].name != getAxis() || axes[0].size != ranks || axes.drop_front() != from.getAxes() ||
      from.getElement() != to.getElement())
    return emitOpError("adds the axis ") << getAxis() << " = " << ranks << " before those of " << ech::describe(from)
                                         << ", not " << ech::describe(to);
  return success();
}

StringRef CombineOp::nameOf(unsigned result) {
  static constexpr StringRef kLogSumExp[] = {"", "shift", "log_sum"},
                             kNorm[] = {"", "rstd", "mean", "variance", "mean_low"};
  switch (getKind()) {
  case Combination::LogSumExp:
    return kLogSumExp[result];
  case Combination::CrossEntropy:
    return result == 0 ? "" : "log_sum";
  case Combination::Normalize:
  case Combination::RmsNormalize:
    return kNorm[result];
  case Combination::Statistics:
    return kNorm[result + 1];
  default:
    return "";
  }
}

LogicalResult CombineOp::verify() {
  if (failed(verifyLaidOut(*this)))
    return failure();
  static constexpr std::pair<unsigned, unsigned> kCounts[] = {{3, 1}, {2, 3}, {2, 2}, {1, 1}, {2, 5},
                                                              {1, 4}, {2, 2}, {4, 1}, {4, 1}, {1, 1}};
  auto [operands, results] = kCounts[unsigned(getKind())];
  if (getKind() == Combination::CrossEntropy && getNumOperands() == 3)
    operands = 3;
  return verifyCounts(*this, stringifyCombination(getKind()), operands, results);
}

LogicalResult MaskOp::verify() {
  for (Attribute axis : getAxes())
    if (!ech::tensor(getValue()).has(cast<StringAttr>(axis)))
      return emitOpError("masks axis ") << axis << ", which the tensor lacks";
  return success();
}

WaitOp StartOp::wait() {
  for (Operation *user : getToken().getUsers())
    if (auto wait = dyn_cast<WaitOp>(user))
      return wait;
  return {};
}
LogicalResult StartOp::verify() {
  if (!llvm::is_contained({"reduce_scatter", "all_to_all", "all_reduce", "all_gather", "exchange"}, getKind()))
    return emitOpError("cannot start a ") << getKind();
  if (!getToken().hasOneUse() || !wait())
    return emitOpError("has one dist.wait");
  return verifyMessage(*this, getKind(), getValues().getTypes(), wait().getResults().getTypes(), getOver());
}
StartOp WaitOp::start() { return getToken().getDefiningOp<StartOp>(); }
LogicalResult WaitOp::verify() {
  if (!start())
    return emitOpError("waits for a token of dist.start");
  return success();
}

OpOperand *StartEachOp::stacked() {
  auto yield = getResult().hasOneUse() ? dyn_cast<ech::YieldOp>(*getResult().user_begin()) : ech::YieldOp();
  if (!yield || yield->getBlock() != (*this)->getBlock())
    return nullptr;
  OpOperand &use = *getResult().use_begin();
  int64_t at = use.getOperandNumber() - int64_t(yield.getCarried().size());
  return at >= 0 && at < int64_t(yield.getStacked().size()) ? &use : nullptr;
}
Value StartEachOp::stack() {
  OpOperand *use = stacked();
  auto loop = use ? dyn_cast<ech::RepeatOp>((*this)->getParentOp()) : ech::RepeatOp();
  if (!loop || loop.getTime())
    return {};
  int64_t at = use->getOperandNumber() - int64_t(cast<ech::YieldOp>(use->getOwner()).getCarried().size());
  return at < int64_t(loop.getStacks().size()) ? loop.getStacks()[at] : Value();
}
LogicalResult StartEachOp::verify() {
  if (getKind() != "all_reduce") // what is scattered or gathered comes to lie elsewhere
    return emitOpError("cannot start a ") << getKind() << " in each iteration";
  Value all = stack();
  if (!all)
    return emitOpError("is stacked by the repeat that it is in, and nothing else reads it");
  if (!all.hasOneUse() || !isa<WaitEachOp>(*all.user_begin()))
    return emitOpError("has one dist.wait_each, which alone reads the stack");
  return verifyMessage(*this, getKind(), getValue().getType(), getResult().getType(), getOver());
}
StartEachOp WaitEachOp::start() {
  auto stacked = dyn_cast<OpResult>(getStack());
  auto loop = stacked ? dyn_cast<ech::RepeatOp>(stacked.getOwner()) : ech::RepeatOp();
  // this may be asked before the repeat has been verified
  Block *body = loop && !loop.getBody().empty() ? loop.block() : nullptr;
  auto yield = body && !body->empty() ? dyn_cast<ech::YieldOp>(body->back()) : ech::YieldOp();
  if (!yield)
    return {};
  int64_t at = stacked.getResultNumber() - int64_t(loop.getFinals().size());
  return at >= 0 && at < int64_t(yield.getStacked().size()) ? yield.getStacked()[at].getDefiningOp<StartEachOp>()
                                                            : StartEachOp();
}
LogicalResult WaitEachOp::verify() {
  if (!start())
    return emitOpError("waits for what dist.start_each made in each iteration of a repeat");
  return success();
}

LogicalResult LinearOp::verify() {
  Tensor lhs = ech::tensor(getLhs()), rhs = ech::tensor(getRhs()), result = ech::tensor(getResult());
  if (!ech::isNarrow(lhs.getElement()))
    return emitOpError("multiplies in two bytes, not ") << lhs.getElement();
  if (lhs.getElement() != rhs.getElement() || lhs.getElement() != result.getElement())
    return emitOpError("is of one element type, not of ")
           << lhs.getElement() << ", " << rhs.getElement() << " and " << result.getElement();
  if (!getBias())
    return success();
  Tensor bias = ech::tensor(getBias());
  if (bias.getElement() != lhs.getElement())
    return emitOpError("is of one element type, and the bias is of ") << bias.getElement();
  if (bias.getAxes().size() >= result.getAxes().size() ||
      result.getAxes().take_back(bias.getAxes().size()) != bias.getAxes())
    return emitOpError("has a bias ") << ech::describe(bias) << " that is not along the last axes of the result "
                                      << ech::describe(result);
  return success();
}
