// How an operation reads as C++, on any target: rules, collectives, reports, waits, loops. What is a kernel is the
// target's.
#pragma once
#include "codegen/Writer.h"
#include "ir/rt/Rt.h"

namespace echelon::codegen {

/// Writes one operation of a program.
void spell(mlir::Operation *op, Writer &writer);
void spell(rt::ForOp loop, Writer &writer);
void spell(rt::OffsetOp offset, Writer &writer);

} // namespace echelon::codegen
