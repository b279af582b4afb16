// What planners ask an operation of the rt dialect.
#ifndef RT_INTERFACES
#define RT_INTERFACES

include "mlir/IR/OpBase.td"

def Touches : OpInterface<"Touches"> {
  let cppNamespace = "::echelon::rt";
  let description = [{Which buffers an operation reads and writes: what liveness and scheduling need.}];
  let methods = [
    InterfaceMethod<[{Buffers whose content enters.}], "::llvm::SmallVector<::mlir::Value>", "reads", (ins), "",
      [{ return ::echelon::rt::buffersRead($_op); }]>,
    InterfaceMethod<[{Buffers whose content changes.}], "::llvm::SmallVector<::mlir::Value>", "writes", (ins), "",
      [{ return ::echelon::rt::buffersWritten($_op); }]>,
    InterfaceMethod<[{Whether `written` may lie where `read`, which nobody needs afterwards, lies: every element is read
                      before it is written.}], "bool", "mayShare",
      (ins "::mlir::Value":$written, "::mlir::Value":$read), "", [{ return false; }]>,
  ];
}

def Costed : OpInterface<"Costed"> {
  let cppNamespace = "::echelon::rt";
  let description = [{What one execution of the operation does: what a profile holds its time against. A loop over other
                      operations is none.}];
  let methods = [
    InterfaceMethod<[{Its name, kind, arithmetic and traffic.}], "::echelon::rt::Cost", "cost", (ins), "",
      [{ return ::echelon::rt::costOfKernel($_op); }]>,
  ];
}

#endif
