// What becomes of errors of CUDA's libraries: they end the rank. Of CUDA itself: `check` of Device.h.
#pragma once
#include "runtime/cuda/Device.h" // before headers of CUDA

#include <cublasLt.h>

namespace echelon::cuda {

void check(cublasStatus_t status, const char *what);

} // namespace echelon::cuda
