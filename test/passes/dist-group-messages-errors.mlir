// RUN: echelon-opt %s --dist-group-messages=bucket-mb=0 --verify-diagnostics
// RUN: echelon-opt %s --dist-group-messages=alone-kb=0 --verify-diagnostics

// expected-error @+1 {{bucket-mb and alone-kb are at least 1}}
module {
}
