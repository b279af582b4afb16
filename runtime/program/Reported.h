// What a step or an evaluation has reported, by the names that logs and messages use.
#pragma once

#include "runtime/program/Log.h"
#include "runtime/program/Rank.h"

namespace echelon::runtime {

/// loss, eval_loss, grad_norm, or the name that the spec gives.
std::string reportedName(const Rank &rank, const Scalar &scalar);

/// The values of the step or evaluation that `rank` is in; an evaluation has no norm.
NamedValues reported(const Rank &rank);

} // namespace echelon::runtime
