// What operations cost. A roofline needs lower bounds: the arithmetic and the bytes that no kernel can do without.
#include "ir/rt/Rt.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SetVector.h"

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

Cost CallOp::cost() {
  return {getCallee().str(), getWork().value_or("kernels"), int64_t(getFlops().value_or(0)),
          getMoved() ? int64_t(*getMoved()) : touchedBytes(*this), firstWritten(*this)};
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
    callee.walk([&](ComputeOp) { ++functions; });
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

Cost WaitOp::cost() {
  auto started = getTicket().getDefiningOp<CollectiveOp>();
  for (Operation *user : getTicket().getUsers())
    if (auto kept = dyn_cast<CollectiveOp>(user))
      started = kept;
  return {started ? "wait " + started.getKind().str() : "wait", "waiting", 0, 0, started ? started.getOut() : Value()};
}

Cost ReportOp::cost() { return {"report", "kernels", 0, 0, getValue()}; }
