// The rt dialect: one operation for each call of the runtime, on buffers with places in arenas.
#ifndef RT_OPS
#define RT_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "ir/rt/RtInterfaces.td"

def Rt_Dialect : Dialect {
  let name = "rt";
  let summary = "one operation for each call of the runtime, on buffers with places in arenas";
  let cppNamespace = "::echelon::rt";
  let dependentDialects = ["::echelon::ech::EchDialect"];
  let hasOperationAttrVerify = 1;
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

//===------------------------------------------------------------------------------------------------------------===//
// Types
//===------------------------------------------------------------------------------------------------------------===//

def Rt_Buffer : TypeDef<Rt_Dialect, "Buffer"> {
  let cppClassName = "Buffer";
  let mnemonic = "buffer";
  let summary = "memory of one rank, seen as a strided box of named axes";
  let description = [{
    `!rt.buffer<[batch=32, hidden=128], f32>` is dense and row-major; `!rt.buffer<[hidden=128, batch=32], f32, [1, 128]>`
    is the same memory with its axes in another order. Sizes are those of this rank; strides are in elements, 0 where
    all positions along the axis are one. Elements: f32, f64, i32, i1 (a byte each). `[n=?]` is a row of a length that
    the function is given.
  }];
  let parameters = (ins ArrayRefParameter<"::echelon::ech::Axis", "axes">:$axes, "::mlir::Type":$element,
                        ArrayRefParameter<"int64_t", "strides">:$strides);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Row-major without gaps.
    static Buffer dense(::llvm::ArrayRef<::echelon::ech::Axis> axes, ::mlir::Type element);
    int position(::llvm::StringRef axis) const;
    bool has(::llvm::StringRef axis) const { return position(axis) >= 0; }
    int64_t sizeOf(::llvm::StringRef axis) const;   ///< 1 where it lacks the axis
    int64_t strideOf(::llvm::StringRef axis) const; ///< 0 where it lacks the axis
    int64_t rank() const { return getAxes().size(); }
    int64_t count() const;                          ///< product of sizes
    int64_t elementBytes() const;
    int64_t extent() const;                         ///< elements from the first to the last, and what lies between
    int64_t bytes() const { return extent() * elementBytes(); }
    bool isDense() const;
  }];
}
def Rt_Ticket : TypeDef<Rt_Dialect, "Ticket"> {
  let cppClassName = "TicketType";
  let mnemonic = "ticket";
  let summary = "a started collective";
}

def Rt_Arena : I32EnumAttr<"Arena", "", [
  I32EnumAttrCase<"State", 0, "state">, I32EnumAttrCase<"Input", 1, "input">, I32EnumAttrCase<"Work", 2, "work">]> {
  let cppNamespace = "::echelon::rt";
  let genSpecializedAttr = 0;
}
def Rt_ArenaAttr : EnumAttr<Rt_Dialect, Rt_Arena, "arena">;

def Rt_Size : AttrDef<Rt_Dialect, "Size"> {
  let mnemonic = "size";
  let summary = "a number of positions: the product of the sizes of axes";
  let description = [{`#rt.size<batch=32, seq=64>` is 2048, `#rt.size<>` is 1. Programs print it by the names of sizes.}];
  let parameters = (ins ArrayRefParameter<"::echelon::ech::Axis", "axes">:$axes);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{ int64_t count() const; }];
}

class Rt_Op<string mnemonic, list<Trait> traits = []> : Op<Rt_Dialect, mnemonic, traits>;

//===------------------------------------------------------------------------------------------------------------===//
// Program structure
//===------------------------------------------------------------------------------------------------------------===//

def Rt_FunctionOp : Rt_Op<"function", [Symbol, IsolatedFromAbove, SingleBlock, NoTerminator]> {
  let summary = "what one rank does in a step: @train or @evaluate; or a rule that these invoke";
  let description = [{
    The steps have no arguments. A rule has: buffers, among them such of `n` elements (`!rt.buffer<[n=?], f32>`),
    numbers, and `n` itself as an index.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name $body attr-dict";
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name)>];
}

def Rt_InvokeOp : Rt_Op<"invoke", [DeclareOpInterfaceMethods<Touches, ["reads", "writes"]>,
                                   DeclareOpInterfaceMethods<Costed, ["cost"]>]> {
  let summary = "runs a function of the module on other buffers";
  let description = [{
    `rt.invoke @adamw(%w, %d_w, %m, %v, %scale) count 512 writes [0, 2, 3] : …`. One operand for each argument of the
    function but its index, which is `count`: the elements of each row. Where the argument is a number, the operand is one
    or a buffer of one element.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<AnyType>:$operands, I64Attr:$count,
                       DenseI64ArrayAttr:$written);
  let assemblyFormat = [{
    $callee `(` $operands `)` `count` $count `writes` $written attr-dict `:` type($operands)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// What it runs.
    FunctionOp function();
  }];
}

def Rt_AllocOp : Rt_Op<"alloc"> {
  let summary = "a buffer: of a stored tensor, of an input, or of the step's own work";
  let description = [{
    `rt.alloc work at 4096 : !rt.buffer<[batch=32], f32>`. `of` names the tensor that lives in the state or input arena.
    `at` is its byte offset, there once arenas are planned.
  }];
  let arguments = (ins Rt_ArenaAttr:$arena, OptionalAttr<FlatSymbolRefAttr>:$of, OptionalAttr<I64Attr>:$offset);
  let results = (outs Rt_Buffer:$buffer);
  let assemblyFormat = "$arena (`of` $of^)? (`at` $offset^)? attr-dict `:` type($buffer)";
}

def Rt_ViewOp : Rt_Op<"view", [Pure]> {
  let summary = "a part of a buffer, or the whole with other axes";
  let description = [{
    The element at index i of the view lies `offset` + sum of `indices` * `factors` + i . strides elements after the
    operand's first. `rt.view %w from 64 plus (%layer) times [1024] : … -> …`
  }];
  let arguments = (ins Rt_Buffer:$base, I64Attr:$offset, Variadic<Index>:$indices,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$factors);
  let results = (outs Rt_Buffer:$view);
  let assemblyFormat = [{
    $base `from` $offset (`plus` `(` $indices^ `)` `times` $factors)? attr-dict `:` type($base) `->` type($view)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Rt_ForOp : Rt_Op<"for", [SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "a loop: a layer stack, a recurrence, micro batches";
  let description = [{
    `rt.for "layer" = 4 reverse { ^bb0(%i: index): … }`: the block's argument is the position. `rt.for "layer" = 4 own
    %layers`: on each rank so many of them, from the first on. `ahead { ^bb0(%i: index): … }`: what is done for an
    iteration ahead of it: before the loop for the first one, and for each that follows where `rt.next` stands in the
    iteration before it.
  }];
  let arguments = (ins StrAttr:$axis, I64Attr:$count, UnitAttr:$reverse, UnitAttr:$time, Optional<Index>:$own);
  let regions = (region SizedRegion<1>:$body, AnyRegion:$ahead);
  let assemblyFormat = [{
    $axis `=` $count (`own` $own^)? (`reverse` $reverse^)? (`time` $time^)? $body (`ahead` $ahead^)? attr-dict
  }];
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$axis, "int64_t":$count, "bool":$reverse, "bool":$time,
                                 CArg<"::mlir::Value", "{}">:$own)>];
  let extraClassDeclaration = [{
    ::mlir::Value position() { return getBody().front().getArgument(0); }
    /// What is done for an iteration ahead of it; null: nothing is.
    ::mlir::Block *ahead() { return getAhead().empty() ? nullptr : &getAhead().front(); }
    /// Makes it, to be filled.
    ::mlir::Block *addAhead();
  }];
  let hasRegionVerifier = 1;
}
def Rt_NextOp : Rt_Op<"next", [HasParent<"ForOp">]> {
  let summary = "what is done for an iteration ahead of it is done here for the next one, if there is one";
  let assemblyFormat = "attr-dict";
}
def Rt_SlotOp : Rt_Op<"slot", [Pure]> {
  let summary = "which of two buffers or tickets an iteration has: its position modulo 2";
  let arguments = (ins Index:$position);
  let results = (outs Index:$slot);
  let assemblyFormat = "$position attr-dict";
}

def Rt_AtOp : Rt_Op<"at", [SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "what the ranks at one coordinate of a mesh axis do alone, or all others";
  let description = [{
    `rt.at 0 of 1 "pp" { … }`: the first stage along mesh axis 1; with `except`, all but that. `in %chunk = 2`: in the
    turns of that chunk of its iterations alone. `rt.at 1 to 3 of 1 "pp"`: all places from there to the third, counted
    from 0 along the row that a micro batch goes through: of n stages, chunk c of stage r has that of number c n + r.
  }];
  let arguments = (ins I64Attr:$coordinate, I64Attr:$mesh, StrAttr:$axis, UnitAttr:$except, Optional<Index>:$turn,
                       OptionalAttr<I64Attr>:$chunk, OptionalAttr<I64Attr>:$until);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`except` $except^)? $coordinate (`to` $until^)? `of` $mesh $axis (`in` $turn^ `=` $chunk)? $body attr-dict
  }];
  let extraClassDeclaration = [{
    /// Whether ranks at a coordinate, in the turns of a chunk, do it; of so many stages.
    bool isAt(int64_t coordinate, int64_t chunk, int64_t stages);
  }];
  let hasVerifier = 1;
}

def Rt_StagesOp : Rt_Op<"stages", [SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "the stages of a pipeline work through micro batches, each in an order of its own";
  let description = [{
    `rt.stages "micro" = 8 by "1f1b" of 1 "pp" slots 4 forward { ^bb0(%m: index, %slot: index): … } backward { … }`:
    the coordinate along mesh axis 1 runs the regions in the order of the schedule (runtime/program/Turns.h), each once
    a micro batch. What a later pass reads of an earlier one of its micro batch is kept in its slot. `chunks 2`: once a
    micro batch for each of two chunks of its iterations, whose number is the third argument; the fourth is that of
    the buffer from which it sends. An evaluation has no `backward`. `weights`: the part of the backward pass that no other stage waits for, where the schedule has turns of
    its own for it.
  }];
  let arguments = (ins StrAttr:$axis, I64Attr:$count, StrAttr:$schedule, I64Attr:$mesh, StrAttr:$over, I64Attr:$slots,
                       DefaultValuedAttr<I64Attr, "1">:$chunks);
  let regions = (region SizedRegion<1>:$forward, MaxSizedRegion<1>:$backward, MaxSizedRegion<1>:$weights);
  let assemblyFormat = [{
    $axis `=` $count `by` $schedule `of` $mesh $over (`chunks` $chunks^)? `slots` $slots `forward` $forward
    (`backward` $backward^)? (`weights` $weights^)? attr-dict
  }];
  let skipDefaultBuilders = 1;
  /// `parts`: of forward, backward, weights.
  let builders = [OpBuilder<(ins "::llvm::StringRef":$axis, "int64_t":$count, "::llvm::StringRef":$schedule,
                                 "int64_t":$mesh, "::llvm::StringRef":$over, "int64_t":$slots, "int64_t":$chunks,
                                 "int64_t":$parts)>];
}

def Rt_ReportOp : Rt_Op<"report", [DeclareOpInterfaceMethods<Touches, ["reads", "writes"]>,
                                   DeclareOpInterfaceMethods<Costed, ["cost"]>]> {
  let summary = "gives the run a scalar: its slot in the program's table";
  let arguments = (ins I64Attr:$slot, StrAttr:$kind, StrAttr:$name, Rt_Buffer:$value);
  let assemblyFormat = "$slot $kind $name `,` $value attr-dict `:` type($value)";
}

//===------------------------------------------------------------------------------------------------------------===//
// Numbers
//===------------------------------------------------------------------------------------------------------------===//

def Rt_OffsetOp : Rt_Op<"offset", [Pure, AttrSizedOperandSegments]> {
  let summary = "where this rank's piece begins: sum of mesh coordinates times factors";
  let description = [{
    `of`: the axis that is cut, with its size on one rank, by whose name a program gives the factors. `at`: a position
    in the piece, where the sum is that in the whole axis; `in %chunk * 12`: a further term, of the chunk of a stage's
    iterations that a turn does. `table`: instead of factors, one number for each of these
    coordinates, of mesh axes of these sizes, the last fastest; with a chunk, for each of these of each chunk, whose
    places lie `perChunk` apart.
  }];
  let arguments = (ins DenseI64ArrayAttr:$mesh, DenseI64ArrayAttr:$factors, DefaultValuedAttr<I64Attr, "0">:$plus,
                       OptionalAttr<Rt_Size>:$of, OptionalAttr<DenseI64ArrayAttr>:$table,
                       OptionalAttr<DenseI64ArrayAttr>:$sizes, Optional<Index>:$position, Optional<Index>:$turn,
                       OptionalAttr<I64Attr>:$perChunk);
  let results = (outs Index:$result);
  let assemblyFormat = [{
    $mesh `times` $factors (`plus` $plus^)? (`of` $of^)? (`table` $table^ `over` $sizes)? (`at` $position^)?
    (`in` $turn^ `*` $perChunk)? attr-dict
  }];
}
def Rt_Number : I32EnumAttr<"Number", "what a run provides", [
  I32EnumAttrCase<"LearningRate", 0, "learning_rate">, I32EnumAttrCase<"BiasCorrection", 1, "bias_correction">,
  I32EnumAttrCase<"Step", 2, "step">, I32EnumAttrCase<"SampleCount", 3, "sample_count">,
  I32EnumAttrCase<"ValidSamples", 4, "valid_samples">, I32EnumAttrCase<"BatchOffset", 5, "batch_offset">,
  I32EnumAttrCase<"IsFirst", 6, "is_first">, I32EnumAttrCase<"AverageDecay", 7, "average_decay">,
  I32EnumAttrCase<"LossScale", 8, "loss_scale">, I32EnumAttrCase<"HandInWeight", 9, "hand_in_weight">,
  I32EnumAttrCase<"IsFirstIn", 10, "is_first_in">, I32EnumAttrCase<"HandInWorker", 11, "hand_in_worker">]> {
  let cppNamespace = "::echelon::rt";
  let genSpecializedAttr = 0;
}
def Rt_NumberKindAttr : EnumAttr<Rt_Dialect, Rt_Number, "number_kind">;
def Rt_NumberOp : Rt_Op<"number", [Pure]> {
  let summary = "a number that the run provides";
  let description = [{
    - `learning_rate of 1`: that of an `optimize` line; of the last one without a line
    - `bias_correction by 0.9`: 1 - 0.9^t after t updates
    - `average_decay by 0.9`: min(0.9, (1 + t) / (10 + t)) at update t of the averages, from 1
    - `loss_scale`: what the derivative starts from
    - `hand_in_weight`, `is_first_in`: of what a worker hands in, under a sync policy
    - `step`: steps done before; `sample_count`: samples of the batch or the evaluation
    - `valid_samples`, `batch_offset` (index): how many samples of a batch are no padding, and how many came before it
    - `is_first of 0`: 1 at coordinate 0 of a mesh axis, else 0
  }];
  let arguments = (ins Rt_NumberKindAttr:$kind, OptionalAttr<I64Attr>:$of, OptionalAttr<F64Attr>:$by);
  let results = (outs AnyTypeOf<[F64, Index]>:$result);
  let assemblyFormat = "$kind (`of` $of^)? (`by` $by^)? attr-dict `:` type($result)";
}

include "ir/rt/RtKernels.td"

//===------------------------------------------------------------------------------------------------------------===//
// Messages
//===------------------------------------------------------------------------------------------------------------===//

def Rt_TicketsOp : Rt_Op<"tickets"> {
  let summary = "a ticket for each iteration, or slot, of the loop that follows; none is under way yet";
  let arguments = (ins I64Attr:$count);
  let results = (outs Rt_Ticket:$tickets);
  let assemblyFormat = "$count attr-dict";
  let hasVerifier = 1;
}
def Rt_CollectiveOp : Rt_Op<"collective", [DeclareOpInterfaceMethods<Touches, ["reads", "writes"]>,
                                           DeclareOpInterfaceMethods<Costed, ["cost"]>,
                                           DeclareOpInterfaceMethods<Communicates, ["messageAt", "toWaitFor"]>,
                                           AttrSizedOperandSegments]> {
  let summary = "one collective over the ranks that differ in `mesh` axes alone";
  let description = [{
    `rt.collective "all_reduce" %d, %d count 1024 "Sum" over [0] ranks 4 "dp" with "ring" why "…" : …`. `in` and `out`
    are one buffer where it works in place. `count` is what the runtime's call takes; `runs` pieces of a row where the
    buffer with a row for each rank has them apart: it is (runs, ranks, count / runs). With a ticket it is started
    only; rt.wait ends it. In a loop, the ticket of an iteration is kept at its position of `tickets`; one that is
    started ahead of its iteration, at its rt.slot. On a GPU it runs
    in a stream of its mesh axes, which begins behind what comes before it and is joined where it is waited for.
  }];
  let arguments = (ins StrAttr:$kind, Rt_Buffer:$in, Rt_Buffer:$out, I64Attr:$count, OptionalAttr<I64Attr>:$runs,
                       OptionalAttr<StrAttr>:$reduction, DenseI64ArrayAttr:$mesh, I64Attr:$ranks, StrAttr:$axis,
                       StrAttr:$algorithm, StrAttr:$why, Optional<Rt_Ticket>:$tickets, Optional<Index>:$position);
  let results = (outs Optional<Rt_Ticket>:$ticket);
  let assemblyFormat = [{
    $kind $in `,` $out `count` $count (`runs` $runs^)? ($reduction^)? `over` $mesh `ranks` $ranks $axis `with`
    $algorithm `why` $why (`keeps` $tickets^ `[` $position `]`)? attr-dict `:` type($in) `,` type($out)
    (`->` type($ticket)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Bytes of the message on one rank: count elements, or what a rank gets in a gather.
    int64_t messageBytes();
  }];
}
class Rt_Neighbor<string mnemonic, string whom, string more = "", list<Trait> traits = []>
    : Rt_Op<mnemonic,
            !listconcat([DeclareOpInterfaceMethods<Touches, ["reads", "writes"]>,
                         DeclareOpInterfaceMethods<Costed, ["cost"]>,
                         DeclareOpInterfaceMethods<Communicates, ["messageAt", "readsCoordinates", "toWaitFor"]>],
                        traits)> {
  let description = [{
    Between two ranks that differ by one in a mesh axis alone. `step` is 1 where the other one is the next, -1 where it is
    the one before; `around`: behind the last one comes the first. Messages arrive in the order in which they are sent.
  }];
  let assemblyFormat = "$buffer `"# whom #"` $step (`around` $around^)? `over` $mesh `ranks` $ranks $axis `why` $why "# more #
                       "attr-dict `:` type($buffer)";
}
def Rt_SendOp : Rt_Neighbor<"send", "to", "(`keeps` $tickets^ (`[` $position^ `]`)?)? ", [AttrSizedOperandSegments]> {
  let summary = "a buffer to the neighbor along a mesh axis; with tickets it is started only, and rt.wait ends it";
  let arguments = (ins Rt_Buffer:$buffer, I64Attr:$step, DenseI64ArrayAttr:$mesh, I64Attr:$ranks, StrAttr:$axis,
                       StrAttr:$why, UnitAttr:$around, Optional<Rt_Ticket>:$tickets, Optional<Index>:$position);
}
def Rt_ReceiveOp : Rt_Neighbor<"receive", "from"> {
  let summary = "a buffer from the neighbor along a mesh axis";
  let arguments = (ins Rt_Buffer:$buffer, I64Attr:$step, DenseI64ArrayAttr:$mesh, I64Attr:$ranks, StrAttr:$axis,
                       StrAttr:$why, UnitAttr:$around);
}

def Rt_ProgressOp : Rt_Op<"progress"> {
  let summary = "moves on what has been started, without waiting: messages between machines go no further by themselves";
  let description = [{
    `looks`: the rank also sees whether there is something for it to do in between, under a sync policy whose workers
    arrive in real time: an update, or that its work is no longer wanted.
  }];
  let arguments = (ins UnitAttr:$looks);
  let assemblyFormat = "(`looks` $looks^)? attr-dict";
}
def Rt_WaitOp : Rt_Op<"wait", [DeclareOpInterfaceMethods<Costed, ["cost"]>]> {
  let summary = "returns when a started message is done, or those of all iterations are; of several kept, one";
  let arguments = (ins Rt_Ticket:$ticket, Optional<Index>:$position);
  let assemblyFormat = "$ticket (`[` $position^ `]`)? attr-dict";
  let builders = [OpBuilder<(ins "::mlir::Value":$ticket), [{ build($_builder, $_state, ticket, ::mlir::Value()); }]>];
}

//===------------------------------------------------------------------------------------------------------------===//
// Loop nests
//===------------------------------------------------------------------------------------------------------------===//

def Rt_GroupOp : Rt_Op<"group", [SingleBlock, IsolatedFromAbove, RecursiveMemoryEffects]> {
  let summary = "tensor operations that become one loop nest";
  let description = [{
    Formed by `dist-fuse`: element-wise operations, and sums of them, over one set of axes; what only they use is never
    stored. Block arguments are the operands; `rt.yield` ends it with the results.
  }];
  let arguments = (ins Variadic<AnyType>:$inputs);
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` $body attr-dict `:` functional-type($inputs, $outputs)";
  let hasRegionVerifier = 1;
}
def Rt_YieldOp : Rt_Op<"yield", [Pure, Terminator, HasParent<"GroupOp, FusedOp">]> {
  let summary = "ends a loop nest's body: one value a result or output";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
  let builders = [OpBuilder<(ins "::mlir::ValueRange":$values), [{ $_state.addOperands(values); }]>];
}

def Rt_FusedOp : Rt_Op<"fused", [SingleBlock, NoTerminator, AttrSizedOperandSegments,
                                 DeclareOpInterfaceMethods<Touches, ["reads", "writes", "mayShare"]>,
                                 DeclareOpInterfaceMethods<Costed, ["cost"]>]> {
  let summary = "a loop nest over named axes: scalar expressions, element-wise outputs, sums";
  let description = [{
    ```mlir
    rt.fused ["batch", "hidden"] = [32, 128] (%h, %b1) -> ["store"] (%out) {
    ^bb0(%a: f32, %b: f32):
      %s = rt.compute "add" %a, %b : (f32, f32) -> f32
      %r = rt.compute "relu" %s : (f32) -> f32
      rt.yield %r : f32
    } : …
    ```
    Axes are outermost first. One block argument for each buffer that is read (its element there; an input that lacks
    an axis is the same along it) and for each number (an f64 comes as the type of its argument). Outputs:
    - `store`: the value, which depends on the output's axes only;
    - `sum`: the sum over the axes that the output lacks, from 0, in the order of the loops but for the innermost;
    - `add`: the same, or the value itself, added to what the output holds.
    In a function of rows of any length the one axis is `n` and its size unknown. `loops`: what rt-make-loops makes of
    it (ir/rt/RtLoops.td).
  }];
  let arguments = (ins StrArrayAttr:$axes, DenseI64ArrayAttr:$sizes, Variadic<Rt_Buffer>:$inputs,
                       Variadic<AnyTypeOf<[AnyFloat, Index]>>:$numbers, StrArrayAttr:$modes, Variadic<Rt_Buffer>:$outputs);
  let regions = (region SizedRegion<1>:$body, MaxSizedRegion<1>:$loops);
  let assemblyFormat = [{
    $axes `=` custom<Lengths>($sizes) `(` $inputs `)` (`numbers` `(` $numbers^ `:` type($numbers) `)`)? `->` $modes `(` $outputs `)`
    $body (`loops` $loops^)? attr-dict `:` custom<Types>(type($inputs)) `->` custom<Types>(type($outputs))
  }];
  let hasRegionVerifier = 1;
}

class Rt_Scalar<string mnemonic> : Rt_Op<mnemonic, [Pure]>;
def Rt_ComputeOp : Rt_Scalar<"compute"> {
  let summary = "an element-wise function of scalars";
  let arguments = (ins StrAttr:$function, Variadic<AnyType>:$operands);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$function $operands attr-dict `:` functional-type($operands, $result)";
  let hasVerifier = 1;
}
def Rt_LiteralOp : Rt_Scalar<"literal"> {
  let summary = "a number";
  let arguments = (ins F64Attr:$value);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}
def Rt_AlongOp : Rt_Scalar<"along"> {
  let summary = "the position along an axis, as i32";
  let arguments = (ins StrAttr:$axis, Optional<Index>:$offset);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$axis (`from` $offset^)? attr-dict `:` type($result)";
}

include "ir/rt/RtLoops.td"
include "ir/rt/RtGpu.td"

#endif
