// What rt-make-kernels makes of a loop nest: the kernels of a program for GPUs, and what each of their threads does. They
// are in the second region of an rt.fused.
#ifndef RT_GPU
#define RT_GPU

def Rt_KernelOp : Rt_Op<"kernel", [SingleBlock, NoTerminator, IsolatedFromAbove, AttrSizedOperandSegments]> {
  let summary = "a kernel that walks the points of a nest, and its launch";
  let description = [{
    ```mlir
    rt.kernel "hidden_kernel" [<batch=32>, <hidden=128>] summed [false, false] (%h, %x, %b1) {
    ^bb0(%i: index, %j: index, %to: …, %from: …, %bias: …):
      …
    }
    ```
    Block arguments: a position for each loop, outermost first; then one for each buffer and each number. `summed` are
    the loops that rt.sum adds over. Without any a thread has a point. Where the innermost is among them, the threads of
    a block share the points of those loops, and each point of the other ones has a block. Else a block has 32
    neighbours along the innermost, and its warps share the points that are summed. `guarded`: it does nothing in a step
    that is not finite. Kernels of one name are one function. `rt.name`: what the block arguments are called, then what
    the index of all loops is, and that of the rows.
  }];
  let arguments = (ins StrAttr:$name, Rt_SizeArray:$sizes, DenseBoolArrayAttr:$summed, Variadic<Rt_Buffer>:$buffers,
                       Variadic<AnyTypeOf<[AnyFloat, Index]>>:$numbers, UnitAttr:$guarded);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $name $sizes `summed` $summed `(` $buffers (`numbers` $numbers^ `:` type($numbers))? `)` (`guarded` $guarded^)? $body
    attr-dict `:` type($buffers)
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    bool sums() { return ::llvm::is_contained(getSummed(), true); }
    /// Whether a block shares the points of the innermost loop.
    bool sumsInnermost() { return !getSummed().empty() && getSummed().back(); }
    /// What each block argument after the positions stands for.
    ::mlir::Value operandOf(::mlir::BlockArgument argument) {
      return getOperand(argument.getArgNumber() - getSizes().size());
    }
  }];
}
def Rt_SumOp : Rt_Op<"sum", [HasParent<"KernelOp">]> {
  let summary = "the sum of a value over the summed loops becomes an element, or is added to it";
  let description = [{`wide`: it is added up in f64, so that its error does not grow with the number of terms.}];
  let arguments = (ins AnyType:$value, Rt_Buffer:$buffer, Variadic<Index>:$indices, DenseI64ArrayAttr:$strides,
                       UnitAttr:$adds, UnitAttr:$wide);
  let assemblyFormat = [{
    $value `to` $buffer `[` $indices `]` `by` $strides (`adds` $adds^)? (`wide` $wide^)? attr-dict `:` type($value) `,`
    type($buffer)
  }];
  let hasVerifier = 1;
}

#endif
