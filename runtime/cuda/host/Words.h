// The words that CUDA adds to C++, for a host compiler. CUDA's headers keep those that are defined before them.
#pragma once

/// Internal linkage keeps kernels of the same name in two files apart.
#define __global__ static __attribute__((noinline, unused))
#define __device__
#define __launch_bounds__(...)

/// One copy serves all blocks, which run one after the other. It lies in thread-local storage, because the program can
/// find that and fill it before each block (Block.cpp). A section of its own would do as well, but g++ 12 forgets a
/// variable's section in templates.
#define __shared__ static thread_local __attribute__((aligned(16)))
