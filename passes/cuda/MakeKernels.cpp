// rt-make-kernels: which kernels a nest is in a program for GPUs, and what a thread of each does.
//
// 1. Axes of size 1 vanish; neighbouring axes that every buffer walks in one stride become one loop.
// 2. Outputs that sum over the same loops are one kernel. Element-wise outputs of all loops go with the last of these,
//    which visits every point; alone they are a kernel of their own. An output that lacks loops and sums over none has
//    a kernel over its own loops, after the others, since it may lie where these read.
// 3. What a thread reads in a place that it writes it reads first.
// 4. A value that is used more than once is a variable with a name; all others are where they are used.
// 5. A thread of an element-wise kernel has a pack of neighbours where memory allows it (ChoosePack).
// 6. Kernels that do the same have one name: a program has them once.
// 7. Rules of the update, and squares of a norm, that one launch can do are together (GroupUpdates).
//
//   y[b, h] = x[b, h] * g[h]; s[h] = sum over b of x[b, h]     one kernel, summed [true, false], with both
#include "ir/rt/Together.h"
#include "passes/Nest.h"
#include "passes/Passes.h"
#include "passes/cuda/ChoosePack.h"
#include "passes/cuda/GroupUpdates.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace echelon {
#define GEN_PASS_DEF_MAKEKERNELS
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;

namespace {
constexpr int64_t kFewTerms = 5;      // that an expression may have within another one
constexpr int64_t kLongSum = 1 << 15; // terms; more are added up in f64

/// Makes kernels of one nest, in its second region.
class KernelMaker : Nest {
public:
  KernelMaker(rt::FusedOp op, LocalNames &names, bool isGuarded) : Nest(op, names), isGuarded(isGuarded) {}
  void make();

private:
  using Outputs = SmallVector<size_t>;
  using Moves = std::vector<bool>; // whether a loop moves the place of an output
  using ByMoves = llvm::MapVector<Moves, Outputs, std::map<Moves, unsigned>>;
  Moves movesOf(size_t output) {
    Moves moves;
    for (int64_t stride : stridesOut(output))
      moves.push_back(stride != 0);
    return moves;
  }
  void kernel(const Moves &walked, const Moves &summed, const Outputs &outputs);
  void findNeeded(const Outputs &outputs);
  void declareReadFirst(const Outputs &outputs);
  void declareShared();
  void write(size_t output, const Moves &summed);
  void close(Block &made, ArrayRef<size_t> at, const Moves &summed, const Outputs &outputs);

  bool isGuarded;
  DenseMap<Value, int> uses; // by what the kernel computes
};

void KernelMaker::make() {
  findLoops();
  op.getLoops().getBlocks().clear(); // made by an earlier run of this pass
  op.getLoops().emplaceBlock();
  ByMoves sums, parts;
  Outputs elements;
  for (size_t o = 0; o < op.getOutputs().size(); ++o) {
    const bool isWhole = !llvm::is_contained(stridesOut(o), 0);
    if (isSum(o))
      sums[movesOf(o)].push_back(o);
    else if (isWhole)
      elements.push_back(o);
    else
      parts[movesOf(o)].push_back(o);
  }
  const Moves all(loops.size(), true), none(loops.size(), false);
  if (sums.empty() && !elements.empty())
    kernel(all, none, elements);
  for (auto &[moves, outputs] : sums) {
    if (&outputs == &sums.back().second)
      llvm::append_range(outputs, elements);
    Moves summed = moves;
    summed.flip();
    kernel(all, summed, outputs);
  }
  for (auto &[moves, outputs] : parts)
    kernel(moves, none, outputs);
}

/// How often what the outputs need is used.
void KernelMaker::findNeeded(const Outputs &outputs) {
  uses.clear();
  for (size_t o : outputs)
    ++uses[yielded(o)];
  for (Operation &inner : llvm::reverse(body.without_terminator()))
    if (uses.count(inner.getResult(0)))
      for (Value operand : inner.getOperands())
        ++uses[operand];
}

void KernelMaker::declareReadFirst(const Outputs &outputs) {
  for (size_t i = 0; i < op.getInputs().size(); ++i) {
    BlockArgument argument = body.getArgument(i);
    const bool isOverwritten =
        llvm::any_of(outputs, [&](size_t o) { return rt::overlap(in(i), out(o)) && outputs.size() > 1; });
    if (uses.count(argument) && (isOverwritten || uses.lookup(argument) > 1))
      declared[argument] = declare(load(i), bufferName(in(i)) + (isOverwritten ? "_before" : "_value"));
  }
}

void KernelMaker::declareShared() {
  for (Operation &inner : body.without_terminator()) {
    Value value = inner.getResult(0);
    if (!uses.count(value) || isa<rt::LiteralOp>(inner))
      continue;
    const bool isStored = llvm::any_of(value.getUsers(), [](Operation *user) { return isa<rt::YieldOp>(user); });
    if (uses.lookup(value) > 1 || (!isStored && leavesOf(value) > kFewTerms))
      declared[value] = declare(scalar(value), nameFor(value));
  }
}

void KernelMaker::write(size_t output, const Moves &summed) {
  Value value = scalar(yielded(output));
  if (!isSum(output))
    return store(output, value, mode(output, "add"));
  int64_t terms = 1;
  for (size_t l = 0; l < loops.size(); ++l)
    terms *= summed[l] ? loops[l].size : 1;
  const Place place = placeOf(stridesOut(output));
  rt::SumOp::create(b, loc, value, out(output), place.indices, place.strides, mode(output, "add"),
                    terms > kLongSum && rt::buffer(out(output)).getElement().isF32());
}

/// A kernel over the loops that are walked.
void KernelMaker::kernel(const Moves &walked, const Moves &summed, const Outputs &outputs) {
  declared.clear();
  positions.assign(loops.size(), Value());
  names.open();
  auto made = std::make_unique<Block>();
  SmallVector<size_t> at;
  for (size_t l = 0; l < loops.size(); ++l)
    if (walked[l]) {
      positions[l] = made->addArgument(b.getIndexType(), loc);
      at.push_back(l);
    }
  b.setInsertionPointToEnd(made.get());
  findNeeded(outputs);
  declareReadFirst(outputs);
  declareShared();
  for (size_t o : outputs)
    write(o, summed);
  close(*made, at, summed, outputs);
  names.close();
}

/// Whether two buffers are the same elements in the same places.
static bool areSame(Value a, Value b) {
  auto one = dyn_cast<rt::Buffer>(a.getType()), other = dyn_cast<rt::Buffer>(b.getType());
  auto first = a.getDefiningOp<rt::AllocOp>(), second = b.getDefiningOp<rt::AllocOp>();
  return one && one == other && first && second && first.getArena() == second.getArena() && first.getOffset() &&
         first.getOffset() == second.getOffset();
}

/// What the kernel uses of the function becomes its arguments.
void KernelMaker::close(Block &made, ArrayRef<size_t> at, const Moves &summed, const Outputs &outputs) {
  SmallVector<Value> buffers, numbers;
  DenseMap<Value, Value> same; // what is written in the place of something read is one argument
  auto take = [&](Value v) {
    auto &list = isa<rt::Buffer>(v.getType()) ? buffers : numbers;
    if (llvm::is_contained(list, v) || same.count(v))
      return;
    auto at = llvm::find_if(list, [&](Value other) { return areSame(v, other); });
    if (at == list.end())
      list.push_back(v);
    else
      same[v] = *at;
  };
  for (size_t o : outputs)
    take(out(o));
  for (Operation &inner : made)
    for (Value operand : inner.getOperands())
      if (operand.getParentBlock() != &made)
        take(operand);
  SmallVector<Attribute> sizes, called;
  SmallVector<bool> isSummed;
  for (size_t l : at) {
    sizes.push_back(sizeOf(loops[l]));
    called.push_back(b.getStringAttr(loops[l].name));
    isSummed.push_back(summed[l]);
  }
  for (Value buffer : buffers)
    called.push_back(b.getStringAttr(names.local(bufferName(buffer))));
  for (Value number : numbers) // `lr` is what a rule calls its rate, and a reserved word elsewhere
    called.push_back(b.getStringAttr(nameOf(number) == "lr" ? "lr" : names.local(nameOf(number))));
  for (StringRef index : {"at", "row"})
    called.push_back(b.getStringAttr(names.local(index)));
  b.setInsertionPointToEnd(&op.getLoops().front());
  auto kernel = rt::KernelOp::create(b, op.getLoc(), b.getStringAttr(bufferName(buffers[0]) + "_kernel"),
                                     b.getArrayAttr(sizes), b.getDenseBoolArrayAttr(isSummed), buffers, numbers,
                                     isGuarded ? b.getUnitAttr() : UnitAttr());
  Block &body = kernel.getBody().emplaceBlock();
  for (BlockArgument position : made.getArguments())
    position.replaceAllUsesWith(body.addArgument(position.getType(), loc));
  for (Value given : kernel.getOperands()) {
    Value argument = body.addArgument(given.getType(), loc);
    auto isInside = [&](OpOperand &use) { return use.getOwner()->getBlock() == &made; };
    given.replaceUsesWithIf(argument, isInside);
    for (auto [other, first] : same)
      if (first == given)
        other.replaceUsesWithIf(argument, isInside);
  }
  body.getOperations().splice(body.end(), made.getOperations());
  if (const int64_t pack = choosePack(kernel); pack > 1) {
    kernel->setAttr(rt::kPack, b.getI64IntegerAttr(pack));
    called.push_back(b.getStringAttr(names.loopName("")));
    for (Value buffer : buffers)
      called.push_back(b.getStringAttr(names.local(bufferName(buffer) + "_pack")));
  }
  kernel->setAttr(rt::kName, b.getArrayAttr(called));
}

struct MakeKernels : echelon::impl::MakeKernelsBase<MakeKernels> {
  void runOnOperation() override {
    LocalNames local(getOperation());
    for (auto function : getOperation().getOps<rt::FunctionOp>()) {
      const bool isRule = function.getBody().getNumArguments() > 0;
      groupUpdates(function);
      bool isGuarded = isRule;
      // kernels of one nest after the other, in the order of the program
      function.walk<WalkOrder::PreOrder>([&](Operation *op) {
        if (auto report = dyn_cast<rt::ReportOp>(op))
          isGuarded |= report.getKind() == ech::stringifyReportKind(ech::ReportKind::Norm);
        auto nest = dyn_cast<rt::FusedOp>(op);
        if (!nest)
          return;
        local.enter({});
        KernelMaker(nest, local, isGuarded).make();
        for (auto kernel : nest.getLoops().getOps<rt::KernelOp>())
          name(kernel, isRule ? function.getSymName().str() : kernel.getName().str());
      });
    }
  }

  /// Its name, that of an earlier kernel which does the same.
  void name(rt::KernelOp kernel, const std::string &wanted) {
    kernel.setName("");
    std::string what;
    llvm::raw_string_ostream text(what);
    kernel->print(text, OpPrintingFlags().printGenericOpForm().useLocalScope());
    for (Value number : kernel.getNumbers()) // one that the run provides is read from where it is
      if (auto provided = number.getDefiningOp<rt::NumberOp>())
        text << provided->getAttrDictionary();
    auto known = names.find(what);
    if (known != names.end())
      return kernel.setName(known->second);
    std::string free = uniqueName(wanted, [&](StringRef name) { return !taken.insert(name).second; });
    kernel.setName(names[what] = free);
  }
  llvm::StringMap<std::string> names; // of kernels, by what they do
  llvm::StringSet<> taken;
};
} // namespace
