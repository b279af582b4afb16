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
