// What a program says otherwise for each target: codegen/cpu, codegen/cuda.
#pragma once
#include "codegen/Printer.h"
#include "ir/rt/Rt.h"

namespace echelon::codegen {

struct Text;

class Target {
public:
  virtual ~Target() = default;

  /// What the program includes, and whose names it uses.
  virtual void printIncludes(llvm::raw_ostream &os) const = 0;
  /// What functions of a program call: printed before them.
  virtual void printKernels(mlir::ModuleOp /*module*/, const Text & /*text*/, llvm::raw_ostream & /*os*/) {}

  /// Writes the call of one of the runtime's kernels.
  virtual void kernel(mlir::Operation *op, Printer &printer) = 0;
  /// Writes what a nest is.
  virtual void nest(rt::FusedOp op, Printer &printer) = 0;
  /// Writes a rule of the update as a function.
  virtual void rule(rt::FunctionOp rule, const Text &text, llvm::raw_ostream &os) = 0;
  virtual void invoke(rt::InvokeOp op, Printer &printer) = 0;
  virtual void report(rt::ReportOp op, Printer &printer) = 0;
  /// Moves messages on, where they do not move by themselves.
  virtual void progress(rt::ProgressOp op, Printer &printer) = 0;

  /// What a function of the program begins with, which is called for its own sake; empty: nothing.
  virtual std::string opening(llvm::StringRef /*function*/) const { return ""; }
  /// What functions call the struct of a group.
  virtual llvm::StringRef variableOf(const Group &group) const { return group.variable; }
  /// Whether a program computes on a device beside the host's memory.
  virtual bool hasDevice() const { return false; }
  /// Whether a function is given the learning rate.
  virtual bool takesRate() const { return true; }
  /// How the description names a function of the program that the runtime calls.
  virtual std::string entry(llvm::StringRef function, bool /*takesRate*/) const { return function.str(); }
};

} // namespace echelon::codegen
