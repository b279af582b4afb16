// Prints the program of a module in text form, as tests do: echelon-opt --to-rt MODULE | echelon-translate --rt-to-cpp.
#include "codegen/Emit.h"
#include "ir/dist/Dist.h"
#include "ir/rt/Rt.h"
#include "ir/run/Run.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/CommandLine.h"

using namespace echelon;

static llvm::cl::opt<bool> profile("profile", llvm::cl::desc("with probes, which measure each operation"));

static void registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<ech::EchDialect, dist::DistDialect, run::RunDialect, rt::RtDialect>();
}

template <Target target> static mlir::LogicalResult print(mlir::Operation *op, llvm::raw_ostream &os) {
  auto module = mlir::dyn_cast<mlir::ModuleOp>(op);
  if (!module)
    return op->emitError() << "is no module";
  module.getContext()->loadDialect<rt::RtDialect>(); // which parsing a module without rt operations does not
  const frontend::SourceManager none;                // comments name lines, and show no text
  return emitProgram(module, target, none, os, profile);
}

int main(int argc, char **argv) {
  mlir::TranslateFromMLIRRegistration toCpp("rt-to-cpp", "the C++ program of a module that all passes have been over",
                                            print<Target::Cpu>, registerDialects);
  mlir::TranslateFromMLIRRegistration toCuda("rt-to-cuda", "the same as CUDA C++", print<Target::Gpu>,
                                             registerDialects);
  return mlir::failed(mlir::mlirTranslateMain(argc, argv, "Prints Echelon's programs from IR\n"));
}
