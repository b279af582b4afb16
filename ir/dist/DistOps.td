// The dist dialect: who holds what, and what moves. The same ech operations compute on laid-out types; dist has the
// mesh, the state of a value over it, and the operations that change a state.
#ifndef DIST_OPS
#define DIST_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let summary = "who holds what, and what moves";
  let cppNamespace = "::echelon::dist";
  let dependentDialects = ["::echelon::ech::EchDialect"];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

//===------------------------------------------------------------------------------------------------------------===//
// The mesh and the state of a value
//===------------------------------------------------------------------------------------------------------------===//

def Dist_Map : AttrDef<Dist_Dialect, "Map"> {
  let mnemonic = "map";
  let summary = "which chunks of an axis each coordinate of a mesh axis holds";
  let description = [{
    `#dist.map<zigzag>`, `#dist.map<cyclic 3>`, `#dist.map<blocks>`: `runtime/program/OwnerMap.h`. `#dist.map<blocks (7,
    8, 8, 7)>`, `#dist.map<cyclic 2 (1, 2, 2, 1)>`: chunks of these sizes, in the order of positions.
  }];
  let parameters = (ins "int64_t":$chunks, "bool":$zigzag, ArrayRefParameter<"int64_t", "sizes">:$sizes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static MapAttr get(::mlir::MLIRContext *context, const ::echelon::runtime::OwnerMap &map) {
      return get(context, map.chunks, map.isZigzag, map.sizes);
    }
    ::echelon::runtime::OwnerMap map() const { return {getChunks(), getZigzag(), getSizes().vec()}; }
  }];
}

def Dist_Mesh : AttrDef<Dist_Dialect, "Mesh"> {
  let mnemonic = "mesh";
  let summary = "the mesh axes, outermost first, each with its size and its list of axes";
  let description = [{
    `#dist.mesh<dp = 2 [batch], tp = 2 [head, ff padded, vocab, seq]>`, the module's `dist.mesh`. Ranks are numbered
    row-major, the last mesh axis fastest. The list holds the axes of the `split` lines over the mesh axis, from top to
    bottom. `padded`: where the size does not divide, storage is padded. `seq zigzag`, `layer cyclic 2`, `layer blocks
    (7, 8, 8, 7)`: which chunks of the axis each coordinate holds; an equal block without.
  }];
  let parameters = (ins ArrayRefParameter<"::echelon::dist::MeshAxis", "axes">:$axes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Number of mesh axes.
    int size() const { return getAxes().size(); }
    /// Number of ranks.
    int64_t ranks() const;
    /// Place of a mesh axis, or -1.
    int index(::llvm::StringRef name) const;
    ::llvm::StringRef nameOf(int m) const { return getAxes()[m].name.getValue(); }
    int64_t sizeOf(int m) const { return getAxes()[m].size; }
    /// Place of an axis in the list of mesh axis `m`, or -1.
    int place(int m, ::llvm::StringRef axis) const;
    bool isPadded(int m, ::llvm::StringRef axis) const;
    /// What each coordinate of mesh axis `m` holds of an axis that is split over it.
    ::echelon::runtime::OwnerMap mapOf(int m, ::llvm::StringRef axis) const;
    /// The same where the axis has `size` positions, as of groups of a repeat's iterations: unequal chunks have as many
    /// times more or fewer as all positions.
    ::echelon::runtime::OwnerMap mapOf(int m, ::llvm::StringRef axis, int64_t size) const;
    /// All mesh axes in the order in which splits of `axis` nest, slowest first: by the axis's place in their lists,
    /// then in mesh order.
    ::llvm::SmallVector<int> nest(::llvm::StringRef axis) const;
    /// The first listed axis of mesh axis `m` that the type has; empty when there is none.
    ::llvm::StringRef firstListed(int m, ::echelon::ech::Tensor type) const;
    /// "tp" or "dp+tp".
    std::string names(::llvm::ArrayRef<int> over) const;
  }];
}

def Dist_State : AttrDef<Dist_Dialect, "State"> {
  let mnemonic = "state";
  let summary = "what a rank holds of a value, over each mesh axis";
  let description = [{
    `#dist.state<dp = split batch, tp = sum>`; one entry a mesh axis, in mesh order:
    - `whole`: every coordinate holds the same;
    - `split AXIS`: each coordinate holds a block of the axis;
    - `sum`: the value is the sum of what the coordinates hold;
    - `own`: each coordinate holds what it found of its part (a maximum, moments), from which a message makes the value;
    - `cut AXIS`: a block inside all splits of the axis, made by `store`;
    - `flat`: a part of the local piece as one row of numbers, padded to a multiple, made by `store`.
  }];
  let parameters = (ins ArrayRefParameter<"::echelon::dist::Entry", "entries">:$entries);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    const Entry &operator[](int m) const { return getEntries()[m]; }
    int size() const { return getEntries().size(); }
    /// The same with one entry changed.
    StateAttr with(int m, Hold hold, ::mlir::StringAttr axis = {}) const;
    StateAttr with(int m, const Entry &entry) const;
    bool isWhole() const;
  }];
}

/// Of the ech dialect, whose definitions are not included: its operations would be generated again.
def Dist_Tensor : Type<CPred<"::llvm::isa<::echelon::ech::Tensor>($_self)">, "tensor with named axes",
                       "::echelon::ech::Tensor">;

//===------------------------------------------------------------------------------------------------------------===//
// Conversions
//===------------------------------------------------------------------------------------------------------------===//

class Dist_Op<string mnemonic, list<Trait> traits = []> : Op<Dist_Dialect, mnemonic, traits>;

def Dist_ConvertOp : Dist_Op<"convert", [Pure]> {
  let summary = "the same value in another state";
  let description = [{What `dist-assign-layout` asks for; `dist-form-collectives` says how. `why` is the layout clause
    and the operation that need it.}];
  let arguments = (ins Dist_Tensor:$value, StrAttr:$why);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$value `why` $why attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
}

def Dist_MaskOp : Dist_Op<"mask", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "the padding along axes set to a number, so that what sums or compares may read it";
  let description = [{Local: each rank knows how much of its block is padding.}];
  let arguments = (ins Dist_Tensor:$value, StrArrayAttr:$axes, F64Attr:$fill);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$value `along` $axes `with` $fill attr-dict `:` type($value)";
  let hasVerifier = 1;
}

/// One message of one or several values. Over the mesh axes of `over`, and only there, each value changes its state;
/// all operations of one kind make the same change of hold (whole, split, sum), the axes may differ.
class Dist_Message<string mnemonic, list<Trait> traits = []> : Dist_Op<mnemonic, !listconcat([Pure], traits)> {
  let arguments = (ins Variadic<Dist_Tensor>:$values, StrArrayAttr:$over, StrAttr:$why,
                       DefaultValuedAttr<StrAttr, "\"auto\"">:$algorithm);
  let results = (outs Variadic<Dist_Tensor>:$results);
  let assemblyFormat = [{
    $values `over` $over `why` $why (`with` $algorithm^)? attr-dict `:` functional-type($values, $results)
  }];
  let hasVerifier = 1;
}
def Dist_SliceOp : Dist_Op<"slice", [Pure]> {
  let summary = "local: each coordinate keeps its part of what it holds whole (of a sum: coordinate 0 all, others zero)";
  let description = [{whole -> split, cut, flat or sum. No communication.}];
  let arguments = (ins Dist_Tensor:$value, StrArrayAttr:$over, StrAttr:$why);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$value `over` $over `why` $why attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
}
def Dist_ReduceScatterOp : Dist_Message<"reduce_scatter"> {
  let summary = "sum -> split, cut or flat: summed, each coordinate keeps its part";
}
def Dist_AllToAllOp : Dist_Message<"all_to_all"> {
  let summary = "split -> split along another axis: each coordinate sends each its part";
}
def Dist_AllReduceOp : Dist_Message<"all_reduce"> {
  let summary = "sum -> whole: summed, on every coordinate, the same bits everywhere; own -> whole: the maximum or minimum";
  let description = [{`by "max"`, `by "min"`: of what each coordinate found. Without: the sum.}];
  let arguments = (ins Variadic<Dist_Tensor>:$values, StrArrayAttr:$over, StrAttr:$why,
                       DefaultValuedAttr<StrAttr, "\"auto\"">:$algorithm, OptionalAttr<StrAttr>:$reduction);
  let assemblyFormat = [{
    $values (`by` $reduction^)? `over` $over `why` $why (`with` $algorithm^)? attr-dict `:`
    functional-type($values, $results)
  }];
}
def Dist_AllGatherOp : Dist_Message<"all_gather"> {
  let summary = "split, cut or flat -> whole: the parts of all, in order";
}
def Dist_ExchangeOp : Dist_Message<"exchange"> {
  let summary = "any change between whole, split and cut, where the group that changes does not hold all it needs";
}
def Dist_BroadcastOp : Dist_Op<"broadcast", [Pure]> {
  let summary = "sum -> whole where one coordinate alone holds something: what it holds, on every coordinate";
  let description = [{`root` is the coordinate along the one mesh axis of `over`.}];
  let arguments = (ins Variadic<Dist_Tensor>:$values, StrArrayAttr:$over, I64Attr:$root, StrAttr:$why,
                       DefaultValuedAttr<StrAttr, "\"auto\"">:$algorithm);
  let results = (outs Variadic<Dist_Tensor>:$results);
  let assemblyFormat = [{
    $values `over` $over `from` $root `why` $why (`with` $algorithm^)? attr-dict `:` functional-type($values, $results)
  }];
  let hasVerifier = 1;
}

//===------------------------------------------------------------------------------------------------------------===//
// Products with what follows them in the same kernel
//===------------------------------------------------------------------------------------------------------------===//

def Dist_LinearOp : Dist_Op<"linear", [Pure]> {
  let summary = "a product of two bytes, a bias added to its f32 sum, and rounded once";
  let description = [{
    As ech.dot, of operands in two bytes, with a result in two bytes. The bias has the result's last axes, which are all
    that the right operand has of its own.
  }];
  let arguments = (ins Dist_Tensor:$lhs, Dist_Tensor:$rhs, Optional<Dist_Tensor>:$bias, StrArrayAttr:$over);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs (`bias` $bias^)? `over` $over attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

//===------------------------------------------------------------------------------------------------------------===//
// Reductions along a divided axis: what each rank finds, a message, what follows from all
//===------------------------------------------------------------------------------------------------------------===//

def Dist_Partial : I32EnumAttr<"Partial", "", [
  I32EnumAttrCase<"SumOfExp", 0, "sum_of_exp">, I32EnumAttrCase<"CrossEntropy", 1, "cross_entropy">,
  I32EnumAttrCase<"Largest", 2, "largest">, I32EnumAttrCase<"Moments", 3, "moments">,
  I32EnumAttrCase<"Squares", 4, "squares">, I32EnumAttrCase<"NormSums", 5, "norm_sums">,
  I32EnumAttrCase<"RmsSums", 6, "rms_sums">, I32EnumAttrCase<"AllSquares", 7, "all_squares">,
  I32EnumAttrCase<"Maximum", 8, "maximum">]> {
  let cppNamespace = "::echelon::dist";
  let genSpecializedAttr = 0;
}
def Dist_PartialAttr : EnumAttr<Dist_Dialect, Dist_Partial, "partial_kind">;
def Dist_PartialOp : Dist_Op<"partial", [Pure]> {
  let summary = "what a rank finds of its part along axes, for a message to combine";
  let description = [{
    No communication. x is the rank's part; sums are `sum` over the mesh axes that divide it, the others `own`.
    | kind | operands | results, without the axes of `over` |
    | --- | --- | --- |
    | `maximum` | x | the largest value |
    | `sum_of_exp` | x, maximum | sum exp(x - maximum) |
    | `cross_entropy` | logits, maximum, labels | sum exp(x - maximum); x[label] - maximum, or sum target * (x - maximum); with a target: sum target |
    | `largest` | x | (part = 2): the largest value and its place, the lowest among equals |
    | `moments` | x | (…, moment = 3), fp64: count, mean, sum (x - mean)^2 |
    | `squares` | x | sum x^2, fp64 |
    | `norm_sums` | dy, y | (…, part = 2), fp64: sum dy, sum dy * y |
    | `rms_sums` | dy, y | (…, part = 1), fp64: sum dy * y |
    | `all_squares` | any number | one fp64: the squares of all elements of all operands; where one is whole, coordinate 0 counts it |
  }];
  let arguments = (ins Dist_PartialAttr:$kind, Variadic<Dist_Tensor>:$operands, StrArrayAttr:$along);
  let results = (outs Variadic<Dist_Tensor>:$results);
  let assemblyFormat = "$kind $operands `along` $along attr-dict `:` functional-type($operands, $results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// What a result is called: "sum_of_exp", "picked", "mass".
    ::llvm::StringRef nameOf(unsigned result);
  }];
}

def Dist_CollectOp : Dist_Op<"collect", [Pure]> {
  let summary = "own -> whole: what each rank found, on every coordinate, along a new first axis";
  let description = [{The ranks of the group lie row-major along `axis`, over the mesh axes in mesh order.}];
  let arguments = (ins Dist_Tensor:$value, StrAttr:$axis, StrArrayAttr:$over, StrAttr:$why,
                       DefaultValuedAttr<StrAttr, "\"auto\"">:$algorithm);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = [{
    $value `into` $axis `over` $over `why` $why (`with` $algorithm^)? attr-dict `:` type($value) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Dist_Combination : I32EnumAttr<"Combination", "", [
  I32EnumAttrCase<"Softmax", 0, "softmax">, I32EnumAttrCase<"LogSumExp", 1, "logsumexp">,
  I32EnumAttrCase<"CrossEntropy", 2, "cross_entropy">, I32EnumAttrCase<"ArgMax", 3, "argmax">,
  I32EnumAttrCase<"Normalize", 4, "normalize">, I32EnumAttrCase<"Statistics", 5, "statistics">,
  I32EnumAttrCase<"RmsNormalize", 6, "rms_normalize">, I32EnumAttrCase<"NormalizeGrad", 7, "normalize_grad">,
  I32EnumAttrCase<"RmsGrad", 8, "rms_grad">, I32EnumAttrCase<"Root", 9, "root">]> {
  let cppNamespace = "::echelon::dist";
  let genSpecializedAttr = 0;
}
def Dist_CombinationAttr : EnumAttr<Dist_Dialect, Dist_Combination, "combination_kind">;
def Dist_CombineOp : Dist_Op<"combine", [Pure]> {
  let summary = "what follows from what all ranks found";
  let description = [{
    No communication: the operands came out of messages, x and y are the rank's parts. Results are those of the ech
    operation that was split.
    | kind | operands | results |
    | --- | --- | --- |
    | `softmax` | x, maximum, sum of exp | exp(x - maximum) / sum |
    | `logsumexp` | maximum, sum of exp | logsumexp, shift, log_sum |
    | `cross_entropy` | the sums of the partial of this name | loss, log_sum |
    | `argmax` | (rank, part = 2, …) | place |
    | `normalize` | x, moments (rank, …, moment = 3) | y, rstd, mean, variance, mean_low |
    | `statistics` | moments (rank, …, moment = 3) | rstd, mean, variance, mean_low |
    | `rms_normalize` | x, sum of squares | y, rstd |
    | `normalize_grad`, `rms_grad` | dy, y, rstd, sums | dx |
    | `root` | sum of squares | its root |
  }];
  let arguments = (ins Dist_CombinationAttr:$kind, Variadic<Dist_Tensor>:$operands, StrArrayAttr:$along);
  let results = (outs Variadic<Dist_Tensor>:$results);
  let assemblyFormat = "$kind $operands `along` $along attr-dict `:` functional-type($operands, $results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// What a result is called: "argmax", "rstd", "log_sum"; empty where it is the value that the spec names.
    ::llvm::StringRef nameOf(unsigned result);
  }];
}

//===------------------------------------------------------------------------------------------------------------===//
// Overlap
//===------------------------------------------------------------------------------------------------------------===//

def Dist_Token : TypeDef<Dist_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "a message on its way";
}
def Dist_StartOp : Dist_Op<"start"> {
  let summary = "a message that goes on while the rank computes; its results come from the one dist.wait of its token";
  let description = [{`kind` is the name of the operation without its dialect: `reduce_scatter`, …}];
  let arguments = (ins StrAttr:$kind, Variadic<Dist_Tensor>:$values, StrArrayAttr:$over, StrAttr:$why,
                       DefaultValuedAttr<StrAttr, "\"auto\"">:$algorithm);
  let results = (outs Dist_Token:$token);
  let assemblyFormat = [{
    $kind $values `over` $over `why` $why (`with` $algorithm^)? attr-dict `:` functional-type($values, $token)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{ ::echelon::dist::WaitOp wait(); }];
}
def Dist_WaitOp : Dist_Op<"wait"> {
  let summary = "the results of a started message";
  let arguments = (ins Dist_Token:$token);
  let results = (outs Variadic<Dist_Tensor>:$results);
  let assemblyFormat = "$token attr-dict `:` functional-type($token, $results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{ ::echelon::dist::StartOp start(); }];
}
def Dist_StartEachOp : Dist_Op<"start_each"> {
  let summary = "in a repeat: each iteration's message goes on while the rank computes";
  let description = [{
    The result stands for what will have arrived: it is stacked and nothing else, and the stack is read by the one
    dist.wait_each alone.
    ```mlir
    %stack = ech.repeat "layer" = 4 … {
      %sum = dist.start_each "all_reduce" %dw over ["dp"] why "…" : (!dw_sum) -> !dw
      ech.yield … stack(%sum : !dw)
    }
    %whole = dist.wait_each %stack : !dw_stacked
    ```
  }];
  let arguments = (ins StrAttr:$kind, Dist_Tensor:$value, StrArrayAttr:$over, StrAttr:$why,
                       DefaultValuedAttr<StrAttr, "\"auto\"">:$algorithm);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = [{
    $kind $value `over` $over `why` $why (`with` $algorithm^)? attr-dict `:` functional-type($value, $result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The operand of the yield that stacks the result; null where there is none.
    ::mlir::OpOperand *stacked();
    /// The result of the repeat in which the iterations' results are stacked; null where there is none.
    ::mlir::Value stack();
  }];
}
def Dist_WaitEachOp : Dist_Op<"wait_each", [AllTypesMatch<["stack", "result"]>]> {
  let summary = "what the messages of all iterations brought";
  let arguments = (ins Dist_Tensor:$stack);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$stack attr-dict `:` type($stack)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// What each iteration started; null where the stack is of something else.
    ::echelon::dist::StartEachOp start();
  }];
}

//===------------------------------------------------------------------------------------------------------------===//
// Stages of a pipeline
//===------------------------------------------------------------------------------------------------------------===//

def Dist_YieldOp : Dist_Op<"yield", [Pure, Terminator, HasParent<"AtOp">]> {
  let summary = "ends what one stage does: a value for each result";
  let arguments = (ins Variadic<Dist_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}
def Dist_AtOp : Dist_Op<"at", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "what one stage of a pipeline does alone";
  let description = [{
    `place` is that of the stage in the row that a micro batch goes through; where a stage has several chunks of
    iterations, each chunk has a place: chunk c of stage r of n that of number c n + r. Elsewhere there are no results:
    they are read at the same place, or handed on by a dist.receive; where a result is `sum` over the mesh axis, other
    coordinates add nothing.
  }];
  let arguments = (ins I64Attr:$place, StrAttr:$over);
  let results = (outs Variadic<Dist_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$place `of` $over $body attr-dict (`->` type($results)^)?";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *block() { return &getBody().front(); }
    ::echelon::dist::YieldOp yield();
  }];
}
def Dist_ReceiveOp : Dist_Op<"receive", [AllTypesMatch<["value", "result"]>]> {
  let summary = "what the stage beside this one has sent; where that begins, the operand";
  let description = [{
    Goes through the places `first` to `last` of the row of stages. From the `previous` one, it is received at all of
    these but the first, where the operand is; from the `next` one, at all but the last. Elsewhere there is no result.
    With several chunks of iterations on each stage the row goes round: behind a chunk of the last stage comes the next
    chunk of the first one.
  }];
  let arguments = (ins Dist_Tensor:$value, StrAttr:$from, I64Attr:$first, I64Attr:$last, StrAttr:$over, StrAttr:$why);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$value `from` $from `in` $first `to` $last `over` $over `why` $why attr-dict `:` type($value)";
  let hasVerifier = 1;
}
def Dist_SendOp : Dist_Op<"send"> {
  let summary = "to the stage beside this one, from all of the places `first` to `last` but the one where it ends";
  let arguments = (ins Dist_Tensor:$value, StrAttr:$to, I64Attr:$first, I64Attr:$last, StrAttr:$over, StrAttr:$why);
  let assemblyFormat = "$value `to` $to `in` $first `to` $last `over` $over `why` $why attr-dict `:` type($value)";
  let hasVerifier = 1;
}

#endif
