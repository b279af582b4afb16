// The meaning of attention, its whole score matrix written out.
#pragma once
#include "test/interpret/Interpret.h"

namespace echelon::interpret {

std::vector<Array> computeAttention(ech::AttentionOp op, llvm::ArrayRef<Array> operands, Machine &machine);
std::vector<Array> computeAttention(ech::AttentionGradOp op, llvm::ArrayRef<Array> operands, Machine &machine);

} // namespace echelon::interpret
