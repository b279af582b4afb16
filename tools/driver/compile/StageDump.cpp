#include "tools/driver/compile/StageDump.h"

#include "frontend/Diagnostics.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>
#include <iostream>

namespace echelon {

mlir::OpPrintingFlags readableIr() { return mlir::OpPrintingFlags().useLocalScope().printNameLocAsPrefix(true); }

namespace {
class StageDump : public mlir::PassInstrumentation {
public:
  StageDump(std::filesystem::path folder, bool &failed) : folder(std::move(folder)), failed(failed) {}

  void write(llvm::StringRef stage, mlir::Operation *module) {
    const std::filesystem::path file = folder / llvm::formatv("{0,0+2}_{1}.mlir", written, stage).str();
    ++written;
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    llvm::raw_fd_ostream stream(file.string(), error);
    if (!error) {
      module->print(stream, readableIr());
      stream << "\n";
      stream.flush();
      error = stream.error();
      stream.clear_error();
    }
    if (error && !failed)
      std::cerr << "echelon: cannot write " << frontend::quoted(file.string()) << ": " << error.message() << "\n";
    failed |= static_cast<bool>(error);
  }

  void runAfterPass(mlir::Pass *pass, mlir::Operation *op) override {
    if (mlir::isa<mlir::ModuleOp>(op) && !pass->getArgument().empty())
      write(pass->getArgument(), op);
  }

private:
  const std::filesystem::path folder;
  int written = 0;
  bool &failed;
};
} // namespace

std::unique_ptr<mlir::PassInstrumentation> dumpStages(mlir::ModuleOp module, const std::string &folder,
                                                      const std::string &name, bool &failed) {
  auto dump = std::make_unique<StageDump>(std::filesystem::path(folder) / name, failed);
  dump->write("elaborated", module);
  return dump;
}

} // namespace echelon
