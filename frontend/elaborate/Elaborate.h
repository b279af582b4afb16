// From the syntax tree of a model to the ech dialect: names resolved, blocks inlined, axes sized, types checked.
#pragma once
#include "frontend/Diagnostics.h"
#include "frontend/ast/Ast.h"
#include "frontend/elaborate/Number.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>

namespace echelon::frontend {

/// Which model, with what it is called with and what the train block says about its size and numbers.
struct ElaborateOptions {
  const Model *model = nullptr;
  const File *file = nullptr;                         // that declares the model
  const File *caller = nullptr;                       // that holds the arguments; may be `file`
  const std::vector<Argument> *arguments = nullptr;   // `model GPT(layers = 4)`; null: all defaults
  std::vector<std::pair<std::string, Number>> set;    // override arguments: `--set model.width=64`, reduced shapes
  std::vector<std::pair<std::string, int64_t>> sizes; // override sizes of axes that the model declares
  const std::vector<Path> *inputs = nullptr;          // of the `data` clause, in order; null: declared order
  SourceRange modelRange;                             // of the `model` clause, where there is one
  SourceRange dataRange;                              // of the `data` clause
  int64_t batch = 1;                                  // samples a step
  bool f64 = false;                                   // real numbers are f64, else f32
  const std::vector<Path> *kept = nullptr;            // of `recompute keep`; null: there is none
};

/// One axis name of the elaborated model: those it declares, of its repeats, and private ones of blocks.
struct AxisFacts {
  std::string name;
  int64_t size = 0; // as declared
  bool isBatch = false, isRepeat = false, isPrivate = false;
  bool isWalked = false; // by a `repeat along`: no layout may split it
  SourceRange range;     // where it is declared
};

/// One input as the data source must fill it.
struct InputFacts {
  std::string name;
  std::vector<std::pair<std::string, int64_t>> axes; // as declared, the batch axis among them
  InputStatement::Element element = InputStatement::Float;
  int64_t below = 0; // for Int
  SourceRange range;
  std::string belowAxis; // for Int
};

/// What other checks ask about the model, without reading the IR.
struct ModelFacts {
  std::vector<AxisFacts> axes;
  std::string batchAxis;
  std::vector<InputFacts> inputs; // in the order of the data source's outputs
  struct Metric {
    Ident name;
    bool inEvaluation = false; // false: it is where `training` is true alone
  };
  std::vector<Metric> metrics; // of the model and its blocks, but for the library's
  const AxisFacts *axis(const std::string &name) const {
    for (const AxisFacts &a : axes)
      if (a.name == name)
        return &a;
    return nullptr;
  }
};

/// The functions that are built in, each with the names of its arguments in their order.
std::map<std::string, std::vector<std::string>> builtInFunctions();

/// The module: `ech.variable`s, `ech.input`s, `ech.step @train` and `ech.step @evaluate`, module attributes `ech.batch`
/// and `ech.batch_axis`. Every mistake in the model is reported in this one call; null when there was an error. `facts`
/// is filled as far as the model's own declarations could be read.
mlir::OwningOpRef<mlir::ModuleOp> elaborate(mlir::MLIRContext &context, const SourceManager &sources,
                                            const Program &program, const ElaborateOptions &options,
                                            Diagnostics &diagnostics, ModelFacts &facts);

} // namespace echelon::frontend
