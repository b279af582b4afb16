// How a collective is sent, where a pass chose it.
#pragma once
#include "llvm/ADT/StringRef.h"

namespace echelon::rt {

/// Of a collective: what it takes, and the next best way, "ring 31 us; tree 45 us".
inline constexpr llvm::StringLiteral kChosen = "rt.chosen";
/// Of the module: what the library of GPUs is told, [{op = "all_reduce", group = 0, most = 65536, algorithm = "ring",
/// protocol = "ll128", channels = 0, why = "…"}], of a group by size; most 0: any number of bytes.
inline constexpr llvm::StringLiteral kTuner = "rt.tuner";

} // namespace echelon::rt
