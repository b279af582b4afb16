#include "codegen/cuda/Cuda.h"
#include "codegen/Functions.h"
#include "codegen/Kernels.h"
#include "codegen/cuda/Kernels.h"
#include "ir/ech/SourcePlace.h"
#include "ir/rt/Together.h"
#include "passes/Identifier.h"
#include "passes/LocalNames.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

void Cuda::printIncludes(raw_ostream &os) const {
  os << "#include \"runtime/cuda/Runtime.h\"\n\n#include <algorithm>\n#include <cmath>\n#include <limits>\n\n"
     << "using namespace echelon::cuda;\n";
}

//===- numbers ---------------------------------------------------------------------------------------------------===//

bool Cuda::isOfStep(Value value) {
  auto number = value.getDefiningOp<rt::NumberOp>();
  return number && number.getType().isF64() && number.getKind() != rt::Number::IsFirst;
}

StringRef Cuda::nameOf(rt::NumberOp number) const {
  const std::string text = textOf(number);
  return llvm::find_if(numbers, [&](const Number &known) { return known.text == text; })->name;
}

void Cuda::findNumbers(ModuleOp module) {
  llvm::StringSet<> taken = constantsOf(module);
  module.walk([&](rt::NumberOp number) {
    const std::string text = textOf(number);
    if (!isOfStep(number) || number.use_empty() ||
        llvm::any_of(numbers, [&](const Number &known) { return known.text == text; }))
      return;
    std::string wanted = text == "lr" ? text : echelon::nameOf(number.getResult());
    numbers.push_back(
        {text, text == "lr" ? text : uniqueName(wanted, [&](StringRef name) { return !taken.insert(name).second; })});
  });
}

void Cuda::printNumbers(raw_ostream &os) const {
  if (numbers.empty())
    return;
  os << "/// What changes from step to step. Kernels read it from the device, so that a captured step sees it anew.\n"
     << "struct Numbers {\n";
  for (const Number &number : numbers)
    os << "  double " << number.name << ";\n";
  auto asks = [&](StringRef word) {
    return llvm::any_of(numbers, [&](const Number &number) { return StringRef(number.text).contains(word); });
  };
  os << "};\n\nNumbers numbers(const Host &" << (asks("r.") ? "r" : "/*r*/") << ", double "
     << (llvm::any_of(numbers, [](const Number &number) { return number.text == "lr"; }) ? "lr" : "/*lr*/")
     << ") {\n  Numbers now{};\n";
  for (const Number &number : numbers)
    os << "  now." << number.name << " = " << number.text << ";\n";
  os << "  return now;\n}\n\n";
}

void Cuda::printKernels(ModuleOp module, const Text &text, raw_ostream &os) {
  findNumbers(module);
  printNumbers(os);
  llvm::StringSet<> printed;
  module.walk<WalkOrder::PreOrder>([&](rt::KernelOp kernel) {
    if (!printed.insert(kernel.getName()).second)
      return;
    Printer printer = text.printer();
    printer.probes = nullptr;
    cuda::printKernel(kernel, *this, printer);
    os << printer.text() << "\n";
  });
}

std::string Cuda::entry(StringRef function, bool takesRate) const {
  const std::string rate = takesRate ? "lr" : "0";
  return ("[](Host &r" + Twine(takesRate ? ", double lr" : "") + ") { run(r, " +
          (numbers.empty() ? "" : "numbers(r, " + rate + "), ") + function + "); }")
      .str();
}

//===- calls -----------------------------------------------------------------------------------------------------===//

void Cuda::kernel(Operation *op, Printer &printer) {
  if (auto together = dyn_cast<rt::TogetherOp>(op)) {
    Block &body = together.getBody().front();
    if (isa<rt::InvokeOp>(body.front()))
      return cuda::printUpdate(llvm::to_vector(body.getOps<rt::InvokeOp>()), *this, printer);
    return cuda::printSquares(llvm::to_vector(body.getOps<rt::AddSquaresOp>()), printer);
  }
  const Call made = callOf(op, printer, "r");
  printer.call(op, made.function, made.arguments);
}

void Cuda::nest(rt::FusedOp op, Printer &printer) {
  for (auto kernel : op.getLoops().getOps<rt::KernelOp>())
    cuda::printLaunch(op, kernel, *this, printer);
}

void Cuda::invoke(rt::InvokeOp op, Printer &printer) { cuda::printUpdate(op, *this, printer); }

void Cuda::report(rt::ReportOp op, Printer &printer) {
  const std::string place = ech::sourcePlace(op.getLoc());
  printer.call(op, "r.report", {std::to_string(op.getSlot()), printer.name(op.getValue())},
               (place.empty() ? "" : place + "  ") + op.getName().str());
}
