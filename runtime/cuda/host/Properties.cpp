// What the emulated devices are, which one a thread uses, and what CUDA says of errors.
#include "runtime/cuda/host/Streams.h"

#include <cstdio>
#include <cstring>

namespace echelon::cuda::host {
namespace {

constexpr int kDevices = 8;
constexpr int kMultiprocessors = 132;
constexpr int kSharedPerBlock = 48 << 10, kSharedOnRequest = 227 << 10, kSharedReserved = 1 << 10;
constexpr int kRegisters = 64 << 10;
constexpr int kL2 = 50 << 20;

thread_local cudaError_t lastError = cudaSuccess;

struct Text {
  cudaError_t error;
  const char *name, *text;
};
/// The errors that the emulation returns, in the words of CUDA's library.
constexpr Text kTexts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
};
const Text *textOf(cudaError_t error) {
  for (const Text &text : kTexts)
    if (text.error == error)
      return &text;
  return nullptr;
}

bool isDevice(int device) { return device >= 0 && device < kDevices; }

/// The attributes that the emulation knows; -1: others.
int attribute(cudaDeviceAttr attribute) {
  switch (attribute) {
  case cudaDevAttrComputeCapabilityMajor:
    return 9;
  case cudaDevAttrComputeCapabilityMinor:
    return 0;
  case cudaDevAttrMultiProcessorCount:
    return kMultiprocessors;
  case cudaDevAttrWarpSize:
    return 32;
  case cudaDevAttrMaxThreadsPerBlock:
    return 1024;
  case cudaDevAttrMaxThreadsPerMultiProcessor:
    return 2048;
  case cudaDevAttrMaxSharedMemoryPerBlock:
    return kSharedPerBlock;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    return kSharedOnRequest;
  case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
    return kSharedOnRequest + kSharedReserved;
  case cudaDevAttrReservedSharedMemoryPerBlock:
    return kSharedReserved;
  case cudaDevAttrMaxRegistersPerBlock:
  case cudaDevAttrMaxRegistersPerMultiprocessor:
    return kRegisters;
  case cudaDevAttrL2CacheSize:
    return kL2;
  default:
    return -1;
  }
}

} // namespace

cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess)
    lastError = error;
  return error;
}

} // namespace echelon::cuda::host

using namespace echelon::cuda::host;

extern "C" {

//===-- devices --------------------------------------------------------------------------------------------------===//

cudaError_t cudaGetDeviceCount(int *count) {
  *count = kDevices;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (!isDevice(device))
    return noted(cudaErrorInvalidDevice);
  currentDevice() = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
  *device = currentDevice();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *to, int device) {
  if (!isDevice(device))
    return noted(cudaErrorInvalidDevice);
  cudaDeviceProp all{};
  std::strcpy(all.name, "emulated");
  all.major = 9;
  all.multiProcessorCount = kMultiprocessors;
  all.totalGlobalMem = size_t(80) << 30;
  all.warpSize = 32;
  all.maxThreadsPerBlock = 1024;
  all.maxThreadsPerMultiProcessor = 2048;
  all.maxThreadsDim[0] = all.maxThreadsDim[1] = 1024;
  all.maxThreadsDim[2] = 64;
  all.maxGridSize[0] = 0x7fffffff;
  all.maxGridSize[1] = all.maxGridSize[2] = 0xffff;
  all.sharedMemPerBlock = kSharedPerBlock;
  all.sharedMemPerBlockOptin = kSharedOnRequest;
  all.sharedMemPerMultiprocessor = kSharedOnRequest + kSharedReserved;
  all.reservedSharedMemPerBlock = kSharedReserved;
  all.regsPerBlock = all.regsPerMultiprocessor = kRegisters;
  all.l2CacheSize = kL2;
  all.concurrentKernels = all.unifiedAddressing = 1;
  *to = all;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr which, int device) {
  if (!isDevice(device))
    return noted(cudaErrorInvalidDevice);
  const int found = attribute(which);
  if (found < 0)
    return noted(cudaErrorNotSupported);
  *value = found;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device) {
  if (!isDevice(device) || !text || length < 13)
    return noted(cudaErrorInvalidValue);
  std::snprintf(text, static_cast<size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(device + 1));
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute which, int value) {
  if (which == cudaFuncAttributeMaxDynamicSharedMemorySize && (value < 0 || value > kSharedOnRequest))
    return noted(cudaErrorInvalidValue);
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) { return cudaRuntimeGetVersion(version); }

//===-- errors ---------------------------------------------------------------------------------------------------===//

cudaError_t cudaPeekAtLastError() { return lastError; }
cudaError_t cudaGetLastError() {
  const cudaError_t error = lastError;
  lastError = cudaSuccess;
  return error;
}

const char *cudaGetErrorString(cudaError_t error) {
  const Text *found = textOf(error);
  return found ? found->text : "unrecognized error code";
}
const char *cudaGetErrorName(cudaError_t error) {
  const Text *found = textOf(error);
  return found ? found->name : "unrecognized error code";
}

} // extern "C"
