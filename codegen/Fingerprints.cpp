// Text of what a run is, by category. Texts are compared, and shown where they differ.
#include "codegen/Fingerprints.h"
#include "codegen/Meaning.h"
#include "ir/ech/Ech.h"
#include "ir/rt/ops/Expression.h"

using namespace mlir;
using namespace echelon;

std::vector<std::pair<std::string, std::string>> codegen::fingerprints(ModuleOp module,
                                                                       const frontend::TrainPlan &plan) {
  std::string model, data, optimizer, layout;
  {
    llvm::raw_string_ostream m(model);
    for (auto variable : module.getOps<ech::VariableOp>()) {
      auto type = cast<ech::Tensor>(variable.getType());
      if (variable.getKind() == ech::VariableKind::Optimizer)
        continue;
      m << ech::stringifyVariableKind(variable.getKind()) << " " << variable.getSymName() << " [";
      llvm::interleaveComma(type.getAxes(), m, [&](const ech::Axis &a) { m << a.name.getValue() << "=" << a.size; });
      m << "] " << type.getElement() << "\n";
    }
    for (auto input : module.getOps<ech::InputOp>()) {
      auto type = cast<ech::Tensor>(input.getType());
      if (input.getPlace() == static_cast<uint64_t>(-1))
        continue;
      m << "input " << input.getSymName() << " [";
      llvm::interleaveComma(type.names(), m);
      m << "]\n";
    }
    if (auto meaning = module->getAttrOfType<StringAttr>(kMeaning))
      m << "what is computed from them " << meaning.getValue() << "\n";
    llvm::raw_string_ostream d(data);
    auto source = [&](auto &self, const runtime::DataSpec &s, int depth) -> void {
      d.indent(2 * depth) << s.kind << " " << s.name;
      for (const std::string &path : s.paths)
        d << " " << path;
      for (double x : s.args)
        d << " " << rt::shortest(x);
      for (const std::string &column : s.columns)
        d << " column " << column;
      for (const runtime::TransformSpec &t : s.transforms) {
        d << " with " << t.kind;
        for (double x : t.args)
          d << " " << rt::shortest(x);
        for (const std::string &axis : t.axes)
          d << " along " << axis;
        for (const std::string &input : t.inputs)
          d << " on " << input;
      }
      d << "\n";
      for (const runtime::DataSpec &child : s.children)
        self(self, child, depth + 1);
    };
    source(source, plan.data, 0);
    d << "fills";
    for (const auto &input : plan.inputs)
      d << " " << input.first;
    d << "\n";
    d << "batch " << plan.batch << "\n";
    llvm::raw_string_ostream o(optimizer);
    static constexpr const char *kKinds[] = {"sgd", "adam", "adamw"};
    for (const frontend::OptimizerLine &line : plan.optimizers) {
      static constexpr const char *kSchedules[] = {"constant", "cosine", "linear", "wsd", "steps_at"};
      o << kKinds[line.kind] << " lr " << kSchedules[line.schedule.kind] << " " << rt::shortest(line.schedule.peak)
        << " floor " << rt::shortest(line.schedule.floor) << " warmup " << line.schedule.warmup;
      for (auto [name, value] : {std::pair("beta1", line.beta1),
                                 {"beta2", line.beta2},
                                 {"epsilon", line.epsilon},
                                 {"decay", line.decay},
                                 {"momentum", line.momentum}})
        o << " " << name << " " << rt::shortest(value);
      o << (line.nesterov ? " nesterov" : "");
      if (line.schedule.decaySteps)
        o << " decay over " << line.schedule.decaySteps << " steps";
      for (int64_t drop : line.schedule.drops)
        o << " drop at " << drop;
      if (!line.schedule.drops.empty())
        o << " by " << rt::shortest(line.schedule.by);
      for (const frontend::Pattern &pattern : line.patterns)
        o << " on " << pattern.text;
      o << "\n";
    }
    if (plan.clip)
      o << "clip " << rt::shortest(*plan.clip) << "\n";
    llvm::raw_string_ostream l(layout);
    for (const frontend::PlannedMeshAxis &axis : plan.mesh) {
      l << axis.name << " = " << axis.size;
      for (const auto &entry : axis.list)
        l << " " << entry.axis;
      l << (axis.storesOptimizer ? " optimizer" : "") << "\n";
    }
    l << "micro batches " << plan.microBatches << "\n";
  }
  return {{"model", model},
          {"data", data},
          {"seed", std::to_string(plan.seed)},
          {"optimizer", optimizer},
          {"layout", layout}};
}
