// RUN: echelon-translate %s --rt-to-cpp --verify-diagnostics

// expected-error @+1 {{has no run.train, which a program is printed for}}
module {
}
