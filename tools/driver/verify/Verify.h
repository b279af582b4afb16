// The program under several layouts against the one of one rank: loss, every gradient, every updated tensor after three
// steps. In fp64 to 1e-10; or in the spec's precision, each as near to fp64 as one rank is.
#pragma once
#include "tools/driver/compile/Compilation.h"

namespace echelon {

struct VerifyOptions : CompileOptions {
  int randomLayouts = 0;
  uint64_t seed = 0;                 // of the first random layout
  std::vector<std::string> layouts;  // beside the spec's own, in the language; " in 2 micro batches" may follow
  bool isInPrecision = false;        // the spec's, and not fp64
  std::string transport = "threads"; // or shm, mpi, tcp, or each: the first three in turn
};

/// What was found.
struct Verified {
  int passed = 0, failed = 0; ///< layouts
  int64_t batch = 0;
  size_t steps = 0;
  double worst = 0;    ///< relative error, in fp64
  std::string worstIn; ///< the tensor; empty: there is no difference
};

/// Prints a line a layout on standard output, and a last one that counts them. The exit code.
int verify(const VerifyOptions &options, Verified *found = nullptr);

} // namespace echelon
