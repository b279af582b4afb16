// Loop nests as C++ for CPUs.
#pragma once
#include "codegen/Writer.h"
#include "ir/rt/Rt.h"

namespace echelon::codegen::cpu {

/// Writes what rt-make-loops made of a nest.
void spellLoops(rt::FusedOp nest, Writer &writer);

} // namespace echelon::codegen::cpu
