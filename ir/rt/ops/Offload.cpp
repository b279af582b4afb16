#include "ir/rt/Offload.h"
#include "ir/dist/Offload.h"

using namespace mlir;
using namespace echelon::rt;

#define GET_OP_CLASSES
#include "ir/rt/RtOffload.cpp.inc"

StringRef echelon::rt::offloadDirectory(ModuleOp module) {
  auto directory = module->getAttrOfType<StringAttr>(dist::kOffload);
  return directory ? directory.getValue() : "";
}
