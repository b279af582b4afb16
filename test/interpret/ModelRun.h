// A model from its text, elaborated in fp64, differentiated and run on drawn values.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "test/interpret/Interpret.h"

namespace echelon::interpret {

struct Model {
  std::string name, text; // the text, or where there is none examples/NAME.ech
  std::vector<std::pair<std::string, double>> arguments;
  std::vector<std::pair<std::string, int64_t>> sizes;
  bool parts = true; // whether micro batches are legal
};

/// One model at a time.
class ModelRun {
public:
  /// The module after the passes, on a batch of four in so many passes; values for all that it reads, the same ones
  /// for variables and inputs declared alike. A test failure where the text is wrong.
  void prepare(Model model, int64_t passes);
  Results run(llvm::StringRef step);

  mlir::OwningOpRef<mlir::ModuleOp> &ops() { return module; }
  Machine machine;

private:
  void fill();

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// The largest difference of two arrays' elements, whatever the order of their axes.
double farthest(const Array &a, const Array &b);
/// The element of the largest size.
double largest(const Array &a);

} // namespace echelon::interpret
