#include "runtime/cuda/Dnn.h"

namespace echelon::cuda {

std::unique_ptr<DnnLibrary> openDnn(std::string &why) {
  why = "its frontend was not there when Echelon was built; run setup.sh --cuda";
  return nullptr;
}

} // namespace echelon::cuda
