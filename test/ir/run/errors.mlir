// RUN: echelon-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{a schedule steps_at has drops}}
run.optimize "sgd" all on ["*"] with {} rate <kind = steps_at, peak = 0.1>

// -----

// expected-error @+1 {{a schedule constant takes no floor}}
run.optimize "sgd" all on ["*"] with {} rate <kind = constant, peak = 0.1, floor = 0.0>

// -----

// expected-error @+1 {{a schedule cosine has floor}}
run.optimize "sgd" all on ["*"] with {} rate <kind = cosine, peak = 0.1>

// -----

// expected-error @+1 {{steps of a schedule are not negative, as -3 is}}
run.optimize "sgd" all on ["*"] with {} rate <kind = constant, peak = 0.1, warmup = -3>

// -----

// expected-error @+1 {{packs with fp16, int8, onebit, topk, randomk or powersgd, not zip}}
run.compress "zip" over ["dp"] amount 0.0

// -----

// expected-error @+1 {{knows no policy often}}
run.sync "often" k 1 of 4 over ["dp"]

// -----

// expected-error @+1 {{takes 5 gradients an update of 4 workers}}
run.sync "k_async" k 5 of 4 over ["dp"]

// -----

// expected-error @+1 {{meets every 0 steps}}
run.sync "local" k 4 of 4 over ["dp"]

// -----

// expected-error @+1 {{draws no delay "each" of 2 numbers}}
run.sync "k_async" k 1 of 4 over ["dp"] delay "each" [1.0, 2.0]
