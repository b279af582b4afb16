#include "passes/cost/PipelineCost.h"
#include "ir/dist/State.h"
#include "ir/rt/Rt.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/pipeline/Row.h"
#include "runtime/program/Turns.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Format.h"
#include <map>

using namespace mlir;
using namespace echelon;
using runtime::Turn;

namespace {

/// Of which stage and chunk a turn waits for the same pass on its micro batch; nothing: it begins with the batch, or
/// with what the stage itself has.
std::optional<std::pair<int64_t, int64_t>> waitsFor(Turn turn, int64_t stage, const PipelineCost &cost) {
  const int64_t step = turn.pass == Turn::Forward ? -1 : 1, beside = stage + step;
  if (turn.pass == Turn::Weights)
    return std::nullopt;
  if (beside >= 0 && beside < cost.stages)
    return std::pair(beside, turn.chunk);
  const int64_t chunk = turn.chunk + step; // behind the last stage the first one goes on with the next chunk
  if (chunk < 0 || chunk >= cost.chunks)
    return std::nullopt;
  return std::pair((beside + cost.stages) % cost.stages, chunk);
}

/// Each stage in its order, as soon as what a pass needs has come; messages take no time.
void simulate(PipelineCost &cost, const runtime::StageOrder &schedule) {
  const bool hasWeights = schedule.turns == runtime::zero_bubble;
  std::vector<std::vector<Turn>> turns;
  for (int64_t stage = 0; stage < cost.stages; ++stage)
    turns.push_back(schedule.turns(stage, cost.stages, cost.micro, cost.chunks));
  std::map<std::tuple<Turn::Pass, int64_t, int64_t, int64_t>, size_t>
      ends; // of a pass of a stage's chunk on a micro batch
  std::vector<size_t> next(turns.size());
  cost.rows.resize(turns.size());
  auto lengthOf = [&](Turn turn, int64_t stage) {
    const int64_t units = turn.pass == Turn::Backward && !hasWeights ? 2 : 1;
    return size_t(cost.counts.empty() ? units : units * cost.counts[turn.chunk * cost.stages + stage]);
  };
  auto letterOf = [](Turn turn) {
    return char((turn.pass == Turn::Forward    ? '0'
                 : turn.pass == Turn::Backward ? 'a'
                                               : 'A') +
                turn.micro % (turn.pass == Turn::Forward ? 10 : 26));
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t stage = 0; stage < cost.stages; ++stage)
      while (next[stage] < turns[stage].size()) {
        const Turn turn = turns[stage][next[stage]];
        const auto from = waitsFor(turn, stage, cost);
        auto come = from ? ends.find({turn.pass, from->first, from->second, turn.micro}) : ends.end();
        if (from && come == ends.end())
          break;
        std::string &row = cost.rows[stage];
        if (come != ends.end() && come->second > row.size())
          row.append(come->second - row.size(), '.');
        row.append(lengthOf(turn, stage), letterOf(turn));
        ends[{turn.pass, stage, turn.chunk, turn.micro}] = row.size();
        ++next[stage];
        moved = true;
      }
  }
  size_t all = 0, idle = 0;
  for (const std::string &row : cost.rows)
    all = std::max(all, row.size());
  for (std::string &row : cost.rows) {
    row.append(all - row.size(), '.');
    idle += llvm::count(row, '.');
  }
  cost.bubble = double(idle) / double(all * cost.rows.size() - idle);
}

/// How many iterations the repeats along an axis have whose stages have equally many: as parameters say that are
/// stacked along it, which no groups of iterations change; without any, as the loops of each of `places` say.
int64_t iterationsAlong(StringAttr axis, int64_t places, rt::FunctionOp train) {
  for (auto variable : train->getParentOfType<ModuleOp>().getOps<ech::VariableOp>())
    if (auto type = cast<ech::Tensor>(variable.getType()); type.has(axis))
      return type.sizeOf(axis);
  int64_t each = 1;
  train.walk([&](rt::ForOp loop) {
    if (loop.getAxis() == axis.getValue())
      each = static_cast<int64_t>(loop.getCount());
  });
  return each * places;
}

} // namespace

std::optional<PipelineCost> echelon::pipelineCost(ModuleOp module) {
  dist::MeshAttr mesh = dist::meshOf(module);
  auto schedules = module->getAttrOfType<DictionaryAttr>(dist::kSchedules);
  auto train = dyn_cast_or_null<rt::FunctionOp>(SymbolTable::lookupSymbolIn(module, "train"));
  if (!mesh || !schedules || !train)
    return std::nullopt;
  for (NamedAttribute each : schedules) {
    const int m = mesh.index(each.getName());
    if (m < 0 || mesh.sizeOf(m) == 1)
      continue;
    PipelineCost cost;
    cost.over = each.getName().str();
    cost.axis = pipeline::namesOfRow(mesh, m);
    cost.schedule = cast<StringAttr>(each.getValue()).str();
    cost.stages = mesh.sizeOf(m);
    const dist::OwnerMap row = pipeline::rowOf(mesh, m);
    cost.chunks = row.chunks;
    cost.counts = row.sizes;
    if (auto balance = module->getAttrOfType<DictionaryAttr>(dist::kBalancedBy))
      if (auto wentBy = balance.getAs<DenseI64ArrayAttr>(each.getName()))
        cost.wentBy = wentBy.asArrayRef().vec();
    if (auto micro = module->getAttrOfType<IntegerAttr>(ech::kMicroBatches))
      cost.micro = micro.getInt();
    const int64_t places = cost.stages * cost.chunks;
    int64_t iterations = 0;
    for (auto axis : mesh.getAxes()[m].list.getAsRange<StringAttr>()) {
      const dist::OwnerMap map = mesh.mapOf(m, axis);
      iterations += map.isEqual() ? iterationsAlong(axis, places, train) : map.total();
    }
    cost.iterations = iterations / places;
    const runtime::StageOrder *schedule = runtime::stageOrderNamed(cost.schedule);
    if (!schedule)
      return std::nullopt;
    simulate(cost, *schedule);
    return cost;
  }
  return std::nullopt;
}

std::string PipelineCost::text() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "pipeline over " << over << "\n  " << stages << " stages with ";
  if (chunks > 1)
    os << chunks << " chunks of ";
  if (counts.empty())
    os << iterations << " of " << axis << " each";
  else
    llvm::interleaveComma(counts, os << axis << " as (");
  os << (counts.empty() ? ", " : "), ") << micro << (micro == 1 ? " micro batch" : " micro batches") << ", " << schedule
     << ": a stage waits " << llvm::format("%.3g", 100 * bubble) << " % of the time that it works, if all "
     << (counts.empty() ? "stages" : "of " + axis) << " take equally long\n";
  if (wentBy.size() > 3) { // of a chain
    os << "  balanced, in operations: ";
    for (size_t i = 0; i + 1 < wentBy.size(); i += 2)
      os << llvm::format("%.3g", double(wentBy[i])) << " before repeat " << i / 2 + 1 << " and "
         << llvm::format("%.3g", double(wentBy[i + 1])) << " for each of its iterations, ";
    os << llvm::format("%.3g", double(wentBy.back())) << " behind the last\n";
  } else if (!wentBy.empty() && wentBy[1] > 0)
    os << "  balanced: " << llvm::format("%.3g", double(wentBy[1])) << " operations for each of " << axis
       << "; as many as " << llvm::format("%.3g", double(wentBy[0]) / double(wentBy[1]))
       << " of these for what the first "
       << "stage does besides, as " << llvm::format("%.3g", double(wentBy[2]) / double(wentBy[1])) << " for the last\n";
  constexpr size_t kLongest = 100, kMost = 16; // what fits on a screen
  if (rows.size() > kMost || rows[0].size() > kLongest)
    return text;
  for (auto [stage, row] : llvm::enumerate(rows))
    os << "  stage " << stage << "  " << row << "\n";
  return text;
}
