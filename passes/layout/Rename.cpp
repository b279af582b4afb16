// What a state becomes under other names for axes: renames, splits of an axis and merges.
#include "passes/layout/Rule.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::layout;

/// Whether a mesh axis's chunks of an axis stay chunks of as many positions each where the axis has `size` of them.
static bool hasChunks(MeshAttr mesh, int m, StringRef axis, int64_t size) {
  const OwnerMap map = mesh.mapOf(m, axis);
  if (map.isEqual())
    return size % (mesh.sizeOf(m) * map.chunks) == 0;
  return llvm::all_of(map.sizes, [&, total = map.total()](int64_t n) { return n * size % total == 0; });
}

SmallVector<std::optional<Entry>> echelon::layout::renameState(StateAttr state, Tensor from, Tensor to,
                                                               ArrayAttr oldNames, ArrayAttr newNames, MeshAttr mesh) {
  Tensor laid = from.withState(state);
  SmallVector<std::optional<Entry>> result(mesh.size());
  llvm::SmallDenseSet<Attribute> renamed;
  for (auto group : oldNames.getAsRange<ArrayAttr>())
    for (Attribute name : group)
      renamed.insert(name);
  for (int m = 0; m < mesh.size(); ++m) // what no group touches stays
    if (state[m].hold == Hold::Whole || state[m].hold == Hold::Sum ||
        (state[m].hold == Hold::Split && !renamed.contains(state[m].axis)))
      result[m] = state[m];

  for (auto axes : llvm::zip(oldNames.getAsRange<ArrayAttr>(), newNames.getAsRange<ArrayAttr>())) {
    ArrayAttr olds = std::get<0>(axes), news = std::get<1>(axes);
    // The mesh axes that divide the group's positions into blocks, slowest first: those of its first axis, and where
    // these leave single positions of it, those of the next.
    SmallVector<int> blocks;
    for (auto name : olds.getAsRange<StringAttr>()) {
      if (parts(laid, name, mesh) > 1 && olds.size() + news.size() > 2 && isPadded(laid, name, mesh))
        break;
      llvm::append_range(blocks, over(laid, name, mesh));
      if (parts(laid, name, mesh) != from.sizeOf(name))
        break;
    }
    // Hand them to the new axes in turn, each as long as its size divides.
    unsigned next = 0;
    int64_t taken = 1;
    SmallVector<int> given;
    for (int m : blocks) {
      if (state[m].hold != Hold::Split)
        break;
      auto name = [&] { return cast<StringAttr>(news[next]); };
      if (next + 1 < news.size() && taken == to.sizeOf(name())) {
        ++next;
        taken = 1;
        given.clear();
      }
      // as the chunks of the old name are chunks of the new one: of a split or a merge only those of the slowest axes
      const OwnerMap map = mesh.mapOf(m, state[m].axis);
      const bool areChunks =
          olds.size() + news.size() == 2 || (next == 0 && given.empty() && state[m].axis == olds[0] &&
                                             hasChunks(mesh, m, state[m].axis, from.sizeOf(state[m].axis)) &&
                                             hasChunks(mesh, m, name(), to.sizeOf(name())));
      if (map != mesh.mapOf(m, name()) || (!map.isBlocks() && !areChunks))
        break;
      bool padded = olds.size() == 1 && news.size() == 1 && mesh.isPadded(m, name());
      if (!padded && map.isEqual() && to.sizeOf(name()) % (taken * mesh.sizeOf(m)) != 0)
        break;
      given.push_back(m);
      // the new name nests these mesh axes as the old one did
      SmallVector<int> nested =
          llvm::filter_to_vector(mesh.nest(name()), [&](int k) { return llvm::is_contained(given, k); });
      if (nested != given)
        break;
      taken *= mesh.sizeOf(m);
      result[m] = Entry{state[m].over, Hold::Split, name()};
    }
  }
  return result;
}
