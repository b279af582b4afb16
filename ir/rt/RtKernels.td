// One operation for each kernel, on buffers: which kernel runs is settled, how a target calls it is not. Operands come in
// the order of the runtime's functions: what is written first. Sizes are products of sizes of axes, `<batch=32, seq=64>`.
#ifndef RT_KERNELS
#define RT_KERNELS

def Rt_SizeArray : TypedArrayAttrBase<Rt_Size, "a list of sizes">;

class Rt_Kernel<string mnemonic, list<Trait> traits = []>
    : Rt_Op<mnemonic, !listconcat([Touches, Costed], traits)>;
/// One whose result may lie where an operand lies that nobody needs afterwards.
class Rt_InPlaceKernel<string mnemonic, list<Trait> traits = []>
    : Rt_Op<mnemonic, !listconcat([DeclareOpInterfaceMethods<Touches, ["mayShare"]>, Costed], traits)>;
/// One that arithmetic bounds, or that touches less than all of its operands.
class Rt_CostedKernel<string mnemonic, list<Trait> traits = []>
    : Rt_Op<mnemonic, !listconcat([Touches, DeclareOpInterfaceMethods<Costed, ["cost"]>], traits)>;

class Out<string description> : Arg<Rt_Buffer, description, [MemWrite]>;
class In<string description> : Arg<Rt_Buffer, description, [MemRead]>;
class InOut<string description> : Arg<Rt_Buffer, description, [MemRead, MemWrite]>;
class Outs<string description> : Arg<Variadic<Rt_Buffer>, description, [MemWrite]>;
class Ins<string description> : Arg<Variadic<Rt_Buffer>, description, [MemRead]>;
class OptionalIn<string description> : Arg<Optional<Rt_Buffer>, description, [MemRead]>;
class OptionalOut<string description> : Arg<Optional<Rt_Buffer>, description, [MemWrite]>;

//===------------------------------------------------------------------------------------------------------------===//
// Copies
//===------------------------------------------------------------------------------------------------------------===//

def Rt_FillOp : Rt_Kernel<"fill"> {
  let summary = "all elements of a dense buffer become one value";
  let arguments = (ins Out<"y">:$y, F64Attr:$value);
  let assemblyFormat = "$y `with` $value attr-dict `:` type($y)";
}
def Rt_CopyStridedOp : Rt_Kernel<"copy_strided"> {
  let summary = "a copy between orders of axes, by a kernel for transposes";
  let arguments = (ins Out<"y">:$y, In<"x">:$x);
  let assemblyFormat = "$y `,` $x attr-dict `:` type($y) `,` type($x)";
}

//===------------------------------------------------------------------------------------------------------------===//
// Products
//===------------------------------------------------------------------------------------------------------------===//

def Rt_Blas : I32EnumAttr<"Blas", "the library that computes a product", [
  I32EnumAttrCase<"Tiled", 0, "tiled">, I32EnumAttrCase<"OneDnn", 1, "onednn">,
  I32EnumAttrCase<"OpenBlas", 2, "openblas">]> {
  let cppNamespace = "::echelon::rt";
  let genSpecializedAttr = 0;
}
def Rt_BlasAttr : EnumAttr<Rt_Dialect, Rt_Blas, "blas">;

def Rt_GemmOp : Rt_CostedKernel<"gemm"> {
  let summary = "c = a b, or c += a b; for every point of `batch`, where it has one";
  let description = [{
    c (m, n), a (m, k) or its transpose, b (k, n) or its transpose, each row-major with its leading dimension. `batch`
    has four numbers a dimension: its size, and its strides in c, a and b, in elements; a stride of 0 in c sums. `with`:
    the library, once rt-select-kernels has chosen. The bias, of n elements, is added to each row of c.
  }];
  let arguments = (ins Out<"c">:$c, In<"a">:$a, In<"b">:$b, OptionalIn<"bias">:$bias, Rt_Size:$m, Rt_Size:$n, Rt_Size:$k, UnitAttr:$transA,
                       UnitAttr:$transB, Rt_Size:$lda, Rt_Size:$ldb, Rt_Size:$ldc,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$batch, UnitAttr:$adds, OptionalAttr<Rt_BlasAttr>:$blas);
  let assemblyFormat = [{
    $c `,` $a `,` $b (`bias` $bias^ `:` type($bias))? `m` $m `n` $n `k` $k (`transA` $transA^)? (`transB` $transB^)? `ld` $lda $ldb $ldc
    (`batch` $batch^)? (`adds` $adds^)? (`with` $blas^)? attr-dict `:` type($c) `,` type($a) `,` type($b)
  }];
  let hasVerifier = 1;
}

//===------------------------------------------------------------------------------------------------------------===//
// Tables
//===------------------------------------------------------------------------------------------------------------===//

def Rt_GatherOp : Rt_CostedKernel<"gather", [AttrSizedOperandSegments]> {
  let summary = "y = table at the positions that indices give along axes";
  let description = [{
    Of axes that are `bounded`, this rank holds the positions from `lower` to `upper`, of the others all of `sizes`.
    With `rows`, one index picks rows of the table. `moved` bytes are touched.
  }];
  let arguments = (ins Out<"y">:$y, In<"table">:$table, Ins<"one an axis">:$indices, Variadic<Index>:$lower,
                       Variadic<Index>:$upper, StrArrayAttr:$axes, DenseI64ArrayAttr:$sizes,
                       DenseBoolArrayAttr:$bounded, UnitAttr:$rows, I64Attr:$moved);
  let assemblyFormat = [{
    $y `,` $table `[` $axes `=` $indices `]` `of` $sizes `bounded` $bounded (`from` $lower^ `to` $upper)? (`rows` $rows^)?
    `moves` $moved attr-dict `:` type($y) `,` type($table) `,` type($indices)
  }];
  let hasVerifier = 1;
}
def Rt_ScatterAddOp : Rt_CostedKernel<"scatter_add", [AttrSizedOperandSegments]> {
  let summary = "table += values at the positions that indices give along axes";
  let description = [{As rt.gather.}];
  let arguments = (ins InOut<"table">:$table, In<"values">:$values, Ins<"one an axis">:$indices, Variadic<Index>:$lower,
                       Variadic<Index>:$upper, StrArrayAttr:$axes, DenseI64ArrayAttr:$sizes,
                       DenseBoolArrayAttr:$bounded, UnitAttr:$rows, I64Attr:$moved);
  let assemblyFormat = [{
    $table `[` $axes `=` $indices `]` `,` $values `of` $sizes `bounded` $bounded (`from` $lower^ `to` $upper)? (`rows` $rows^)?
    `moves` $moved attr-dict `:` type($table) `,` type($values) `,` type($indices)
  }];
  let hasVerifier = 1;
}
def Rt_RandomOp : Rt_Kernel<"random"> {
  let summary = "values of the random statement at `site`, by their logical index";
  let description = [{
    The index counts over dimensions, the slowest first: (size, first position, stride) each; `offsets` gives those first
    positions that are not 0, in order, `moved` says which dimensions have one.
  }];
  let arguments = (ins Out<"y">:$y, StrAttr:$site, UnitAttr:$normal, F64Attr:$a, F64Attr:$b, Variadic<Index>:$offsets,
                       DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$strides, DenseBoolArrayAttr:$moved);
  let assemblyFormat = [{
    $y $site (`normal` $normal^)? $a $b `dims` $sizes `times` $strides `moved` $moved (`from` $offsets^)? attr-dict `:`
    type($y)
  }];
}

//===------------------------------------------------------------------------------------------------------------===//
// Slices (outer, n, inner), and rows (rows, n)
//===------------------------------------------------------------------------------------------------------------===//

def Rt_Reduction : I32EnumAttr<"Reduction", "what is made of n elements", [
  I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">, I32EnumAttrCase<"Min", 2, "min">,
  I32EnumAttrCase<"ArgMax", 3, "argmax">]> {
  let cppNamespace = "::echelon::rt";
  let genSpecializedAttr = 0;
}
def Rt_ReductionAttr : EnumAttr<Rt_Dialect, Rt_Reduction, "reduction">;

def Rt_ReduceOp : Rt_Kernel<"reduce"> {
  let summary = "y (outer, inner) of x (outer, n, inner)";
  let arguments = (ins Rt_ReductionAttr:$kind, Out<"y">:$y, In<"x">:$x, Rt_Size:$outer, Rt_Size:$n, Rt_Size:$inner,
                       UnitAttr:$adds);
  let assemblyFormat = [{
    $kind $y `,` $x `of` $outer $n $inner (`adds` $adds^)? attr-dict `:` type($y) `,` type($x)
  }];
  let hasVerifier = 1;
}
def Rt_SoftmaxOp : Rt_InPlaceKernel<"softmax"> {
  let summary = "y = softmax of x (outer, n, inner) over n";
  let arguments = (ins Out<"y">:$y, In<"x">:$x, Rt_Size:$outer, Rt_Size:$n, Rt_Size:$inner);
  let assemblyFormat = "$y `,` $x `of` $outer $n $inner attr-dict `:` type($y) `,` type($x)";
}
def Rt_LogSumExpOp : Rt_Kernel<"logsumexp"> {
  let summary = "y = log of the sum of exp(x) over n, with the shift and the log of the sum after it";
  let arguments = (ins Out<"y">:$y, Out<"largest x">:$shift, Out<"y - shift">:$logSum, In<"x">:$x, Rt_Size:$outer,
                       Rt_Size:$n, Rt_Size:$inner);
  let assemblyFormat = [{
    $y `,` $shift `,` $logSum `,` $x `of` $outer $n $inner attr-dict `:` type($y) `,` type($shift) `,` type($logSum) `,`
    type($x)
  }];
}
def Rt_CumSumOp : Rt_InPlaceKernel<"cumsum"> {
  let summary = "y = the sums of x (outer, n, inner) up to each position of n, or from it on";
  let arguments = (ins Out<"y">:$y, In<"x">:$x, Rt_Size:$outer, Rt_Size:$n, Rt_Size:$inner, UnitAttr:$reverse);
  let assemblyFormat = [{
    $y `,` $x `of` $outer $n $inner (`reverse` $reverse^)? attr-dict `:` type($y) `,` type($x)
  }];
}
def Rt_TopKOp : Rt_Kernel<"top_k"> {
  let summary = "y = positions of the k largest of x (outer, n, inner) over n";
  let arguments = (ins Out<"y">:$y, In<"x">:$x, Rt_Size:$outer, Rt_Size:$n, Rt_Size:$inner, I64Attr:$k);
  let assemblyFormat = "$y `,` $x `of` $outer $n $inner `k` $k attr-dict `:` type($y) `,` type($x)";
}
def Rt_OrthogonalizeOp : Rt_InPlaceKernel<"orthogonalize"> {
  let summary = "y = the inner vectors of x (outer, n, inner), each of n numbers, made orthonormal in their order";
  let arguments = (ins Out<"y">:$y, In<"x">:$x, Rt_Size:$outer, Rt_Size:$n, Rt_Size:$inner);
  let assemblyFormat = "$y `,` $x `of` $outer $n $inner attr-dict `:` type($y) `,` type($x)";
}
def Rt_CrossEntropyOp : Rt_Kernel<"cross_entropy"> {
  let summary = "loss (rows) of x (rows, n) and labels: a class a row, or with `mass` a distribution over n";
  let description = [{`ld`: how far rows of x are apart, where that is not n; of classes alone.}];
  let arguments = (ins Out<"loss">:$loss, Out<"largest x">:$shift, Out<"log of the sum of exp(x - shift)">:$logSum,
                       OptionalOut<"sum of each row's labels">:$mass, In<"x">:$x, In<"labels">:$labels, Rt_Size:$rows,
                       Rt_Size:$n, OptionalAttr<Rt_Size>:$ld);
  let assemblyFormat = [{
    $loss `,` $shift `,` $logSum (`mass` $mass^ `:` type($mass))? `,` $x `,` $labels `of` $rows $n (`ld` $ld^)? attr-dict `:`
    type($loss) `,` type($shift) `,` type($logSum) `,` type($x) `,` type($labels)
  }];
}
def Rt_AddSquaresOp : Rt_Kernel<"add_squares"> {
  let summary = "sum += the squares of all elements of x, added up in double";
  let description = [{
    Times `weights`: numbers that are 1 on the ranks that count x, else 0. Where the sum is no longer finite, the program
    remembers `parameter`, the first whose gradient made it so.
  }];
  let arguments = (ins InOut<"sum">:$sum, In<"x">:$x, Variadic<F64>:$weights, OptionalAttr<StrAttr>:$parameter);
  let assemblyFormat = [{
    $sum `,` $x (`times` $weights^)? (`watch` $parameter^)? attr-dict `:` type($sum) `,` type($x)
  }];
}

//===------------------------------------------------------------------------------------------------------------===//
// Norms
//===------------------------------------------------------------------------------------------------------------===//

def Rt_NormalizeOp : Rt_InPlaceKernel<"normalize"> {
  let summary = "y and rstd (rows) of x (rows, n); with `rms` without taking the mean off";
  let arguments = (ins UnitAttr:$rms, Out<"y">:$y, Out<"1 / standard deviation">:$rstd,
                       Outs<"mean, variance and mean_low (rows), or none">:$statistics, In<"x">:$x, Rt_Size:$rows,
                       Rt_Size:$n, F64Attr:$epsilon);
  let assemblyFormat = [{
    (`rms` $rms^)? $y `,` $rstd (`statistics` $statistics^ `:` type($statistics))? `,` $x `of` $rows $n `epsilon`
    $epsilon attr-dict `:` type($y) `,` type($rstd) `,` type($x)
  }];
}
def Rt_ChannelStatisticsOp : Rt_Kernel<"channel_statistics"> {
  let summary = "rstd (channels), and mean, variance and mean_low, of x (outer, channels, inner)";
  let arguments = (ins Out<"1 / standard deviation">:$rstd, Outs<"mean, variance and mean_low, or none">:$statistics,
                       In<"x">:$x, Rt_Size:$outer, Rt_Size:$channels, Rt_Size:$inner, F64Attr:$epsilon);
  let assemblyFormat = [{
    $rstd (`statistics` $statistics^ `:` type($statistics))? `,` $x `of` $outer $channels $inner `epsilon` $epsilon
    attr-dict `:` type($rstd) `,` type($x)
  }];
}
def Rt_NormalizeGradOp : Rt_InPlaceKernel<"normalize_grad"> {
  let summary = "dx of dy, y and rstd: of rt.normalize";
  let arguments = (ins UnitAttr:$rms, Out<"dx">:$dx, In<"dy">:$dy, In<"y">:$y, In<"rstd">:$rstd, Rt_Size:$rows,
                       Rt_Size:$n);
  let assemblyFormat = [{
    (`rms` $rms^)? $dx `,` $dy `,` $y `,` $rstd `of` $rows $n attr-dict `:` type($dx) `,` type($dy) `,` type($y) `,`
    type($rstd)
  }];
}

//===------------------------------------------------------------------------------------------------------------===//
// Where several ranks hold what is reduced: what one finds of its part, what follows from all
//===------------------------------------------------------------------------------------------------------------===//

def Rt_PartialKind : I32EnumAttr<"PartialKind", "", [
  I32EnumAttrCase<"SumExp", 0, "sum_exp">, I32EnumAttrCase<"Largest", 1, "largest">,
  I32EnumAttrCase<"CrossEntropy", 2, "cross_entropy">, I32EnumAttrCase<"CrossEntropyTarget", 3, "cross_entropy_target">,
  I32EnumAttrCase<"Moments", 4, "moments">, I32EnumAttrCase<"Squares", 5, "squares">,
  I32EnumAttrCase<"NormSums", 6, "norm_sums">, I32EnumAttrCase<"RmsSums", 7, "rms_sums">]> {
  let cppNamespace = "::echelon::rt";
  let genSpecializedAttr = 0;
}
def Rt_PartialKindAttr : EnumAttr<Rt_Dialect, Rt_PartialKind, "partial_kind">;
def Rt_PartialOp : Rt_Kernel<"partial", [AttrSizedOperandSegments]> {
  let summary = "what a rank finds of its part of an axis";
  let description = [{
    | kind | results | operands | sizes |
    | --- | --- | --- | --- |
    | sum_exp | sum | x, maximum | outer, n, inner |
    | largest | value, place | x | outer, n, inner; `first`: the first position held |
    | cross_entropy, cross_entropy_target | sum of exp, picked (, mass) | x, shift, labels | rows, n; `first` class held |
    | moments | (count, mean, M2) of each channel | x | outer, channels, inner |
    | squares | sum of squares of each row | x | rows, n |
    | norm_sums, rms_sums | sums of each row | dy, y | rows, n |
  }];
  let arguments = (ins Rt_PartialKindAttr:$kind, Outs<"">:$outs, Ins<"">:$inputs, Rt_SizeArray:$sizes,
                       Optional<Index>:$first);
  let assemblyFormat = [{
    $kind `(` $inputs `)` `->` `(` $outs `)` `of` $sizes (`from` $first^)? attr-dict `:` `(` type($inputs) `)` `->`
    `(` type($outs) `)`
  }];
  let hasVerifier = 1;
}

def Rt_CombineKind : I32EnumAttr<"CombineKind", "", [
  I32EnumAttrCase<"Softmax", 0, "softmax">, I32EnumAttrCase<"LogSumExp", 1, "logsumexp">,
  I32EnumAttrCase<"CrossEntropy", 2, "cross_entropy">, I32EnumAttrCase<"CrossEntropyTarget", 3, "cross_entropy_target">,
  I32EnumAttrCase<"Largest", 4, "largest">, I32EnumAttrCase<"Moments", 5, "moments">,
  I32EnumAttrCase<"Normalize", 6, "normalize">, I32EnumAttrCase<"Statistics", 7, "statistics">,
  I32EnumAttrCase<"RmsNormalize", 8, "rms_normalize">, I32EnumAttrCase<"NormalizeGrad", 9, "normalize_grad">,
  I32EnumAttrCase<"RmsGrad", 10, "rms_grad">]> {
  let cppNamespace = "::echelon::rt";
  let genSpecializedAttr = 0;
}
def Rt_CombineKindAttr : EnumAttr<Rt_Dialect, Rt_CombineKind, "combine_kind">;
def Rt_CombineOp : Rt_InPlaceKernel<"combine", [AttrSizedOperandSegments]> {
  let summary = "what follows from what all ranks found";
  let description = [{
    | kind | results | operands | sizes |
    | --- | --- | --- | --- |
    | softmax | y | x, maximum, sum | outer, n, inner |
    | logsumexp, cross_entropy, cross_entropy_target | value, log of the sum | what partials found | count |
    | largest | place | values and places of all ranks | ranks, count |
    | moments | moments | those of all ranks | ranks, channels |
    | normalize | y, rstd (, statistics) | x, moments | rows, n |
    | statistics | rstd (, statistics) | moments | channels |
    | rms_normalize | y, rstd | x, squares | rows, n; `total` elements over all ranks |
    | normalize_grad, rms_grad | dx | dy, y, rstd, sums | rows, n; `total` |
  }];
  let arguments = (ins Rt_CombineKindAttr:$kind, Outs<"">:$outs, Ins<"">:$inputs, Rt_SizeArray:$sizes,
                       OptionalAttr<I64Attr>:$total, OptionalAttr<F64Attr>:$epsilon);
  let assemblyFormat = [{
    $kind `(` $inputs `)` `->` `(` $outs `)` `of` $sizes (`total` $total^)? (`epsilon` $epsilon^)? attr-dict `:`
    `(` type($inputs) `)` `->` `(` type($outs) `)`
  }];
  let hasVerifier = 1;
}

//===------------------------------------------------------------------------------------------------------------===//
// Windows
//===------------------------------------------------------------------------------------------------------------===//

def Rt_ConvKind : I32EnumAttr<"ConvKind", "", [
  I32EnumAttrCase<"Forward", 0, "forward">, I32EnumAttrCase<"GradData", 1, "grad_data">,
  I32EnumAttrCase<"GradWeights", 2, "grad_weights">]> {
  let cppNamespace = "::echelon::rt";
  let genSpecializedAttr = 0;
}
def Rt_ConvKindAttr : EnumAttr<Rt_Dialect, Rt_ConvKind, "conv_kind">;
def Rt_ConvOp : Rt_CostedKernel<"conv"> {
  let summary = "y (batch, to, window) of x (batch, from, window) and w (to, from, kernel); dx of dy and w; dw of x and dy";
  let description = [{
    `dims` has five numbers a dimension of the window: positions of x, of the kernel, stride, padding before and after.
    `flops` and `moved` bytes are what it takes. On a GPU the rank has memory for other formats, and there is none here.
  }];
  let arguments = (ins Rt_ConvKindAttr:$kind, Out<"result">:$result, In<"first factor">:$lhs, In<"second factor">:$rhs,
                       OptionalOut<"memory for other formats">:$scratch, Rt_Size:$batch, Rt_Size:$from, Rt_Size:$to,
                       DenseI64ArrayAttr:$dims, I64Attr:$flops, I64Attr:$moved);
  let assemblyFormat = [{
    $kind $result `,` $lhs `,` $rhs (`scratch` $scratch^ `:` type($scratch))? `of` $batch $from $to `dims` $dims `does`
    $flops `moves` $moved attr-dict `:` type($result) `,` type($lhs) `,` type($rhs)
  }];
}
def Rt_PoolOp : Rt_Kernel<"pool"> {
  let summary = "y (planes, window) of x (planes, window): the largest, with where it lies, or the mean of each window";
  let description = [{`dims`: five numbers a dimension: positions of x, of the window, stride, padding before and after.}];
  let arguments = (ins UnitAttr:$max, Out<"y">:$y, OptionalOut<"place of the largest">:$index, In<"x">:$x,
                       Rt_Size:$planes, DenseI64ArrayAttr:$dims);
  let assemblyFormat = [{
    (`max` $max^)? $y (`index` $index^ `:` type($index))? `,` $x `of` $planes `dims` $dims attr-dict `:` type($y) `,`
    type($x)
  }];
}
def Rt_PoolGradOp : Rt_Kernel<"pool_grad"> {
  let summary = "dx of dy, and of where the largest lay";
  let arguments = (ins Out<"dx">:$dx, In<"dy">:$dy, OptionalIn<"place of the largest">:$index, Rt_Size:$planes,
                       DenseI64ArrayAttr:$dims);
  let assemblyFormat = [{
    $dx `,` $dy (`index` $index^ `:` type($index))? `of` $planes `dims` $dims attr-dict `:` type($dx) `,` type($dy)
  }];
}

//===------------------------------------------------------------------------------------------------------------===//
// Attention
//===------------------------------------------------------------------------------------------------------------===//

def Rt_AttentionOp : Rt_CostedKernel<"attention", [AttrSizedOperandSegments]> {
  let summary = "y of q, k and v: softmax(scale q k' + bias, where mask and causality allow) v, scores never stored";
  let description = [{
    `sizes`: batch, group, head, seq, past, key, value. `strides` has four numbers each for q, k, v and y: of batch,
    group, head and row; keys are contiguous. `maskStrides` and `biasStrides`: of batch, group, head, seq, past.
    `between`: how far this rank's queries begin behind its keys.
  }];
  let arguments = (ins Out<"y">:$y, Out<"largest scores">:$maximum, Out<"sums of exp">:$sum, In<"q">:$q, In<"k">:$k,
                       In<"v">:$v, OptionalIn<"mask">:$mask, OptionalIn<"bias">:$bias, Optional<Index>:$between,
                       Rt_SizeArray:$sizes, F64Attr:$scale, UnitAttr:$causal, DenseI64ArrayAttr:$maskStrides,
                       DenseI64ArrayAttr:$biasStrides, DenseI64ArrayAttr:$strides);
  let assemblyFormat = [{
    $y `,` $maximum `,` $sum `,` $q `,` $k `,` $v (`mask` $mask^ `:` type($mask))? (`bias` $bias^ `:` type($bias))?
    (`between` $between^)? `of` $sizes `scale` $scale (`causal` $causal^)? `strides` $strides `mask_strides` $maskStrides
    `bias_strides` $biasStrides attr-dict `:` type($y) `,` type($maximum) `,` type($sum) `,` type($q) `,` type($k) `,`
    type($v)
  }];
}
def Rt_AttentionGradOp : Rt_CostedKernel<"attention_grad", [AttrSizedOperandSegments]> {
  let summary = "dq, dk, dv and dbias of dy and of what rt.attention left";
  let description = [{As rt.attention; `gradStrides` are those of dq, dk, dv and dy.}];
  let arguments = (ins Out<"dq">:$dq, Out<"dk">:$dk, Out<"dv">:$dv, OptionalOut<"dbias">:$dbias, In<"dy">:$dy, In<"y">:$y,
                       In<"largest scores">:$maximum, In<"sums of exp">:$sum, In<"q">:$q, In<"k">:$k, In<"v">:$v,
                       OptionalIn<"mask">:$mask, OptionalIn<"bias">:$bias, Optional<Index>:$between,
                       Rt_SizeArray:$sizes, F64Attr:$scale, UnitAttr:$causal, DenseI64ArrayAttr:$maskStrides,
                       DenseI64ArrayAttr:$biasStrides, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$gradStrides);
  let assemblyFormat = [{
    $dq `,` $dk `,` $dv (`dbias` $dbias^ `:` type($dbias))? `,` $dy `,` $y `,` $maximum `,` $sum `,` $q `,` $k `,` $v
    (`mask` $mask^ `:` type($mask))? (`bias` $bias^ `:` type($bias))? (`between` $between^)? `of` $sizes `scale` $scale
    (`causal` $causal^)? `strides` $strides `grad_strides` $gradStrides `mask_strides` $maskStrides `bias_strides`
    $biasStrides attr-dict `:` type($dq) `,` type($dk) `,` type($dv) `,` type($dy) `,` type($y) `,` type($maximum) `,`
    type($sum) `,` type($q) `,` type($k) `,` type($v)
  }];
}

//===------------------------------------------------------------------------------------------------------------===//
// Attention whose keys and values go round
//===------------------------------------------------------------------------------------------------------------===//

class Rt_RingKernel<string mnemonic>
    : Rt_Op<mnemonic, [Touches, DeclareOpInterfaceMethods<Costed, ["cost"]>,
                       DeclareOpInterfaceMethods<Communicates, ["messageAt", "toWaitFor"]>, AttrSizedOperandSegments]> {
  let hasVerifier = 1;
  /// Attributes besides the operands of the kernel.
  dag shape = (ins Variadic<Index>:$begins, Rt_SizeArray:$queryRuns, DenseI64ArrayAttr:$keyRuns,
                   DenseI64ArrayAttr:$mesh, I64Attr:$ranks, StrAttr:$axis, StrAttr:$why, Rt_SizeArray:$sizes,
                   F64Attr:$scale, UnitAttr:$causal, DenseI64ArrayAttr:$maskStrides, DenseI64ArrayAttr:$biasStrides,
                   DenseI64ArrayAttr:$strides);
  let extraClassDeclaration = [{
    /// Elements of a rank's keys, and of its values: one message of a hop each.
    int64_t keyCount();
    int64_t valueCount();
  }];
}
def Rt_RingAttentionOp : Rt_RingKernel<"ring_attention"> {
  let summary = "rt.attention of the keys and values of all ranks along a mesh axis, which go from rank to rank";
  let description = [{
    As rt.attention; in each of as many hops as there are ranks, a rank's queries look at what has come round, and their
    result is merged with what they have found before. `keys`, `values`: where the next ones arrive, (min(ranks - 1, 2), …).
    Positions matter where it is causal, or has a mask or bias, which are whole along `past`: `queryRuns` are sizes of runs
    of positions among a rank's queries, which begin at `begins` (none where it is not causal), `keyRuns` three numbers for
    each run of keys: its size, where it begins at coordinate 0, and how much further at the next one.
  }];
  let arguments = !con((ins Out<"y">:$y, Out<"largest scores">:$maximum, Out<"sums of exp">:$sum,
                            Out<"keys that come">:$keys, Out<"values that come">:$values, In<"q">:$q, In<"k">:$k,
                            In<"v">:$v, OptionalIn<"mask">:$mask, OptionalIn<"bias">:$bias), shape);
  let assemblyFormat = [{
    $y `,` $maximum `,` $sum `through` $keys `,` $values `,` $q `,` $k `,` $v (`mask` $mask^ `:` type($mask))?
    (`bias` $bias^ `:` type($bias))? `over` $mesh `ranks` $ranks $axis `why` $why `queries` $queryRuns (`from` $begins^)?
    `keys` $keyRuns `of` $sizes `scale` $scale (`causal` $causal^)? `strides` $strides `mask_strides` $maskStrides
    `bias_strides` $biasStrides attr-dict `:` type($y) `,` type($maximum) `,` type($sum) `,` type($keys) `,`
    type($values) `,` type($q) `,` type($k) `,` type($v)
  }];
}
def Rt_RingAttentionGradOp : Rt_RingKernel<"ring_attention_grad"> {
  let summary = "dq, dk, dv and dbias of dy and of what rt.ring_attention left";
  let description = [{
    As rt.ring_attention. With each block of keys and values go the shares of dk and dv that the ranks it came by have added
    to it, and one hop further, home. `dkeys`, `dvalues`: this rank's shares, (2, …): one is made while the other is sent.
  }];
  let arguments = !con((ins Out<"dq">:$dq, Out<"dk">:$dk, Out<"dv">:$dv, OptionalOut<"dbias">:$dbias,
                            Out<"keys that come">:$keys, Out<"values that come">:$values, Out<"shares of dk">:$dkeys,
                            Out<"shares of dv">:$dvalues, In<"dy">:$dy, In<"y">:$y, In<"largest scores">:$maximum,
                            In<"sums of exp">:$sum, In<"q">:$q, In<"k">:$k, In<"v">:$v, OptionalIn<"mask">:$mask,
                            OptionalIn<"bias">:$bias), shape, (ins DenseI64ArrayAttr:$gradStrides));
  let assemblyFormat = [{
    $dq `,` $dk `,` $dv (`dbias` $dbias^ `:` type($dbias))? `through` $keys `,` $values `,` $dkeys `,` $dvalues `,` $dy `,`
    $y `,` $maximum `,` $sum `,` $q `,` $k `,` $v (`mask` $mask^ `:` type($mask))? (`bias` $bias^ `:` type($bias))? `over`
    $mesh `ranks` $ranks $axis `why` $why `queries` $queryRuns (`from` $begins^)? `keys` $keyRuns `of` $sizes `scale` $scale
    (`causal` $causal^)? `strides` $strides `grad_strides` $gradStrides `mask_strides` $maskStrides `bias_strides`
    $biasStrides attr-dict `:` type($dq) `,` type($dk) `,` type($dv) `,` type($keys) `,` type($values) `,` type($dkeys) `,`
    type($dvalues) `,` type($dy) `,` type($y) `,` type($maximum) `,` type($sum) `,` type($q) `,` type($k) `,` type($v)
  }];
}

#endif
