// `layout auto`, and meshes with sizes that are `auto`.
#pragma once
#include "tools/driver/compile/Compilation.h"
#include "tools/driver/search/LayoutChoice.h"
#include <memory>

namespace echelon {

/// The layout, of all that a spec leaves open, whose step takes least on its machine by the cost model, among those
/// that its devices have room for. Of a compilation whose train block is resolved. Null: it has been told why.
std::shared_ptr<const LayoutChoice> chooseLayout(Compilation &compilation);

} // namespace echelon
