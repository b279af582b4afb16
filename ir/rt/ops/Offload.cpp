#include "ir/rt/Offload.h"

#define GET_OP_CLASSES
#include "ir/rt/RtOffload.cpp.inc"
