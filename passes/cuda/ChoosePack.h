// How many neighbouring elements a thread of an element-wise kernel has, so that it moves 16 bytes at once.
#pragma once
#include "ir/rt/Rt.h"

namespace echelon {

/// The pack of a kernel that sums over nothing; 1: a thread has one element.
int64_t choosePack(rt::KernelOp kernel);

} // namespace echelon
