// Learning rates as functions of the step.
#include "codegen/Description.h"

using namespace echelon;
using frontend::Schedule;

namespace {
std::string real(double x, mlir::MLIRContext *context) { return rt::literal(x, mlir::Float64Type::get(context)); }

void printSchedule(const std::string &name, const Schedule &s, int64_t steps, mlir::MLIRContext *context,
                   llvm::raw_ostream &os) {
  auto text = [&](double x) { return real(x, context); };
  bool constant = s.kind == Schedule::Constant && s.warmup == 0;
  if (constant) {
    os << "double " << name << "(int64_t) { return " << text(s.peak) << "; }\n\n";
    return;
  }
  os << "double " << name << "(int64_t step) {\n";
  if (s.warmup > 0)
    os << "  if (step < " << s.warmup << ")\n    return " << text(s.peak) << " * static_cast<double>(step + 1) / "
       << text(static_cast<double>(s.warmup)) << ";\n";
  int64_t first = s.warmup, last = steps;
  if (s.kind == Schedule::Wsd) {
    first = std::max(s.warmup, steps - s.decaySteps);
    os << "  if (step < " << first << ")\n    return " << text(s.peak) << ";\n";
  }
  auto progress = [&] {
    os << "  const double progress = std::min(1.0, static_cast<double>(step - " << first << ") / "
       << text(static_cast<double>(std::max<int64_t>(last - first, 1))) << ");\n";
  };
  switch (s.kind) {
  case Schedule::Constant:
    os << "  return " << text(s.peak) << ";\n";
    break;
  case Schedule::Cosine:
    progress();
    os << "  return " << text(s.floor) << " + " << text(s.peak - s.floor)
       << " * 0.5 * (1.0 + std::cos(3.141592653589793 * progress));\n";
    break;
  case Schedule::Linear:
  case Schedule::Wsd:
    progress();
    os << "  return " << text(s.peak) << " + " << text(s.floor - s.peak) << " * progress;\n";
    break;
  case Schedule::StepsAt:
    os << "  double rate = " << text(s.peak) << ";\n";
    for (int64_t drop : s.drops)
      os << "  if (step >= " << drop << ")\n    rate *= " << text(s.by) << ";\n";
    os << "  return rate;\n";
    break;
  }
  os << "}\n\n";
}
} // namespace

void codegen::printSchedules(const frontend::RunSettings &settings, llvm::raw_ostream &os) {
  mlir::MLIRContext context;
  for (size_t i = 0; i + 1 < settings.optimizers.size(); ++i) {
    os << "/// The learning rate of optimizer line " << i << ".\n";
    printSchedule("learning_rate_" + std::to_string(i), settings.optimizers[i].schedule, settings.steps, &context, os);
  }
  os << "/// The learning rate of a step, from 0.\n";
  Schedule none;
  printSchedule("learning_rate", settings.optimizers.empty() ? none : settings.optimizers.back().schedule,
                settings.steps, &context, os);
}
