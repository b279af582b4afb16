// The run dialect: what a train block says besides the model and its layout. Its operations are at the start of the
// module. Passes and the printer read them; no pass changes them.
#ifndef RUN_OPS
#define RUN_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Run_Dialect : Dialect {
  let name = "run";
  let summary = "what a run does: its data, optimizers, evaluations, snapshots";
  let cppNamespace = "::echelon::run";
  let useDefaultAttributePrinterParser = 1;
}

//===------------------------------------------------------------------------------------------------------------===//
// Attributes
//===------------------------------------------------------------------------------------------------------------===//

class Run_Attr<string title, string word> : AttrDef<Run_Dialect, title> {
  let mnemonic = word;
  let assemblyFormat = "`<` struct(params) `>`";
}

def Run_Transform : Run_Attr<"Transform", "transform"> {
  let summary = "what is done with each sample";
  let description = [{
    `#run.transform<kind = "crop", args = [4.0], axes = ["row", "column"]>`: runtime::TransformSpec.
  }];
  let parameters = (ins "::mlir::StringAttr":$kind, OptionalParameter<"::mlir::DenseF64ArrayAttr">:$args,
                        OptionalParameter<"::mlir::ArrayAttr">:$axes, OptionalParameter<"::mlir::ArrayAttr">:$inputs);
}

def Run_Source : Run_Attr<"Source", "source"> {
  let summary = "a source of samples";
  let description = [{
    `#run.source<kind = "next_token", args = [0.1], of = [#run.source<kind = "text", paths = ["a.txt"]>]>`:
    runtime::DataSpec, which says what each kind uses. `of`: the sources that it is made of.
  }];
  let parameters = (ins "::mlir::StringAttr":$kind, OptionalParameter<"::mlir::ArrayAttr">:$paths,
                        OptionalParameter<"::mlir::StringAttr">:$name,
                        OptionalParameter<"::mlir::DenseF64ArrayAttr">:$args,
                        OptionalParameter<"::mlir::ArrayAttr">:$of,
                        OptionalParameter<"::mlir::ArrayAttr">:$transforms,
                        OptionalParameter<"::mlir::ArrayAttr">:$columns);
}

def Run_ScheduleKind : I32EnumAttr<"ScheduleKind", "how a learning rate goes on", [
    I32EnumAttrCase<"Constant", 0, "constant">, I32EnumAttrCase<"Cosine", 1, "cosine">,
    I32EnumAttrCase<"Linear", 2, "linear">, I32EnumAttrCase<"Wsd", 3, "wsd">,
    I32EnumAttrCase<"StepsAt", 4, "steps_at">]> {
  let cppNamespace = "::echelon::run";
  let genSpecializedAttr = 0;
}

def Run_Schedule : Run_Attr<"Schedule", "schedule"> {
  let summary = "a learning rate as a function of the step";
  let description = [{
    `#run.schedule<kind = cosine, peak = 1.0e-3, floor = 1.0e-4, warmup = 30>`. The rate rises to `peak` over `warmup`
    steps. Then `constant` stays; `cosine` and `linear` fall to `floor` until the last step; `wsd` stays, and falls
    over the last `decay` steps; `steps_at` is multiplied by `by` at each of `drops`.
  }];
  let parameters = (ins EnumParameter<Run_ScheduleKind>:$kind, "::mlir::FloatAttr":$peak,
                        OptionalParameter<"::mlir::FloatAttr">:$floor, DefaultValuedParameter<"int64_t", "0">:$warmup,
                        DefaultValuedParameter<"int64_t", "0">:$decay,
                        OptionalParameter<"::mlir::DenseI64ArrayAttr">:$drops,
                        OptionalParameter<"::mlir::FloatAttr">:$by);
  let genVerifyDecl = 1;
}

//===------------------------------------------------------------------------------------------------------------===//
// Operations
//===------------------------------------------------------------------------------------------------------------===//

class Run_Op<string mnemonic> : Op<Run_Dialect, mnemonic, []>;

def Run_TrainOp : Run_Op<"train"> {
  let summary = "the train block: one in a module whose program is printed";
  let description = [{
    `spec`: the file, as diagnostics name it; `folder`: where its relative paths start. `batch`: samples of a step over
    all ranks.
  }];
  let arguments = (ins StrAttr:$name, StrAttr:$model, StrAttr:$spec, StrAttr:$folder, I64Attr:$batch, I64Attr:$steps,
                       UI64Attr:$seed, DefaultValuedAttr<I64Attr, "0">:$restarts);
  let assemblyFormat = [{
    $name `of` $model `in` $spec `folder` $folder `batch` $batch `steps` $steps `seed` $seed
    (`restarts` $restarts^)? attr-dict
  }];
}

def Run_DataOp : Run_Op<"data"> {
  let summary = "what a step takes: `run.data #run.source<…> to [\"tokens\", \"labels\"]`";
  let arguments = (ins Run_Source:$source, StrArrayAttr:$inputs);
  let assemblyFormat = "$source `to` $inputs attr-dict";
}

def Run_OptimizeOp : Run_Op<"optimize"> {
  let summary = "an `optimize` line; a parameter is taken by the first line that has a pattern for it";
  let description = [{
    `run.optimize "adamw" on ["*"] with {beta1 = 0.9, …} rate #run.schedule<…>`. `numbers`: those of the rule
    (passes/update/). `all`: the line names no patterns.
  }];
  let arguments = (ins StrAttr:$rule, StrArrayAttr:$patterns, DictionaryAttr:$numbers,
                       Run_Schedule:$rate, UnitAttr:$all);
  let assemblyFormat = "$rule (`all` $all^)? `on` $patterns `with` $numbers `rate` $rate attr-dict";
  let extraClassDeclaration = [{
    /// A number of the rule; 0 where it has none of this name.
    double number(::llvm::StringRef name);
  }];
}

def Run_AverageOp : Run_Op<"average"> {
  let summary = "`average ema(0.999)`: evaluations read a running average of each parameter";
  let description = [{
    `run.average ema 0.999`. Each parameter has a variable `average.PATH`, which ech-expand-update makes.
  }];
  let arguments = (ins F64Attr:$decay);
  let assemblyFormat = "`ema` $decay attr-dict";
}

def Run_CompressOp : Run_Op<"compress"> {
  let summary = "`compress gradients over dp with topk(1%)`: what each worker adds to a gradient travels packed";
  let description = [{
    `run.compress "topk" over ["dp"] amount 0.01 feedback`. `amount` is the share of `topk` and `randomk`, the rank of
    `powersgd`, and 0 for others. `feedback`: what packing lost is added to what the next step packs. `deltas`: what
    travels is how far each worker of `local` has come, and not its gradients.
  }];
  let arguments = (ins StrAttr:$kind, StrArrayAttr:$over, F64Attr:$amount, UnitAttr:$feedback, UnitAttr:$deltas);
  let hasVerifier = 1;
  let assemblyFormat = "(`deltas` $deltas^)? $kind `over` $over `amount` $amount (`feedback` $feedback^)? attr-dict";
}

def Run_SyncOp : Run_Op<"sync"> {
  let summary = "`sync k_async(4) over dp`: which gradients make an update, and which parameters they are computed at";
  let description = [{
    `run.sync "k_async" k 4 of 8 over ["dp"] staleness 8 damp delay "exponential" [1.0]`. `policy` is `k_sync`,
    `k_batch_sync`, `k_async` (`async` is that of 1) or `k_batch_async`; a worker is a coordinate of the mesh axes `over`,
    of which there are none on one rank that works for all of them. `staleness`: most updates between a gradient's read
    and its application; -1: no limit. `damp`: a gradient counts 1 / max(1, its staleness). `delay`: of drawn arrivals,
    `exponential`, `shifted` or `each`.

    `run.sync "local" k 4 of 4 over ["dp"] every 16 outer "nesterov" rate 0.7 momentum 0.9`: each worker trains by itself,
    and after 16 steps all take the mean, or what the outer optimizer makes of it.
  }];
  let arguments = (ins StrAttr:$policy, I64Attr:$k, I64Attr:$workers, StrArrayAttr:$over,
                       DefaultValuedAttr<I64Attr, "-1">:$staleness, UnitAttr:$damp,
                       DefaultValuedAttr<StrAttr, "\"\"">:$delay, OptionalAttr<DenseF64ArrayAttr>:$numbers,
                       DefaultValuedAttr<I64Attr, "0">:$every, DefaultValuedAttr<StrAttr, "\"\"">:$outer,
                       DefaultValuedAttr<F64Attr, "1.0">:$rate, DefaultValuedAttr<F64Attr, "0.0">:$momentum);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $policy `k` $k `of` $workers `over` $over (`staleness` $staleness^)? (`damp` $damp^)?
    (`delay` $delay^ $numbers)? (`every` $every^)? (`outer` $outer^ `rate` $rate `momentum` $momentum)? attr-dict
  }];
  let extraClassDeclaration = [{
    /// Whether workers may compute at parameters that are no longer the newest.
    bool isAsync() { return getPolicy().ends_with("async"); }
    /// Whether one worker may hand in several gradients for an update.
    bool isBatch() { return getPolicy().contains("batch"); }
    /// Whether workers are in when they are, and no clock draws when.
    bool isLive() { return !isLocal() && !getOver().empty() && getDelay().empty(); }
    bool isLocal() { return getPolicy() == "local"; }
    /// Whether one rank works for several workers.
    bool isOneRank() { return getOver().empty() && getWorkers() > 1; }
  }];
}

def Run_NanAction : I32EnumAttr<"NanAction", "what a training step does whose loss or gradients are not finite", [
    I32EnumAttrCase<"Skip", 0, "skip">, I32EnumAttrCase<"RollBack", 1, "roll_back">]> {
  let cppNamespace = "::echelon::run";
  let genSpecializedAttr = 0;
}
def Run_NanActionAttr : EnumAttr<Run_Dialect, Run_NanAction, "nan_action"> {
  let assemblyFormat = "$value";
}

def Run_OnNanOp : Run_Op<"on_nan"> {
  let summary = "`on nan skip` or `roll back`; without it, the run ends";
  let description = [{
    `run.on_nan skip 10`: up to 10 steps in a row are left out; with it, states are written once
    the step's losses and gradients are known to be finite. `run.on_nan roll_back 3`: up to 3 times to one snapshot.
  }];
  let arguments = (ins Run_NanActionAttr:$action, I64Attr:$times);
  let assemblyFormat = "$action $times attr-dict";
}

def Run_PrecisionOp : Run_Op<"precision"> {
  let summary = "`precision`, where it is not fp32 or fp64: what products take, what parameters are rounded to";
  let description = [{
    `run.precision bf16 params bf16 keep ["head.*"]`: products take bf16, but those of the parameters that match; updates
    of parameters are rounded to bf16, too. `reduce bf16`: what ranks sum up travels in it. Products take f32, tf32,
    bf16, f16 or f8E4M3FN (and gradients f8E5M2 then).
  }];
  let arguments = (ins TypeAttr:$compute, OptionalAttr<TypeAttr>:$params, OptionalAttr<TypeAttr>:$reduce,
                       OptionalAttr<StrArrayAttr>:$keep);
  let assemblyFormat = "$compute (`params` $params^)? (`reduce` $reduce^)? (`keep` $keep^)? attr-dict";
  let hasVerifier = 1;
}

def Run_LossScaleOp : Run_Op<"loss_scale"> {
  let summary = "`scale` of a precision: the derivative starts from it, and gradients are divided by it at the step's end";
  let description = [{
    `run.loss_scale 65536 dynamic`: where it is above 1, a step whose gradients are not finite is left out, as by
    `on_nan skip`, and halves it; many good ones double it. Without `dynamic` it stays. A power of two.
  }];
  let arguments = (ins I64Attr:$start, UnitAttr:$dynamic);
  let assemblyFormat = "$start (`dynamic` $dynamic^)? attr-dict";
}

def Run_EvaluateOp : Run_Op<"evaluate"> {
  let summary = "an `evaluate` clause: when, and on what";
  let description = [{
    `run.evaluate "shift" every 100 batches 10 on #run.source<…>`. Without a source: the held-out part of the data.
    `every` 0: after the last step alone. `batches` 0: all.
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$every, I64Attr:$batches, OptionalAttr<Run_Source>:$source);
  let assemblyFormat = "$name `every` $every `batches` $batches (`on` $source^)? attr-dict";
}

def Run_Comparison : I32EnumAttr<"Comparison", "how a metric compares with the value that ends a run", [
    I32EnumAttrCase<"Above", 0, "above">, I32EnumAttrCase<"AtLeast", 1, "at_least">,
    I32EnumAttrCase<"Below", 2, "below">, I32EnumAttrCase<"AtMost", 3, "at_most">]> {
  let cppNamespace = "::echelon::run";
  let genSpecializedAttr = 0;
}
def Run_ComparisonAttr : EnumAttr<Run_Dialect, Run_Comparison, "comparison"> {
  let assemblyFormat = "$value";
}

def Run_UntilOp : Run_Op<"until"> {
  let summary = "the run ends at the first evaluation that fulfils it";
  let description = [{
    `run.until "accuracy" above 0.93 in ""`: of the unnamed evaluation. `price`: dollars an hour of all nodes, where the
    cluster says it.
  }];
  let arguments = (ins StrAttr:$metric, Run_ComparisonAttr:$comparison, F64Attr:$value, StrAttr:$evaluation,
                       DefaultValuedAttr<F64Attr, "0.0">:$price);
  let assemblyFormat = "$metric $comparison $value `in` $evaluation (`price` $price^)? attr-dict";
}

def Run_CheckpointOp : Run_Op<"checkpoint"> {
  let summary = "snapshots: when, where, how many are kept";
  let description = [{
    `run.checkpoint "snapshots" steps 100 seconds 0.0 keep 3`. 0 steps, 0 seconds: not by these; `keep` 0: all.
  }];
  let arguments = (ins StrAttr:$directory, I64Attr:$steps, F64Attr:$seconds, I64Attr:$keep);
  let assemblyFormat = "$directory `steps` $steps `seconds` $seconds `keep` $keep attr-dict";
}

def Run_MathematicsOp : Run_Op<"mathematics"> {
  let summary = "what the model computes, as snapshots keep it (tools/driver/compile/Mathematics.h)";
  let arguments = (ins StrAttr:$text);
  let assemblyFormat = "$text attr-dict";
}

#endif
