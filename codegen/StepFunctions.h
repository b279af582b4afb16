// Steps that the runtime calls as one function each, beside those of training and of an evaluation.
#pragma once
#include "llvm/ADT/StringRef.h"

namespace echelon::codegen {

struct StepFunction {
  llvm::StringLiteral step, function, member; ///< in the IR, in the program, of the runtime's Program
  llvm::StringLiteral what;                   ///< the comment above the function
  bool takesRate = false;                     ///< the learning rate is an argument, used or not
};

constexpr StepFunction kStepFunctions[] = {
    {"train.start", "start", "start", "What starts from parameters, once they have their start values."},
    {"hand_in", "hand_in", "handIn", "What the worker has made joins what is handed in for the next update."},
    {"update", "update", "update", "The update, of what all workers have handed in.", /*takesRate=*/true},
    {"read", "read_newest", "readNewest", "Copies become the newest parameters."},
    {"meet", "meet", "meet", "What all workers go on with, of what each has."},
    {"take", "take_met", "takeMet", "The worker goes on with what the meeting has made."},
    {"exchange", "exchange", "exchange", "Averages take the places of parameters, for an evaluation."},
    {"restore", "restore", "restore", "Parameters are what they were before the evaluation of averages."},
};

} // namespace echelon::codegen
