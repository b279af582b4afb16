// The ech dialect: what is computed, in named axes. One operation an idea of the language; derivatives included.
#ifndef ECH_OPS
#define ECH_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "ir/ech/EchInterfaces.td"

def Ech_Dialect : Dialect {
  let name = "ech";
  let summary = "what is computed, in named axes";
  let cppNamespace = "::echelon::ech";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

//===------------------------------------------------------------------------------------------------------------===//
// Types and attributes
//===------------------------------------------------------------------------------------------------------------===//

def Ech_Tensor : TypeDef<Ech_Dialect, "Tensor"> {
  let cppClassName = "Tensor"; // not TensorType, which MLIR has
  let mnemonic = "tensor";
  let summary = "named axes with sizes, an element type, and once laid out, its state on the mesh";
  let description = [{
    `!ech.tensor<[batch=64, seq=64], f32>`. The order of the axes is the order of storage, slowest first; the meaning
    does not depend on it. Sizes are logical: those of the whole value. After layout a type has a third part, the
    state over each mesh axis: `!ech.tensor<[batch=64, embed=128], f32, #dist.state<dp = batch, tp = sum>>`.
    Elements: f32, f64, i32, i1; bf16 and f16 are how values of f32 are kept (`ech-choose-types`); i8 travels where
    gradients are compressed (`ech-compress`).
  }];
  let parameters = (ins ArrayRefParameter<"::echelon::ech::Axis", "axes">:$axes, "::mlir::Type":$element,
                        "::mlir::Attribute":$state);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Position of the axis in storage, or -1.
    int position(::llvm::StringRef axis) const;
    bool has(::llvm::StringRef axis) const { return position(axis) >= 0; }
    /// Logical size of an axis that the type has.
    int64_t sizeOf(::llvm::StringRef axis) const;
    int64_t rank() const { return getAxes().size(); }
    /// Number of logical elements.
    int64_t count() const;
    bool isFloat() const { return ::llvm::isa<::mlir::FloatType>(getElement()); }
    Tensor withState(::mlir::Attribute state) const;
    Tensor withAxes(::llvm::ArrayRef<Axis> axes) const;
    Tensor withElement(::mlir::Type element) const;
    /// Axis names in storage order.
    ::llvm::SmallVector<::llvm::StringRef> names() const;
  }];
  let builders = [
    TypeBuilder<(ins "::llvm::ArrayRef<::echelon::ech::Axis>":$axes, "::mlir::Type":$element), [{
      return $_get($_ctxt, axes, element, ::mlir::Attribute());
    }]>
  ];
}

class Ech_Enum<string name, list<I32EnumAttrCase> cases> : I32EnumAttr<name, "", cases> {
  let cppNamespace = "::echelon::ech";
  let genSpecializedAttr = 0;
}
class Ech_EnumAttr<I32EnumAttr e, string mnemonic> : EnumAttr<Ech_Dialect, e, mnemonic>;

// Element-wise functions. Their arity, C++ spelling, derivative and cost are in one table: ir/ech/ops/Map.cpp.
def Ech_Function : Ech_Enum<"Function", [
  I32EnumAttrCase<"Add", 0, "add">, I32EnumAttrCase<"Sub", 1, "sub">, I32EnumAttrCase<"Mul", 2, "mul">,
  I32EnumAttrCase<"Div", 3, "div">, I32EnumAttrCase<"Pow", 4, "pow">, I32EnumAttrCase<"Neg", 5, "neg">,
  I32EnumAttrCase<"Exp", 6, "exp">, I32EnumAttrCase<"Log", 7, "log">, I32EnumAttrCase<"Sqrt", 8, "sqrt">,
  I32EnumAttrCase<"Rsqrt", 9, "rsqrt">, I32EnumAttrCase<"Sin", 10, "sin">, I32EnumAttrCase<"Cos", 11, "cos">,
  I32EnumAttrCase<"Tanh", 12, "tanh">, I32EnumAttrCase<"Erf", 13, "erf">, I32EnumAttrCase<"Sigmoid", 14, "sigmoid">,
  I32EnumAttrCase<"Relu", 15, "relu">, I32EnumAttrCase<"Gelu", 16, "gelu">, I32EnumAttrCase<"GeluTanh", 17, "gelu_tanh">,
  I32EnumAttrCase<"Silu", 18, "silu">, I32EnumAttrCase<"Abs", 19, "abs">, I32EnumAttrCase<"Floor", 20, "floor">,
  I32EnumAttrCase<"Mod", 21, "mod">, I32EnumAttrCase<"Max", 22, "max">, I32EnumAttrCase<"Min", 23, "min">,
  I32EnumAttrCase<"Eq", 24, "eq">, I32EnumAttrCase<"Ne", 25, "ne">, I32EnumAttrCase<"Lt", 26, "lt">,
  I32EnumAttrCase<"Le", 27, "le">, I32EnumAttrCase<"Gt", 28, "gt">, I32EnumAttrCase<"Ge", 29, "ge">,
  I32EnumAttrCase<"And", 30, "and">, I32EnumAttrCase<"Or", 31, "or">, I32EnumAttrCase<"Not", 32, "not">,
  I32EnumAttrCase<"Select", 33, "select">, I32EnumAttrCase<"Cast", 34, "cast">,
  I32EnumAttrCase<"StopGradient", 35, "stop_gradient">,
  // derivatives that are better computed as one function
  I32EnumAttrCase<"Sign", 36, "sign">, I32EnumAttrCase<"GeluGrad", 37, "gelu_grad">,
  I32EnumAttrCase<"GeluTanhGrad", 38, "gelu_tanh_grad">, I32EnumAttrCase<"SiluGrad", 39, "silu_grad">,
  // what precisions put in: to 10 bits of mantissa
  I32EnumAttrCase<"RoundTf32", 40, "round_tf32">,
  // to the nearest whole number, ties to even: what compression rounds by
  I32EnumAttrCase<"Round", 41, "round">,
  // to the nearest number of eight bits, and 2^floor(log2 x), up to 2^126: what fp8 puts in
  I32EnumAttrCase<"RoundE4M3", 42, "round_e4m3">, I32EnumAttrCase<"RoundE5M2", 43, "round_e5m2">,
  I32EnumAttrCase<"PowerOfTwo", 44, "power_of_two">
]>;
def Ech_FunctionAttr : Ech_EnumAttr<Ech_Function, "function">;

def Ech_Reduction : Ech_Enum<"Reduction", [
  I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">, I32EnumAttrCase<"Min", 2, "min">]>;
def Ech_ReductionAttr : Ech_EnumAttr<Ech_Reduction, "reduction">;

def Ech_Pooling : Ech_Enum<"Pooling", [I32EnumAttrCase<"Max", 0, "max">, I32EnumAttrCase<"Avg", 1, "avg">]>;
def Ech_PoolingAttr : Ech_EnumAttr<Ech_Pooling, "pooling">;

def Ech_Distribution : Ech_Enum<"Distribution", [
  I32EnumAttrCase<"Uniform", 0, "uniform">, I32EnumAttrCase<"Normal", 1, "normal">,
  I32EnumAttrCase<"Constant", 2, "constant">]>;
def Ech_DistributionAttr : Ech_EnumAttr<Ech_Distribution, "distribution">;

// Whether a variable is trained, is the model's own state, the optimizer's, the running average of a parameter, what
// a compression keeps from step to step, a worker's copy of a parameter or state, or what a worker hands in.
def Ech_VariableKind : Ech_Enum<"VariableKind", [
  I32EnumAttrCase<"Param", 0, "param">, I32EnumAttrCase<"State", 1, "state">,
  I32EnumAttrCase<"Optimizer", 2, "optimizer">, I32EnumAttrCase<"Average", 3, "average">,
  I32EnumAttrCase<"Compression", 4, "compression">, I32EnumAttrCase<"Copy", 5, "copy">,
  I32EnumAttrCase<"HandedIn", 6, "handed_in">]>;
def Ech_VariableKindAttr : Ech_EnumAttr<Ech_VariableKind, "kind">;

def Ech_ReportKind : Ech_Enum<"ReportKind", [
  I32EnumAttrCase<"Loss", 0, "loss">, I32EnumAttrCase<"NamedLoss", 1, "named_loss">,
  I32EnumAttrCase<"Metric", 2, "metric">, I32EnumAttrCase<"Norm", 3, "norm">]>;
def Ech_ReportKindAttr : Ech_EnumAttr<Ech_ReportKind, "report">;

defvar Names = StrArrayAttr; // names of axes

//===------------------------------------------------------------------------------------------------------------===//
// Program structure
//===------------------------------------------------------------------------------------------------------------===//

class Ech_Op<string mnemonic, list<Trait> traits = []> : Op<Ech_Dialect, mnemonic, traits>;
class Ech_Pure<string mnemonic, list<Trait> traits = []>
    : Ech_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<Costed>], traits)>;
// Counts its floating-point operations itself.
class Ech_Counted<string mnemonic, list<Trait> traits = []>
    : Ech_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<Costed, ["flops"]>], traits)>;

def Ech_VariableOp : Ech_Op<"variable", [Symbol]> {
  let summary = "a value that lives across steps: a parameter, a state, an optimizer's moment";
  let description = [{
    `ech.variable param @"layer.attn.wq" : !ech.tensor<[layer=4, embed=128, head=4, key=32], f32> = normal(0.0, 0.02)`.
    The name is the path. A parameter of a `repeat` has the repeat's axis first: `stacked` counts such axes, which
    `store` never cuts. `decayed`: it is a weight, not a gain or a bias, so weight decay takes it. `normal(a, b)`: mean
    and standard deviation; `uniform(a, b)`; `constant(a, 0)`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Ech_VariableKindAttr:$kind, TypeAttr:$type,
                       Ech_DistributionAttr:$init, F64Attr:$a, F64Attr:$b, DefaultValuedAttr<I64Attr, "0">:$stacked,
                       UnitAttr:$decayed);
  let assemblyFormat = [{
    $kind $sym_name `:` $type `=` $init `(` $a `,` $b `)` (`stacked` $stacked^)? (`decayed` $decayed^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Ech_InputOp : Ech_Op<"input", [Symbol]> {
  let summary = "a named input of the model, fed by the data source";
  let description = [{`ech.input @tokens 0 : !ech.tensor<[batch=64, seq=64], i32> below 256`. The number is the
    place among the source's outputs; -1: no source fills it, the run does. `below` is 0 for floats and bools.}];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$place, TypeAttr:$type, I64Attr:$below);
  let assemblyFormat = "$sym_name $place `:` $type `below` $below attr-dict";
  let hasVerifier = 1;
}

def Ech_StepOp : Ech_Op<"step", [Symbol, IsolatedFromAbove, SingleBlock, NoTerminator]> {
  let summary = "one step: @train (forward, then backward and update once derived), @evaluate, @exchange, or @train.start";
  let description = [{
    The values of `ech.read` are those at the step's start; `ech.write` takes effect at its end. @train.start runs
    once, before the first step; @exchange, where parameters have averages, before an evaluation that is to read these
    and after it: each parameter changes places with its average. In @evaluate,
    `training` is false, and the batch axis has the size of the training batch although the held-out set is larger.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name $body attr-dict";
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name)>];
}

def Ech_ReadOp : Ech_Op<"read", [MemoryEffects<[MemRead]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                               DeclareOpInterfaceMethods<AxisRule, ["freedom"]>]> {
  let summary = "the value of a variable at the step's start, or of an input (free)";
  let arguments = (ins FlatSymbolRefAttr:$source);
  let results = (outs Ech_Tensor:$value);
  let assemblyFormat = "$source attr-dict `:` type($value)";
}

def Ech_WriteOp : Ech_Op<"write", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the value of a variable after the step";
  let arguments = (ins FlatSymbolRefAttr:$target, Ech_Tensor:$value);
  let assemblyFormat = "$target `,` $value attr-dict `:` type($value)";
}

def Ech_ReportOp : Ech_Op<"report"> {
  let summary = "a scalar the run reports: the loss, a named loss, a metric, the gradients' norm";
  let arguments = (ins Ech_ReportKindAttr:$kind, StrAttr:$name, Ech_Tensor:$value);
  let assemblyFormat = "$kind $name `,` $value attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Ech_GradientOp : Ech_Op<"gradient", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the derivative of the sum of losses in one parameter";
  let description = [{Made by `ech-differentiate`, one a parameter; `ech-expand-update` consumes it. Where gradients are
    to be looked at, as `verify` does, that pass writes the value to a variable `gradient.PATH`.}];
  let arguments = (ins FlatSymbolRefAttr:$parameter, Ech_Tensor:$value);
  let assemblyFormat = "$parameter `,` $value attr-dict `:` type($value)";
}

def Ech_YieldOp : Ech_Op<"yield", [Pure, Terminator, AttrSizedOperandSegments, HasParent<"RepeatOp">]> {
  let summary = "ends one iteration: carried values, values kept along the axis, values summed over iterations";
  let arguments = (ins Variadic<Ech_Tensor>:$carried, Variadic<Ech_Tensor>:$stacked, Variadic<Ech_Tensor>:$summed);
  let assemblyFormat = [{
    (`carry` `(` $carried^ `:` type($carried) `)`)? (`stack` `(` $stacked^ `:` type($stacked) `)`)?
    (`sum` `(` $summed^ `:` type($summed) `)`)? attr-dict
  }];
}

def Ech_RepeatOp : Ech_Op<"repeat", [SingleBlock, AttrSizedOperandSegments,
                                   AttrSizedResultSegments, RecursiveMemoryEffects,
                                   DeclareOpInterfaceMethods<AxisRule, ["division"]>]> {
  let summary = "a loop over an axis that stays a loop: a layer stack, a recurrence, micro batches";
  let description = [{
    Runs its region once for each position of `axis`, last first when `reverse`. Block arguments: the carried values,
    then the slices of `slices` at the position (without the axis). Values from outside may be used inside (loop
    invariants). Results: the carried values after the last iteration; the stacked values, with `axis` added as the
    slowest; the sums over iterations. `along` marks an existing axis (`repeat along seq`); `time` the micro batches.
    ```mlir
    %y, %kept, %total = ech.repeat "layer" = 4 carry(%x) slice(%w) {
    ^bb0(%xi: …, %wi: …):
      …
      ech.yield carry(%next) stack(%save) sum(%d)
    }
    ```
  }];
  let arguments = (ins StrAttr:$axis, I64Attr:$count, Variadic<Ech_Tensor>:$carried, Variadic<Ech_Tensor>:$slices,
                       UnitAttr:$reverse, UnitAttr:$along, UnitAttr:$time);
  let results = (outs Variadic<Ech_Tensor>:$finals, Variadic<Ech_Tensor>:$stacks, Variadic<Ech_Tensor>:$sums);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1; // what it checks is in the body
  let skipDefaultBuilders = 1;
  // Result types are taken from the yield when the body is built: see Build::repeat.
  let builders = [OpBuilder<(ins "::llvm::StringRef":$axis, "int64_t":$count, "::mlir::ValueRange":$carried,
                                 "::mlir::ValueRange":$slices, "::mlir::TypeRange":$finals, "::mlir::TypeRange":$stacks,
                                 "::mlir::TypeRange":$sums)>];
  let extraClassDeclaration = [{
    ::mlir::Block *block() { return &getBody().front(); }
    ::echelon::ech::YieldOp yield();
    ::mlir::ValueRange carriedArguments();
    ::mlir::ValueRange sliceArguments();
  }];
}

//===------------------------------------------------------------------------------------------------------------===//
// Values made from nothing: free values
//===------------------------------------------------------------------------------------------------------------===//

class Ech_Source<string mnemonic, list<Trait> traits = []>
    : Ech_Pure<mnemonic, !listconcat([DeclareOpInterfaceMethods<AxisRule, ["freedom"]>], traits)>;

def Ech_ConstantOp : Ech_Source<"constant", [ConstantLike]> {
  let summary = "a number, without axes or the same at every place";
  let arguments = (ins F64Attr:$value);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
  let hasFolder = 1;
}
def Ech_CountOp : Ech_Source<"count"> {
  let summary = "the product of logical sizes, as a number";
  let description = [{What `mean` divides by. Over the batch axis it is the number of samples of the step, and in
    @evaluate that of the whole held-out set, known when it runs; `sizes` are those of the axes where it stands.}];
  let arguments = (ins Names:$over, DenseI64ArrayAttr:$sizes);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "`over` $over `=` $sizes attr-dict `:` type($result)";
  let hasVerifier = 1;
}
def Ech_ScalarOp : Ech_Source<"scalar"> {
  let summary = "a number that the run provides at each step";
  let description = [{`learning_rate` (of optimizer line `line`), `bias_correction` (1 - beta^n, at the n-th update of the moments), `step`,
    `average_decay` (min(beta, (1 + n) / (10 + n)), at the n-th update of the averages), `loss_scale`, `samples` (of the whole held-out set, in @evaluate), and under a sync policy `hand_in_weight` (of the
    worker's gradient in the update; 0: it is not in) and `is_first_in` (1: nothing is handed in yet for it, else 0).}];
  let arguments = (ins StrAttr:$name, DefaultValuedAttr<I64Attr, "0">:$line, DefaultValuedAttr<F64Attr, "0.0">:$beta);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$name (`line` $line^)? (`beta` $beta^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}
def Ech_IndexOp : Ech_Source<"index"> {
  let summary = "the position along an axis: 0, 1, …";
  let arguments = (ins StrAttr:$axis);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
  let hasVerifier = 1;
}
def Ech_PositionOp : Ech_Source<"position"> {
  let summary = "the position of the iteration of the enclosing repeat over an axis";
  let arguments = (ins StrAttr:$axis);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
  let hasVerifier = 1;
}
def Ech_RandomOp : Ech_Source<"random"> {
  let summary = "random values, a function of seed, site, step and logical coordinates (enclosing repeats' included)";
  let arguments = (ins Ech_DistributionAttr:$distribution, StrAttr:$site, F64Attr:$a, F64Attr:$b);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$distribution $site `(` $a `,` $b `)` attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===------------------------------------------------------------------------------------------------------------===//
// Element-wise
//===------------------------------------------------------------------------------------------------------------===//

def Ech_MapOp : Ech_Counted<"map", [DeclareOpInterfaceMethods<AxisRule, ["freedom", "pendingRule", "linearIn"]>,
                               DeclareOpInterfaceMethods<Derivable>]> {
  let summary = "an element-wise function; axes match by name, missing ones are broadcast";
  let arguments = (ins Ech_FunctionAttr:$function, Variadic<Ech_Tensor>:$operands);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$function $operands attr-dict `:` functional-type($operands, $result)";
  let hasVerifier = 1;
}
def Ech_ExpandOp : Ech_Pure<"expand", [DeclareOpInterfaceMethods<AxisRule, ["freedom", "linearIn"]>,
                                     DeclareOpInterfaceMethods<Derivable>]> {
  let summary = "the same value at every position of the axes that the result has more";
  let arguments = (ins Ech_Tensor:$operand);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

//===------------------------------------------------------------------------------------------------------------===//
// Contractions and reductions
//===------------------------------------------------------------------------------------------------------------===//

def Ech_DotOp : Ech_Counted<"dot", [DeclareOpInterfaceMethods<AxisRule, ["linearIn"]>, DeclareOpInterfaceMethods<Derivable>]> {
  let summary = "sum over `over` (axes of both) of the product; other shared axes are batch axes";
  let arguments = (ins Ech_Tensor:$lhs, Ech_Tensor:$rhs, Names:$over);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs `over` $over attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Ech_ReduceOp : Ech_Pure<"reduce", [DeclareOpInterfaceMethods<AxisRule, ["division", "padding", "linearIn"]>,
                                     DeclareOpInterfaceMethods<Derivable>]> {
  let summary = "sum, maximum or minimum over axes (max and min: one axis at a time)";
  let arguments = (ins Ech_ReductionAttr:$kind, Ech_Tensor:$operand, Names:$over);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$kind $operand `over` $over attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// What changes nothing where it is beside other elements: 0, or the least or largest value of the element type.
    double neutral();
  }];
}
class Ech_OverAxes<string mnemonic, list<string> answers = ["division"]>
    : Ech_Pure<mnemonic, [DeclareOpInterfaceMethods<AxisRule, answers>, DeclareOpInterfaceMethods<Derivable>]> {
  let assemblyFormat = "operands `over` $over attr-dict `:` functional-type(operands, results)";
}
def Ech_ArgMaxOp : Ech_OverAxes<"argmax", ["division", "padding"]> {
  let summary = "the lowest index of the largest value along one axis";
  let arguments = (ins Ech_Tensor:$operand, Names:$over);
  let results = (outs Ech_Tensor:$result);
  let hasVerifier = 1;
}
def Ech_SoftmaxOp : Ech_OverAxes<"softmax", ["division", "padding"]> {
  let summary = "exp(x - logsumexp(x))";
  let arguments = (ins Ech_Tensor:$operand, Names:$over);
  let results = (outs Ech_Tensor:$result);
  let hasVerifier = 1;
}
def Ech_LogSumExpOp : Ech_OverAxes<"logsumexp", ["division", "padding"]> {
  let summary = "log of the sum of exponentials; and its two terms, a shift near the maximum and log sum exp(x - shift)";
  let description = [{
    Large values leave the logarithm no digits in their sum with the shift, so exp and log_softmax are taken of
    (x - shift) - log_sum. The shift counts as a constant: only shift + log_sum, or x - shift - log_sum, may be formed.
    Of a slice that is -inf throughout, the result is -inf, the shift 0 and log_sum inf, so that its softmax is 0.
  }];
  let arguments = (ins Ech_Tensor:$operand, Names:$over);
  let results = (outs Ech_Tensor:$result, Ech_Tensor:$shift, Ech_Tensor:$logSum);
  let hasVerifier = 1;
}
def Ech_CrossEntropyOp : Ech_OverAxes<"cross_entropy", ["division", "padding"]> {
  let summary = "logsumexp(logits) - logits[label], or - sum(distribution * log_softmax(logits)); and logsumexp's terms";
  let arguments = (ins Ech_Tensor:$logits, Ech_Tensor:$labels, Names:$over);
  let results = (outs Ech_Tensor:$loss, Ech_Tensor:$shift, Ech_Tensor:$logSum);
  let hasVerifier = 1;
}
def Ech_NormalizeOp : Ech_OverAxes<"normalize"> {
  let summary = "zero mean and unit variance over axes (rms: unit mean square); with the statistics";
  let description = [{y = (x - mean) * rstd, rstd = 1 / sqrt(variance + 1e-5), variance biased; with `rms`, y = x * rstd,
    rstd = 1 / sqrt(mean(x^2) + 1e-5), and mean and variance are not meant to be used. mean + mean_low is the mean before
    it was rounded: x - mean alone has no digits where the mean is large beside the deviation.}];
  let arguments = (ins Ech_Tensor:$operand, Names:$over, UnitAttr:$rms);
  let results = (outs Ech_Tensor:$result, Ech_Tensor:$rstd, Ech_Tensor:$mean, Ech_Tensor:$variance,
                      Ech_Tensor:$meanLow);
  let hasVerifier = 1;
}
def Ech_NormalizeGradOp : Ech_Pure<"normalize_grad", [DeclareOpInterfaceMethods<AxisRule, ["division"]>]> {
  let summary = "rstd * (dy - mean(dy) - y * mean(dy * y)); rms: without the mean(dy)";
  let arguments = (ins Ech_Tensor:$cotangent, Ech_Tensor:$result, Ech_Tensor:$rstd, Names:$over, UnitAttr:$rms);
  let results = (outs Ech_Tensor:$operandCotangent);
  let assemblyFormat = "operands `over` $over attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Ech_CumSumOp : Ech_OverAxes<"cumsum", ["division", "linearIn"]> {
  let summary = "running sum along one axis; `reverse`: from the end";
  let arguments = (ins Ech_Tensor:$operand, Names:$over, UnitAttr:$reverse);
  let results = (outs Ech_Tensor:$result);
  let hasVerifier = 1;
}
def Ech_TopOp : Ech_Pure<"top", [DeclareOpInterfaceMethods<AxisRule, ["division"]>]> {
  let summary = "indices of the largest values along `over`, largest first, along the new axis `into`";
  let arguments = (ins Ech_Tensor:$operand, Names:$over, StrAttr:$into);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$operand `over` $over `into` $into attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Ech_GlobalNormOp : Ech_Pure<"global_norm", [DeclareOpInterfaceMethods<AxisRule, ["division", "padding"]>]> {
  let summary = "the Euclidean norm of all elements of all operands, one scalar";
  let arguments = (ins Variadic<Ech_Tensor>:$operands);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$operands attr-dict `:` functional-type($operands, $result)";
  let hasVerifier = 1;
}

//===------------------------------------------------------------------------------------------------------------===//
// Workers: ranks that each hold their own part of a sum over samples
//===------------------------------------------------------------------------------------------------------------===//

def Ech_PerWorkerOp : Ech_Pure<"per_worker"> {
  let summary = "what each worker's samples add to a sum over samples, along a new slowest axis of workers";
  let description = [{
    The result's sum over the new axis is the operand. Laid out, the operand is pending over the workers' mesh axes, and
    nothing travels: each rank holds its own part. On one rank with several workers, as `verify` has it,
    `ech-split-time` stacks the parts up.

    `apart`: the operand is one that every worker has for itself (under a sync policy), the same on all ranks of a
    worker, and the result holds them side by side.
  }];
  let arguments = (ins Ech_Tensor:$operand, UnitAttr:$apart);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$operand (`apart` $apart^)? attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The axis of workers.
    ::echelon::ech::Axis workers();
  }];
}
def Ech_HandInOp : Ech_Pure<"hand_in"> {
  let summary = "the same value, its slowest axis renamed; laid out, each rank then holds what all workers have";
  let description = [{So what is packed travels as it is, and is unpacked behind it. The new name is in no layout.}];
  let arguments = (ins Ech_Tensor:$operand);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}
def Ech_OrthogonalizeOp : Ech_Pure<"orthogonalize", [DeclareOpInterfaceMethods<AxisRule, ["division"]>]> {
  let summary = "Gram-Schmidt: vectors along `over`, one for each position of the last axis of the type";
  let description = [{
    In their order, each loses its parts along those before it, and is divided by its norm. One of which no more is left
    than 1e-5 of the longest that was given becomes 0.
  }];
  let arguments = (ins Ech_Tensor:$operand, Names:$over, StrAttr:$vectors);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$vectors `of` $operand `over` $over attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

//===------------------------------------------------------------------------------------------------------------===//
// Places
//===------------------------------------------------------------------------------------------------------------===//

def Ech_GatherOp : Ech_Pure<"gather", [DeclareOpInterfaceMethods<AxisRule, ["padding", "linearIn", "takesPositions"]>,
                                     DeclareOpInterfaceMethods<Derivable>]> {
  let summary = "table[axes = indices]: the gathered axes leave, the indices' axes come in, shared ones are matched";
  let arguments = (ins Ech_Tensor:$table, Variadic<Ech_Tensor>:$indices, Names:$axes);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$table `at` $axes `=` $indices attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Ech_ScatterAddOp : Ech_Pure<"scatter_add", [DeclareOpInterfaceMethods<AxisRule, ["linearIn", "takesPositions"]>]> {
  let summary = "the derivative of a gather: each value added at its indices into zeros of the table's type";
  let arguments = (ins Ech_Tensor:$values, Variadic<Ech_Tensor>:$indices, Names:$axes);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$values `at` $axes `=` $indices attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Ech_PickOp : Ech_Pure<"pick", [DeclareOpInterfaceMethods<AxisRule, ["padding", "linearIn", "takesPositions"]>,
                                 DeclareOpInterfaceMethods<Derivable>]> {
  let summary = "x[axis = position]: the axis leaves";
  let arguments = (ins Ech_Tensor:$operand, StrAttr:$axis, I64Attr:$position);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$operand `[` $axis `=` $position `]` attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Ech_PlaceOp : Ech_Pure<"place", [DeclareOpInterfaceMethods<AxisRule, ["linearIn", "takesPositions"]>, DeclareOpInterfaceMethods<Derivable>]> {
  let summary = "the derivative of a pick: the value at one position of an axis, zero elsewhere";
  let arguments = (ins Ech_Tensor:$operand, StrAttr:$axis, I64Attr:$position);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$operand `[` $axis `=` $position `]` attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Ech_SliceOp : Ech_Pure<"slice", [DeclareOpInterfaceMethods<AxisRule, ["division", "linearIn"]>,
                                   DeclareOpInterfaceMethods<Derivable>]> {
  let summary = "x[axis = start..]: a resized axis of the same name";
  let arguments = (ins Ech_Tensor:$operand, StrAttr:$axis, I64Attr:$start);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$operand `[` $axis `from` $start `]` attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Ech_PadOp : Ech_Pure<"pad", [DeclareOpInterfaceMethods<AxisRule, ["division", "linearIn"]>,
                               DeclareOpInterfaceMethods<Derivable>]> {
  let summary = "the derivative of a slice: the value from `start` on, zero elsewhere";
  let arguments = (ins Ech_Tensor:$operand, StrAttr:$axis, I64Attr:$start);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$operand `[` $axis `from` $start `]` attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Ech_RelabelOp : Ech_Pure<"relabel", [DeclareOpInterfaceMethods<AxisRule, ["relabels", "pendingRule", "freedom", "linearIn", "takesPositions"]>,
                                       DeclareOpInterfaceMethods<Derivable>]> {
  let summary = "other names for axes: a rename, a split of one axis (slowest first), a merge of several";
  let description = [{`from` and `to` are equally long lists of groups; a group is a list of names.
    `[["seq"]] -> [["past"]]`, `[["height"]] -> [["row", "pr"]]`, `[["row", "column"]] -> [["seq"]]`.}];
  let arguments = (ins Ech_Tensor:$operand, ArrayAttr:$from, ArrayAttr:$to);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$operand $from `->` $to attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Ech_ConcatOp : Ech_Pure<"concat", [DeclareOpInterfaceMethods<AxisRule, ["division", "linearIn"]>,
                                     DeclareOpInterfaceMethods<Derivable>]> {
  let summary = "operands one after the other along an axis";
  let arguments = (ins Variadic<Ech_Tensor>:$operands, StrAttr:$axis);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$operands `along` $axis attr-dict `:` functional-type($operands, $result)";
  let hasVerifier = 1;
}

//===------------------------------------------------------------------------------------------------------------===//
// Windows and attention
//===------------------------------------------------------------------------------------------------------------===//

class Ech_Windowed<string mnemonic, list<Trait> traits = []>
    : Ech_Counted<mnemonic, !listconcat([DeclareOpInterfaceMethods<AxisRule, ["division"]>], traits)>;
// Windows: `window` names the axes of x that are walked, `kernel` those of w, pairwise; stride and padding (low, high) a window axis.
defvar Windows = (ins Names:$over, Names:$window, Names:$kernel, DenseI64ArrayAttr:$stride, DenseI64ArrayAttr:$padLow,
                      DenseI64ArrayAttr:$padHigh);
def Ech_ConvOp : Ech_Windowed<"conv", [DeclareOpInterfaceMethods<Derivable>]> {
  let summary = "sum over `over` and the kernel axes of x at the window times w";
  let arguments = !con((ins Ech_Tensor:$x, Ech_Tensor:$w), Windows);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Ech_ConvGradXOp : Ech_Windowed<"conv_grad_x"> {
  let summary = "the derivative of conv in x, of x's type";
  let arguments = !con((ins Ech_Tensor:$cotangent, Ech_Tensor:$w), Windows);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Ech_ConvGradWOp : Ech_Windowed<"conv_grad_w"> {
  let summary = "the derivative of conv in w, of w's type";
  let arguments = !con((ins Ech_Tensor:$cotangent, Ech_Tensor:$x), Windows);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Ech_PoolOp : Ech_Windowed<"pool", [DeclareOpInterfaceMethods<Derivable>]> {
  let summary = "maximum or mean over windows (avg: divides by the whole window, padding counted as zero)";
  let arguments = (ins Ech_PoolingAttr:$kind, Ech_Tensor:$operand, Names:$window, DenseI64ArrayAttr:$size,
                       DenseI64ArrayAttr:$stride, DenseI64ArrayAttr:$pad);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$kind operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Ech_PoolGradOp : Ech_Windowed<"pool_grad"> {
  let summary = "the derivative of pool; the maximum's goes to the lowest index among ties";
  let arguments = (ins Ech_PoolingAttr:$kind, Ech_Tensor:$cotangent, Ech_Tensor:$operand, Names:$window,
                       DenseI64ArrayAttr:$size, DenseI64ArrayAttr:$stride, DenseI64ArrayAttr:$pad);
  let results = (outs Ech_Tensor:$result);
  let assemblyFormat = "$kind operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Ech_AttentionOp : Ech_Op<"attention", [Pure, AttrSizedOperandSegments, DeclareOpInterfaceMethods<Costed, ["flops"]>,
                                         DeclareOpInterfaceMethods<AxisRule, ["division"]>,
                                         DeclareOpInterfaceMethods<Derivable>]> {
  let summary = "softmax(scale * q k + bias, where = mask and causal) v, in blocks; with what its derivative needs of the scores";
  let description = [{
    q: (…, query, key), k: (…, past, key), v: (…, past, value key); `query` is the axis of q walked against `past`
    (absent: empty string). `causal`: position in `query` >= position in `past`. The maximum of a query's scores and the
    sum of exp(score - maximum) have q's axes without `key`; they stay apart, because a large maximum would leave the
    sum's logarithm no digits.
  }];
  let arguments = (ins Ech_Tensor:$q, Ech_Tensor:$k, Ech_Tensor:$v, Optional<Ech_Tensor>:$mask,
                       Optional<Ech_Tensor>:$bias, StrAttr:$query, StrAttr:$past, StrAttr:$key, F64Attr:$scale,
                       UnitAttr:$causal);
  let results = (outs Ech_Tensor:$result, Ech_Tensor:$maximum, Ech_Tensor:$sum);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`mask` $mask^)? (`bias` $bias^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}
def Ech_AttentionGradOp : Ech_Op<"attention_grad", [Pure, AttrSizedOperandSegments, DeclareOpInterfaceMethods<Costed, ["flops"]>,
                                                  DeclareOpInterfaceMethods<AxisRule, ["division"]>]> {
  let summary = "cotangents of q, k, v and, where there is one, of the bias";
  let arguments = (ins Ech_Tensor:$cotangent, Ech_Tensor:$q, Ech_Tensor:$k, Ech_Tensor:$v, Ech_Tensor:$result,
                       Ech_Tensor:$maximum, Ech_Tensor:$sum, Optional<Ech_Tensor>:$mask, Optional<Ech_Tensor>:$bias,
                       StrAttr:$query, StrAttr:$past, StrAttr:$key, F64Attr:$scale, UnitAttr:$causal);
  let results = (outs Ech_Tensor:$dq, Ech_Tensor:$dk, Ech_Tensor:$dv, Optional<Ech_Tensor>:$dbias);
  let assemblyFormat = [{
    $cotangent `,` $q `,` $k `,` $v `,` $result `,` $maximum `,` $sum (`mask` $mask^)? (`bias` $bias^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif
