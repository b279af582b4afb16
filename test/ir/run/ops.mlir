// RUN: echelon-opt %s | echelon-opt | FileCheck %s

// Every operation and attribute reads back as it was written; what is 0 or empty is left out.
// CHECK: run.train "sayings" of "GPT" in "examples/gpt.ech" folder "examples" batch 32 steps 300 seed 1337
run.train "sayings" of "GPT" in "examples/gpt.ech" folder "examples" batch 32 steps 300 seed 1337 restarts 0
// CHECK: run.data <kind = "next_token", args = [1.000000e-01], of = [#run.source<kind = "text", paths = ["a.txt"]>]> to ["tokens", "labels"]
run.data <kind = "next_token", args = [0.1], of = [#run.source<kind = "text", paths = ["a.txt"]>]> to ["tokens", "labels"]
// CHECK: run.optimize "adamw" on ["*.b", "head.*"] with {beta1 = 9.000000e-01 : f64} rate <kind = cosine, peak = 1.000000e-03 : f64, floor = 0.000000e+00 : f64, warmup = 30>
run.optimize "adamw" on ["*.b", "head.*"] with {beta1 = 0.9} rate <kind = cosine, peak = 1.0e-3, floor = 0.0, warmup = 30>
// CHECK: run.optimize "sgd" all on ["*"] with {} rate <kind = steps_at, peak = 1.000000e-01 : f64, drops = [30, 60], by = 5.000000e-01 : f64>
run.optimize "sgd" all on ["*"] with {} rate <kind = steps_at, peak = 0.1, drops = [30, 60], by = 0.5>
// CHECK: run.evaluate "shift" every 100 batches 10 on <kind = "csv", paths = ["a.csv"], columns = ["u", "v"]>
run.evaluate "shift" every 100 batches 10 on <kind = "csv", paths = ["a.csv"], columns = ["u", "v"]>
// CHECK: run.average ema 7.500000e-01
run.average ema 0.75
// CHECK: run.until "accuracy" at_least 9.300000e-01 in "" price 3.200000e+01
run.until "accuracy" at_least 0.93 in "" price 32.0
// CHECK: run.until "eval_loss" below 3.000000e-01 in "shift"{{$}}
run.until "eval_loss" below 0.3 in "shift" price 0.0
// CHECK: run.on_nan skip 10
run.on_nan skip 10
// CHECK: run.on_nan roll_back 3
run.on_nan roll_back 3
// CHECK: run.loss_scale 65536 dynamic
run.loss_scale 65536 dynamic
// CHECK: run.loss_scale 1024{{$}}
run.loss_scale 1024
// CHECK: run.sync "k_async" k 2 of 4 over ["dp"] staleness 3 damp delay "shifted" [5.000000e-01, 1.000000e+00]
run.sync "k_async" k 2 of 4 over ["dp"] staleness 3 damp delay "shifted" [0.5, 1.0]
// CHECK: run.sync "k_sync" k 1 of 2 over []{{$}}
run.sync "k_sync" k 1 of 2 over [] staleness -1
// CHECK: run.checkpoint "snapshots" steps 100 seconds 0.000000e+00 keep 3
run.checkpoint "snapshots" steps 100 seconds 0.0 keep 3
// CHECK: run.mathematics "x = read w\0Aloss x"
run.mathematics "x = read w\0Aloss x"
