// What rt-make-loops makes of a loop nest: the loops of a program, and what they load, compute and store, in order. They
// are in the second region of an rt.fused.
#ifndef RT_LOOPS
#define RT_LOOPS

def Rt_Local : TypeDef<Rt_Dialect, "Local"> {
  let cppClassName = "LocalType";
  let mnemonic = "local";
  let summary = "a variable that a loop adds to";
  let parameters = (ins "::mlir::Type":$element);
  let assemblyFormat = "`<` $element `>`";
}
def Rt_LongSum : TypeDef<Rt_Dialect, "LongSum"> {
  let cppClassName = "LongSumType";
  let mnemonic = "long_sum";
  let summary = "sums over many rows, in blocks (runtime/kernels/LongSum.h)";
}

def Rt_LoopOp : Rt_Op<"loop", [SingleBlock, NoTerminator, AttrSizedOperandSegments]> {
  let summary = "one loop: `rt.loop <batch=32, seq=64> { ^bb0(%i: index): … }`";
  let description = [{
    From 0 to `size`, or from `start` to `end`; with `step`, block by block. `innermost`: the host compiler may take it
    for free of dependences; what it adds to `sums` may be added in any order.
  }];
  let arguments = (ins Rt_Size:$size, Optional<Index>:$start, Optional<Index>:$end, OptionalAttr<I64Attr>:$step,
                       UnitAttr:$innermost, Variadic<Rt_Local>:$sums);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`innermost` $innermost^)? $size (`from` $start^ `to` $end)? (`step` $step^)?
    (`sums` `(` $sums^ `:` type($sums) `)`)? $body attr-dict
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::echelon::rt::SizeAttr":$size, CArg<"::mlir::Value", "{}">:$start,
                                 CArg<"::mlir::Value", "{}">:$end, CArg<"int64_t", "0">:$step,
                                 CArg<"bool", "false">:$innermost, CArg<"::mlir::ValueRange", "{}">:$sums)>];
  let extraClassDeclaration = [{
    ::mlir::Value position() { return getBody().front().getArgument(0); }
  }];
}
def Rt_BlockEndOp : Rt_Op<"block_end", [Pure]> {
  let summary = "one past the last position of a block: `first` + `length`, at most `all`";
  let arguments = (ins Index:$first, I64Attr:$length, OptionalAttr<Rt_Size>:$all);
  let results = (outs Index:$result);
  let assemblyFormat = "$first `plus` $length (`of` $all^)? attr-dict";
}

def Rt_LoadOp : Rt_Op<"load"> {
  let summary = "an element: `rt.load %x[%i, %j] by [128, 1]`";
  let arguments = (ins Rt_Buffer:$buffer, Variadic<Index>:$indices, DenseI64ArrayAttr:$strides);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$buffer `[` $indices `]` `by` $strides attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1;
}
def Rt_StoreOp : Rt_Op<"store"> {
  let summary = "writes an element, or adds to it";
  let arguments = (ins AnyType:$value, Rt_Buffer:$buffer, Variadic<Index>:$indices, DenseI64ArrayAttr:$strides,
                       UnitAttr:$adds);
  let assemblyFormat = [{
    $value `to` $buffer `[` $indices `]` `by` $strides (`adds` $adds^)? attr-dict `:` type($value) `,` type($buffer)
  }];
  let hasVerifier = 1;
}
def Rt_PositionOp : Rt_Op<"position", [Pure, AttrSizedOperandSegments]> {
  let summary = "a position along an axis, as i32: what a loop is at, after those before this rank's piece";
  let arguments = (ins Optional<Index>:$index, Optional<Index>:$offset);
  let results = (outs AnyType:$result);
  let assemblyFormat = "($index^)? (`from` $offset^)? attr-dict `:` type($result)";
}

def Rt_LocalOp : Rt_Op<"local"> {
  let summary = "a variable, 0 at first";
  let results = (outs Rt_Local:$local);
  let assemblyFormat = "attr-dict `:` type($local)";
}
def Rt_AccumulateOp : Rt_Op<"accumulate"> {
  let summary = "adds a number to a variable";
  let arguments = (ins AnyType:$value, Rt_Local:$local);
  let assemblyFormat = "$value `to` $local attr-dict `:` type($value) `,` type($local)";
}
def Rt_TotalOp : Rt_Op<"total"> {
  let summary = "what a variable has come to, rounded to the result's type";
  let arguments = (ins Rt_Local:$local);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$local attr-dict `:` type($local) `->` type($result)";
}

def Rt_ZeroOp : Rt_Op<"zero"> {
  let summary = "sets all of a buffer to 0";
  let arguments = (ins Rt_Buffer:$buffer);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
}
def Rt_LongSumOp : Rt_Op<"long_sum"> {
  let summary = "begins sums over rows in all places of a buffer; `values` are added to a place in a row";
  let arguments = (ins Rt_Buffer:$buffer, I64Attr:$values, UnitAttr:$adds);
  let results = (outs Rt_LongSum:$sum);
  let assemblyFormat = "$buffer `values` $values (`adds` $adds^)? attr-dict `:` type($buffer)";
}
def Rt_EndRowOp : Rt_Op<"end_row"> {
  let summary = "a row of a long sum has been added";
  let arguments = (ins Rt_LongSum:$sum);
  let assemblyFormat = "$sum attr-dict";
}
def Rt_EndSumOp : Rt_Op<"end_sum"> {
  let summary = "all rows have been added";
  let arguments = (ins Rt_LongSum:$sum);
  let assemblyFormat = "$sum attr-dict";
}

#endif
