#include "tools/driver/compile/Certificate.h"
#include "mlir/IR/Verifier.h"
#include "passes/cost/ProgramCost.h"
#include "passes/prove/Prove.h"
#include "tools/driver/build/Paths.h"
#include <nlohmann/json.hpp>

namespace echelon {

namespace {
using Json = nlohmann::ordered_json;

/// Messages of a step, by kind and the mesh axes that they go over.
Json messagesOf(const std::vector<MessageCost> &costs) {
  std::vector<std::vector<MessageCost>> kinds;
  for (const MessageCost &message : costs) {
    auto kind = llvm::find_if(kinds, [&](const std::vector<MessageCost> &kind) {
      return kind.front().op == message.op && kind.front().axis == message.axis;
    });
    if (kind == kinds.end())
      kinds.push_back({message});
    else
      kind->push_back(message);
  }
  Json all = Json::array();
  for (const std::vector<MessageCost> &kind : kinds) {
    const MessageSum sum = sumOf(kind);
    const MessageCost &first = kind.front();
    all.push_back(
        {{"op", first.op}, {"axis", first.axis}, {"ranks", first.ranks}, {"count", sum.count}, {"bytes", sum.bytes}});
  }
  return all;
}

Json proofOf(mlir::ModuleOp module) {
  prove::Proof proof;
  if (prove::prove(module, proof))
    return nullptr;
  Json functions = Json::object();
  for (const prove::Proof::Function &function : proof.functions)
    functions[function.name] = {{"messages", function.messages}, {"beside_computation", function.started}};
  return {
      {"claims",
       {"no rank waits for ever", "each message meets its own on its other ranks",
        "nothing touches what a message under way reads or writes", "no buffer lies on another that is still read"}},
      {"ranks_run", proof.parties},
      {"instructions", proof.instructions},
      {"streams", proof.streams},
      {"functions", functions}};
}

Json typesOf(mlir::ModuleOp module) {
  int64_t operations = 0;
  module.walk([&](mlir::Operation *) { ++operations; });
  return {{"hold", mlir::succeeded(mlir::verify(module))}, {"operations", operations}};
}
} // namespace

std::string certificateOf(const Compilation &compilation, const std::string &text,
                          const std::optional<Verified> &verified) {
  mlir::ModuleOp module = *compilation.module;
  const ProgramCost cost = programCost(module, !compilation.settings.checkpoint.directory.empty());
  Json mesh = Json::object();
  for (const frontend::MeshAxisSettings &axis : compilation.settings.mesh)
    mesh[axis.name] = axis.size;
  Json made = {{"train", compilation.settings.name},
               {"spec", compilation.options.spec},
               {"program", hashOf({text})},
               {"mesh", mesh},
               {"ranks", compilation.settings.ranks()},
               {"proof", proofOf(module)},
               {"types", typesOf(module)},
               {"messages_a_step", messagesOf(cost.messages)},
               {"memory_bytes",
                {{"state", cost.stateBytes},
                 {"inputs", cost.inputBytes},
                 {"work", cost.workBytes},
                 {"snapshot", cost.copyBytes},
                 {"offloaded", cost.offload ? cost.offload->bytes : 0},
                 {"offloaded_resident", cost.offload ? cost.offload->resident() : 0},
                 {"total", cost.memory.total}}}};
  if (cost.meetsEvery)
    made["messages_a_meeting"] = messagesOf(cost.meetingMessages);
  made["verify"] = Json("not asked for");
  if (verified)
    made["verify"] = {{"passed", verified->passed}, {"failed", verified->failed},     {"batch", verified->batch},
                      {"steps", verified->steps},   {"worst_error", verified->worst}, {"in", verified->worstIn}};
  return made.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace echelon
