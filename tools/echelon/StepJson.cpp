#include "tools/echelon/StepJson.h"

#include <algorithm>

using nlohmann::ordered_json;

namespace echelon {

ordered_json timeJson(const StepCost &cost) {
  ordered_json terms = ordered_json::object();
  for (size_t i = 0; i < cost.step.terms.size(); ++i)
    terms[cost.step.terms[i]] = cost.time.terms[i];
  return terms;
}

namespace {
const char *nameOf(planner::Work::Kind kind) {
  switch (kind) {
  case planner::Work::Kind::Product:
    return "product";
  case planner::Work::Kind::Convolution:
    return "convolution";
  case planner::Work::Kind::Attention:
    return "attention";
  case planner::Work::Kind::AttentionGrad:
    return "attention_grad";
  case planner::Work::Kind::Loop:
    return "loop";
  case planner::Work::Kind::Kernel:
    return "kernel";
  }
  return "";
}

/// [place, count] of what is done at all.
ordered_json pairs(const std::vector<int64_t> &counts) {
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i])
      list.push_back({i, counts[i]});
  return list;
}
ordered_json toJson(const planner::Counts &counts) {
  return {{"calls", counts.calls}, {"kernels", pairs(counts.works)}, {"messages", pairs(counts.messages)}};
}
} // namespace

ordered_json workJson(const planner::Step &step, const planner::StepTime &time) {
  ordered_json kernels = ordered_json::array(), messages = ordered_json::array(), stages = ordered_json::array();
  for (size_t i = 0; i < step.works.size(); ++i) {
    const planner::Work &work = step.works[i];
    kernels.push_back({{"kind", nameOf(work.kind)},
                       {"kernel", work.kernel},
                       {"precision", nameOf(work.precision)},
                       {"flops", work.flops},
                       {"bytes", work.bytes},
                       {"added", work.added},
                       {"m", work.m},
                       {"n", work.n},
                       {"k", work.k},
                       {"batch", work.batch},
                       {"time_s", time.workSeconds[i]}});
  }
  for (size_t i = 0; i < step.messages.size(); ++i) {
    const planner::Message &message = step.messages[i];
    messages.push_back({{"op", nameOf(message.kind)},
                        {"bytes", message.bytes},
                        {"algorithm", message.algorithm},
                        {"of_update", message.isOfUpdate},
                        {"ranks", message.group.ranks},
                        {"nodes", message.group.nodes},
                        {"per_node", message.group.perNode},
                        {"beside", message.group.beside},
                        {"apart", message.group.apart},
                        {"time_s", time.messageSeconds[i]}});
  }
  for (const planner::Actions &actions : step.stages) {
    ordered_json stage = {{"step", toJson(planner::countsOf(step, actions))}};
    for (const planner::Action &action : actions) {
      if (!action.turns)
        continue;
      ordered_json turns = ordered_json::array();
      for (size_t i = 0; i < action.turns->bodies.size(); ++i) {
        ordered_json turn = toJson(planner::countsOf(step, action.turns->bodies[i]));
        turn["times"] = std::count(action.turns->order.begin(), action.turns->order.end(), i);
        turns.push_back(std::move(turn));
      }
      stage["outside"] = toJson(planner::countsOf(step, actions, planner::Within::OutsideTurns));
      stage["turns"] = turns;
    }
    stages.push_back(std::move(stage));
  }
  return {{"kernels", kernels}, {"messages", messages}, {"stages", stages}};
}

} // namespace echelon
