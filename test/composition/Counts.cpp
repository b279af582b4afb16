// What the programs of random specs hold, and what of it must occur.
#include "ir/dist/Dist.h"
#include "ir/dist/State.h"
#include "test/composition/Proof.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using namespace echelon::test;

namespace {

std::string nameOf(dist::Hold hold) {
  switch (hold) {
  case dist::Hold::Whole:
    return "whole";
  case dist::Hold::Split:
    return "split";
  case dist::Hold::Sum:
    return "sum";
  case dist::Hold::Own:
    return "own";
  case dist::Hold::Cut:
    return "cut";
  case dist::Hold::Flat:
    return "flat";
  }
  return "";
}

} // namespace

void echelon::test::count(ModuleOp module, Counts &counts) {
  module.walk([&](Operation *op) {
    std::string name = op->getName().getStringRef().str();
    ++counts[name];
    if (auto map = dyn_cast<MapOp>(op))
      ++counts["ech.map " + stringifyFunction(map.getFunction()).str()];
    if (auto reduce = dyn_cast<ReduceOp>(op))
      ++counts["ech.reduce " + stringifyReduction(reduce.getKind()).str()];
    if (auto pool = dyn_cast<PoolOp>(op))
      ++counts["ech.pool " + stringifyPooling(pool.getKind()).str()];
    if (auto pool = dyn_cast<PoolGradOp>(op))
      ++counts["ech.pool_grad " + stringifyPooling(pool.getKind()).str()];
    if (isa<dist::StartOp, dist::StartEachOp>(op))
      ++counts["dist." + op->getAttrOfType<StringAttr>("kind").str()];
    if (auto partial = dyn_cast<dist::PartialOp>(op))
      ++counts["dist.partial " + stringifyPartial(partial.getKind()).str()];
    if (auto combine = dyn_cast<dist::CombineOp>(op))
      ++counts["dist.combine " + stringifyCombination(combine.getKind()).str()];
    if (auto reduce = dyn_cast<dist::AllReduceOp>(op); reduce && reduce.getReduction())
      ++counts["dist.all_reduce " + reduce.getReduction()->str()];
    if (name.rfind("dist.", 0) != 0 || isa<dist::WaitOp, dist::MaskOp, dist::PartialOp, dist::CombineOp>(op))
      return;
    ValueRange to = isa<dist::StartOp>(op) ? cast<dist::StartOp>(op).wait().getResults() : op->getResults();
    for (auto [x, y] : llvm::zip(op->getOperands(), to)) {
      dist::StateAttr before = dist::stateOf(tensor(x)), after = dist::stateOf(tensor(y));
      for (int m = 0; m < before.size(); ++m)
        if (before[m] != after[m])
          ++counts[nameOf(before[m].hold) + " -> " + nameOf(after[m].hold)];
    }
  });
}

/// Consumed by the update, or of packings and precisions that these specs do not have.
static bool isElsewhere(StringRef op) {
  return op == "ech.gradient" || op == "ech.hand_in" || op == "ech.orthogonalize";
}

std::vector<std::string> echelon::test::expectedOperations() {
  std::vector<std::string> names;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<EchDialect, dist::DistDialect>();
  for (RegisteredOperationName op : context.getRegisteredOperations())
    if (op.getDialectNamespace() == "ech" && !isElsewhere(op.getStringRef()))
      names.push_back(op.getStringRef().str());
  for (uint32_t f = 0; f <= getMaxEnumValForFunction(); ++f)
    if (auto function = symbolizeFunction(f); function && *function < Function::RoundTf32)
      names.push_back("ech.map " + stringifyFunction(*function).str());
  for (const char *name : {"ech.reduce sum",
                           "ech.reduce max",
                           "ech.reduce min",
                           "ech.pool max",
                           "ech.pool avg",
                           "ech.pool_grad max",
                           "ech.pool_grad avg",
                           "dist.slice",
                           "dist.mask",
                           "dist.all_reduce",
                           "dist.reduce_scatter",
                           "dist.all_gather",
                           "dist.all_to_all",
                           "dist.exchange",
                           "dist.broadcast",
                           "dist.start_each",
                           "dist.wait_each",
                           "dist.collect",
                           "dist.all_reduce max",
                           "dist.all_reduce min",
                           "dist.partial maximum",
                           "dist.partial sum_of_exp",
                           "dist.partial cross_entropy",
                           "dist.partial largest",
                           "dist.partial moments",
                           "dist.partial squares",
                           "dist.partial norm_sums",
                           "dist.partial rms_sums",
                           "dist.partial all_squares",
                           "dist.combine softmax",
                           "dist.combine logsumexp",
                           "dist.combine cross_entropy",
                           "dist.combine argmax",
                           "dist.combine normalize",
                           "dist.combine statistics",
                           "dist.combine rms_normalize",
                           "dist.combine normalize_grad",
                           "dist.combine rms_grad",
                           "dist.combine root",
                           "whole -> split",
                           "whole -> sum",
                           "whole -> cut",
                           "whole -> flat",
                           "sum -> whole",
                           "sum -> split",
                           "sum -> cut",
                           "sum -> flat",
                           "split -> whole",
                           "split -> split",
                           "cut -> whole",
                           "flat -> whole"})
    names.push_back(name);
  return names;
}
