#include "test/interpret/Differences.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using namespace echelon::interpret;

namespace {
Array numbers(Tensor type, unsigned seed, double low, double high) {
  Array x(type);
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  for (double &v : x.values)
    v = uniform(generator);
  return x;
}
} // namespace

double echelon::interpret::worstDifference(ArrayRef<Leaf> leaves, const Case &what, int64_t passes) {
  MLIRContext context;
  context.loadDialect<EchDialect>();
  OpBuilder builder(&context);
  Location loc = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  builder.setInsertionPointToEnd(module->getBody());
  Build build(builder, loc, builder.getF64Type());
  Machine machine;

  // Parameters p0, p1, …; the loss is the sum of the case's value times fixed weights.
  auto step = StepOp::create(builder, loc, "train");
  SmallVector<Value> parameters;
  for (auto [i, leaf] : llvm::enumerate(leaves)) {
    std::string name = "p" + std::to_string(i);
    Tensor type = build.type(leaf.axes, build.real);
    builder.setInsertionPoint(step);
    VariableOp::create(builder, loc, name, VariableKind::Param, type, Distribution::Constant, APFloat(0.0),
                       APFloat(0.0));
    builder.setInsertionPointToEnd(&step.getBody().front());
    parameters.push_back(ReadOp::create(builder, loc, type, name));
    machine.values[name] = numbers(type, i + 1, leaf.low, leaf.high);
  }
  Value result = what(build, parameters);
  Tensor type = tensor(result);
  builder.setInsertionPoint(step);
  InputOp::create(builder, loc, "weights", 0, type, 0);
  builder.setInsertionPointToEnd(&step.getBody().front());
  machine.values["weights"] = numbers(type, 99, 0.5, 1.5);
  Value weighted = build.mul(result, ReadOp::create(builder, loc, type, "weights"));
  Value loss = type.rank() ? build.sum(weighted, type.names()) : weighted;
  ReportOp::create(builder, loc, ReportKind::Loss, "loss", loss);

  PassManager manager(&context);
  manager.addPass(createDifferentiate());
  if (passes > 1) {
    (*module)->setAttr("ech.batch_axis", builder.getStringAttr("batch"));
    (*module)->setAttr(ech::kMicroBatches, builder.getI64IntegerAttr(passes));
    manager.addPass(createSplitTime());
  }
  manager.addPass(createSimplify());
  if (failed(manager.run(*module))) {
    ADD_FAILURE() << "the passes fail";
    return 1;
  }
  for (auto found : module->getOps<StepOp>())
    step = found;

  Results exact = run(step, machine);
  double worst = 0;
  for (auto [i, leaf] : llvm::enumerate(leaves)) {
    std::string name = "p" + std::to_string(i);
    Array &p = machine.values[name];
    Array gradient = exact.gradients.at(name).inOrder(p.axes);
    EXPECT_EQ(gradient.sizes, p.sizes);
    double norm = 0, error = 0;
    for (size_t k = 0; k < p.values.size(); ++k) {
      double x = p.values[k], h = 1e-5, f[2];
      for (int side : {0, 1}) {
        p.values[k] = side ? x - h : x + h;
        f[side] = run(step, machine).reports.at("loss");
      }
      p.values[k] = x;
      norm += gradient.values[k] * gradient.values[k];
      double e = (f[0] - f[1]) / (2 * h) - gradient.values[k];
      error += e * e;
    }
    worst = std::max(worst, std::sqrt(error) / std::max(std::sqrt(norm), 1e-3));
  }
  return worst;
}
