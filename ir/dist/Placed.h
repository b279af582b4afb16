// What one coordinate of a mesh axis alone holds: `whole at 2`. Its entry over that mesh axis is whole, and names the
// coordinate where the entry of a split names an axis.
#pragma once
#include "ir/dist/State.h"

namespace echelon::dist {

/// A mesh axis, and the coordinate of it that alone holds something, or does it.
using Place = std::optional<std::pair<int, int64_t>>;

/// Whole at one coordinate of the mesh axis `over`.
Entry placedEntry(mlir::StringAttr over, int64_t at);
/// The coordinate that alone holds it; nothing: all do, or it is not whole.
std::optional<int64_t> placedAt(const Entry &entry);
Place placeOf(StateAttr state);
/// Of an operation whose results are there alone; without results, what it takes.
Place placeOf(mlir::Operation *op);

} // namespace echelon::dist
