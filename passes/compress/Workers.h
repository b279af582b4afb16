// Who the workers of a compression are.
#pragma once
#include "ir/dist/State.h"
#include "ir/ech/Build.h"
#include "ir/run/Run.h"

namespace echelon::compress {

/// A worker is a coordinate of the mesh axes that split the batch, from the outermost to the last of the clause's: what
/// axes inside of it add is summed up first, what those outside of the hop add, after.
struct Workers {
  std::string axis;            ///< its name in tensors: "worker", unless that is taken
  std::string all;             ///< once they have handed in: "workers"
  std::string flat, kept;      ///< of a tensor as a row; of the elements that are kept
  std::string byte, bit;       ///< of eight signs
  std::string factor;          ///< of PowerSGD
  int64_t count = 1;           ///< of all of them
  int64_t ofHop = 1;           ///< of one hop: the mean is over these
  llvm::SmallVector<int> mesh; ///< the mesh axes; none on one rank
  dist::MeshAttr of;           ///< may be null
};

/// On one rank, `ech.workers` says how many there are.
Workers workersOf(mlir::ModuleOp module, run::CompressOp clause, ech::StepOp step);
/// Those of a sync policy: all are of one hop.
Workers workersOf(mlir::ModuleOp module, run::SyncOp policy);
/// Of a sync policy's workers, what the ranks of each have, where the clause names mesh axes inside of them; else the
/// workers themselves.
Workers partsOf(mlir::ModuleOp module, run::CompressOp clause, ech::StepOp step, const Workers &workers);
/// Marks what lies between sums over samples and a gradient: each worker's part goes through it by itself.
void markLinear(mlir::Value gradient, llvm::StringRef batch, mlir::ArrayAttr meshAxes);
/// Of a sum over workers, what all hold alike is in equal shares, as each has it in its own mean: not coordinate 0's.
inline constexpr llvm::StringLiteral kEqualShares = "dist.equal_shares"; // the module's, a list of mesh axes
/// Lists the axis of workers on their mesh axes, last: no tensor that has it has another of the list.
void listWorkers(mlir::ModuleOp module, const Workers &workers);
/// Under a sync policy, of a number that each worker has: the mean over those that have ranks of their own.
mlir::Value meanOverWorkers(ech::Build &build, mlir::ModuleOp module, mlir::Value own);
/// The clause `compress` where what it packs travels between the workers of a sync policy; null elsewhere.
run::CompressOp clauseBetweenWorkers(mlir::ModuleOp module);
/// How many workers have ranks of their own under a sync policy: 1 where one rank works for all, or there is no policy.
int64_t workersApart(mlir::ModuleOp module);
/// Whether the gradient of a parameter is a sum over workers: not one that they split among them.
bool isSummed(ech::Tensor param, const Workers &workers);

} // namespace echelon::compress
