// Kernels as CUDA, and their launches.
#pragma once
#include "codegen/cuda/Cuda.h"

namespace echelon::codegen::cuda {

/// The function of a kernel.
void printKernel(rt::KernelOp kernel, const Cuda &cuda, Printer &printer);
/// Its launch on its operands.
void printLaunch(mlir::Operation *at, rt::KernelOp kernel, const Cuda &cuda, Printer &printer);
/// The launch of a rule on all tensors that it is invoked on, which have their numbers in common.
void printUpdate(llvm::ArrayRef<rt::InvokeOp> calls, const Cuda &cuda, Printer &printer);
/// The call that adds the squares of all these tensors, and remembers the first that makes the sum infinite or NaN.
void printSquares(llvm::ArrayRef<rt::AddSquaresOp> all, Printer &printer);

} // namespace echelon::codegen::cuda
