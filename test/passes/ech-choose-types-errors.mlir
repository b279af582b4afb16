// RUN: echelon-opt --split-input-file --verify-diagnostics %s

// What products take is a type that values are rounded to.
module {
// expected-error @+1 {{computes in f32, tf32, bf16, f16 or f8E4M3FN, not 'i32'}}
run.precision i32
}

// -----

module {
// expected-error @+1 {{has parameters of bf16 or f16, not 'f64'}}
run.precision f32 params f64
}
