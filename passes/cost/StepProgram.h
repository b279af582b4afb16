// A step as the planner's timeline takes it, read off the program that will be emitted: what it calls, in its order.
#pragma once
#include "ir/dist/Dist.h"
#include "passes/cost/ProgramCost.h"
#include "planner/timeline/Step.h"

namespace echelon {

/// How a step is placed and computed, beside what its module says.
struct StepPlace {
  int64_t perNode = 1;                                      ///< ranks of a node
  bool isTf32 = false;                                      ///< products of numbers of four bytes are of 19 bits
  std::vector<std::string> functions = {"train", "update"}; ///< what is done, in order, of those that there are
};

/// Of the mesh axes, in order; none where there is no mesh.
std::vector<int64_t> sizesOf(dist::MeshAttr mesh);

/// What these functions do, one after the other, of a module whose arenas are planned. `calls`: gets the operations
/// that its actions are of, by Action::call.
planner::Step stepOf(mlir::ModuleOp module, const StepPlace &place, std::vector<mlir::Operation *> *calls = nullptr);

/// One message as a rank sees it.
planner::Message messageOf(const MessageCost &cost, dist::MeshAttr mesh, int64_t perNode);
planner::Message messageOf(rt::CollectiveOp op, dist::MeshAttr mesh, int64_t perNode);

} // namespace echelon
