// The passes, in pipeline order. Each is one promise, one .cpp of its name, one test test/passes/FLAG.mlir; what becomes
// what is from that test, types left out. A new pass: its entry here, its line in Pipeline.cpp.
#ifndef ECHELON_PASSES
#define ECHELON_PASSES

include "mlir/Pass/PassBase.td"

class EchelonPass<string flag> : Pass<flag, "::mlir::ModuleOp"> {
  let dependentDialects = ["::echelon::ech::EchDialect"];
}

//===------------------------------------------------------------------------------------------------------------===//
// ech: what is computed
//===------------------------------------------------------------------------------------------------------------===//

def RecogniseAttention : EchelonPass<"ech-recognise-attention"> {
  let summary = "the written-out softmax pattern becomes one ech.attention";
  let description = [{
    ```mlir
    %dot = ech.dot %q, %k over ["key"]
    %scaled = ech.map div %dot, %four
    %masked = ech.map select %causal, %scaled, %low
    %p = ech.softmax %masked over ["past"]
    %y = ech.dot %p, %v over ["past"]
    ```
    becomes `%y, %maximum, %sum = ech.attention %q, %k, %v {causal, …}`: the scores are never stored. Scales by constants, a
    bias, a mask and both kinds of mask together are part of the pattern. What is attention
    and not of this form is left alone, with a warning that says why (W0602): the weights are read elsewhere, scores that
    a mask forbids are numbers, the softmax is written out. Runs before differentiation, so that the derivative is that of the fused operation.
  }];
}

def KeepProducts : EchelonPass<"ech-keep-products"> {
  let summary = "products that read the parameters of `keep` are marked: they take f32 in any precision";
  let description = [{
    With `run.precision bf16 keep ["head.*"]`
    ```mlir
    %w = ech.read @head.w
    %y = ech.dot %x, %w over ["embed"]
    ```
    becomes `%y = ech.dot %x, %w over ["embed"] {ech.stays_f32}`. Runs before derivatives are made, which take the mark
    over: the gradient of a kept product is made of products that are kept.
  }];
}

def Differentiate : EchelonPass<"ech-differentiate"> {
  let summary = "the forward step gains its backward pass and one `ech.gradient` a parameter";
  let description = [{
    Reverse mode over @train's sum of losses, before layout, so that the communication of the backward pass follows from
    types like everything else. Each operation answers `Derivable`; loops stay loops: the forward `ech.repeat` keeps what
    its derivative reads as stacked results, the backward one runs in the other direction over slices of them.
    ```mlir
    %y = ech.dot %x, %w over ["in"]
    %h = ech.map relu %y
    %l = ech.reduce sum %h over ["batch", "out"]
    ech.report loss "loss", %l
    ```
    gains
    ```mlir
    %on = ech.map gt %h, %zero {ech.phase = "backward"}
    %dy = ech.map select %on, %dh, %zero {ech.phase = "backward"}
    %dw = ech.dot %dy, %x over ["batch"] {ech.phase = "backward"}
    ech.gradient @w, %dw {ech.phase = "backward"}
    ```
    Runs on whole steps, before anything cuts them: `ech-split-time` then puts forward and backward into the loop over
    micro batches.
  }];
}

def Compress : EchelonPass<"ech-compress"> {
  let summary = "gradients travel packed, where the module says so";
  let description = [{
    With `run.compress "int8" over ["dp"] amount 0.0` and dp = 4, `ech.gradient @w, %dw` becomes
    ```mlir
    %each = ech.per_worker %dw : [in, out] -> [worker=4, in, out]
    %u = ech.map mul %each, %four                // each worker's own mean
    %largest = ech.reduce max …                  // of |u|, one number a worker
    %step = ech.map mul %largest, %1/127
    %byte = ech.map cast (round(u / step))       : […, i8]
    %bytes = ech.hand_in %byte                   // what travels
    %steps = ech.hand_in %step
    %mean = ech.reduce sum (%bytes * %steps) over ["worker"] …
    ech.gradient @w, %mean
    ```
    With `feedback` what packing lost, u - byte * step, is a variable `optimizer.residual.w` of each worker, which the
    next step adds to u. How each kind packs: passes/compress. The workers are the coordinates of the mesh axes that
    split the batch, to the last of the clause's; inner axes add up exactly before, and their axis is listed on the mesh,
    so that layout follows. What lies between a sum over samples and a gradient is marked (`ech.stays_pending`): each
    worker's part goes through it by itself. A tensor of one element, one that workers split among them, and one that
    packing would not make smaller travel as they are. On one rank, `ech.workers = [count, of one hop]` says who there
    would be.
    Runs on derivatives; `ech-split-time` then adds up the passes of each worker.
  }];
}

def Sync : EchelonPass<"ech-sync"> {
  let summary = "what a worker hands in, and the update that is made of it, where the module has a sync policy";
  let description = [{
    With `run.sync "k_async" k 2 of 4 over ["dp"]`, `ech.gradient @w, %dw` of @train becomes
    ```mlir
    ech.write @handed_in.gradient.w, %dw
    ```
    and @update
    ```mlir
    %own = ech.read @handed_in.gradient.w
    %weighed = ech.map mul %own, hand_in_weight
    %in = ech.map select hand_in_weight != 0, %weighed, 0    // who is not in may hold anything
    %each = ech.per_worker %in apart : [in, out] -> [worker=4, in, out]
    %dw = ech.reduce sum %each over ["worker"]
    ech.gradient @w, %dw
    ```
    Losses and states are handed in likewise, and are means of those in the update. Asynchronous workers compute at
    `copy.w`, which @read makes of w. Where a worker may hand in several gradients for one update, or one rank works for
    several workers, @hand_in adds them to `sum.handed_in.gradient.w`. @train is of one worker's mini-batch: the batch is
    not split over the workers' mesh axes, and nothing of @train travels over them. In @evaluate each worker takes
    batches of its own, and their sums are added up at its end. Which worker hands in when, the run decides.
    What needs other samples of the batch inside of @train is refused, by the rule of `ech-split-time`.
    With `run.compress`, @update packs `each` times k, with what packing lost before of those that are in, and takes the
    mean over k of what comes of it (passes/compress/). One rank that works for all adds up what is handed in by worker.
    Runs on derivatives; `ech-split-time` splits @train, `ech-expand-update` works on @update.
  }];
}

def SplitTime : EchelonPass<"ech-split-time"> {
  let summary = "the batch is split over time: micro batches in @train, the held-out set's batches in @evaluate";
  let description = [{
    With `ech.micro = n` above 1, what depends on samples moves into `ech.repeat "micro" = n time`; gradients, losses
    and the batch sums of metrics come out as sums over its iterations, maxima and minima over samples are carried. What has no batch axis and depends on batch sums
    alone follows the loop; sums without parameters that the inside needs (token counts) are computed before it, over the
    whole batch. A repeat that holds both is cut in two: the counts of all layers first, or the means of all layers
    after. An operation that needs other samples inside is an error at its place in the spec. Where stages of a pipeline
    have a step without micro batches, its one pass has the totals of all samples: what needs them stays in the pass.
    @evaluate always becomes `ech.repeat "batches" = 0 time`: the run knows how many; the input `valid samples` masks
    those that only fill the last batch. (Where an axis has the loop's name, a number comes after it.)
    Runs on differentiated steps; `ech-expand-update` follows.
  }];
}

def ExpandUpdate : EchelonPass<"ech-expand-update"> {
  let summary = "gradients become clipped, optimized and written parameters, as ordinary operations";
  let description = [{
    Each `ech.gradient` goes through the optimizer line (`run.optimize`) whose pattern matches the
    parameter's path first; moments are new variables `optimizer.m.PATH`; `ech.clip` scales by the global norm, which is
    reported. All of it carries `ech.phase = "update"`. Under sgd with a momentum, `ech.gradient @layer.w, %dw` becomes
    ```mlir
    %kept = ech.map mul %velocity, %momentum
    %v = ech.map add %kept, %dw
    ech.write @optimizer.momentum.layer.w, %v
    %step = ech.map mul %v, %lr
    %next = ech.map sub %w, %step
    ech.write @layer.w, %next
    ```
    With `run.average` each parameter has a variable `average.PATH`, which the update follows, which starts as the
    parameter (`@train.start`) and changes places with it in `@exchange`, for an evaluation.
    With `ech.keep_gradients` each gradient is also stored, as `gradient.PATH`, to be looked at. Runs after the batch is
    split over time, once a step; before layout, so that `store` finds the update as ordinary operations.
  }];
}

def Simplify : EchelonPass<"ech-simplify"> {
  let summary = "values that are equal by definition are computed once, and dead ones not at all";
  let description = [{
    x * 1, x + 0, 0 * x, -(-x), casts that change nothing, expansions into element-wise operations, relabels that change
    nothing; what loops carry unchanged, keep twice, or nobody reads. Then upstream's CSE within a phase.
    ```mlir
    %x = ech.map mul %a, %one
    %y = ech.map add %x, %zero
    %z = ech.expand %y
    %s = ech.map add %b, %z
    ```
    becomes `%s = ech.map add %b, %a`. Locations stay those of the first computation. Runs when all that computes is
    there, so that what derivatives and update compute alike is laid out once.
  }];
}

def ChooseTypes : EchelonPass<"ech-choose-types"> {
  let summary = "values are kept and multiplied in two bytes, or multiplied with fewer digits, where the module says so";
  let description = [{
    With `run.precision bf16`
    ```mlir
    %h = ech.dot %x, %w over ["embed"] : (…[batch, embed], f32…, …[embed, ff], f32…) -> …[batch, ff], f32…
    %a = ech.map relu %h
    %y = ech.dot %a, %v over ["ff"]
    ```
    becomes
    ```mlir
    %xr = ech.map cast %x : (…[batch, embed], f32…) -> …[batch, embed], bf16…
    %wr = ech.map cast %w
    %h = ech.dot %xr, %wr over ["embed"] : (…bf16…, …bf16…) -> …[batch, ff], f32…
    %hr = ech.map cast %h : (…f32…) -> …bf16…
    %hw = ech.map cast %hr : (…bf16…) -> …f32…
    %a = ech.map relu %hw : (…f32…) -> …f32…
    %ar = ech.map cast %a : (…f32…) -> …bf16…
    …
    ```
    With f16 likewise. With `run.precision tf32` products take `ech.map round_tf32 %x`, of f32, and nothing else changes.
    With f8E4M3FN as with bf16, and what a dot takes is rounded to eight bits before, scaled by what the largest number
    of the tensor leaves room for:
    ```mlir
    %m = ech.reduce max (ech.map abs %x)
    %s = ech.map power_of_two (ech.map div %448, %m)
    %xr = ech.map cast (ech.map div (ech.map round_e4m3 (ech.map mul %x, %s)), %s) : (…f32…) -> …bf16…
    ```
    With `params bf16` parameters are variables of bf16: read, they are converted to f32, and written, rounded.

    Runs when all that computes is there, derivatives and update included: what is kept for the backward pass is known
    then, and derivatives are those of the mathematics. Before layout, so that what is pending is rounded when it is
    whole, whatever the mesh: rounding resolves a sum first.
  }];
}

def CarryThrough : EchelonPass<"ech-carry-through"> {
  let summary = "what the stages of a pipeline add up, and the same pass needs, goes from stage to stage";
  let description = [{
    With `pp = 2 [layer]`, where every iteration reads what an encoder has made,
    ```mlir
    %dx, %dm = ech.repeat "layer" = 4 reverse carry(%dy) slice(%w) { …; ech.yield carry(%dxi) sum(%share) }
    %dall = ech.map add %dlate, %dm        // of what reads it behind the layers
    %dw = ech.dot %dall, %source over ["batch"]
    ```
    becomes
    ```mlir
    %dx, %dall = ech.repeat "layer" = 4 reverse carry(%dy, %dlate) slice(%w) {
      …; %sofar = ech.map add %before, %share; ech.yield carry(%dxi, %sofar)
    }
    %dw = ech.dot %dall, %source over ["batch"]
    ```
    A sum over the iterations of stages is one over ranks: here it would be a message of all stages in the middle of a
    pass, when they are at different micro batches. A sum that is only added up further, as a parameter's gradient, is
    left to the step's end.

    Outside of a pass stages hand on nothing: what follows from what a repeat carries there moves into a loop behind it,
    over an axis that nothing divides, and each rank computes it.

    Runs when types are chosen, so that nothing takes apart what carries; before the layout, to which carried values are
    ordinary ones.
  }];
}

//===------------------------------------------------------------------------------------------------------------===//
// dist: who holds what, what moves
//===------------------------------------------------------------------------------------------------------------===//

class DistPass<string flag> : EchelonPass<flag> {
  let dependentDialects = ["::echelon::ech::EchDialect", "::echelon::dist::DistDialect"];
}

def BalanceStages : DistPass<"dist-balance-stages"> {
  let summary = "how many iterations each stage of a pipeline has, where the layout leaves that to the compiler";
  let description = [{
    With `dist.balance = {pp = loc(…)}` and `pp = 4 [layer]`, `layer` = 30, where an iteration takes as long as 1 and the
    head on the last stage as 2.5, the mesh becomes
    ```mlir
    pp = 4 [layer blocks (8, 8, 8, 6)]
    ```
    What counts is the floating-point operations of an iteration, forward and backward, of what goes into the first one
    and follows from its derivative (the first stage), and of what follows from the last one (the last stage). One after
    the other, iterations go to the stage that is fastest with it: as all cost the same, no counts have a faster slowest
    stage. Of a chain, `pp = 3 [encoder, decoder]`, the slowest chunk is as fast as can be; a repeat that hands on
    nothing has iterations alone. Groups of iterations, as `recompute every` makes them, stay together. What it went by
    is `dist.balanced_by`. Runs before the layout, which has to know which stage holds what, and behind the derivatives.
  }];
}

def AssignLayout : DistPass<"dist-assign-layout"> {
  let summary = "every tensor gets its state on the mesh, every change of state a dist.convert with its reason";
  let description = [{
    The list rule, operation by operation, over forward, backward and update. With `tp = 2 [ff, seq]`
    ```mlir
    %h = ech.dot %x, %w1 over ["embed"] : (…[batch, seq, embed]…, …[embed, ff]…) -> …[batch, seq, ff]…
    ```
    takes x whole (it was split along seq: a dist.convert, later an all-gather), w1 split along ff, and leaves h split
    along ff. Runs after everything that computes is there (derivatives and update included), because the rule is local;
    before fusion, because communication follows from single operations.
  }];
}

def FormCollectives : DistPass<"dist-form-collectives"> {
  let summary = "dist.convert becomes local slices and the collectives that make it";
  let description = [{
    Slices first, then reduce-scatters, all-to-alls, one joint all-reduce, one joint all-gather; an exchange where the
    ranks of a message do not hold what they need. A sum that one coordinate alone holds (a pick) is broadcast.
    ```mlir
    %b = dist.convert %x why "b"    // split head -> whole, over tp
    %c = dist.convert %y why "c"    // sum -> split head, over tp
    ```
    becomes
    ```mlir
    %b = dist.all_gather %x over ["tp"] why "b" with "ring"
    %c = dist.reduce_scatter %y over ["tp"] why "c"
    ```
    where a `collective` clause (module attribute `dist.algorithms`) says ring for gathers over tp. Runs after layout;
    before messages are grouped.
  }];
}

def FormPipeline : DistPass<"dist-form-pipeline"> {
  let summary = "a pass through a repeat whose iterations are divided over ranks becomes the work of stages";
  let description = [{
    The layout has said that `split layer over pp` divides the iterations of the repeat: each coordinate of pp is a
    stage, and has a part of them.
    1. What stands outside of the repeat is done on the first stage, on the last one, or on all; where repeats follow
       each other in one row of stages, also where one ends and the next begins (passes/pipeline/Stages).
    2. A stage receives what the repeat carries from the one before it, and sends it on to the next; the derivative's
       cotangents go the other way. What is made at one place of the row and read at others goes along likewise.
       At each place all is received before anything is sent, in one order.
    3. The loop over micro batches becomes two, of the forward passes and of the backward passes, which read what the
       forward ones have kept.
    4. What it carries, a maximum or minimum over samples, is found by one stage; a message behind the loop makes that
       of all stages.
    5. A parameter outside of the repeats that one stage alone reads is `whole at` that stage, with its gradient and
       what the optimizer keeps of it: the entry over pp is whole, and its axis names the coordinate (ir/dist/Placed.h).
    ```mlir
    %sums:2 = ech.repeat "micro" = 4 time {
      %x = embed; %y, %h = ech.repeat "layer" = 8 carry(%x) {…}; %loss = head(%y)
      %dy = …; %dx, %dw = ech.repeat "layer" = 8 reverse carry(%dy) slice(%h) {…}; %de = …
      ech.yield sum(%loss, %dw, %de)
    }
    ```
    becomes
    ```mlir
    %kept:2, %total = ech.repeat "micro" = 4 time {
      %x = dist.at 0 of "pp" { embed }
      %in = dist.receive %x from "previous" in 0 to 3 over "pp"
      %y, %h = ech.repeat "layer" = 8 carry(%in) {…}
      dist.send %y to "next" in 0 to 3 over "pp"
      %loss, %kept = dist.at 3 of "pp" { head(%y) }
      ech.yield stack(%h, %kept) sum(%loss)
    }
    %grads:2 = ech.repeat "micro" = 4 time slice(%kept#0, %kept#1) { … }
    ```
    Runs when collectives are formed: what one stage does alone has no message over pp.
  }];
}

def SplitNorms : DistPass<"dist-split-norms"> {
  let summary = "what a norm over channels does element by element becomes element-wise operations";
  let description = [{
    Its statistics stay one operation, and one kernel; the rest then fuses with what stands around it. Of the derivative
    only sums remain, which are those of the derivatives by gain and bias, so that they are taken once.
    ```mlir
    %y, %rstd, %mean, %variance = ech.normalize %x over ["batch", "width"]
    %s = ech.map mul %y, %gain
    ```
    becomes
    ```mlir
    %y, %rstd, %mean, %variance = ech.normalize %x over ["batch", "width"]
    %c = ech.map sub %x, %mean
    %n = ech.map mul %c, %rstd
    %s = ech.map mul %n, %gain
    ```
    Norms over the last axes stay: a kernel reads each row once. Runs on laid-out operations, before what
    they send inside becomes messages.
  }];
}

def SplitInside : DistPass<"dist-split-inside"> {
  let summary = "what an operation sends inside becomes messages like all others";
  let description = [{
    A reduction along an axis that is divided (softmax, cross-entropy, argmax, maxima, norms, the global norm of the
    gradients) becomes three parts: dist.partial, what a rank finds of its part; a message (an all_reduce, or a
    dist.collect where what the ranks found is not a sum or an extreme); dist.combine, what follows from all. Sums that
    are wanted together travel together.
    ```mlir
    %p = ech.softmax %x over ["past"] {dist.inside = ["cp"], ech.why = "split past over cp: softmax"}
    ```
    becomes
    ```mlir
    %own = dist.partial maximum %x along ["past"]
    %maximum = dist.all_reduce %own by "max" over ["cp"] why "split past over cp: softmax"
    %part = dist.partial sum_of_exp %x, %maximum along ["past"]
    %sum = dist.all_reduce %part over ["cp"] why "split past over cp: softmax"
    %p = dist.combine softmax %x, %maximum, %sum along ["past"]
    ```
    Runs after layout, which decides for whole operations; before everything that looks at messages: grouping, overlap,
    cost.
  }];
}

def OverlapLoops : DistPass<"dist-overlap-loops"> {
  let summary = "large gradients of a repeat travel between machines iteration by iteration";
  let description = [{
    Within a machine nothing travels by itself: the cores that compute do the sums, which take as long early as late, or
    longer, where they drive what is computed out of the caches (bench/results.md). Between machines
    (`dist.node_ranks`, from the cluster's `nodes`) what a repeat stacks up and the update sums over ranks (an all_reduce of this alone, which nobody else reads; micro
    batches are summed up first) is started in each iteration, and waited for after the loop. A transport has room for
    so many messages under way; one more first ends the oldest. With `dist.node_ranks = 1`
    ```mlir
    %s = ech.repeat "layer" = 2 carry(%x) { … ech.yield carry(%y) stack(%dw) }
    %w = dist.all_reduce %s over ["dp"] why "w"
    ```
    becomes
    ```mlir
    %s = ech.repeat "layer" = 2 carry(%x) {
      …
      %started = dist.start_each "all_reduce" %dw over ["dp"] why "w"
      ech.yield carry(%y) stack(%started)
    }
    %w = dist.wait_each %s
    ```
    Runs before messages are grouped: what travels so joins no other.
  }];
  let options = [Option<"leastBytes", "least-bytes", "int64_t", /*default=*/"::echelon::PipelineOptions().loopBytes",
                        "what has fewer bytes a rank in an iteration waits for the loop's end; of a GPT 128 wide, "
                        "whose gradients have 64 KiB and more, a step takes as long either way">];
}

def GroupMessages : DistPass<"dist-group-messages"> {
  let summary = "messages of one kind over the same mesh axes that wait for nothing else become one";
  let description = [{
    The update's gradients (in buckets, in the order in which they come to be), its parameters, the step's losses and
    metrics.
    ```mlir
    %0 = dist.all_reduce %l over ["dp"] why "split batch over dp: report of loss"
    %1 = dist.all_reduce %m over ["dp"] why "split batch over dp: report of accuracy"
    ```
    becomes `%0, %1 = dist.all_reduce %l, %m over ["dp"] why "split batch over dp: report of loss, report of accuracy"`.
    A bucket of gradients is closed at 25 MB, or where the machine's links (`dist.links`) say of another size that all
    messages, and the last one, which nothing runs beside, take less time; `dist.buckets` tells so, a line each.
    Runs once all messages are there; before overlap, which starts whole messages.
  }];
  let options = [Option<"bucketMegabytes", "bucket-mb", "int64_t", /*default=*/"25",
                        "a message of gradients is closed when it holds this many megabytes (10^6 bytes) a rank, "
                        "whatever the links say; what a repeat stacks up counts with one iteration's">,
                 Option<"aloneKilobytes", "alone-kb", "int64_t", /*default=*/"64",
                        "what has this many kilobytes (10^3 bytes) a rank or more, as it is sent or as it arrives, "
                        "travels alone, all_reduce excepted: over shared memory, copying 64 KB into a common message "
                        "and out takes as long as several messages">];
}

def Overlap : DistPass<"dist-overlap"> {
  let summary = "messages of gradients start as soon as they can and are waited for as late as they can";
  let description = [{
    A message of the update becomes a dist.start after the last of its values and a dist.wait before the first user,
    where there is work in between. So is what a loop's iterations started (dist.wait_each).
    ```mlir
    %da = ech.reduce sum %x over ["batch"]
    %dx = ech.map neg %x
    %a = dist.all_reduce %da over ["dp"] why "a"
    ```
    becomes
    ```mlir
    %da = ech.reduce sum %x over ["batch"]
    %token = dist.start "all_reduce" %da over ["dp"] why "a"
    %dx = ech.map neg %x
    %a = dist.wait %token
    ```
    Runs after messages are grouped; after it operations move only as far as their place among others allows: starts and
    waits keep their order.
  }];
}

def FuseEpilogues : DistPass<"dist-fuse-epilogues"> {
  let summary = "of GPUs: products add their bias and round what they give, attention takes and gives two bytes";
  let description = [{
    ```mlir
    %y = ech.dot %x, %w over ["embed"] : (…bf16…, …bf16…) -> …[batch, ff], f32…
    %z = ech.map add %y, %b : (…[batch, ff], f32…, …[ff], f32…) -> …f32…
    %r = ech.map cast %z : (…f32…) -> …bf16…
    ```
    becomes
    ```mlir
    %br = ech.map cast %b : (…f32…) -> …bf16…
    %r = dist.linear %x, %w bias %br over ["embed"] : … -> …[batch, ff], bf16…
    ```
    and attention of values that were kept in two bytes reads them as they are kept. What is still to be summed up over
    ranks stays f32. Runs for GPUs alone, where memory bounds all but the products; before dist-fuse, which would make
    loops of what is fused here.
  }];
}
def Fuse : DistPass<"dist-fuse"> {
  let summary = "chains of element-wise operations, and sums of them, become one loop nest";
  let description = [{
    Operations that feed each other over the same local axes become one rt.group; what only the group uses is never
    stored. A group may have several results; a sum ends it, because its value is there only after the loops. Operations
    over fewer axes join what uses them where computing them once more costs little. What a group reads of another is
    computed in both, where little computing makes it of one stored value. Free values (numbers, positions) are made again
    inside each group. `dot` without axes of its own is a product and a sum; a rank's share of a sum that
    starts whole (coordinate 0 holds it) is a factor of 1 or 0.
    ```mlir
    %a = ech.map add %x, %b
    %r = ech.map relu %a
    %s = ech.reduce sum %r over ["batch"]
    ```
    becomes `%r, %s = rt.group(%x, %b) { … }`. Runs after everything that asks single operations for their layout, before
    buffers.
  }];
  let dependentDialects = ["::echelon::ech::EchDialect", "::echelon::dist::DistDialect", "::echelon::rt::RtDialect"];
}

//===------------------------------------------------------------------------------------------------------------===//
// rt: one operation per runtime call
//===------------------------------------------------------------------------------------------------------------===//

def LowerToRt : DistPass<"dist-lower-to-rt"> {
  let summary = "tensors become buffers, operations become kernels and loops";
  let description = [{
    Local sizes, row-major; renames, picks and slices are views where strides allow. A value on its way to a place that
    exists (the next state, a loop's carried value, one slice of what a loop stacks up, a part
    of a message, the other term of a sum of two) is computed there.
    ```mlir
    %h = ech.dot %x, %w over ["in"]              // [batch=4 split over dp = 2, in=6] x [in=6, hidden=8]
    %g = dist.all_reduce %d over ["dp"] why "split batch over dp"
    ```
    becomes
    ```mlir
    rt.gemm %h, %x, %w m <batch=2> n <hidden=8> k <in=6> ld <in=6> <hidden=8> <hidden=8>
    rt.collective "all_reduce" %d, %d count 48 "Sum" over [0] ranks 2 "dp" with "automatic" why "split batch over dp"
    ```
    Runs after `dist-fuse`, before `rt-select-kernels`.
  }];
  let dependentDialects = ["::echelon::rt::RtDialect"];
}

def PadRows : EchelonPass<"rt-pad-rows"> {
  let summary = "of GPUs: rows of matrices begin at multiples of 16 bytes";
  let description = [{
    ```mlir
    %y = rt.alloc work : !rt.buffer<[batch=32, vocab=50257], bf16>
    rt.gemm %y, %x, %w m <batch=32> n <vocab=50257> k <embed=768> … ld <embed=768> <embed=768> <vocab=50257>
    ```
    becomes
    ```mlir
    %y = rt.alloc work : !rt.buffer<[batch=32, vocab=50257], bf16, [50304, 1]>
    rt.gemm %y, %x, %w m <batch=32> n <vocab=50257> k <embed=768> … ld <embed=768> <embed=768> <50304>
    ```
    where products, loops and losses alone touch the buffer. Runs before arenas are planned.
  }];
  let dependentDialects = ["::echelon::rt::RtDialect"];
}
def SelectKernels : EchelonPass<"rt-select-kernels"> {
  let summary = "the target says which of its kernels does what";
  let description = [{
    `rt.gemm … ` becomes `rt.gemm … with onednn`, by its sizes; a loop that only copies between orders of axes,
    ```mlir
    rt.fused ["row", "column"] = [64, 32](%x) -> ["store"](%y) { ^bb0(%a: f32): rt.yield %a }
    ```
    becomes `rt.copy_strided %y, %x`. Runs before arenas are planned: which operand may lie where a result lies is the
    kernel's to say. For GPUs the program chooses a product's algorithm as it starts.
  }];
  let options = [Option<"isGpu", "gpu", "bool", "false", "of a GPU">];
  let dependentDialects = ["::echelon::rt::RtDialect"];
}

def GatherAhead : EchelonPass<"rt-gather-ahead"> {
  let summary = "the whole parameters of an iteration are gathered while the iteration before it computes";
  let description = [{
    ```mlir
    rt.for "layer" = 4 {
    ^bb0(%l: index):
      %w = rt.view %stack from 0 plus (%l) times [64] …
      %whole = rt.alloc work : !rt.buffer<[in=16, out=8], f32>
      rt.collective "all_gather" %w, %whole count 64 over [0] ranks 2 "dp" …
      rt.gemm %y, %x, %whole …
    }
    ```
    becomes
    ```mlir
    %wholes = rt.alloc work : !rt.buffer<[slot=2, in=16, out=8], f32>
    %tickets = rt.tickets 2
    rt.for "layer" = 4 {
    ^bb0(%l: index):
      %slot = rt.slot %l
      %whole = rt.view %wholes from 0 plus (%slot) times [128] …
      rt.wait %tickets[%slot]
      rt.next
      rt.gemm %y, %x, %whole …
    } ahead {
    ^bb0(%l: index):
      %w = rt.view %stack from 0 plus (%l) times [64] …
      %slot = rt.slot %l
      %whole = rt.view %wholes from 0 plus (%slot) times [128] …
      rt.collective "all_gather" %w, %whole count 64 over [0] ranks 2 "dp" … keeps %tickets[%slot]
    }
    ```
    With it goes what lays out its message. A gather goes ahead if nothing that it takes is made in the loop, so of a
    value that is gathered over one mesh axis after the other the first. Not where the loop has one iteration, is over
    micro batches or batches, or where a worker may leave its step: then nothing may be under way. Runs when every
    operation is chosen and before arenas are planned, which have both buffers.
  }];
  let dependentDialects = ["::echelon::rt::RtDialect"];
}

def ChooseAlgorithms : EchelonPass<"rt-choose-algorithms"> {
  let summary = "every collective gets the algorithm that is the fastest on the machine that the program is for";
  let description = [{
    Of the machine's links (module attribute `dist.links`, which is not there where nobody has measured or described
    the machine) each message asks which ways there are, by its kind and bytes, its ranks and how they lie over nodes.
    ```mlir
    rt.collective "all_reduce" %d, %d count 48 "Sum" over [0] ranks 4 "dp" with "automatic" why "split batch over dp"
    ```
    becomes
    ```mlir
    rt.collective "all_reduce" %d, %d count 48 "Sum" over [0] ranks 4 "dp" with "butterfly" why "split batch over dp" {rt.chosen = "butterfly 100 us; tree 200 us"}
    ```
    What a clause pins stays. For GPUs the call stays as it is, and the module gets `rt.tuner`, what NCCL is told by
    group and size. Runs when all messages are there, with the sizes that they will have.
  }];
  let options = [Option<"isGpu", "gpu", "bool", "false", "of a GPU, where NCCL sends">];
  let dependentDialects = ["::echelon::rt::RtDialect"];
}

def PlanArenas : EchelonPass<"rt-plan-arenas"> {
  let summary = "every buffer gets its byte offset in one of three arenas";
  let description = [{
    The state arena holds stored tensors: parameters, states, then one moment of all parameters after the other, each
    with the layout of the parameters where types agree. The input arena holds inputs, the work arena everything else:
    buffers that are not alive at the same time share bytes, 64-byte aligned. `rt.alloc work : <[n=64], f32>` becomes
    `rt.alloc work at 256 : <[n=64], f32>`. The module's `rt.state_bytes`, `rt.input_bytes` and `rt.work_bytes` are what
    the program allocates, exactly. With `dist.offload` moments and averages are the state arena's end, whole pages, which
    `rt.offloaded` says: [first byte, bytes]; with `dist.offload_params` parameters that loops read at their positions
    come just before them, and other parameters before these, behind states. Of a GPU (`rt.staged`) moments that something else than a rule touches first
    get a work buffer, with `rt.fetch` before and `rt.write_back` behind (cuda/StageOffloaded.h). Runs when every buffer
    and the order of operations are settled.
  }];
  let dependentDialects = ["::echelon::rt::RtDialect"];
}

def MoveMessages : EchelonPass<"rt-move-messages"> {
  let summary = "what is computed while a message is under way moves it on";
  let description = [{
    ```mlir
    %t = rt.collective "all_reduce" …             // started
    rt.gemm …
    rt.wait %t
    ```
    gains `rt.progress` behind the product: a sum between machines is several messages, each of which waits for others,
    and MPI looks at them where it is called. Behind operations of 10^6 flops or 5 10^5 bytes and more alone. Where
    the workers of a sync policy arrive in real time, `rt.progress looks` stands behind all of these in @train. What
    follows changes how a program reads, and no byte of what it does.
  }];
  let dependentDialects = ["::echelon::rt::RtDialect"];
}

//===------------------------------------------------------------------------------------------------------------===//
// rt: how the program reads
//===------------------------------------------------------------------------------------------------------------===//

def OutlineUpdates : EchelonPass<"rt-outline-updates"> {
  let summary = "an optimizer's rule becomes one function, which is called for each parameter";
  let description = [{
    Loops of the update that compute the same of other buffers are one rule: the first becomes a function of rows of any
    length, each an rt.invoke of it. The rule has the optimizer's name.
    ```mlir
    rt.fused ["batch"] = [64] (%d_w, %m, %w) numbers (%lr) -> ["store", "store"] (%m, %w) { … }
    rt.fused ["batch"] = [32] (%d_b, %n, %b) numbers (%lr) -> ["store", "store"] (%n, %b) { … }
    ```
    becomes
    ```mlir
    rt.function @sgd { ^bb0(%w: !rt.buffer<[n=?], f32>, %d_w: …, %m: …, %n: index, %lr: f64): … }
    rt.invoke @sgd(%w, %d_w, %m, %lr) count 64 writes [0, 2]
    rt.invoke @sgd(%b, %d_b, %n, %lr) count 32 writes [0, 2]
    ```
    Where the end of the state arena is offloaded (`rt.offloaded`), one loop is a rule, too, and an rt.invoke says which
    rows lie there, `{rt.offloaded_rows = array<i64: 2>}`: it runs on 16 MiB of these at a time. On a CPU whatever else
    touches such a buffer, as a norm of LAMB's or an exchange of averages, has it in memory whole; behind the last such
    operation of a step is `rt.let_go`; what a loop reads at its position is let go in its iterations, and
    `rt.will_need` ahead of them. No byte of a result depends on it.
    Runs after arenas are planned: whether two buffers share bytes is known then.
  }];
  let dependentDialects = ["::echelon::rt::RtDialect"];
}

def CutFunctions : EchelonPass<"rt-cut-functions"> {
  let summary = "every operation of a step is in a function of the program";
  let description = [{
    A run of operations of one phase is a function: forward, backward, update; `rt.function = "forward"` on each. What a
    run only starts belongs to it, whatever its phase. A loop with several phases inside stays in the step, around calls.
    An evaluation has evaluate_begin, evaluate_batch and evaluate_end.
    Runs before names and structs, which depend on what functions share.
  }];
  let dependentDialects = ["::echelon::rt::RtDialect"];
}

def NameSizes : EchelonPass<"rt-name-sizes"> {
  let summary = "sizes of axes get names: those of the axes";
  let description = [{
    The module's `rt.sizes` lists them: `{axis = "seq", name = "seq_tp", over = ["tp"], size = 32, whole = 64}` is the
    part of an axis of 64 that one rank of tp = 2 holds. Runs before members and values are named: a size is known
    everywhere.
  }];
  let dependentDialects = ["::echelon::rt::RtDialect"];
}

def BindBuffers : EchelonPass<"rt-bind-buffers"> {
  let summary = "buffers that outlive a function become members of the program's structs";
  let description = [{
    `rt.member = ["Params", "wq"]` on an rt.alloc says that a member holds its address: of Params, OptimizerState,
    State, Inputs, or of what one function leaves to another: Gradients, Activations, Sums. A part of a message that is
    a gradient is a member, too. A moment that has the layout of the parameters is a Params of its own:
    `["OptimizerState", "m.wq"]`. With `rt.stack = 4096` the places of a loop lie 4096 elements apart, and a view of
    one is that member at `rt.position`. `rt.variable` marks a number that needs no memory.
    Runs after functions are cut and sizes are named: a member has a name in its struct alone, which is no size's, since
    the lengths of a struct's stacks are products of sizes.
  }];
  let options = [Option<"hasVariables", "variables", "bool", "true",
                        "a single number may be a variable of the function; of a program for GPUs it is not">];
  let dependentDialects = ["::echelon::rt::RtDialect"];
}

def NameValues : EchelonPass<"rt-name-values"> {
  let summary = "buffers, numbers, positions and tickets get the names that the program prints";
  let description = [{
    `rt.name = "logits"` on what makes a value. A name is the user's where there is one, unique in each function that
    uses the value, and free again after the loop that it is in. A ticket that another function waits for is a member of
    Messages.
  }];
  let dependentDialects = ["::echelon::rt::RtDialect"];
}

def MakeLoops : EchelonPass<"rt-make-loops"> {
  let summary = "loop nests become the loops of a program for CPUs";
  let description = [{
    Each `rt.fused` keeps its body, which says what it computes, and gets the loops that do it:
    ```mlir
    rt.fused ["b", "h"] = [32, 128](%x, %w) -> ["store"](%y) { … } loops {
      rt.loop <b=32> {
      ^bb0(%b: index):
        rt.loop innermost <h=128> {
        ^bb0(%h: index):
          %0 = rt.load %x[%b, %h] by [128, 1]
          %1 = rt.load %w[%h] by [1]
          %2 = rt.compute "mul" %0, %1
          rt.store %2 to %y[%b, %h] by [128, 1]
        } {rt.name = "h"}
      } {rt.name = "b"}
    }
    ```
    What has an `rt.name` is a variable; other values are computed where they are used. Runs last: what the variables of a loop
    are called depends on what its buffers are called, and whether one is a variable itself.
  }];
  let dependentDialects = ["::echelon::rt::RtDialect"];
}

def MakeKernels : EchelonPass<"rt-make-kernels"> {
  let summary = "loop nests become kernels of a program for GPUs";
  let description = [{
    Each `rt.fused` keeps its body, which says what it computes, and gets the kernels that do it:
    ```mlir
    rt.fused ["b", "h"] = [32, 128](%x, %w) -> ["store"](%y) { … } loops {
      rt.kernel "y_kernel" [#rt.size<b=32>, #rt.size<h=128>] summed [false, false](%y, %x, %w) {
      ^bb0(%b: index, %h: index, %to: …, %from: …, %by: …):
        %0 = rt.load %from[%b, %h] by [128, 1]
        %1 = rt.load %by[%h] by [1]
        %2 = rt.compute "mul" %0, %1
        rt.store %2 to %to[%b, %h] by [128, 1]
      } {rt.name = ["b", "h", "y", "x", "w", "at", "row"]}
    }
    ```
    In place of rt-make-loops. What comes after the report of the gradients' norm is `guarded`. `rt.pack = 4` on a kernel:
    a thread has 4 elements, which move in 16 bytes. Rules of one name with the same numbers, and squares of one norm, are
    together in an rt.together: one launch.
  }];
  let dependentDialects = ["::echelon::rt::RtDialect"];
}

def ProveMessages : EchelonPass<"rt-prove-messages"> {
  let summary = "refuses a program whose ranks may wait for ever, or mistake one message for another";
  let description = [{
    ```mlir
    %t = rt.collective "all_reduce" %d_w, %d_w …  // started: it goes on in a stream of its mesh axes
    rt.fused … -> ["store"](%d_w) …               // refused: nothing orders the two
    rt.wait %t
    ```
    Runs the programs of all ranks abstractly, function by function, and refuses where two of them differ in what they
    say of one message, where one waits for what another does not come to, where a message is never waited for, and where
    what one reads or writes is touched before its rt.wait. Each buffer has to hold what was last written to it when it is
    read, so a wrong plan of memory is refused, too. Changes nothing; always on, and last, for every target.
  }];
  let dependentDialects = ["::echelon::rt::RtDialect"];
}

#endif
