// How wide the integers of a file without a header are.
#pragma once

#include "runtime/data/File.h"

#include <cstdint>
#include <string>

namespace echelon::runtime {

/// Bits of one integer: 16, 32 or 64 where the numbers leave no doubt; else 0, and why. `below`: what all tokens are
/// below, 0 where nothing is known.
struct TokenWidth {
  int bits = 0;
  std::string why = {};
};
TokenWidth widthOf(const FileBytes &file, int64_t below);

} // namespace echelon::runtime
