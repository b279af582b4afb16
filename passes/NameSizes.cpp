// rt-name-sizes: which sizes of axes have names in the program.
//
// 1. An axis is called as the model calls it, at the size that it has there.
// 2. Where ranks hold parts of it, the part is the size divided over mesh axes and micro batches. It has the axis's
//    name if no buffer has the whole axis, else the mesh axes after it: `seq_tp`.
// 3. Other sizes of an axis (what a window leaves of it) have no name: programs print them as numbers.
#include "ir/dist/State.h"
#include "ir/rt/Rt.h"
#include "passes/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace echelon {
#define GEN_PASS_DEF_NAMESIZES
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;

namespace {
/// Something that sizes of some axes are divided by: a mesh axis, or the micro batches of a step.
struct Divisor {
  StringAttr name;
  int64_t size;
  llvm::DenseSet<StringAttr> axes; // that it divides
};

struct NameSizes : echelon::impl::NameSizesBase<NameSizes> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    findWholes(module);
    findDivisors(module);
    llvm::MapVector<StringAttr, llvm::SmallSetVector<int64_t, 4>> sizes; // that buffers and loops have, by axis
    auto add = [&](StringAttr axis, int64_t size) {
      if (size > 1 && wholes.count(axis))
        sizes[axis].insert(size);
    };
    module.walk([&](Operation *op) {
      if (auto alloc = dyn_cast<rt::AllocOp>(op))
        for (const ech::Axis &axis : rt::buffer(alloc).getAxes())
          add(axis.name, axis.size);
      if (auto loop = dyn_cast<rt::ForOp>(op))
        add(loop.getAxisAttr(), loop.getCount());
      if (auto nest = dyn_cast<rt::FusedOp>(op))
        for (auto [axis, size] : llvm::zip(nest.getAxes(), nest.getSizes()))
          add(cast<StringAttr>(axis), size);
    });
    Builder b(&getContext());
    SmallVector<Attribute> named;
    for (auto &[axis, all] : sizes)
      for (int64_t size : all)
        if (Attribute entry = name(b, axis, size, all.size() == 1))
          named.push_back(entry);
    module->setAttr(rt::kSizes, b.getArrayAttr(named));
  }

  /// The size of each axis in the model.
  void findWholes(ModuleOp module) {
    wholes.clear();
    auto add = [&](const ech::Axis &axis) { wholes.try_emplace(axis.name, axis.size); };
    for (auto input : module.getOps<ech::InputOp>())
      llvm::for_each(cast<ech::Tensor>(input.getType()).getAxes(), add);
    for (auto variable : module.getOps<ech::VariableOp>())
      llvm::for_each(cast<ech::Tensor>(variable.getType()).getAxes(), add);
    if (auto axes = module->getAttrOfType<DictionaryAttr>(rt::kAxes))
      for (NamedAttribute axis : axes)
        add({axis.getName(), cast<IntegerAttr>(axis.getValue()).getInt()});
  }

  void findDivisors(ModuleOp module) {
    divisors.clear();
    if (dist::MeshAttr mesh = dist::meshOf(module))
      for (auto [m, axis] : llvm::enumerate(mesh.getAxes()))
        if (axis.size > 1)
          divisors.push_back({axis.name, axis.size, dividedOver(module, mesh, m)});
    llvm::DenseSet<StringAttr> samples;
    if (auto batch = module->getAttrOfType<StringAttr>(ech::kBatchAxis))
      samples.insert(batch);
    if (auto like = module->getAttrOfType<ArrayAttr>(ech::kLikeBatch))
      for (auto axis : like.getAsRange<StringAttr>())
        samples.insert(axis);
    module.walk([&](Operation *op) {
      auto passes = rt::passesOf(op);
      if (passes && passes->size > 1 &&
          llvm::none_of(divisors, [&](const Divisor &d) { return d.name == passes->name; }))
        divisors.push_back({passes->name, passes->size, samples});
    });
  }

  /// Axes that the layout splits over a mesh axis, or cuts there to store a tensor.
  static llvm::DenseSet<StringAttr> dividedOver(ModuleOp module, dist::MeshAttr mesh, int m) {
    llvm::DenseSet<StringAttr> axes;
    for (auto axis : mesh.getAxes()[m].list.getAsRange<StringAttr>())
      axes.insert(axis);
    for (auto variable : module.getOps<ech::VariableOp>()) {
      auto type = cast<ech::Tensor>(variable.getType());
      if (type.getState())
        for (const ech::Axis &axis : type.getAxes())
          if (llvm::is_contained(dist::over(type, axis.name, mesh), m))
            axes.insert(axis.name);
    }
    return axes;
  }

  Attribute name(Builder &b, StringAttr axis, int64_t size, bool isOnly) {
    const int64_t whole = wholes.lookup(axis);
    SmallVector<NamedAttribute> entry{{b.getStringAttr("axis"), axis},
                                      {b.getStringAttr("size"), b.getI64IntegerAttr(size)}};
    std::string text = axis.str();
    if (size != whole) {
      SmallVector<Attribute> over = dividing(axis, whole, size);
      if (over.empty())
        return {};
      if (!isOnly)
        for (Attribute by : over)
          text += ("_" + cast<StringAttr>(by).getValue()).str();
      entry.push_back({b.getStringAttr("whole"), b.getI64IntegerAttr(whole)});
      entry.push_back({b.getStringAttr("over"), b.getArrayAttr(over)});
    }
    entry.push_back({b.getStringAttr("name"), b.getStringAttr(text)});
    return b.getDictionaryAttr(entry);
  }

  /// The fewest divisors of an axis that make `size` of `whole`, exactly; empty: none do.
  SmallVector<Attribute> dividing(StringAttr axis, int64_t whole, int64_t size) const {
    SmallVector<Attribute> best;
    auto divisors = llvm::filter_to_vector(this->divisors, [&](const Divisor &d) { return d.axes.contains(axis); });
    const size_t count = std::min<size_t>(divisors.size(), 12);
    for (uint64_t chosen = 1; chosen < uint64_t(1) << count; ++chosen) {
      int64_t product = 1;
      SmallVector<Attribute> over;
      for (size_t i = 0; i < count; ++i)
        if (chosen >> i & 1) {
          product *= divisors[i].size;
          over.push_back(divisors[i].name);
        }
      if (size * product == whole && (best.empty() || over.size() < best.size()))
        best = over;
    }
    return best;
  }

  llvm::DenseMap<StringAttr, int64_t> wholes;
  SmallVector<Divisor> divisors;
};
} // namespace
