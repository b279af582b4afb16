// Which operations of a block become one loop nest. Fuse.cpp is the pass.
#pragma once
#include "ir/dist/State.h"
#include "ir/rt/Rt.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"
#include <memory>
#include <numeric>

namespace echelon::fuse {

using ech::Axis;
using mlir::Block;
using mlir::Operation;
using mlir::Value;

/// Numbers, positions: what each group makes again.
bool isFree(Operation *op);
bool isSum(Operation *op);
bool isFusable(Operation *op);
/// Whether computing it again in every iteration of a further loop costs little beside the loads and stores.
bool isCheap(Operation *op);

constexpr size_t kLargestGroup = 64; // operations: a loop that people can still read

struct Group {
  llvm::SmallVector<Operation *> ops; // in the order of the block
  llvm::SmallVector<Axis> space;
};

/// Places of a block, and how far back each leads: who reaches one operation of a group reaches all of them, so paths
/// from a place inside the stretch of a group may go on from its start.
class Stretches {
public:
  void resize(size_t places) {
    before.resize(places);
    std::iota(before.begin(), before.end(), 0);
  }
  /// A group reaches from `first` to `last`.
  void add(int64_t first, int64_t last) {
    for (int64_t at = start(last); at > first; at = start(at))
      before[size_t(at)] = at - 1;
  }
  /// No path from this place leads to one before that.
  int64_t start(int64_t place) {
    int64_t first = place;
    while (before[size_t(first)] != first)
      first = before[size_t(first)];
    for (int64_t next; place != first; place = next) {
      next = before[size_t(place)];
      before[size_t(place)] = first;
    }
    return first;
  }

private:
  std::vector<int64_t> before; // a place of the same stretch, the first of them itself
};

/// The groups of one block.
class BlockFusion {
public:
  BlockFusion(Block &block, dist::MeshAttr mesh) : block(block), mesh(mesh) {}
  void run();

private:
  llvm::SmallVector<Axis> axesOf(Value v) {
    ech::Tensor type = ech::tensor(v);
    return llvm::SmallVector<Axis>((mesh && type.getState() ? dist::localType(type, mesh) : type).getAxes());
  }
  /// Whether the result is used outside of both groups.
  bool escapes(Operation *op, Group *a, Group *b);

  // Join.cpp
  llvm::SmallVector<Axis> spaceOf(Operation *op);
  bool join(Group *from, Group *into);
  bool sharesLoops(Group *from, Group *into);
  bool readsSumOf(Group *reader, Group *of);
  bool leadsOutside(Group *from, Group *into);
  void findNeededInTurns();

  // Again.cpp
  void makeAgain(Group &group);
  bool isMadeOf(Value v, Group *into, llvm::SmallVectorImpl<Value> &stored, llvm::SmallVectorImpl<Operation *> &made);
  void dropUnused();

  // Order.cpp
  void order();
  Operation *nodeOf(Operation *op);
  void build(Group &group);

  Block &block;
  dist::MeshAttr mesh;
  llvm::DenseMap<Operation *, int64_t> place; // in the block, before anything moved
  int64_t norm = -1; // the place of its report, where a step ends that is not finite; -1: there is none
  llvm::SetVector<Operation *> neededInTurns; // by a pipeline: it comes before the forward pass
  Stretches stretches;
  std::vector<std::unique_ptr<Group>> groups;
  llvm::DenseMap<Operation *, Group *> groupOf;
};

} // namespace echelon::fuse
