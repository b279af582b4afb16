// How many threads the kernels of one rank use. A rank works alone on its core by default; `--threads N` raises it.
#pragma once

namespace echelon::runtime {

/// Sets the number of threads that matrix products and convolutions of every rank in this process may use (n >= 1).
/// Element-wise loops, reductions and the other kernels always run on the calling thread, so their sums do not change.
void set_threads(int n);

/// What `set_threads` was last given; 1 at the start.
int threads();

/// Tells OpenBLAS and OpenMP of the number, where the calling thread has not done so yet. Kernels call it before they
/// enter a library: OpenMP keeps the number per thread, and ranks may be threads.
void apply_threads();

} // namespace echelon::runtime
