// What programs for GPUs alone have of the rt dialect: operations of one launch, and packs of kernels.
#pragma once
#include "ir/rt/Rt.h"

#define GET_OP_CLASSES
#include "ir/rt/RtTogether.h.inc"

namespace echelon::rt {

/// What a rule is invoked on, of `count` elements each: its operands but for the numbers after them.
mlir::OperandRange rowsOf(InvokeOp call);

/// On an rt.kernel that sums over nothing: how many neighbours along the innermost loop a thread has. What it reads and
/// writes of a buffer that this loop walks moves at once. `rt.name` then goes on, after the indices, with the index
/// within the pack and the pack of each buffer.
inline constexpr llvm::StringLiteral kPack = "rt.pack";
/// That pack; 1 of a kernel that has none.
int64_t packOf(KernelOp kernel);
/// Whether the innermost loop of a kernel walks what lies at these positions.
bool walksInnermost(KernelOp kernel, mlir::ValueRange indices);

} // namespace echelon::rt
