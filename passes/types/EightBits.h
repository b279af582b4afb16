// fp8: what dots take is rounded to eight bits, each tensor scaled by a power of two of its own (Micikevicius et al.,
// FP8 Formats for Deep Learning, 2022).
#pragma once
#include "passes/types/Products.h"

namespace echelon::types {

/// The dots of a step that multiply eight bits: all but those that take f32, the last before a loss or metric, and the
/// derivatives of that. Made before types are chosen, applied behind.
class EightBits {
public:
  explicit EightBits(ech::StepOp step);

  /// Rounds what each of them takes: E4M3, but E5M2 what is a gradient. Operands are of two bytes, which hold any
  /// number of eight bits, and so is what they are rounded to.
  void round();

private:
  bool followsProduct(mlir::Value v);

  struct Dot {
    ech::DotOp op;
    bool isGradient[2]; // which operands are
  };
  llvm::SmallVector<Dot> dots;
  llvm::DenseMap<mlir::Value, bool> following;
};

} // namespace echelon::types
