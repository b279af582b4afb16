// Small models, built as the front end would, in double precision.
#pragma once
#include "ir/ech/Build.h"
#include "mlir/IR/OwningOpRef.h"
#include "test/passes/layout/Ranks.h"

namespace echelon::test {

struct Model {
  std::string declarations; ///< text of ech.input and ech.variable
  std::function<void(ech::Build &, std::function<mlir::Value(llvm::StringRef)> read)> body;
};

/// Two linear layers with relu and biases, squared error.
Model mlp();
/// whole.py's model as a loop over layers: embedding, causal attention, gelu, tied logits, cross-entropy, accuracy.
Model gpt(int64_t layers);
/// Convolutions, batch norm, pooling, a running mean as state.
Model convolutional();
/// An encoder whose result each layer of a decoder reads, both loops; dropout.
Model encoderDecoder();
/// A recurrence along seq with shared parameters, its states stacked.
Model recurrent();
/// Merges and splits of axes, picks, slices, cumsum, max, softmax from primitives.
Model places();

/// The module with its step @train, differentiated, in `micro` micro batches, with an AdamW update, its gradients kept.
mlir::OwningOpRef<mlir::ModuleOp> build(mlir::MLIRContext &context, const Model &model, int micro = 1);
/// Start values of inputs and variables (optimizer's included).
Feed startValues(mlir::ModuleOp module);

} // namespace echelon::test
