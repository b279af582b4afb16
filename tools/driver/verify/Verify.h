// The program under several layouts against the one of one rank, in fp64: loss, every gradient, every updated tensor
// after three steps.
#pragma once
#include "tools/driver/compile/Compilation.h"

namespace echelon {

struct VerifyOptions : CompileOptions {
  int randomLayouts = 0;
  uint64_t seed = 0;                 // of the first random layout
  std::vector<std::string> layouts;  // beside the spec's own, in the language; " in 2 micro batches" may follow
  std::string transport = "threads"; // or shm, mpi, or each: the three in turn
};

/// Prints a line a layout on standard output, and a last one that counts them. The exit code.
int verify(const VerifyOptions &options);

} // namespace echelon
