// Of a layout: `offload optimizer to "DIR"`.
#pragma once
#include "llvm/ADT/StringRef.h"

namespace echelon::dist {

/// On the module: the directory in which files hold what the optimizer keeps. In dist.lines its place has this key, too.
inline constexpr llvm::StringLiteral kOffload = "dist.offload";

} // namespace echelon::dist
