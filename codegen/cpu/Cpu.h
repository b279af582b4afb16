// Programs for CPUs.
#pragma once
#include "codegen/Target.h"

namespace echelon::codegen {

class Cpu : public Target {
public:
  void printIncludes(llvm::raw_ostream &os) const override;
  void kernel(mlir::Operation *op, Printer &printer) override;
  void nest(rt::FusedOp op, Printer &printer) override;
  void rule(rt::FunctionOp rule, const Text &text, llvm::raw_ostream &os) override;
  void invoke(rt::InvokeOp op, Printer &printer) override;
  void report(rt::ReportOp op, Printer &printer) override;
  void progress(rt::ProgressOp op, Printer &printer) override;
};

} // namespace echelon::codegen
