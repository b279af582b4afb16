// What an operation may read of padding.
#pragma once
#include "passes/layout/Rule.h"

namespace echelon::layout {

/// The number that the padding of an operand along `axis` must be set to before the operation reads across it: none
/// where it never does, because each position stays by itself.
enum class PaddingNeed { None, Fill, Unknown };
struct PaddingFill {
  PaddingNeed need = PaddingNeed::None;
  double value = 0;
};
PaddingFill paddingFill(mlir::OpOperand &operand, llvm::StringRef axis);

} // namespace echelon::layout
