// A model from its text, elaborated in fp64, differentiated and run on drawn values.
#include "test/interpret/ModelRun.h"
#include "frontend/Parse.h"
#include "frontend/elaborate/Elaborate.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "gtest/gtest.h"
#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using namespace echelon::interpret;

void ModelRun::prepare(Model model, int64_t passes) {
  if (model.text.empty()) {
    std::ifstream file(std::string(EXAMPLES_FOLDER) + "/" + model.name + ".ech");
    std::stringstream content;
    content << file.rdbuf();
    model.text = content.str();
    ASSERT_FALSE(model.text.empty());
  }
  frontend::SourceManager sources;
  frontend::Diagnostics diagnostics(sources);
  auto program = frontend::parseProgram(sources, sources.add(model.name + ".ech", model.text), diagnostics);
  ASSERT_FALSE(diagnostics.hasErrors()) << diagnostics.text();
  frontend::ElaborateOptions options;
  options.model = &program->main().models[0];
  options.file = &program->main();
  options.batch = 4;
  options.f64 = true;
  options.sizes = model.sizes;
  for (auto &[name, value] : model.arguments)
    options.set.emplace_back(name, frontend::Number::whole(static_cast<int64_t>(value)));
  frontend::ModelFacts facts;
  module = frontend::elaborate(context, sources, *program, options, diagnostics, facts);
  ASSERT_TRUE(module) << diagnostics.text();
  (*module)->setAttr(ech::kMicroBatches, IntegerAttr::get(IntegerType::get(&context, 64), passes));

  PassManager manager(&context);
  manager.addPass(createDifferentiate());
  manager.addPass(createSplitTime());
  manager.addPass(createSimplify());
  ASSERT_TRUE(succeeded(manager.run(*module)));
  fill();
}

void ModelRun::fill() {
  std::mt19937 generator(7);
  std::normal_distribution<double> normal;
  for (auto variable : module->getOps<VariableOp>()) {
    Array x(cast<Tensor>(variable.getType()));
    for (double &v : x.values) // away from the start values, where much is zero
      v = 0.5 * normal(generator) + (variable.getSymName().contains("gamma") || variable.getSymName().contains("var"));
    for (double &v : x.values)
      v = variable.getKind() == VariableKind::State ? std::fabs(v) + 0.5 : v;
    machine.values[variable.getSymName().str()] = x;
  }
  for (auto input : module->getOps<InputOp>()) {
    Array x(cast<Tensor>(input.getType()));
    for (double &v : x.values)
      v = input.getBelow() ? generator() % input.getBelow() : normal(generator);
    if (input.getSymName() == kValidSamples)
      x.values.assign(x.values.size(), 1);
    machine.values[input.getSymName().str()] = x;
  }
}

Results ModelRun::run(StringRef step) { return interpret::run(module->lookupSymbol<StepOp>(step), machine); }

double echelon::interpret::farthest(const Array &a, const Array &b) {
  double worst = 0;
  const Array other = b.inOrder(a.axes);
  for (size_t i = 0; i < a.values.size(); ++i)
    worst = std::max(worst, std::fabs(a.values[i] - other.values[i]));
  return worst;
}

double echelon::interpret::largest(const Array &a) {
  double most = 0;
  for (double x : a.values)
    most = std::max(most, std::fabs(x));
  return most;
}
