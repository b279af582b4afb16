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

def Communicates : OpInterface<"Communicates"> {
  let cppNamespace = "::echelon::rt";
  let description = [{What an operation has a rank do with others: what rt-prove-messages runs.}];
  let methods = [
    InterfaceMethod<[{What the rank at these mesh coordinates takes part in; nothing: it does not. Only coordinates along
                      readsCoordinates() are known, others are -1.}],
      "::std::optional<::echelon::rt::Message>", "messageAt", (ins "::llvm::ArrayRef<int64_t>":$coordinates)>,
    InterfaceMethod<[{Mesh axes by whose coordinates ranks do something else here, or nothing.}],
      "::llvm::SmallVector<int64_t>", "readsCoordinates", (ins), "", [{ return {}; }]>,
    InterfaceMethod<[{What its rt.wait takes: a ticket of its own, or those of all iterations of a loop; null where the
                      call returns when it is done.}], "::mlir::Value", "toWaitFor">,
    InterfaceMethod<[{Positions of loops that tell apart the messages it starts; those on all sides are to be equal.}],
      "::llvm::SmallVector<::mlir::Value>", "toldApartBy", (ins), "",
      [{ return ::echelon::rt::positionsAround($_op); }]>,
  ];
  let extraSharedClassDeclaration = [{
    /// Whether it goes on after the call, until an rt.wait.
    bool isStarted() { return static_cast<bool>($_op.toWaitFor()); }
  }];
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
