// Programs for GPUs, in CUDA C++. The same text is read by nvcc, and by a host compiler against runtime/cuda/host.
#pragma once
#include "codegen/Target.h"

namespace echelon::codegen {

class Cuda : public Target {
public:
  void printIncludes(llvm::raw_ostream &os) const override;
  /// The numbers that change from step to step, then the kernels of all nests.
  void printKernels(mlir::ModuleOp module, const Text &text, llvm::raw_ostream &os) override;
  void kernel(mlir::Operation *op, Printer &printer) override;
  void nest(rt::FusedOp op, Printer &printer) override;
  /// A rule is a kernel.
  void rule(rt::FunctionOp, const Text &, llvm::raw_ostream &) override {}
  void invoke(rt::InvokeOp op, Printer &printer) override;
  void report(rt::ReportOp op, Printer &printer) override;
  /// NCCL's messages move by themselves.
  void progress(rt::ProgressOp, Printer &) override {}
  /// Its name on a tool's timeline.
  std::string opening(llvm::StringRef function) const override {
    return ("const gpu::Range range(\"" + function + "\");").str();
  }
  /// `in` says of an argument that a kernel reads it.
  llvm::StringRef variableOf(const Group &group) const override {
    return group.variable == "in" ? llvm::StringRef("inputs") : llvm::StringRef(group.variable);
  }
  bool hasDevice() const override { return true; }
  bool takesRate() const override { return false; }
  std::string entry(llvm::StringRef function, bool takesRate) const override;

  /// Whether the run provides a number anew for each step, so that the device reads it from memory.
  static bool isOfStep(mlir::Value number);
  /// Its name in `Numbers`.
  llvm::StringRef nameOf(rt::NumberOp number) const;

private:
  void findNumbers(mlir::ModuleOp module);
  void printNumbers(llvm::raw_ostream &os) const;

  struct Number {
    std::string text, name; // as the host computes it, in `Numbers`
  };
  llvm::SmallVector<Number> numbers;
};

} // namespace echelon::codegen
