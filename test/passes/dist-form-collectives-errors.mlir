// RUN: echelon-opt %s --dist-form-collectives --verify-diagnostics

// Without a mesh nothing has been laid out.
// expected-error @+1 {{has no dist.mesh: dist-assign-layout comes first}}
module {
}
