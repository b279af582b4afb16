// Learning rates as functions of the step.
#include "codegen/Description.h"
#include "codegen/Expression.h"
#include "ir/run/Run.h"

using namespace echelon;
using run::ScheduleKind;

namespace {
std::string real(double x, mlir::MLIRContext *context) { return codegen::literal(x, mlir::Float64Type::get(context)); }

void printSchedule(const std::string &name, run::ScheduleAttr s, int64_t steps, llvm::raw_ostream &os) {
  auto text = [&](double x) { return real(x, s.getContext()); };
  const double peak = s.getPeak().getValueAsDouble(), floor = s.getFloor() ? s.getFloor().getValueAsDouble() : 0;
  const ScheduleKind kind = s.getKind();
  bool constant = kind == ScheduleKind::Constant && s.getWarmup() == 0;
  if (constant) {
    os << "double " << name << "(int64_t) { return " << text(peak) << "; }\n\n";
    return;
  }
  os << "double " << name << "(int64_t step) {\n";
  if (s.getWarmup() > 0)
    os << "  if (step < " << s.getWarmup() << ")\n    return " << text(peak) << " * static_cast<double>(step + 1) / "
       << text(static_cast<double>(s.getWarmup())) << ";\n";
  int64_t first = s.getWarmup(), last = steps;
  if (kind == ScheduleKind::Wsd) {
    first = std::max(s.getWarmup(), steps - s.getDecay());
    os << "  if (step < " << first << ")\n    return " << text(peak) << ";\n";
  }
  auto progress = [&] {
    os << "  const double progress = std::min(1.0, static_cast<double>(step - " << first << ") / "
       << text(static_cast<double>(std::max<int64_t>(last - first, 1))) << ");\n";
  };
  switch (kind) {
  case ScheduleKind::Constant:
    os << "  return " << text(peak) << ";\n";
    break;
  case ScheduleKind::Cosine:
    progress();
    os << "  return " << text(floor) << " + " << text(peak - floor)
       << " * 0.5 * (1.0 + std::cos(3.141592653589793 * progress));\n";
    break;
  case ScheduleKind::Linear:
  case ScheduleKind::Wsd:
    progress();
    os << "  return " << text(peak) << " + " << text(floor - peak) << " * progress;\n";
    break;
  case ScheduleKind::StepsAt:
    os << "  double rate = " << text(peak) << ";\n";
    for (int64_t drop : s.getDrops().asArrayRef())
      os << "  if (step >= " << drop << ")\n    rate *= " << text(s.getBy().getValueAsDouble()) << ";\n";
    os << "  return rate;\n";
    break;
  }
  os << "}\n\n";
}
} // namespace

void codegen::printSchedules(mlir::ModuleOp module, llvm::raw_ostream &os) {
  llvm::SmallVector<run::OptimizeOp> lines(module.getOps<run::OptimizeOp>());
  const int64_t steps = run::only<run::TrainOp>(module).getSteps();
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    os << "/// The learning rate of optimizer line " << i << ".\n";
    printSchedule("learning_rate_" + std::to_string(i), lines[i].getRate(), steps, os);
  }
  os << "/// The learning rate of a step, from 0.\n";
  if (lines.empty()) // nothing is learned
    os << "double learning_rate(int64_t) { return 0.0; }\n\n";
  else
    printSchedule("learning_rate", lines.back().getRate(), steps, os);
}
