// rt-pad-rows: rows of matrices begin at multiples of 16 bytes.
//
// A GPU's library reads matrices 16 bytes at once, if their rows begin there; else its products are many times as slow
// (docs/h100.md: 48 ms for 6.9 of GPT-2's logits, whose rows have 50,257 columns). Of the step's own work, a buffer
// that products read or write with rows of another length gets rows of the next multiple of 128 bytes, where all that
// touches it knows how far rows are apart: products, loops, cross-entropy.
#include "ir/rt/Rt.h"
#include "passes/Passes.h"

namespace echelon {
#define GEN_PASS_DEF_PADROWS
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;
using ech::Axis;

namespace {
constexpr int64_t kAccess = 16, kRow = 128; // bytes
constexpr int64_t kShort = 64;              // elements: a row for which a kernel of our own does as well

/// A leading dimension of a product, and the length of the rows that it steps over.
struct Leading {
  rt::GemmOp product;
  Value matrix;
  rt::SizeAttr ld;
  int64_t length;
};
SmallVector<Leading> leadingOf(rt::GemmOp p) {
  const int64_t m = p.getM().count(), n = p.getN().count(), k = p.getK().count();
  return {{p, p.getC(), p.getLdc(), n},
          {p, p.getA(), p.getLda(), p.getTransA() ? m : k},
          {p, p.getB(), p.getLdb(), p.getTransB() ? k : n}};
}

/// Whether an operation reads or writes a buffer row by row, whatever lies between rows of this length.
bool knowsRows(Operation *user, Value buffer, int64_t length) {
  if (isa<rt::FusedOp>(user))
    return true;
  if (auto loss = dyn_cast<rt::CrossEntropyOp>(user))
    return !loss.getMass() && loss.getX() == buffer && loss.getN().count() == length;
  auto product = dyn_cast<rt::GemmOp>(user);
  return product && product.getBatch().empty() && product.getBias() != buffer &&
         llvm::all_of(leadingOf(product), [&](const Leading &l) {
           return l.matrix != buffer || (l.ld.count() == length && l.length == length);
         });
}

struct PadRows : echelon::impl::PadRowsBase<PadRows> {
  void runOnOperation() override {
    getOperation().walk([](rt::AllocOp alloc) {
      if (alloc.getArena() == rt::Arena::Work)
        pad(alloc);
    });
  }

  static void pad(rt::AllocOp alloc) {
    Value buffer = alloc.getBuffer();
    rt::Buffer type = rt::buffer(buffer);
    if (type.rank() < 2 || !type.isDense())
      return;
    const int64_t length = type.getAxes().back().size, bytes = type.elementBytes();
    if (length <= kShort || length * bytes % kAccess == 0 ||
        llvm::none_of(buffer.getUsers(), [](Operation *user) { return isa<rt::GemmOp>(user); }) ||
        !llvm::all_of(buffer.getUsers(), [&](Operation *user) { return knowsRows(user, buffer, length); }))
      return;
    const int64_t step = (length * bytes + kRow - 1) / kRow * kRow / bytes;
    SmallVector<int64_t> strides(type.getStrides());
    for (int64_t &stride : MutableArrayRef(strides).drop_back())
      stride = stride / length * step;
    MLIRContext *context = alloc.getContext();
    buffer.setType(rt::Buffer::get(context, type.getAxes(), type.getElement(), strides));
    const auto ld = rt::SizeAttr::get(context, Axis{StringAttr::get(context, ""), step});
    for (Operation *user : buffer.getUsers()) {
      if (auto loss = dyn_cast<rt::CrossEntropyOp>(user))
        loss.setLdAttr(ld);
      auto product = dyn_cast<rt::GemmOp>(user);
      if (!product)
        continue;
      if (product.getC() == buffer)
        product.setLdcAttr(ld);
      if (product.getA() == buffer)
        product.setLdaAttr(ld);
      if (product.getB() == buffer)
        product.setLdbAttr(ld);
    }
  }
};
} // namespace
