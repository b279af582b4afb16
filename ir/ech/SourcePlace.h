// Where in a spec an operation comes from.
#pragma once
#include "mlir/IR/Location.h"
#include <string>

namespace echelon::ech {

/// The first line of a spec or of the library in a location, through names, calls and fused locations; null: none.
mlir::FileLineColLoc sourceLine(mlir::Location loc);

/// "mlp.ech:15", "nn.ech:31" of the library; empty where the location has no line.
std::string sourcePlace(mlir::Location loc);

} // namespace echelon::ech
