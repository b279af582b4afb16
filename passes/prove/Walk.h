// A function as one rank runs it.
#pragma once
#include "passes/prove/Parties.h"

namespace echelon::prove {

/// Loops are followed with their positions, so that views have places in arenas. A loop that runs until data ends runs
/// twice, and waits in each iteration for what it starts there. Since places are linear in positions, what only touches
/// memory is followed in the first and last two iterations of a loop. So are messages that are waited for in the same
/// iteration, where all ranks are one party: those of a group meet each other in every iteration alike. A stage of a
/// pipeline takes its turns in the order of the program's schedule; what ranks at a coordinate do alone, others do not.
class Walk {
public:
  Walk(const Parties &parties, int party, Channels &channels) : parties(parties), party(party), channels(channels) {}
  /// Why the function cannot run, by itself; nothing: it is in `program`.
  Verdict run(rt::FunctionOp function);

  Program program;

private:
  Verdict block(mlir::Block &block, bool touches);
  Verdict loop(rt::ForOp loop, bool touches);
  Verdict stages(rt::StagesOp stages, bool touches);
  Verdict operation(mlir::Operation &op, bool touches);
  Verdict start(rt::Communicates op, bool touches);
  Verdict wait(rt::WaitOp op);
  std::optional<int64_t> edgeOf(mlir::Operation *op) const;
  /// What is done ahead for the iteration after this one.
  Verdict next(rt::ForOp loop, bool touches);
  /// Whether messages of all iterations are followed.
  bool isFollowed(rt::ForOp loop);
  const Start *startedSince(size_t before) const;
  void touch(mlir::Operation &op);
  std::optional<int64_t> numberOf(mlir::Value index) const;
  std::optional<Range> rangeOf(mlir::Value buffer) const;
  void addRange(mlir::Value buffer, llvm::SmallVectorImpl<Range> &ranges) const;

  const Parties &parties;
  const int party;
  Channels &channels;
  llvm::DenseMap<mlir::Value, int64_t> positions;   // of loops
  llvm::DenseMap<mlir::Operation *, int64_t> trips; // of loops, on this rank
  /// Starts, by what is waited for, and by the place where that is kept; -1: it has one.
  llvm::DenseMap<mlir::Value, std::vector<std::pair<int64_t, int>>> underWay;
  llvm::DenseMap<mlir::Operation *, bool> followed; // loops
};

} // namespace echelon::prove
