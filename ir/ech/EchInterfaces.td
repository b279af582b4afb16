// What a pass may ask an operation of the ech dialect. No pass lists operations: it asks these.
#ifndef ECH_INTERFACES
#define ECH_INTERFACES

include "mlir/IR/OpBase.td"

def AxisRule : OpInterface<"AxisRule"> {
  let cppNamespace = "::echelon::ech";
  let description = [{
    How the work of an operation may be divided over a mesh axis. The operation's space is the union of the axes of
    its operands and results. Divided along axis `a` of the space, an operand that has `a` comes in split along it, one
    that has not comes in whole; a result that has `a` is split along it, one that has not is pending, or, where the
    operation resolves it itself (`Division::Inside`), whole.
  }];
  let methods = [
    InterfaceMethod<[{How the operation can be divided along `axis`, which is in its space.}],
      "::echelon::ech::Division", "division", (ins "::llvm::StringRef":$axis), "",
      [{ return ::echelon::ech::Division::Freely; }]>,
    InterfaceMethod<[{Whether the value is free: produced in whatever state is asked for, never converted.}],
      "::echelon::ech::Freedom", "freedom", (ins), "", [{ return ::echelon::ech::Freedom::Never; }]>,
    InterfaceMethod<[{How a pending sum among the operands passes through.}],
      "::echelon::ech::PendingRule", "pendingRule", (ins), "", [{ return ::echelon::ech::PendingRule::Resolve; }]>,
    InterfaceMethod<[{Whether the operation only gives axes other names (renames, splits and merges of axes): its operand
                      comes in whatever state it has, its result is in the new names' own state.}],
      "bool", "relabels", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{Whether it is linear in its operands that are sums over some of the samples: `partial` has one entry
                      an operand.}],
      "::echelon::ech::Linearity", "linearIn", (ins "::llvm::ArrayRef<bool>":$partial), "", [{ return {}; }]>,
    InterfaceMethod<[{Whether it takes particular positions of an axis, or gives the axis another name.}],
      "bool", "takesPositions", (ins "::llvm::StringRef":$axis), "", [{ return false; }]>,
    InterfaceMethod<[{What the padding along `axis` of operand `operand` must hold before the operation reads across it.
                      By default: nothing where all results keep the axis, since each position stays by itself; zero
                      where the operation sums it away; not known where it works along the axis inside.}],
      "::echelon::ech::Padding", "padding", (ins "unsigned":$operand, "::llvm::StringRef":$axis), "",
      [{ return ::echelon::ech::paddingOfSum($_op, axis, $_op.division(axis)); }]>,
  ];
}

def Derivable : OpInterface<"Derivable"> {
  let cppNamespace = "::echelon::ech";
  let description = [{
    Reverse-mode derivative of one operation. `cotangents` has one entry a result, null where nothing flows back.
    The entry of `wanted` says for which operands a cotangent is asked. The answer has one entry an operand, null where
    the derivative is zero.
  }];
  let methods = [
    InterfaceMethod<[{Builds the operands' cotangents at `build`'s insertion point.}],
      "::llvm::SmallVector<::mlir::Value>", "derive",
      (ins "::echelon::ech::Build &":$build, "::llvm::ArrayRef<::mlir::Value>":$cotangents,
           "::llvm::ArrayRef<bool>":$wanted)>,
  ];
}

def Costed : OpInterface<"Costed"> {
  let cppNamespace = "::echelon::ech";
  let description = [{What an operation costs, from its types: whether it is cheap enough to be computed again.}];
  let methods = [
    InterfaceMethod<[{Floating-point operations.}], "int64_t", "flops", (ins), "",
      [{ return ::echelon::ech::elementwiseFlops($_op); }]>,
  ];
}

#endif
