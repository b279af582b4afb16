// RUN: echelon-opt --ech-choose-types --verify-diagnostics %s

// What a module computes in is a type that values are rounded to.
// expected-error @+1 {{ech.compute is bf16, f16 or tf32, not 'i32'}}
module attributes {ech.compute = i32} {
}
