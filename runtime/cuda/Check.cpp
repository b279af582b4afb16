#include "runtime/cuda/Check.h"
#include "runtime/launch/Fail.h"

#include <string>

namespace echelon::cuda {

void check(cudaError_t error, const char *what) {
  if (error != cudaSuccess)
    runtime::fail(std::string(what) + " on the GPU: " + cudaGetErrorString(error));
}

void check(cublasStatus_t status, const char *what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    runtime::fail(std::string(what) + " by cuBLASLt: status " + std::to_string(static_cast<int>(status)));
}

} // namespace echelon::cuda
