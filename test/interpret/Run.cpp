// Steps and loops.
#include "test/interpret/Walk.h"
#include <cmath>

using namespace mlir;
using namespace echelon::ech;
using namespace echelon::interpret;

namespace {

class Runner {
public:
  Runner(Machine &machine) : machine(machine) {}

  void run(Block &block) {
    for (Operation &op : block)
      run(&op);
  }
  Results results;

private:
  std::vector<std::string> order(Value value) { return Array(tensor(value)).axes; }

  void run(Operation *op) {
    if (auto read = dyn_cast<ReadOp>(op)) {
      values[read.getValue()] = this->read(read);
    } else if (auto write = dyn_cast<WriteOp>(op)) {
      results.writes[write.getTarget().str()] = values.at(write.getValue());
    } else if (auto gradient = dyn_cast<GradientOp>(op)) {
      results.gradients[gradient.getParameter().str()] = values.at(gradient.getValue());
    } else if (auto report = dyn_cast<ReportOp>(op)) {
      results.reports[report.getName().str()] = values.at(report.getValue()).values[0];
    } else if (auto repeat = dyn_cast<RepeatOp>(op)) {
      loop(repeat);
    } else if (!isa<YieldOp>(op)) {
      std::vector<Array> operands;
      for (Value v : op->getOperands())
        operands.push_back(values.at(v));
      std::vector<Array> out = compute(op, operands, machine);
      machine.keep(op, out);
      for (auto [value, array] : llvm::zip(op->getResults(), out))
        values[value] = std::move(array);
    }
  }

  Array read(ReadOp read) {
    auto found = machine.values.find(read.getSource().str());
    if (found == machine.values.end())
      llvm::report_fatal_error(llvm::Twine("no value for ") + read.getSource());
    Array whole = found->second.inOrder(order(read.getValue()));
    for (const Loop &loop : machine.loops)
      if (loop.time && loop.axis == "batches") // this batch of the held-out set, its last one filled up
        return part(whole, loop.position * tensor(read.getValue()).sizeOf(machine.batchAxis), read.getValue());
    return whole;
  }
  Array part(const Array &whole, int64_t first, Value value) {
    Array y(machine.shape(value));
    Walk walk = walkOver({&y});
    walk.run([&] {
      int64_t place = 0;
      bool there = true;
      for (size_t i = 0; i < whole.axes.size(); ++i) {
        int64_t at = walk.coordinate(whole.axes[i]) + (whole.axes[i] == machine.batchAxis ? first : 0);
        there &= at < whole.sizes[i];
        place = place * whole.sizes[i] + at;
      }
      y.values[walk.at(0)] = there ? whole.values[place] : 0;
    });
    return y;
  }

  /// Passes over the held-out set.
  int64_t batches(RepeatOp op) {
    int64_t size = 1;
    op.getBody().walk([&](ReadOp read) {
      if (tensor(read.getValue()).has(machine.batchAxis))
        size = tensor(read.getValue()).sizeOf(machine.batchAxis);
    });
    return (machine.values.at(std::string(kValidSamples)).values.size() + size - 1) / size;
  }

  void loop(RepeatOp op) {
    int64_t count = op.getCount() ? op.getCount() : batches(op);
    unsigned carried = op.getCarried().size(), stacked = op.getStacks().size();
    std::vector<Array> state, stacks(stacked), sums(op.getSums().size()), whole;
    for (Value v : op.getCarried())
      state.push_back(values.at(v));
    std::string axis = op.getAxis().str();
    for (Value v : op.getSlices()) { // the axis slowest: a slice is a run of values
      std::vector<std::string> axes{axis};
      for (const std::string &a : values.at(v).axes)
        if (a != axis)
          axes.push_back(a);
      whole.push_back(values.at(v).inOrder(axes));
    }
    machine.loops.push_back({axis, 0, count, op.getTime()});
    for (int64_t i = 0; i < count; ++i) {
      int64_t position = op.getReverse() ? count - 1 - i : i;
      machine.loops.back().position = position;
      for (auto [argument, array] : llvm::zip(op.carriedArguments(), state))
        values[argument] = array;
      for (auto [argument, array] : llvm::zip(op.sliceArguments(), whole)) {
        Array slice;
        slice.axes.assign(array.axes.begin() + 1, array.axes.end());
        slice.sizes.assign(array.sizes.begin() + 1, array.sizes.end());
        int64_t n = array.values.size() / array.sizes[0];
        slice.values.assign(array.values.begin() + position * n, array.values.begin() + (position + 1) * n);
        values[argument] = slice.inOrder(order(argument));
      }
      run(*op.block());
      YieldOp yield = op.yield();
      for (unsigned k = 0; k < carried; ++k)
        state[k] = values.at(yield.getCarried()[k]).inOrder(order(op.getFinals()[k]));
      for (unsigned k = 0; k < stacked; ++k) {
        const Array &x = values.at(yield.getStacked()[k]);
        Array &stack = stacks[k];
        if (stack.axes.empty()) {
          stack.axes = x.axes;
          stack.axes.insert(stack.axes.begin(), axis);
          stack.sizes = x.sizes;
          stack.sizes.insert(stack.sizes.begin(), count);
          stack.values.assign(count * x.values.size(), 0);
        }
        std::copy(x.values.begin(), x.values.end(), stack.values.begin() + position * x.values.size());
      }
      for (size_t k = 0; k < sums.size(); ++k) {
        const Array &x = values.at(yield.getSummed()[k]);
        if (i == 0)
          sums[k] = x;
        else
          for (size_t j = 0; j < x.values.size(); ++j)
            sums[k].values[j] += x.values[j];
      }
    }
    machine.loops.pop_back();
    for (auto [value, array] : llvm::zip(op.getFinals(), state))
      values[value] = array;
    for (auto [value, array] : llvm::zip(op.getStacks(), stacks))
      values[value] = array;
    for (auto [value, array] : llvm::zip(op.getSums(), sums))
      values[value] = array;
  }

  Machine &machine;
  struct Values {
    llvm::DenseMap<Value, Array> map;
    Array &operator[](Value v) { return map[v]; }
    const Array &at(Value v) {
      auto found = map.find(v);
      if (found == map.end())
        llvm::report_fatal_error("the interpreter reads a value before it is computed");
      return found->second;
    }
  } values;
};

} // namespace

Results echelon::interpret::run(StepOp step, Machine &machine) {
  Runner runner(machine);
  runner.run(step.getBody().front());
  return std::move(runner.results);
}
