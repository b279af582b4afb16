// Kernels as CUDA, and their launches.
#pragma once
#include "codegen/cuda/Cuda.h"

namespace echelon::codegen::cuda {

/// The function of a kernel.
void printKernel(rt::KernelOp kernel, const Cuda &cuda, Printer &printer);
/// Its launch on what it is given; `given` stands for its operands, in their order.
void printLaunch(mlir::Operation *at, rt::KernelOp kernel, mlir::ValueRange given, const Cuda &cuda, Printer &printer);

} // namespace echelon::codegen::cuda
