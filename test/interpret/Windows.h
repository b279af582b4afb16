// The meaning of convolutions and poolings.
#pragma once
#include "test/interpret/Interpret.h"

namespace echelon::interpret {

Array computeWindows(ech::ConvOp op, llvm::ArrayRef<Array> operands, Machine &machine);
Array computeWindows(ech::ConvGradXOp op, llvm::ArrayRef<Array> operands, Machine &machine);
Array computeWindows(ech::ConvGradWOp op, llvm::ArrayRef<Array> operands, Machine &machine);
Array computeWindows(ech::PoolOp op, llvm::ArrayRef<Array> operands, Machine &machine);
Array computeWindows(ech::PoolGradOp op, llvm::ArrayRef<Array> operands, Machine &machine);

} // namespace echelon::interpret
