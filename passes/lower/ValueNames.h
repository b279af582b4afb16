// What values are called in programs.
#pragma once
#include "llvm/ADT/StringRef.h"
#include <string>

namespace echelon::lower {

/// "layer.attn.wq" is called `attn_wq`: the block's call and the parameter. `m_attn_wq` is a moment of it, `d_attn_wq`
/// its gradient.
std::string shortName(llvm::StringRef path);

} // namespace echelon::lower
