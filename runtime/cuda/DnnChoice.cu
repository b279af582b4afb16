#include "runtime/cuda/DnnCheck.h"
#include "runtime/cuda/DnnChoice.h"

#include <cstdlib>
#include <string_view>

namespace echelon::cuda {

bool DnnChoice::isOpenFor(Stream stream) {
  cudaStreamCaptureStatus status;
  check(cudaStreamIsCapturing(stream, &status), "cuDNN");
  if (status != cudaStreamCaptureStatusNone)
    return false;
  if (!isOpen) {
    isOpen = true;
    std::string why;
    library = open(why);
    if (!library && !why.empty())
      say("cuDNN cannot be opened, our own kernels compute what it would: " + why);
  }
  return library != nullptr;
}

void DnnChoice::tell(const std::string &what, bool isTaken, const std::string &why, double difference,
                     const std::string &more) {
  if (!isTaken)
    say(library->name() + " does not compute the " + what + ", our own kernels do: " + why);
  else if (tellsAll)
    say(what + ": by " + library->name() + ", within " + figure(difference) + " of our own kernels" + more);
}

void DnnChoice::tellFailure(const std::string &what, const std::string &why) {
  say(library->name() + " has failed in the " + what + ", our own kernels compute it from now on: " + why);
}

std::unique_ptr<DnnLibrary> openDnnForDevice(std::string &why) {
  if constexpr (!kIsEmulated) {
    const char *asked = std::getenv("ECHELON_CUDNN");
    int device = 0, capability = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
    if (capability >= 9 && (!asked || std::string_view(asked) != "0"))
      return openDnn(why);
  }
  return nullptr;
}

} // namespace echelon::cuda
