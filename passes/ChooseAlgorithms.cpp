// rt-choose-algorithms: every collective gets the algorithm that is the fastest on the machine that the module is for.
//
// 1. The machine's links are asked for the ways of each message that no clause pins: its kind, bytes, ranks, and how
//    these lie over nodes. What they cannot compare stays automatic: the transport's own rule.
// 2. On a CPU the fastest becomes the call's algorithm.
// 3. On a GPU the library sends. It asks for each message of a group, by bytes: its table has a row for each size that
//    the program sends over the group, up to which the row holds. Sizes that go the same way have one. A size of which
//    there is no choice stays the library's own: no row of another size holds for it.
#include "ir/dist/State.h"
#include "ir/rt/Chosen.h"
#include "ir/rt/Rt.h"
#include "passes/Passes.h"
#include "passes/Phase.h"
#include "passes/cost/Links.h"
#include "passes/cost/ProgramCost.h"
#include "passes/cost/StepProgram.h"
#include "planner/machine/Choice.h"
#include <map>

namespace echelon {
#define GEN_PASS_DEF_CHOOSEALGORITHMS
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;

namespace {
/// Why it is that: "ring 31 us; tree 45 us", it and the next best.
std::string reasonOf(ArrayRef<planner::Way> ways) {
  const auto told = [](const planner::Way &way) { return planner::nameOf(way) + " " + inTime(way.seconds); };
  return told(ways[0]) + "; " + told(ways[1]);
}

/// Whether NCCL has it.
bool isOfLibrary(const planner::Way &way) {
  return way.algorithm.empty() || way.algorithm == "ring" || way.algorithm == "tree" || way.algorithm == "nvls";
}
/// Protocols by NCCL's names; of another name the library takes the best that it has.
std::string protocolOf(const planner::Way &way) {
  if (way.algorithm == "nvls")
    return "simple";
  return llvm::is_contained({"ll", "ll128", "simple"}, StringRef(way.protocol)) ? way.protocol : "";
}

struct ChooseAlgorithms : echelon::impl::ChooseAlgorithmsBase<ChooseAlgorithms> {
  using ChooseAlgorithmsBase::ChooseAlgorithmsBase;

  void runOnOperation() override {
    const std::optional<planner::Machine> machine = linksOf(getOperation());
    dist::MeshAttr mesh = dist::meshOf(getOperation());
    if (!machine || !mesh)
      return;
    getOperation().walk([&](rt::CollectiveOp op) { choose(op, *machine, mesh); });
    if (ArrayAttr table = tuner(); !table.empty())
      getOperation()->setAttr(rt::kTuner, table);
  }

  void choose(rt::CollectiveOp op, const planner::Machine &machine, dist::MeshAttr mesh) {
    if (op.getAlgorithm() != "automatic")
      return;
    std::vector<planner::Way> ways = planner::waysOf(machine, messageOf(op, mesh, machine.perNode));
    llvm::erase_if(ways, [&](const planner::Way &way) {
      if (!isGpu)
        return way.source == planner::Way::Library;
      return way.source == planner::Way::Textbook || !isOfLibrary(way); // NCCL's trees and rings are pipelines
    });
    if (isGpu)
      addRow(op, ways);
    if (ways.size() < 2)
      return;
    Builder builder(&getContext());
    op->setAttr(rt::kChosen, builder.getStringAttr(reasonOf(ways)));
    const planner::Way &fastest = ways.front();
    if (!isGpu && !fastest.algorithm.empty())
      op.setAlgorithm(fastest.algorithm);
  }

private:
  struct Row {
    std::vector<planner::Way> ways; ///< fewer than two: there is no choice

    bool isChosen() const { return ways.size() > 1; }
    planner::Way way() const { return isChosen() ? ways.front() : planner::Way(); }
    bool isSame(const Row &other) const {
      const planner::Way own = way(), its = other.way();
      return own.algorithm == its.algorithm && protocolOf(own) == protocolOf(its) && own.channels == its.channels;
    }
  };

  void addRow(rt::CollectiveOp op, const std::vector<planner::Way> &ways) {
    auto group = op->getAttrOfType<IntegerAttr>(rt::kGroup);
    if (group && op.getKind() != "all_to_all") // which is sends and receives
      rows[{op.getKind().str(), group.getInt()}].try_emplace(op.messageBytes(), Row{ways});
  }

  ArrayAttr tuner() {
    Builder b(&getContext());
    SmallVector<Attribute> list;
    for (const auto &[of, bySize] : rows)
      for (auto row = bySize.begin(); row != bySize.end(); ++row) {
        const auto next = std::next(row);
        if (next != bySize.end() ? row->second.isSame(next->second) : !row->second.isChosen())
          continue; // it holds for more bytes, too; of the largest without a choice none holds
        const planner::Way way = row->second.way();
        const std::string why = row->second.isChosen() ? reasonOf(row->second.ways) : std::string("there is no choice");
        list.push_back(b.getDictionaryAttr(
            {b.getNamedAttr("op", b.getStringAttr(of.first)), b.getNamedAttr("group", b.getI64IntegerAttr(of.second)),
             b.getNamedAttr("most", b.getI64IntegerAttr(next == bySize.end() ? 0 : row->first)),
             b.getNamedAttr("algorithm", b.getStringAttr(way.algorithm.empty() ? "any" : way.algorithm)),
             b.getNamedAttr("protocol", b.getStringAttr(protocolOf(way))),
             b.getNamedAttr("channels", b.getI64IntegerAttr(way.channels)),
             b.getNamedAttr("why", b.getStringAttr(why))}));
      }
    return b.getArrayAttr(list);
  }

  std::map<std::pair<std::string, int64_t>, std::map<int64_t, Row>> rows; ///< by kind and group, by bytes
};
} // namespace
