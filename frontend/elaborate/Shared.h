// What the two readings of a model, for training and for evaluation, share.
#pragma once
#include "frontend/elaborate/Elaborate.h"
#include "frontend/elaborate/KeptNames.h"
#include "ir/ech/Ech.h"
#include "llvm/ADT/SetVector.h"
#include <set>

namespace echelon::frontend {

struct Shared {
  mlir::MLIRContext &context;
  const SourceManager &sources;
  const Program &program;
  const ElaborateOptions &options;
  Diagnostics &diagnostics;
  ModelFacts &facts;
  mlir::ModuleOp module;
  std::map<std::string, ech::VariableOp> variables;  // by path
  std::vector<std::string> wrongInputs;              // with an error in their declarations
  llvm::SetVector<mlir::Attribute> partialFunctions; // functions and where they stand, as in kPartialFunctions
  std::map<std::string, bool> likeBatch;             // names of axes: whether they count samples once more
  std::map<std::string, const Ident *> axisOwners;   // by name in types: the declaration in a block; null: the model's
  std::set<std::pair<const NextStatement *, std::string>> nextInTraining; // met by the training step, and the state
  KeptNames kept;
  bool isTrainingWhole = false; // read without an error, and without one of the parser
};

} // namespace echelon::frontend
