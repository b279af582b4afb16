// Loop nests as C++ for CPUs.
#pragma once
#include "codegen/Printer.h"
#include "ir/rt/Rt.h"

namespace echelon::codegen::cpu {

/// Writes what rt-make-loops made of a nest.
void spellLoops(rt::FusedOp nest, Printer &printer);

} // namespace echelon::codegen::cpu
