// What an operation of the rt dialect does when it runs once.
#pragma once
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace mlir {
class Operation;
} // namespace mlir

namespace echelon::rt {

struct Cost {
  std::string name;     ///< what a reader calls it: the callee, "loop", "all_reduce"
  llvm::StringRef kind; ///< products, convolutions, attention, kernels, loops, messages, waiting: it is summed up under
  int64_t flops = 0;    ///< additions and multiplications that it cannot do without
  int64_t bytes = 0;    ///< that it must read and write; of a message, that one rank must take in or give
  mlir::Value about;    ///< the buffer that it is told by, or null
};

/// Of a kernel that memory bounds: its name, and what it touches.
Cost costOfKernel(mlir::Operation *op);
/// What a reader calls a kernel: "gemm", "reduce_sum".
std::string kernelName(mlir::Operation *op);

/// Operands that an operation reads, and writes, as its definition says; what it adds to it also reads.
llvm::SmallVector<mlir::Value> buffersRead(mlir::Operation *op);
llvm::SmallVector<mlir::Value> buffersWritten(mlir::Operation *op);

/// Bytes of what an operation reads and of what it writes; what lies in several places of a buffer counts once.
int64_t touchedBytes(mlir::Operation *op);

} // namespace echelon::rt
