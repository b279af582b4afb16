// What the optimizer keeps of each parameter.
#pragma once
#include "ir/ech/Ech.h"
#include "llvm/ADT/MapVector.h"

namespace echelon {

/// "m" and "layer.wq" of a variable optimizer.m.layer.wq; of an average "average" and its parameter; empty of
/// all others.
std::pair<llvm::StringRef, llvm::StringRef> momentOf(ech::VariableOp variable);

/// What an optimizer keeps of a parameter, or an average of it: what `offload optimizer` moves.
inline bool isMoment(ech::VariableOp variable) {
  return variable.getKind() == ech::VariableKind::Optimizer || variable.getKind() == ech::VariableKind::Average;
}

/// Whether workers that train by themselves share a variable, and do not have one each.
bool isSharedByWorkers(ech::VariableOp variable);

/// Once arenas are planned: the moments that lie in the state arena as the parameters do, each with the bytes from a
/// parameter to its moment. All parameters have one, of their type and zero at first, and no size has its name.
/// In order of these bytes.
llvm::MapVector<llvm::StringRef, int64_t> momentsLikeParams(mlir::ModuleOp module);

} // namespace echelon
