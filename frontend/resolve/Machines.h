// Devices, links and clusters: units, names, and how many ranks a cluster offers.
#pragma once
#include "frontend/Diagnostics.h"
#include "frontend/ast/Ast.h"

namespace echelon::frontend {

/// What std/devices.ech has for `local(ranks = n)`: a core of a processor, and the memory that ranks share.
inline constexpr const char *kDeviceHere = "cpu_core", *kLinkHere = "shared_memory";

/// Checks every device, link and cluster of the spec and of what it imports, and fills in the figures of the
/// data sheet that devices and links take from others.
void checkMachines(Program &program, Diagnostics &diagnostics);

/// With all that it takes from others.
Device wholeDevice(const Program &program, const Device &device);
Link wholeLink(const Program &program, const Link &link);
/// Of a whole device's memory, what tensors may take; 0: it is not said.
double usableBytes(const Device &whole);
/// Where the catalogue has the device, or what it is made from, that one; else null.
const Device *catalogued(const Program &program, const Device &device);

/// `product_64x256`: the curve of products of 64 rows and 256 columns, by their inner length. Nothing: another name.
std::optional<std::pair<int64_t, int64_t>> gridSizes(const std::string &curve);

/// The ranks that a cluster offers, one a device; nothing, with a report, where it does not say.
std::optional<int64_t> clusterRanks(const Cluster &cluster, Diagnostics &diagnostics);
/// The same for `local(ranks = 4)`.
std::optional<int64_t> localRanks(const Path &maker, const std::vector<Argument> &arguments, SourceRange range,
                                  Diagnostics &diagnostics);

} // namespace echelon::frontend
