#include "passes/PieceUpdates.h"
#include "ir/rt/Offload.h"
#include "passes/Phase.h"

using namespace mlir;
using namespace echelon;

namespace {
constexpr int64_t kPage = 4096; // what is smaller goes with what lies beside it

/// Whether a rule has rows of a buffer; it is told of them.
bool takesRows(rt::InvokeOp call, rt::AllocOp of) {
  auto known = call->getAttrOfType<DenseI64ArrayAttr>(rt::kOffloadedRows);
  SmallVector<int64_t> rows(known ? known.asArrayRef() : ArrayRef<int64_t>());
  bool hasSuch = false;
  for (auto [i, operand] : llvm::enumerate(call.getOperands())) {
    if (!isa<rt::Buffer>(operand.getType()) || rt::allocOf(operand) != of ||
        rt::buffer(operand).count() != static_cast<int64_t>(call.getCount()))
      continue;
    hasSuch = true;
    if (!llvm::is_contained(rows, static_cast<int64_t>(i)))
      rows.push_back(static_cast<int64_t>(i));
  }
  llvm::sort(rows);
  if (hasSuch)
    call->setAttr(rt::kOffloadedRows, DenseI64ArrayAttr::get(call.getContext(), rows));
  return hasSuch;
}

void piece(rt::AllocOp alloc, bool isStaged) {
  Operation *last = nullptr, *lastUser = nullptr; // that has the whole in memory
  rt::forEachUser(alloc.getBuffer(), [&](Operation *user) {
    auto call = dyn_cast<rt::InvokeOp>(user);
    if ((call && takesRows(call, alloc)) || isa<rt::FetchOp, rt::WriteBackOp>(user))
      return;
    Operation *at = alloc->getBlock()->findAncestorOpInBlock(*user);
    if (!last || last->isBeforeInBlock(at)) {
      last = at;
      lastUser = user;
    }
  });
  if (!last)
    return;
  if (isStaged)
    llvm::report_fatal_error("an operation of a GPU touches what is offloaded where it lies");
  OpBuilder b(alloc.getContext());
  if (auto at = dyn_cast<rt::AtOp>(last)) // of a stage alone
    b.setInsertionPointToEnd(&at.getBody().front());
  else
    b.setInsertionPointAfter(last);
  copyPhase(lastUser, rt::LetGoOp::create(b, last->getLoc(), alloc.getBuffer()));
}
} // namespace

void echelon::pieceUpdates(ModuleOp module) {
  auto offloaded = module->getAttrOfType<DenseI64ArrayAttr>(rt::kOffloaded);
  if (!offloaded)
    return;
  const bool isStaged = module->hasAttr(rt::kStaged); // a device has none of it else
  SmallVector<rt::AllocOp> buffers;
  for (auto step : module.getOps<rt::FunctionOp>())
    step.walk([&](rt::AllocOp alloc) {
      if (alloc.getArena() == rt::Arena::State && static_cast<int64_t>(*alloc.getOffset()) >= offloaded[0] &&
          (isStaged || rt::buffer(alloc).bytes() >= kPage))
        buffers.push_back(alloc);
    });
  for (rt::AllocOp alloc : buffers)
    piece(alloc, isStaged);
}
