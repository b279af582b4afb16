// Of a layout: `offload optimizer to "DIR"`, `offload optimizer, params to "DIR"`, and `to host` of a GPU.
#pragma once
#include "llvm/ADT/StringRef.h"

namespace echelon::dist {

/// On the module: where what the optimizer keeps lies: the directory of files; empty: in the memory of the host, from a
/// device. In dist.lines its place has this key, too.
inline constexpr llvm::StringLiteral kOffload = "dist.offload";
/// Beside it: the parameters of repeats lie there, too.
inline constexpr llvm::StringLiteral kOffloadParams = "dist.offload_params";

} // namespace echelon::dist
