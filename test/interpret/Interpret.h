// Runs steps of ech operations by plain loops over doubles, one operation after the other: the meaning that
// derivatives, passes and layouts are tested against. Nothing here is fast.
#pragma once
#include "ir/ech/Build.h"
#include <map>
#include <string>
#include <vector>

namespace echelon::interpret {

/// Values at named positions, the last axis fastest. Integers and truth values are doubles, too.
struct Array {
  std::vector<std::string> axes;
  std::vector<int64_t> sizes;
  std::vector<double> values;

  Array() = default;
  /// Zeros of the type's axes.
  explicit Array(ech::Tensor type);
  int64_t sizeOf(llvm::StringRef axis) const;
  /// The same values with the axes in another order.
  Array inOrder(llvm::ArrayRef<std::string> order) const;
};
using Arrays = std::map<std::string, Array>; // by path, without the @

struct Loop {
  std::string axis;
  int64_t position, count;
  bool time;
};

/// What a run provides, and what a simulated rank changes about it.
struct Machine {
  virtual ~Machine() = default;
  /// The axes and sizes of a value here: those of its type, or a rank's part of it.
  virtual ech::Tensor shape(mlir::Value value) { return ech::tensor(value); }
  /// The logical coordinate of the first element along an axis of a value.
  virtual int64_t origin(mlir::Value, llvm::StringRef) { return 0; }
  /// What an operation has made, before anyone reads it: values of two bytes and of tf32 are rounded.
  virtual void keep(mlir::Operation *op, std::vector<Array> &results);
  /// Operations of other dialects.
  virtual std::vector<Array> other(mlir::Operation *op, llvm::ArrayRef<Array> operands);
  /// Variables and inputs, in any order of their axes. In evaluation inputs may be longer along the batch axis than
  /// their type: they come batch by batch.
  Arrays values;
  double learningRate = 0.1;
  int64_t step = 0;    // -1 in evaluation
  int64_t skipped = 0; // of the steps before
  double lossScale = 1;
  uint64_t seed = 1;
  std::string batchAxis = "batch";
  std::vector<Loop> loops; // those being run, outermost first
};

struct Results {
  std::map<std::string, double> reports;
  Arrays gradients, writes;
};

/// The value that a random operation has at a place, whose logical coordinates `coordinate` says.
double randomAt(ech::RandomOp op, llvm::ArrayRef<Loop> loops, llvm::StringRef batchAxis, uint64_t seed, int64_t step,
                llvm::function_ref<int64_t(llvm::StringRef)> coordinate);
/// A number that the run provides; steps that were skipped made no update.
double scalarOf(ech::ScalarOp op, double learningRate, int64_t step, int64_t skipped = 0, double lossScale = 1);
/// What an operation rounds its result to: bf16, f16 or tf32; null where it does not.
mlir::Type roundsTo(mlir::Operation *op);
/// To the nearest of a type, ties to even; infinite beyond what fp16 has.
double rounded(double x, mlir::Type type);

/// Runs a step.
Results run(ech::StepOp step, Machine &machine);
/// Computes the results of one operation without regions.
std::vector<Array> compute(mlir::Operation *op, llvm::ArrayRef<Array> operands, Machine &machine);

} // namespace echelon::interpret
