// What a repeat over stages carries outside of a pass, all ranks compute for themselves.
#pragma once
#include "ir/ech/Ech.h"

namespace echelon::pipeline {

/// Of a repeat in a step: what follows from what it carries moves into a loop behind it, over an axis of its own that
/// nothing divides; of the rest each stage has its iterations.
void carryOnAll(ech::RepeatOp loop);

} // namespace echelon::pipeline
