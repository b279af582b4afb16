// What one coordinate of a mesh axis alone computes: operations of a step that are marked while they are made, and then
// go into an rt.at.
#include "passes/lower/Places.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
constexpr StringLiteral kPlace = "lower.place";

/// Null: not marked yet. Without numbers: of all ranks.
DenseI64ArrayAttr markOf(Operation &op) { return op.getAttrOfType<DenseI64ArrayAttr>(kPlace); }
} // namespace

Marking::Marking(Lowering &lowering, dist::Place place)
    : l(lowering), place(place), block(l.b.getInsertionBlock()),
      last(l.b.getInsertionPoint() == block->begin() ? nullptr : &*std::prev(l.b.getInsertionPoint())) {}
Marking::~Marking() {
  if (block->getParentOp() != l.function || l.b.getInsertionBlock() != block)
    return;
  auto made = last ? std::next(last->getIterator()) : block->begin();
  for (Operation &op : llvm::make_range(made, l.b.getInsertionPoint()))
    if (!markOf(op))
      op.setAttr(kPlace, place ? l.list({place->first, place->second}) : l.list({}));
}

void echelon::lower::standApart(Lowering &l) {
  OpBuilder::InsertionGuard guard(l.b);
  rt::AtOp open;
  DenseI64ArrayAttr of;
  for (Operation &op : llvm::make_early_inc_range(l.function.getBody().front())) {
    DenseI64ArrayAttr mark = markOf(op);
    op.removeAttr(kPlace);
    if (rt::isDeclaration(op)) { // others may use it, too
      if (open)
        op.moveBefore(open);
      continue;
    }
    if (!mark || mark.empty()) {
      open = {};
      continue;
    }
    if (!open || mark != of) {
      l.b.setInsertionPoint(&op);
      open = rt::AtOp::create(l.b, op.getLoc(), mark[1], mark[0], l.mesh.nameOf(int(mark[0])), false, Value(),
                              IntegerAttr(), IntegerAttr());
      open.getBody().emplaceBlock();
      of = mark;
    }
    op.moveBefore(&open.getBody().front(), open.getBody().front().end());
  }
}
