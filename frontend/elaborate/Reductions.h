// The reductions that other built-in functions are made of.
#pragma once
#include "ir/ech/Build.h"

namespace echelon::frontend {

/// softmax, log_softmax or logsumexp of `x` over these axes, where the mask allows; without a mask, everywhere.
mlir::Value exponentialOf(ech::Build &build, const std::string &name, mlir::Value x, mlir::Value mask,
                          llvm::ArrayRef<llvm::StringRef> over);

} // namespace echelon::frontend
