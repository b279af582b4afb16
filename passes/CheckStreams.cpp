// rt-check-streams: what is under way is left alone.
//
// 1. Every operation computes, in one order, but for collectives that are only started: each goes on beside the others
//    until its rt.wait, on the CPU as a ticket and on a GPU in a stream of its mesh axes.
// 2. Functions are walked as they run, the first and last two iterations of a loop with their positions, so that views
//    have places in arenas.
// 3. An operation may not write where a collective under way reads or writes, nor read where one writes; and each is
//    waited for before the function ends.
#include "ir/ech/SourcePlace.h"
#include "ir/rt/Rt.h"
#include "passes/Passes.h"

namespace echelon {
#define GEN_PASS_DEF_CHECKSTREAMS
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;

namespace {
/// Bytes of an arena: [begin, end).
struct Range {
  rt::Arena arena;
  int64_t begin, end;

  bool overlaps(const Range &other) const { return arena == other.arena && begin < other.end && other.begin < end; }
};

/// A collective from its start to its wait.
struct UnderWay {
  rt::CollectiveOp op;
  std::optional<Range> reads, writes;
};

std::string described(rt::CollectiveOp op) {
  const std::string place = ech::sourcePlace(op.getLoc());
  return op.getKind().str() + " over " + op.getAxis().str() + (place.empty() ? "" : " (" + place + ")");
}

class Walk {
public:
  explicit Walk(rt::FunctionOp function) : function(function) {}
  LogicalResult run() {
    if (failed(block(function.getBody().front())))
      return failure();
    if (underWay.empty())
      return success();
    rt::CollectiveOp op = underWay.front().op;
    return op.emitError() << described(op) << " is started and never waited for";
  }

private:
  LogicalResult block(Block &block) {
    for (Operation &op : block) {
      if (auto loop = dyn_cast<rt::ForOp>(op)) {
        if (failed(this->loop(loop)))
          return failure();
      } else if (isa<rt::AtOp, rt::StagesOp>(op)) {
        for (Block *inner : rt::blocksOf(&op))
          if (failed(this->block(*inner)))
            return failure();
      } else if (auto wait = dyn_cast<rt::WaitOp>(op)) {
        llvm::erase_if(underWay, [&](UnderWay &other) { return other.op.toWaitFor() == wait.getTicket(); });
      } else if (failed(operation(op))) {
        return failure();
      }
    }
    return success();
  }

  LogicalResult loop(rt::ForOp loop) {
    const auto count = static_cast<int64_t>(loop.getCount()), known = std::max<int64_t>(count, 1); // 0: until data ends
    for (int64_t i = 0; i < known; i = i == 1 ? std::max<int64_t>(2, known - 2) : i + 1) {
      positions[loop.position()] = loop.getReverse() ? known - 1 - i : i;
      if (failed(block(loop.getBody().front())))
        return failure();
    }
    return success();
  }

  LogicalResult operation(Operation &op) {
    auto touches = dyn_cast<rt::Touches>(op);
    if (!touches)
      return success();
    for (const auto &[values, writes] : {std::pair(touches.reads(), false), std::pair(touches.writes(), true)})
      for (Value v : values)
        if (std::optional<Range> range = rangeOf(v); range && failed(compare(op, *range, writes)))
          return failure();
    if (auto message = dyn_cast<rt::CollectiveOp>(op); message && message.isStarted())
      underWay.push_back({message, rangeOf(message.getIn()), rangeOf(message.getOut())});
    return success();
  }

  LogicalResult compare(Operation &op, const Range &range, bool writes) {
    for (UnderWay &other : underWay) {
      const bool isWritten = other.writes && range.overlaps(*other.writes);
      const bool isRead = other.reads && range.overlaps(*other.reads);
      if (!isWritten && !(writes && isRead))
        continue;
      const std::string place = ech::sourcePlace(op.getLoc());
      InFlightDiagnostic error = op.emitError();
      error << op.getName() << (place.empty() ? "" : " (" + place + ")") << (writes ? " writes" : " reads") << " what "
            << described(other.op) << (isWritten ? " writes" : " reads") << " at the same time: no rt.wait orders them";
      error.attachNote(other.op.getLoc()) << "it is started here";
      return error;
    }
    return success();
  }

  /// Where a buffer lies at the positions of the moment; all of the memory that it is part of where that is not known;
  /// nothing of rows that a function is given.
  std::optional<Range> rangeOf(Value buffer) const {
    rt::AllocOp alloc = rt::allocOf(buffer);
    if (!alloc || !alloc.getOffset())
      return std::nullopt;
    const auto start = static_cast<int64_t>(*alloc.getOffset());
    Range range{alloc.getArena(), start, start + rt::buffer(alloc).bytes()};
    const int64_t bytes = rt::buffer(buffer).elementBytes();
    int64_t first = 0;
    Value v = buffer;
    while (auto view = v.getDefiningOp<rt::ViewOp>()) {
      first += static_cast<int64_t>(view.getOffset());
      for (auto [index, factor] : llvm::zip(view.getIndices(), view.getFactors())) {
        auto position = positions.find(index);
        if (position == positions.end())
          return range;
        first += position->second * factor;
      }
      v = view.getBase();
    }
    int64_t last = first;
    for (auto [axis, stride] : llvm::zip(rt::buffer(buffer).getAxes(), rt::buffer(buffer).getStrides())) {
      const int64_t reach = (axis.size - 1) * stride;
      (reach < 0 ? first : last) += reach;
    }
    return Range{range.arena, start + first * bytes, start + (last + 1) * bytes};
  }

  rt::FunctionOp function;
  DenseMap<Value, int64_t> positions; // of loops
  std::vector<UnderWay> underWay;
};

struct CheckStreams : echelon::impl::CheckStreamsBase<CheckStreams> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<rt::FunctionOp>())
      if (failed(Walk(function).run()))
        return signalPassFailure();
  }
};
} // namespace
