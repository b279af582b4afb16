// How many threads the kernels of one rank use. A rank works alone on its core by default; `--threads N` raises it.
#pragma once

namespace echelon::runtime {

/// Sets the number of threads that matrix products and convolutions of every rank in this process may use (n >= 1).
/// Element-wise loops, reductions and the other kernels always run on the calling thread, so their sums do not change.
void set_threads(int n);

/// What `set_threads` was last given; 1 at the start.
int threads();

} // namespace echelon::runtime
