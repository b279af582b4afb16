// What operations cost. A roofline needs lower bounds: the arithmetic and the bytes that no kernel can do without.
#include "ir/rt/Product.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace echelon::rt;

namespace {
int64_t distinctBytes(Buffer type) {
  int64_t count = 1;
  for (auto [axis, stride] : llvm::zip(type.getAxes(), type.getStrides()))
    if (stride != 0)
      count *= axis.size;
  return count * type.elementBytes();
}

Value firstWritten(Operation *op) {
  SmallVector<Value> written = cast<Touches>(op).writes();
  return written.empty() ? Value() : written.front();
}
} // namespace

int64_t echelon::rt::touchedBytes(Operation *op) {
  auto touches = cast<Touches>(op);
  int64_t bytes = 0;
  for (const SmallVector<Value> &side : {touches.reads(), touches.writes()})
    for (Value v : llvm::SmallSetVector<Value, 8>(side.begin(), side.end()))
      bytes += distinctBytes(buffer(v));
  return bytes;
}

SmallVector<Value> echelon::rt::buffersWritten(Operation *op) {
  SmallVector<Value> values;
  for (OpOperand &operand : op->getOpOperands())
    if (isa<Buffer>(operand.get().getType()) &&
        cast<MemoryEffectOpInterface>(op).getEffectOnValue<MemoryEffects::Write>(operand.get()).has_value())
      values.push_back(operand.get());
  return values;
}
SmallVector<Value> echelon::rt::buffersRead(Operation *op) {
  SmallVector<Value> values = op->hasAttr("adds") ? buffersWritten(op) : SmallVector<Value>();
  for (OpOperand &operand : op->getOpOperands())
    if (isa<Buffer>(operand.get().getType()) &&
        cast<MemoryEffectOpInterface>(op).getEffectOnValue<MemoryEffects::Read>(operand.get()).has_value())
      values.push_back(operand.get());
  return values;
}

std::string echelon::rt::kernelName(Operation *op) {
  std::string name = op->getName().stripDialect().str();
  return llvm::TypeSwitch<Operation *, std::string>(op)
      .Case([&](ReduceOp reduce) {
        return reduce.getKind() == Reduction::ArgMax ? "argmax"
                                                     : name + "_" + stringifyReduction(reduce.getKind()).str();
      })
      .Case([&](PartialOp partial) { return stringifyPartialKind(partial.getKind()).str() + " of a part"; })
      .Case([&](CombineOp combine) { return stringifyCombineKind(combine.getKind()).str() + " of parts"; })
      .Case([&](ConvOp conv) {
        return conv.getKind() == ConvKind::Forward ? name : name + "_" + stringifyConvKind(conv.getKind()).str();
      })
      .Case<NormalizeOp, NormalizeGradOp>([&](auto norm) { return norm.getRms() ? "rms_" + name : name; })
      .Default(name);
}

Cost echelon::rt::costOfKernel(Operation *op) {
  return {kernelName(op), "kernels", 0, touchedBytes(op), firstWritten(op)};
}

namespace {
/// Sizes of attention, in the order of its definition.
template <typename Op> SmallVector<int64_t> sizesOf(Op op) {
  return llvm::map_to_vector(op.getSizes().template getAsRange<SizeAttr>(), [](SizeAttr s) { return s.count(); });
}

Product productOf(GemmOp op) {
  Product product = {op.getM().count(), op.getN().count(), op.getK().count(), 1, buffer(op.getA()).getElement()};
  for (size_t i = 0; i < op.getBatch().size(); i += 4)
    product.batch *= op.getBatch()[i];
  return product;
}
/// Of the keys of so many ranks.
template <typename Op> Product productOfScores(Op op, int64_t ranks = 1) {
  const SmallVector<int64_t> sizes = sizesOf(op);
  return {sizes[3], ranks * sizes[4], sizes[5], sizes[0] * sizes[1] * sizes[2], buffer(op.getQ()).getElement()};
}
} // namespace

Product echelon::rt::productOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, Product>(op)
      .Case([](GemmOp gemm) { return ::productOf(gemm); })
      .Case([](ConvOp conv) {
        Product product;
        product.factors = buffer(conv.getLhs()).getElement();
        return product;
      })
      .Case<AttentionOp, AttentionGradOp>([](auto attention) { return productOfScores(attention); })
      .Case<RingAttentionOp, RingAttentionGradOp>(
          [](auto ring) { return productOfScores(ring, static_cast<int64_t>(ring.getRanks())); })
      .Default([](Operation *) { return Product(); });
}

Cost GemmOp::cost() {
  const Product product = ::productOf(*this);
  return {kernelName(*this), "products", 2 * product.batch * product.m * product.n * product.k, touchedBytes(*this),
          getC()};
}
Cost GatherOp::cost() { return {kernelName(*this), "kernels", 0, static_cast<int64_t>(getMoved()), getY()}; }
Cost ScatterAddOp::cost() { return {kernelName(*this), "kernels", 0, static_cast<int64_t>(getMoved()), getTable()}; }
Cost ConvOp::cost() {
  return {kernelName(*this), "convolutions", static_cast<int64_t>(getFlops()), static_cast<int64_t>(getMoved()),
          getResult()};
}

namespace {
/// Of half the scores where they are causal; as many products run over keys as over values.
template <typename Op> int64_t attentionFlops(Op op, int64_t products) {
  const SmallVector<int64_t> sizes = sizesOf(op);
  int64_t scores = sizes[0] * sizes[1] * sizes[2] * sizes[3] * sizes[4] / (op.getCausal() ? 2 : 1);
  return scores * (sizes[5] + sizes[6]) * products;
}
} // namespace
Cost AttentionOp::cost() {
  return {kernelName(*this), "attention", attentionFlops(*this, 2), touchedBytes(*this), getY()};
}
Cost AttentionGradOp::cost() {
  return {kernelName(*this), "attention", attentionFlops(*this, 5), touchedBytes(*this), getDq()};
}
// Of the keys of all ranks; what moves meanwhile is no work of the call.
Cost RingAttentionOp::cost() {
  const int64_t ranks = getRanks();
  return {kernelName(*this), "attention", ranks * attentionFlops(*this, 2), touchedBytes(*this), getY()};
}
Cost RingAttentionGradOp::cost() {
  const int64_t ranks = getRanks();
  return {kernelName(*this), "attention", ranks * attentionFlops(*this, 5), touchedBytes(*this), getDq()};
}

// Each scalar function counts as one operation at each point of the loops, though some take many.
Cost FusedOp::cost() {
  int64_t points = 1, functions = llvm::range_size(getBody().front().getOps<ComputeOp>());
  for (int64_t size : getSizes())
    points *= size;
  return {"loop", "loops", points * functions, touchedBytes(*this), firstWritten(*this)};
}

// Those of the loop that it runs, over its own rows.
Cost InvokeOp::cost() {
  int64_t functions = 0;
  if (auto callee = SymbolTable::lookupNearestSymbolFrom<FunctionOp>(*this, getCalleeAttr()))
    callee.walk([&](FusedOp nest) { functions += llvm::range_size(nest.getBody().front().getOps<ComputeOp>()); });
  return {getCallee().str(), "loops", static_cast<int64_t>(getCount()) * functions, touchedBytes(*this),
          firstWritten(*this)};
}

// What one rank must get from the others where bandwidth is the limit: n - 1 of n parts, once to sum them up, once to
// hand sums on.
Cost CollectiveOp::cost() {
  int64_t ranks = getRanks(), parts = messageBytes() / std::max<int64_t>(ranks, 1) * (ranks - 1);
  int64_t bytes = getKind() == "all_reduce" ? 2 * parts : getKind() == "broadcast" ? messageBytes() : parts;
  if (isStarted()) // what moves meanwhile is no work of the start
    return {getKind().str() + "_start", "messages", 0, 0, getOut()};
  return {getKind().str(), "messages", 0, bytes, getOut()};
}

Cost SendOp::cost() { return {"send", "messages", 0, buffer(getBuffer()).bytes(), getBuffer()}; }
Cost ReceiveOp::cost() { return {"receive", "messages", 0, buffer(getBuffer()).bytes(), getBuffer()}; }

Cost WaitOp::cost() {
  auto started = getTicket().getDefiningOp<CollectiveOp>();
  for (Operation *user : getTicket().getUsers())
    if (auto kept = dyn_cast<CollectiveOp>(user))
      started = kept;
  return {started ? "wait " + started.getKind().str() : "wait", "waiting", 0, 0, started ? started.getOut() : Value()};
}

Cost ReportOp::cost() { return {"report", "kernels", 0, 0, getValue()}; }
