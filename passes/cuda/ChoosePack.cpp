// How large a pack is, and where there is none.
//
// 1. Let "moved" be the buffers that the innermost loop walks. The largest element of them decides: a pack of it is 16
//    bytes. Where some have two bytes and at most two have four, it is 8 elements: 16 bytes of the former; with more of
//    the latter, packs would take too many registers.
// 2. Where that does not fit, half of it is tried, down to 2. A pack k fits if the innermost loop's size is a multiple
//    of k (rows of any length have a tail), each moved buffer is walked with stride 1 and its other strides are
//    multiples of k, and each pack begins at a multiple of its bytes, or of 16. Arenas begin at multiples of 256 bytes
//    on a device, and the emulation's at multiples of 16.
// 3. What is written is read in the same place, or not at all.
//
//   y[b, h] = x[b, h] + g[h] in float, h = 128: 4 elements. h = 6: 2. With x and y in bf16: 8; h = 12: 4.
#include "passes/cuda/ChoosePack.h"
#include "ir/rt/Together.h"
#include <numeric>

using namespace mlir;
using namespace echelon;

namespace {
constexpr int64_t kBytes = 16; // of the widest access

/// An element by the positions of loops, as a load or a store has it.
struct Place {
  Value buffer; // as the kernel is given it
  ValueRange indices;
  ArrayRef<int64_t> strides;
  bool isWritten;

  bool operator==(const Place &other) const {
    return buffer == other.buffer && indices == other.indices && strides == other.strides;
  }
};

SmallVector<Place> placesOf(rt::KernelOp kernel) {
  SmallVector<Place> places;
  auto add = [&](auto op, bool isWritten) {
    Place place{kernel.operandOf(cast<BlockArgument>(op.getBuffer())), op.getIndices(), op.getStrides(), isWritten};
    auto known = llvm::find(places, place);
    if (known == places.end())
      places.push_back(place);
    else
      known->isWritten |= isWritten;
  };
  for (Operation &op : kernel.getBody().front())
    if (auto load = dyn_cast<rt::LoadOp>(op))
      add(load, false);
    else if (auto store = dyn_cast<rt::StoreOp>(op))
      add(store, true);
  return places;
}

/// A number of bytes, at most kBytes, that the start of a buffer is a multiple of, wherever loops and ranks are.
int64_t alignmentOf(Value buffer) {
  const int64_t bytes = rt::buffer(buffer).elementBytes();
  if (auto view = buffer.getDefiningOp<rt::ViewOp>()) {
    int64_t alignment = std::gcd(alignmentOf(view.getBase()), static_cast<int64_t>(view.getOffset()) * bytes);
    for (int64_t factor : view.getFactors())
      alignment = std::gcd(alignment, factor * bytes);
    return alignment;
  }
  if (auto alloc = buffer.getDefiningOp<rt::AllocOp>())
    return std::gcd(kBytes, static_cast<int64_t>(alloc.getOffset().value_or(0)));
  auto argument = cast<BlockArgument>(buffer); // of a rule: a row of each parameter
  auto rule = cast<rt::FunctionOp>(argument.getOwner()->getParentOp());
  int64_t alignment = kBytes;
  rule->getParentOfType<ModuleOp>().walk([&](rt::InvokeOp call) {
    if (call.getCallee() == rule.getSymName())
      alignment = std::gcd(alignment, alignmentOf(call.getOperands()[argument.getArgNumber()]));
  });
  return alignment;
}

class Chooser {
public:
  explicit Chooser(rt::KernelOp kernel) : kernel(kernel), places(placesOf(kernel)) {
    innermost = cast<rt::SizeAttr>(kernel.getSizes()[kernel.getSizes().size() - 1]);
  }

  int64_t choose() const {
    if (!isReadWhereWritten())
      return 1;
    for (int64_t pack = widest(); pack > 1; pack /= 2)
      if (fits(pack))
        return pack;
    return 1;
  }

private:
  bool isReadWhereWritten() const {
    return llvm::all_of(places, [&](const Place &written) {
      return !written.isWritten || llvm::all_of(places, [&](const Place &other) {
        return other.buffer != written.buffer || other == written;
      });
    });
  }

  int64_t widest() const {
    int64_t largest = 1, ofFour = 0;
    bool hasNarrow = false;
    for (const Place &place : places)
      if (rt::walksInnermost(kernel, place.indices)) {
        const int64_t bytes = rt::buffer(place.buffer).elementBytes();
        largest = std::max(largest, bytes);
        ofFour += bytes == 4;
        hasNarrow |= bytes == 2;
      }
    return largest == 4 && hasNarrow && ofFour <= 2 ? kBytes / 2 : kBytes / largest;
  }

  bool fits(int64_t pack) const {
    const bool isAnyLength = innermost.getAxes().size() == 1 && innermost.getAxes()[0].size == rt::kAnyLength;
    if (!isAnyLength && innermost.count() % pack != 0)
      return false;
    return llvm::all_of(places, [&](const Place &place) {
      if (!rt::walksInnermost(kernel, place.indices))
        return true;
      const int64_t bytes = rt::buffer(place.buffer).elementBytes();
      return place.strides.back() == 1 && alignmentOf(place.buffer) % std::min(pack * bytes, kBytes) == 0 &&
             llvm::all_of(place.strides.drop_back(), [&](int64_t stride) { return stride % pack == 0; });
    });
  }

  rt::KernelOp kernel;
  SmallVector<Place> places;
  rt::SizeAttr innermost;
};
} // namespace

int64_t echelon::choosePack(rt::KernelOp kernel) {
  return kernel.sums() || kernel.getSizes().empty() ? 1 : Chooser(kernel).choose();
}
