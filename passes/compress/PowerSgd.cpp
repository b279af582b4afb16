// PowerSGD (Vogels et al. 2019, arXiv:1905.13727, algorithm 1): a matrix as a product of low rank, P Q^T, by one step
// of power iteration from the Q of the step before. Both factors are means over workers, so what is applied is what one
// rank makes of the mean gradient. A next step begins with Q's columns at a largest number of 1, so that it may be
// small or nothing: a column that P had nothing for stays what it was.
#include "ir/ech/ops/Derive.h"
#include "passes/compress/Packing.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using namespace echelon::compress;

namespace {
/// How many leading axes are rows: where rows + columns is least, the earliest of such cuts; 0: it has one axis.
size_t rowsOf(ArrayRef<Axis> axes) {
  size_t best = 0;
  int64_t least = 0;
  for (size_t cut = 1; cut < axes.size(); ++cut) {
    int64_t rows = 1, columns = 1;
    for (auto [i, axis] : llvm::enumerate(axes))
      (i < cut ? rows : columns) *= axis.size;
    if (best == 0 || rows + columns < least) {
      best = cut;
      least = rows + columns;
    }
  }
  return best;
}
int64_t product(ArrayRef<Axis> axes) {
  int64_t n = 1;
  for (const Axis &axis : axes)
    n *= axis.size;
  return n;
}

/// What is not smaller as two factors travels as it is.
bool isMatrix(const Packed &p) {
  SmallVector<Axis> own = p.own();
  const size_t cut = rowsOf(own);
  if (cut == 0)
    return false;
  const int64_t rows = product(ArrayRef(own).take_front(cut)), columns = product(ArrayRef(own).drop_front(cut));
  return int64_t(p.amount) * (rows + columns) < rows * columns;
}

Unpacked packPowerSgd(const Packed &p, Value u) {
  Build &b = p.build;
  SmallVector<Axis> own = p.own();
  const size_t cut = rowsOf(own);
  auto names = [](ArrayRef<Axis> axes) {
    return llvm::map_to_vector(axes, [](const Axis &a) { return a.name.getValue(); });
  };
  SmallVector<StringRef> rows = names(ArrayRef(own).take_front(cut)), columns = names(ArrayRef(own).drop_front(cut));
  Tensor param = cast<Tensor>(p.param.getType());
  SmallVector<Axis> axes(param.getAxes().take_front(p.param.getStacked()));
  llvm::append_range(axes, ArrayRef(own).drop_front(cut));
  axes.push_back({b.builder.getStringAttr(p.workers.factor), int64_t(p.amount)});
  VariableOp start = p.variable("optimizer.powersgd.", param.withAxes(axes), Distribution::Normal, 0, 1);

  Value before = p.read(start);
  Value left = p.named("left", p.mean(b.dot(u, before, columns)));
  left = p.named("orthogonal", b.orthogonalize(left, rows, p.workers.factor));
  Value right = p.named("right", p.mean(b.dot(u, left, rows)));
  Value largest = b.reduce(Reduction::Max, b.map(Function::Abs, {right}), columns);
  Value isNothing = b.map(Function::Eq, {largest, b.constant(0)});
  Value next = b.select(isNothing, before, b.div(right, largest));
  WriteOp::create(b.builder, b.loc, start.getSymName(), inOrder(b, next, cast<Tensor>(start.getType())));
  Value product = p.named("product", b.dot(left, right, {p.workers.factor}));
  return {product, !p.feedback ? Value() : p.counts ? b.mul(product, p.counts) : product};
}
} // namespace

const Packing echelon::compress::kPowerSgd{"powersgd", isMatrix, packPowerSgd};
