// RUN: echelon-opt %s --dist-group-messages=bucket-mb=0 --verify-diagnostics

// expected-error @+1 {{bucket-mb is at least 1}}
module {
}
