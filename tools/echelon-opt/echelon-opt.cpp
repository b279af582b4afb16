// Runs any pass over IR in text form, as tests do and as whoever looks into a compilation may.
#include "ir/dist/Dist.h"
#include "ir/rt/Rt.h"
#include "ir/run/Run.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry
      .insert<echelon::ech::EchDialect, echelon::dist::DistDialect, echelon::run::RunDialect, echelon::rt::RtDialect>();
  echelon::registerEchelonPasses();
  mlir::registerCSEPass();
  mlir::registerCanonicalizerPass();
  for (auto [flag, stage] : {std::pair("to-ech", echelon::Stage::Ech), std::pair("to-dist", echelon::Stage::Dist),
                             std::pair("to-rt", echelon::Stage::Rt)})
    mlir::registerPassPipeline(
        flag, "all passes up to this dialect, in their order",
        [stage = stage](mlir::OpPassManager &manager, llvm::StringRef,
                        llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)>) {
          echelon::buildPipeline(manager, stage);
          return mlir::success();
        },
        [](llvm::function_ref<void(const mlir::detail::PassOptions &)>) {});
  mlir::registerPassPipeline(
      "to-rt-gpu", "all passes, for a program of a GPU",
      [](mlir::OpPassManager &manager, llvm::StringRef, llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)>) {
        echelon::PipelineOptions options;
        options.target = echelon::Target::Gpu;
        echelon::buildPipeline(manager, echelon::Stage::Rt, options);
        return mlir::success();
      },
      [](llvm::function_ref<void(const mlir::detail::PassOptions &)>) {});
  mlir::registerPassPipeline(
      "shape-program", "the passes after rt-plan-arenas",
      [](mlir::OpPassManager &manager, llvm::StringRef, llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)>) {
        echelon::shapeProgram(manager);
        return mlir::success();
      },
      [](llvm::function_ref<void(const mlir::detail::PassOptions &)>) {});
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Echelon's passes, one by one\n", registry));
}
