// All ranks of a laid-out step, run on numbers.
#include "test/passes/layout/Ranks.h"
#include "test/passes/layout/Partials.h"
#include <cmath>

using namespace mlir;
using namespace echelon;
using namespace echelon::test;
using dist::Hold;
using dist::MeshAttr;
using dist::StateAttr;

namespace {

using PerRank = std::vector<Array>;
using Coordinates = SmallVector<int64_t>;

struct Ranks {
  ModuleOp module;
  MeshAttr mesh;
  const Feed &feed;
  Outcome &outcome;
  std::string trouble;
  std::vector<Coordinates> coordinates;
  DenseMap<Value, PerRank> values;
  Surroundings around;
  std::map<std::string, PerRank> pending; // writes
  std::map<std::pair<const void *, int64_t>, std::vector<char>> masks;

  Ranks(ModuleOp module, const Feed &feed, Outcome &outcome, const Surroundings &around)
      : module(module), feed(feed), outcome(outcome), around(around) {
    mesh = dist::meshOf(module);
    if (!mesh)
      mesh = MeshAttr::get(module.getContext(), ArrayRef<dist::MeshAxis>());
    for (int64_t r = 0; r < mesh.ranks(); ++r)
      coordinates.push_back(dist::coordinates(mesh, r));
  }
  int64_t ranks() const { return mesh.ranks(); }
  int64_t rankAt(ArrayRef<int64_t> at) const {
    int64_t r = 0;
    for (int m = 0; m < mesh.size(); ++m)
      r = r * mesh.sizeOf(m) + at[m];
    return r;
  }
  void fail(Operation *op, const Twine &what) {
    if (trouble.empty()) {
      llvm::raw_string_ostream text(trouble);
      text << what << " at " << *op;
    }
  }
  StateAttr stateOf(Tensor type) const {
    StateAttr state = dist::stateOf(type);
    return state ? state : dist::wholeState(mesh);
  }
  static double unheld(Tensor type) { return type.isFloat() ? NAN : 0; }

  /// Which elements a rank holds.
  const std::vector<char> &held(Tensor type, int64_t rank) {
    std::vector<char> &mask = masks[{type.getAsOpaquePointer(), rank}];
    if (!mask.empty() || type.count() == 0)
      return mask;
    mask.resize(type.count());
    std::vector<std::vector<dist::Interval>> runs;
    SmallVector<int64_t> size;
    for (StringRef axis : type.names()) {
      runs.push_back(dist::runs(type, axis, mesh, coordinates[rank]));
      size.push_back(dist::localSize(type, axis, mesh));
    }
    auto placeOf = [&](size_t axis, int64_t position) -> int64_t { // in storage; -1: not held
      int64_t before = 0;
      for (const dist::Interval &run : runs[axis]) {
        if (run.begin <= position && position < run.end)
          return before + position - run.begin;
        before += run.end - run.begin;
      }
      return -1;
    };
    const size_t above = dist::axesAboveFlat(type);
    int64_t flatFirst = 0, flatSize = 1;
    for (int64_t n : ArrayRef(size).drop_front(above))
      flatSize *= n;
    int64_t flatEnd = flatSize;
    for (int m : dist::flatCuts(type)) { // each pads the piece before: nothing of the next piece is in it
      flatSize = llvm::divideCeil(flatSize, mesh.sizeOf(m));
      flatFirst += flatSize * coordinates[rank][m];
      flatEnd = std::min(flatEnd, flatFirst + flatSize);
    }
    Space space;
    space.add(type);
    Array like(type.withState({}));
    space.each([&] {
      int64_t local = 0;
      bool inside = true;
      for (auto [i, axis] : llvm::enumerate(type.names())) {
        int64_t at = placeOf(i, space.at(axis));
        inside &= at >= 0;
        if (i >= above) // each slice is cut by itself
          local = local * size[i] + at;
      }
      mask[space.in(like)] = inside && local >= flatFirst && local < flatEnd;
    });
    return mask;
  }
  /// What is left to a rank of a whole value.
  void keep(Array &x, Tensor type, int64_t rank) {
    const std::vector<char> &mask = held(type, rank);
    for (size_t i = 0; i < x.data.size(); ++i)
      if (!mask[i])
        x.data[i] = unheld(type);
    x.type = type;
  }

  /// What the ranks hold together that differ from `rank` only over `group`: sums added, parts put together.
  /// `reduction`: "max" or "min" of what each found instead.
  Array together(const PerRank &x, Tensor type, int64_t rank, ArrayRef<int> group, StringRef reduction = "") {
    StateAttr state = stateOf(type);
    Array sum(type);
    std::vector<char> any(type.count(), 0);
    std::function<void(ArrayRef<int>, Coordinates &)> visit = [&](ArrayRef<int> left, Coordinates &at) {
      if (!left.empty()) {
        int m = left.front();
        if (state[m].hold == Hold::Whole)
          return visit(left.drop_front(), at);
        int64_t before = at[m];
        for (at[m] = 0; at[m] < mesh.sizeOf(m); ++at[m])
          visit(left.drop_front(), at);
        at[m] = before;
        return;
      }
      int64_t r = rankAt(at);
      const std::vector<char> &mask = held(type, r);
      for (size_t i = 0; i < sum.data.size(); ++i)
        if (mask[i]) {
          const double one = x[r].data[i], so = sum.data[i];
          sum.data[i] = reduction.empty()    ? so + one
                        : !any[i]            ? one
                        : reduction == "max" ? std::max(so, one)
                                             : std::min(so, one);
          any[i] = 1;
        }
    };
    Coordinates at = coordinates[rank];
    visit(group, at);
    for (size_t i = 0; i < sum.data.size(); ++i)
      if (!any[i])
        sum.data[i] = unheld(type);
    return sum;
  }
  PerRank converted(const PerRank &x, Tensor from, Tensor to, ArrayRef<int> group) {
    PerRank result;
    for (int64_t r = 0; r < ranks(); ++r) {
      Array y = together(x, from, r, group);
      for (int m = 0; m < mesh.size(); ++m) // a whole value enters a sum as held by coordinate 0
        if (stateOf(from)[m].hold == Hold::Whole && stateOf(to)[m].hold == Hold::Sum && coordinates[r][m] != 0)
          std::fill(y.data.begin(), y.data.end(), 0);
      keep(y, to, r);
      result.push_back(std::move(y));
    }
    return result;
  }
  SmallVector<int> meshAxes(ArrayAttr names) {
    SmallVector<int> result;
    for (auto name : names.getAsRange<StringAttr>())
      result.push_back(mesh.index(name));
    return result;
  }
  SmallVector<int> allAxes() { return llvm::to_vector(llvm::seq<int>(0, mesh.size())); }

  /// The whole value, where every replica is the same.
  Array assembled(Operation *op, const PerRank &x, Tensor type) {
    Array whole = together(x, type, 0, allAxes());
    StateAttr state = stateOf(type);
    for (int64_t r = 0; r < ranks(); ++r)
      for (size_t i = 0; i < whole.data.size(); ++i)
        if (held(type, r)[i] && llvm::none_of(state.getEntries(), [](auto &e) { return e.hold == Hold::Sum; }) &&
            !(x[r].data[i] == whole.data[i])) {
          fail(op, "rank " + Twine(r) + " holds " + std::to_string(x[r].data[i]) + ", not " +
                       std::to_string(whole.data[i]));
          return whole;
        }
    for (double v : whole.data)
      if (std::isnan(v))
        fail(op, "a value that no rank holds");
    whole.type = type.withState({});
    return whole;
  }

  PerRank fed(StringRef name, Tensor type) {
    PerRank result;
    for (int64_t r = 0; r < ranks(); ++r) {
      Array x = feed.at(name.str());
      x.type = type;
      keep(x, type, r);
      result.push_back(std::move(x));
    }
    return result;
  }

  static bool isBlock(dist::Entry entry) { return entry.hold == Hold::Split || entry.hold == Hold::Cut; }

  /// Of attention whose keys go round, a sum over these ranks is what coordinate 0 makes: each sees all of it here.
  void keepShare(Operation *op, Array &y, unsigned result, int64_t rank) {
    auto ring = op->getAttrOfType<StringAttr>(dist::kRing);
    const int m = ring ? mesh.index(ring) : -1;
    if (m >= 0 && stateOf(ech::tensor(op->getResult(result)))[m].hold == Hold::Sum && coordinates[rank][m] != 0)
      llvm::fill(y.data, 0);
  }

  void ordinary(Operation *op) {
    std::vector<PerRank> results(op->getNumResults());
    auto inside = op->getAttrOfType<ArrayAttr>(dist::kInside);
    const auto ring = op->getAttrOfType<StringAttr>(dist::kRing);
    if (ring)
      inside = Builder(op).getArrayAttr(ring);
    for (int64_t r = 0; r < ranks() && trouble.empty(); ++r) {
      std::vector<Array> operands;
      for (Value operand : op->getOperands()) {
        Tensor type = ech::tensor(operand);
        const PerRank &x = values[operand];
        Array mine = inside ? together(x, type, r, meshAxes(inside)) : x[r];
        for (double &x :
             mine.data) // what ranks beside the ring hold is nothing: what is made of it is a sum, or not kept
          x = ring && std::isnan(x) ? 0 : x;
        // along an axis that the result sums away, what others hold is nothing
        StateAttr state = stateOf(type);
        auto extreme = dyn_cast<ech::ReduceOp>(op);
        const double nothing = !extreme || extreme.getKind() == ech::Reduction::Sum ? 0
                               : extreme.getKind() == ech::Reduction::Max           ? -INFINITY
                                                                                    : INFINITY;
        for (int m = 0; !inside && m < mesh.size(); ++m) {
          bool summed = isBlock(state[m]) && llvm::any_of(op->getResults(), [&](Value v) {
                          Hold hold = stateOf(ech::tensor(v))[m].hold;
                          return hold == Hold::Sum || hold == Hold::Own;
                        });
          if (!summed)
            continue;
          Tensor alone = type.withState(dist::wholeState(mesh).with(m, state[m]));
          for (int other = 0; other < mesh.size(); ++other) // blocks of the axis over all mesh axes that divide it
            if (isBlock(state[other]) && state[other].axis == state[m].axis)
              alone = alone.withState(stateOf(alone).with(other, state[other]));
          const std::vector<char> &mask = held(alone, r);
          for (size_t i = 0; i < mine.data.size(); ++i)
            if (!mask[i])
              mine.data[i] = nothing;
        }
        operands.push_back(std::move(mine));
      }
      std::vector<Array> made = evaluate(op, operands, around);
      if (Type type = interpret::roundsTo(op))
        for (double &x : made[0].data)
          x = interpret::rounded(x, type);
      for (auto [i, y] : llvm::enumerate(made)) {
        keepShare(op, y, i, r);
        keep(y, ech::tensor(op->getResult(i)), r);
        results[i].push_back(std::move(y));
      }
    }
    for (auto [result, value] : llvm::zip(op->getResults(), results))
      values[result] = std::move(value);
  }

  /// The rank with the same coordinates, but on the stage that does an iteration; the rank itself where all do all.
  int64_t rankOfIteration(ech::RepeatOp op, int64_t position, int64_t rank) const {
    const int stages = dist::stagesOf(mesh, op.getAxis());
    if (stages < 0)
      return rank;
    Coordinates at = coordinates[rank];
    const auto count = int64_t(op.getCount());
    const dist::OwnerMap map = mesh.mapOf(stages, op.getAxis(), count);
    int64_t chunk = map.isEqual() ? position / (count / (map.chunks * mesh.sizeOf(stages))) : 0;
    while (!map.isEqual() && map.before(chunk + 1) <= position)
      ++chunk;
    at[stages] = chunk % mesh.sizeOf(stages);
    return rankAt(at);
  }
  /// In a pipeline each rank does all iterations, with what the stages have; each has the stacks and sums of its own.
  void repeat(ech::RepeatOp op) {
    std::vector<PerRank> carried, stacks, sums;
    for (Value v : op.getCarried())
      carried.push_back(values[v]);
    for (Value v : op.getStacks())
      stacks.emplace_back(ranks(), Array(ech::tensor(v), unheld(ech::tensor(v))));
    for (Value v : op.getSums())
      sums.emplace_back(ranks(), Array(ech::tensor(v)));
    int64_t n = op.getCount();
    around.loops.push_back({op.getAxis().str(), 0, n, op.getTime()});
    for (int64_t step = 0; step < n; ++step) {
      int64_t position = op.getReverse() ? n - 1 - step : step;
      around.loops.back().position = position;
      for (auto [argument, x] : llvm::zip(op.carriedArguments(), carried))
        values[argument] = x;
      for (auto [argument, source] : llvm::zip(op.sliceArguments(), op.getSlices())) {
        PerRank slice;
        for (int64_t r = 0; r < ranks(); ++r)
          slice.push_back(
              picked(values[source][rankOfIteration(op, position, r)], ech::tensor(argument), op.getAxis(), position));
        values[argument] = std::move(slice);
      }
      run(*op.block());
      if (!trouble.empty())
        return;
      ech::YieldOp yield = op.yield();
      for (auto [x, v] : llvm::zip(carried, yield.getCarried()))
        x = values[v];
      for (auto [x, v] : llvm::zip(stacks, yield.getStacked()))
        for (int64_t r = 0; r < ranks(); ++r)
          if (rankOfIteration(op, position, r) == r)
            put(x[r], values[v][r], op.getAxis(), position);
      for (auto [x, v] : llvm::zip(sums, yield.getSummed()))
        for (int64_t r = 0; r < ranks(); ++r)
          for (size_t i = 0; i < x[r].data.size() && rankOfIteration(op, position, r) == r; ++i)
            x[r].data[i] += values[v][r].data[i];
    }
    around.loops.pop_back();
    for (auto [results, from] :
         {std::pair(op.getFinals(), &carried), std::pair(op.getStacks(), &stacks), std::pair(op.getSums(), &sums)})
      for (auto [v, x] : llvm::zip(results, *from)) {
        for (Array &a : x)
          a.type = ech::tensor(v);
        values[v] = std::move(x);
      }
  }
  static Array picked(const Array &x, Tensor type, StringRef axis, int64_t position) {
    Array result(type);
    Space space;
    space.add(type);
    space.each([&] { result.data[space.in(result)] = x.data[space.in(x) + position * x.stride(axis)]; });
    return result;
  }
  static void put(Array &into, const Array &x, StringRef axis, int64_t position) {
    Space space;
    space.add(x.type);
    space.each([&] { into.data[space.in(into) + position * into.stride(axis)] = x.data[space.in(x)]; });
  }

  /// Each rank does what one stage does; of a sum over the stages the others have nothing.
  void at(dist::AtOp op) {
    run(*op.block());
    const int m = mesh.index(op.getOver());
    const int64_t stage = int64_t(op.getPlace()) % mesh.sizeOf(m);
    for (auto [value, result] : llvm::zip(op.yield().getValues(), op.getResults())) {
      PerRank made = values[value];
      const bool isShare = stateOf(ech::tensor(value))[m] != stateOf(ech::tensor(result))[m];
      for (int64_t r = 0; r < ranks(); ++r) {
        made[r].type = ech::tensor(result);
        if (isShare && coordinates[r][m] != stage)
          llvm::fill(made[r].data, 0);
      }
      values[result] = std::move(made);
    }
  }

  /// What each rank finds of its part, or makes of what all found.
  void local(Operation *op) {
    std::vector<PerRank> results(op->getNumResults());
    for (int64_t r = 0; r < ranks(); ++r) {
      std::vector<Array> operands;
      for (Value operand : op->getOperands())
        operands.push_back(values[operand][r]);
      std::vector<Array> made;
      if (auto partial = dyn_cast<dist::PartialOp>(op)) {
        auto isCounted = [&](unsigned i) { // where it is whole over an axis of the sum, coordinate 0 counts it
          for (int m : dist::sums(ech::tensor(op->getResult(0))))
            if (!stateOf(ech::tensor(op->getOperand(i)))[m].isPart() && coordinates[r][m] != 0)
              return false;
          return true;
        };
        auto heldOf = [&](unsigned i) -> const std::vector<char> & { return held(ech::tensor(op->getOperand(i)), r); };
        made = partialOf(partial, operands, heldOf, isCounted);
      } else {
        made = combined(cast<dist::CombineOp>(op), operands);
      }
      for (auto [i, y] : llvm::enumerate(made)) {
        keep(y, ech::tensor(op->getResult(i)), r);
        results[i].push_back(std::move(y));
      }
    }
    for (auto [result, value] : llvm::zip(op->getResults(), results))
      values[result] = std::move(value);
  }
  /// On each rank what those of its group found, one after the other.
  void collect(dist::CollectOp op) {
    Tensor type = ech::tensor(op.getResult());
    SmallVector<int> group = meshAxes(op.getOver());
    llvm::sort(group);
    PerRank result;
    for (int64_t r = 0; r < ranks(); ++r) {
      Array all(type);
      const size_t count = all.data.size() / type.getAxes()[0].size;
      for (int64_t i = 0; i < int64_t(type.getAxes()[0].size); ++i) {
        Coordinates at = coordinates[r];
        int64_t left = i;
        for (int m : llvm::reverse(group)) {
          at[m] = left % mesh.sizeOf(m);
          left /= mesh.sizeOf(m);
        }
        const Array &part = values[op.getValue()][rankAt(at)];
        std::copy(part.data.begin(), part.data.end(), all.data.begin() + i * count);
      }
      result.push_back(std::move(all));
    }
    values[op.getResult()] = std::move(result);
  }

  /// Each rank's own part of the sum, at its worker's place.
  void perWorker(ech::PerWorkerOp op) {
    Tensor type = ech::tensor(op.getResult());
    PerRank result;
    for (int64_t r = 0; r < ranks(); ++r) {
      const Array &part = values[op.getOperand()][r];
      Array y(type);
      Space space;
      space.add(type);
      space.each([&] { y.data[space.in(y)] = part.data[space.in(part)]; });
      keep(y, type, r);
      result.push_back(std::move(y));
    }
    values[op.getResult()] = std::move(result);
  }

  void operation(Operation *op) {
    if (auto read = dyn_cast<ech::ReadOp>(op)) {
      values[read.getValue()] = fed(read.getSource(), ech::tensor(read.getValue()));
    } else if (auto write = dyn_cast<ech::WriteOp>(op)) {
      StringRef target = write.getTarget(); // kept gradients are variables of their own
      auto &into = target.consume_front("gradient.") ? outcome.gradients : outcome.written;
      into[target.str()] = assembled(op, values[write.getValue()], ech::tensor(write.getValue()));
    } else if (auto gradient = dyn_cast<ech::GradientOp>(op)) {
      outcome.gradients[gradient.getParameter().str()] =
          assembled(op, values[gradient.getValue()], ech::tensor(gradient.getValue()));
    } else if (auto report = dyn_cast<ech::ReportOp>(op)) {
      outcome.reports[report.getName().str()] =
          assembled(op, values[report.getValue()], ech::tensor(report.getValue())).data[0];
    } else if (auto loop = dyn_cast<ech::RepeatOp>(op)) {
      repeat(loop);
    } else if (auto ofStage = dyn_cast<dist::AtOp>(op)) {
      at(ofStage);
    } else if (auto receive = dyn_cast<dist::ReceiveOp>(op)) { // all ranks have it
      PerRank same = values[receive.getValue()];
      values[receive.getResult()] = std::move(same);
    } else if (auto start = dyn_cast<dist::StartOp>(op)) {
      messages(start, start.getValues(), start.wait().getResults(), meshAxes(start.getOver()));
    } else if (auto each = dyn_cast<ech::PerWorkerOp>(op)) {
      perWorker(each);
    } else if (auto handed = dyn_cast<ech::HandInOp>(op)) { // a message brought it
      PerRank same = values[handed.getOperand()];
      for (Array &x : same)
        x.type = ech::tensor(handed.getResult());
      values[handed.getResult()] = std::move(same);
    } else if (auto wait = dyn_cast<dist::WaitEachOp>(op)) { // the sums are there
      PerRank same = values[wait.getStack()];
      values[wait.getResult()] = std::move(same);
    } else if (auto mask = dyn_cast<dist::MaskOp>(op)) {
      PerRank same = values[mask.getValue()]; // whole arrays have no padding
      values[mask.getResult()] = std::move(same);
    } else if (isa<dist::PartialOp, dist::CombineOp>(op)) {
      local(op);
    } else if (auto all = dyn_cast<dist::CollectOp>(op)) {
      collect(all);
    } else if (auto reduce = dyn_cast<dist::AllReduceOp>(op); reduce && reduce.getReduction()) {
      for (auto [x, y] : llvm::zip(reduce.getValues(), reduce.getResults())) {
        PerRank result;
        for (int64_t r = 0; r < ranks(); ++r) {
          result.push_back(together(values[x], ech::tensor(x), r, meshAxes(reduce.getOver()), *reduce.getReduction()));
          keep(result.back(), ech::tensor(y), r);
        }
        values[y] = std::move(result);
      }
    } else if (auto convert = dyn_cast<dist::ConvertOp>(op)) {
      messages(op, op->getOperands(), op->getResults(), allAxes());
    } else if (op->getName().getDialectNamespace() == "dist") {
      if (!isa<dist::WaitOp, dist::YieldOp, dist::SendOp>(op))
        messages(op, op->getOperands(), op->getResults(), meshAxes(op->getAttrOfType<ArrayAttr>("over")));
    } else if (!isa<ech::YieldOp>(op)) {
      ordinary(op);
    }
  }
  void messages(Operation *op, ValueRange from, ValueRange to, ArrayRef<int> over) {
    for (unsigned i = 0; i < from.size(); ++i) {
      Value x = from[i], y = to[i];
      SmallVector<int> group = llvm::filter_to_vector(over, [&](int m) {
        return stateOf(ech::tensor(x))[m] != stateOf(ech::tensor(y))[m] || isa<dist::ExchangeOp>(op);
      });
      if (isa<dist::SliceOp>(op)) // local
        group.clear();
      values[y] = converted(values[x], ech::tensor(x), ech::tensor(y), group);
    }
  }
  void run(Block &block) {
    for (Operation &op : block)
      if (trouble.empty())
        operation(&op);
  }
};
} // namespace

std::string echelon::test::runStep(ModuleOp module, StringRef name, const Feed &feed, Outcome &outcome,
                                   const Surroundings &around) {
  Ranks ranks(module, feed, outcome, around);
  for (auto step : module.getOps<ech::StepOp>())
    if (step.getSymName() == name)
      ranks.run(step.getBody().front());
  return ranks.trouble;
}

std::map<std::string, int64_t> echelon::test::countMessages(ModuleOp module, StringRef name) {
  std::map<std::string, int64_t> counts;
  for (auto step : module.getOps<ech::StepOp>()) {
    if (step.getSymName() != name)
      continue;
    step.walk([&](Operation *op) {
      int64_t times = 1;
      for (auto loop = op->getParentOfType<ech::RepeatOp>(); loop; loop = loop->getParentOfType<ech::RepeatOp>())
        times *= loop.getCount();
      auto joined = [](ArrayAttr names) {
        std::string text;
        for (auto n : names.getAsRange<StringAttr>())
          text += (text.empty() ? "" : "+") + n.str();
        return text;
      };
      if (auto over = op->getAttrOfType<ArrayAttr>("over"); over && op->getName().getDialectNamespace() == "dist") {
        if (!isa<dist::SliceOp>(op)) {
          auto started = op->getAttrOfType<StringAttr>("kind"); // of dist.start, dist.start_each
          StringRef kind = started ? started.getValue() : op->getName().stripDialect();
          counts[kind.str() + " " + joined(over)] += times;
        }
      }
    });
  }
  return counts;
}
