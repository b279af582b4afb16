// What lies between ranks, in a module: the figures of a machine that passes choose by.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "planner/machine/Machine.h"
#include <optional>

namespace echelon {

/// Of a module: the links of the machine that it is for, {nodes = 4, per_node = 8, link = {bandwidth = 3.0e+11,
/// latency = 3.0e-06}, network = {…}, tiers = [{count = 4, link = {…}}]}. A link may have lanes, costs = {hop = …},
/// curves = [{name, ranks, bytes, seconds}], protocols = [{name, start, rank, rate, few, network, limit, channels,
/// in_switch}].
/// Not there where nobody has measured or described the machine. Of a measured one `spread`: how far measurements lie
/// apart, as a part.
inline constexpr llvm::StringLiteral kLinks = "dist.links";
/// Of a module: what buckets were made, a line each.
inline constexpr llvm::StringLiteral kBuckets = "dist.buckets";

void setLinks(mlir::ModuleOp module, const planner::Machine &machine);
/// A machine of these links alone.
std::optional<planner::Machine> linksOf(mlir::ModuleOp module);

} // namespace echelon
