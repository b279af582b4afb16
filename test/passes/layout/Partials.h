// What a rank finds of its part of an axis, and what follows from what all ranks found, in plain loops.
#pragma once
#include "ir/dist/Dist.h"
#include "test/passes/layout/Array.h"

namespace echelon::test {

/// The results of dist.partial on one rank. `held`: which elements of the first operand the rank holds.
/// `counts(i)`: whether the rank counts operand i in a sum over all operands.
std::vector<Array> partialOf(dist::PartialOp op, llvm::ArrayRef<Array> operands,
                             llvm::function_ref<const std::vector<char> &(unsigned operand)> held,
                             llvm::function_ref<bool(unsigned operand)> counts);
/// The results of dist.combine on one rank.
std::vector<Array> combined(dist::CombineOp op, llvm::ArrayRef<Array> operands);

} // namespace echelon::test
