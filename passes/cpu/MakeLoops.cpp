// rt-make-loops: which loops a nest is in a program for CPUs, and what is at which depth of them.
//
// 1. Axes of size 1 vanish; neighbouring axes that every buffer walks in one stride become one loop.
// 2. Each value is at the depth of the innermost loop that it depends on, so what is constant along a row is
//    computed once a row.
// 3. A sum over innermost loops goes through a local variable, in any order along the innermost one; a sum over outer
//    ones adds to the output in place. A long sum of floats is added up in blocks, and the blocks in double (of rows:
//    LongSum), so that its error does not grow with its length.
// 4. A value that is used more than once, or in a loop further in, is a variable with a name; all others are where
//    they are used.
//
//   for b                      a sum over s of [b, s]: `sum` at depth 1, `block` and the loop inside
//     double sum = 0
//     for s_first by 256
//       float block = 0
//       for s from s_first     innermost
//         block += x[b, s]
//       sum += block
//     y[b] = sum
#include "passes/Nest.h"
#include "passes/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace echelon {
#define GEN_PASS_DEF_MAKELOOPS
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;

namespace {
constexpr int64_t kSumBlock = 256; // floats, as in the runtime's sums
constexpr int64_t kFewTerms = 5;   // that an expression may have within another one

class NestMaker : Nest {
public:
  NestMaker(rt::FusedOp op, LocalNames &names) : Nest(op, names) {}
  void make();

private:
  // what there is
  /// Whether the sum is over the innermost loops, so that a local variable can hold it.
  bool isInner(size_t output) { return isSum(output) && depth[output] < int(loops.size()); }
  int depthOfUse(size_t output) { return isSum(output) ? int(loops.size()) : depth[output]; }
  bool isUsedBelow(Value value, int level);
  /// How many values are added to one place over the loops [from, to).
  int64_t terms(size_t output, size_t from, size_t to) {
    int64_t product = 1;
    for (size_t l = from; l < to; ++l)
      product *= stridesOut(output)[l] == 0 ? loops[l].size : 1;
    return product;
  }
  /// Whether a local variable of floats would be added to more often than a block is long.
  bool isLong(size_t output) {
    int64_t times = 1;
    for (const Loop &loop : ArrayRef(loops).drop_front(depth[output]))
      times *= loop.size;
    return isInner(output) && times > kSumBlock && rt::buffer(out(output)).getElement().isF32();
  }
  /// The loops before the first that the place of an output depends on: each of their iterations adds a row to it.
  size_t rowLoops(size_t output) {
    ArrayRef<int64_t> s = stridesOut(output);
    return llvm::find_if(s, [](int64_t stride) { return stride != 0; }) - s.begin();
  }
  /// Whether more is added to a place of floats, row after row, than a block is long.
  bool isLongOverRows(size_t output) {
    return isSum(output) && terms(output, 0, depth[output]) > kSumBlock && rowLoops(output) > 0 && depth[output] > 0 &&
           rt::buffer(out(output)).getElement().isF32() && rt::buffer(out(output)).isDense();
  }

  // what is made of it
  void beginRows();
  void makeLevel(int at);
  void declareAt(int at);
  void nameOverwritten(int at);
  void nameInvariant(int at);
  void innermost(int at);
  void storeAt(size_t output);
  void finishLevel(int at);
  /// A loop around what `inside` makes.
  void inLoop(rt::LoopOp loop, const std::string &name, function_ref<void()> inside);

  SmallVector<Value> sums;   // variables of inner sums
  SmallVector<Value> blocks; // of one block of a long one
  SmallVector<Value> totals; // long sums over rows
};

bool NestMaker::isUsedBelow(Value value, int at) {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    if (isa<rt::YieldOp>(use.getOwner()))
      return depthOfUse(use.getOperandNumber()) > at;
    return levels.lookup(use.getOwner()->getResult(0)) > at;
  });
}

/// Declares as variables the values of a level that are used more than once, that a deeper level uses, or that would
/// make too long an expression.
void NestMaker::declareAt(int at) {
  nameOverwritten(at);
  nameInvariant(at);
  for (Operation &inner : body.without_terminator()) {
    Value value = inner.getResult(0);
    if (levels.lookup(value) != at || isa<rt::LiteralOp>(inner) || value.use_empty())
      continue;
    const bool onlyStored = value.hasOneUse() && isa<rt::YieldOp>(*value.getUsers().begin());
    if (value.hasOneUse() && !isUsedBelow(value, at) && (onlyStored || leavesOf(value) <= kFewTerms))
      continue;
    declared[value] = declare(scalar(value), nameFor(value));
  }
}

/// What lies where an output does is read before any output is written there: with several outputs, the load of one
/// expression could otherwise see what the statement before has stored.
void NestMaker::nameOverwritten(int at) {
  if (op.getOutputs().size() < 2)
    return;
  for (size_t i = 0; i < op.getInputs().size(); ++i) {
    BlockArgument argument = body.getArgument(i);
    if (levels.lookup(argument) != at || declared.count(argument) || argument.use_empty() ||
        llvm::none_of(op.getOutputs(), [&](Value written) { return rt::overlap(in(i), written); }))
      continue;
    declared[argument] = declare(load(i), bufferName(in(i)) + "_before");
  }
}

/// What is loaded for a loop inside, and stays the same there, is loaded before it: the host compiler cannot know that
/// no store of the loop changes it, and may give up on vectors.
void NestMaker::nameInvariant(int at) {
  for (size_t i = 0; i < op.getInputs().size() && at < int(loops.size()); ++i) {
    BlockArgument argument = body.getArgument(i);
    if (levels.lookup(argument) != at || declared.count(argument) || !isUsedBelow(argument, at) || isVariable(in(i)))
      continue;
    declared[argument] = declare(load(i), bufferName(in(i)) + "_" + (at ? loops[at - 1].name : "value"));
  }
}

//===- loops -----------------------------------------------------------------------------------------------------===//

void NestMaker::inLoop(rt::LoopOp loop, const std::string &name, function_ref<void()> inside) {
  setName(loop, name);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&loop.getBody().front());
  names.open();
  inside();
  names.close();
}

/// Stores of level `at`, and sums of the innermost one.
void NestMaker::storeAt(size_t o) {
  Value value = scalar(yielded(o));
  if (isInner(o))
    rt::AccumulateOp::create(b, loc, value, isLong(o) ? blocks[o] : sums[o]);
  else
    store(o, value, isSum(o) || mode(o, "add"));
}

void NestMaker::makeLevel(int at) {
  declareAt(at);
  for (size_t o = 0; o < op.getOutputs().size(); ++o)
    if (isInner(o) && depth[o] == at) {
      Type element = isLong(o) ? b.getF64Type() : rt::buffer(out(o)).getElement();
      sums[o] = declare(rt::LocalOp::create(b, loc, rt::LocalType::get(b.getContext(), element)),
                        bufferName(out(o)) + "_sum");
    }
  if (at == int(loops.size())) {
    for (size_t o = 0; o < op.getOutputs().size(); ++o)
      if (isSum(o) || depth[o] == at)
        storeAt(o);
  } else {
    // stores that lie at this depth come before the loops inside
    for (size_t o = 0; o < op.getOutputs().size(); ++o)
      if (!isSum(o) && depth[o] == at)
        storeAt(o);
    if (at + 1 == int(loops.size()))
      innermost(at);
    else {
      auto loop = rt::LoopOp::create(b, loc, sizeOf(loops[at]));
      inLoop(loop, loops[at].name, [&] {
        positions.push_back(loop.position());
        makeLevel(at + 1);
        positions.pop_back();
        for (size_t o = 0; o < totals.size(); ++o)
          if (totals[o] && int(rowLoops(o)) == at + 1)
            rt::EndRowOp::create(b, loc, totals[o]);
      });
    }
  }
  finishLevel(at);
}

/// The innermost loop; where it is longer than a block of a long sum, block by block.
void NestMaker::innermost(int at) {
  const Loop &loop = loops[at];
  SmallVector<size_t> longs;
  for (size_t o = 0; o < op.getOutputs().size(); ++o)
    if (isLong(o))
      longs.push_back(o);
  auto walk = [&](Value start, Value end) {
    for (size_t o : longs)
      blocks[o] = declare(rt::LocalOp::create(b, loc, rt::LocalType::get(b.getContext(), b.getF32Type())), "block");
    SmallVector<Value> added;
    for (size_t o = 0; o < op.getOutputs().size(); ++o)
      if (isInner(o))
        added.push_back(isLong(o) ? blocks[o] : sums[o]);
    auto made = rt::LoopOp::create(b, loc, sizeOf(loop), start, end, 0, /*innermost=*/true, added);
    inLoop(made, loop.name, [&] {
      positions.push_back(made.position());
      makeLevel(at + 1);
      positions.pop_back();
    });
    for (size_t o : longs)
      rt::AccumulateOp::create(b, loc, rt::TotalOp::create(b, loc, b.getF32Type(), blocks[o]), sums[o]);
  };
  if (longs.empty() || loop.size <= kSumBlock)
    return walk({}, {});
  const std::string first = names.loopName(loop.name + "_first");
  auto byBlocks = rt::LoopOp::create(b, loc, sizeOf(loop), Value(), Value(), kSumBlock);
  const bool isCut = loop.size % kSumBlock != 0; // the last block is shorter
  const std::string last = isCut ? names.loopName(loop.name + "_end") : "";
  inLoop(byBlocks, first, [&] {
    auto end = rt::BlockEndOp::create(b, loc, b.getIndexType(), byBlocks.position(), b.getI64IntegerAttr(kSumBlock),
                                      isCut ? sizeOf(loop) : rt::SizeAttr());
    if (isCut)
      setName(end, last);
    walk(byBlocks.position(), end);
  });
}

/// After the loops inside depth `at`: what their sums came to.
void NestMaker::finishLevel(int at) {
  for (size_t o = 0; o < op.getOutputs().size(); ++o)
    if (isInner(o) && depth[o] == at) {
      const bool outer = llvm::is_contained(stridesOut(o).take_front(at), 0);
      store(o, rt::TotalOp::create(b, loc, rt::buffer(out(o)).getElement(), sums[o]), outer || mode(o, "add"));
    }
}

/// Sums over outer loops start from zero.
void NestMaker::beginRows() {
  for (size_t o = 0; o < op.getOutputs().size(); ++o)
    if (isLongOverRows(o))
      totals[o] = declare(rt::LongSumOp::create(b, loc, rt::LongSumType::get(b.getContext()), out(o),
                                                terms(o, rowLoops(o), depth[o]), mode(o, "add")),
                          bufferName(out(o)) + "_sum");
    else if (isSum(o) && mode(o, "sum") && llvm::is_contained(stridesOut(o).take_front(depth[o]), 0))
      rt::ZeroOp::create(b, loc, out(o));
}

void NestMaker::make() {
  findLoops();
  findLevels();
  const size_t outputs = op.getOutputs().size();
  sums.resize(outputs);
  blocks.resize(outputs);
  totals.resize(outputs);
  op.getLoops().getBlocks().clear(); // made by an earlier run of this pass
  b.setInsertionPointToEnd(&op.getLoops().emplaceBlock());
  beginRows();
  makeLevel(0);
  for (Value total : totals)
    if (total)
      rt::EndSumOp::create(b, loc, total);
  names.releaseLoopNames();
}

struct MakeLoops : echelon::impl::MakeLoopsBase<MakeLoops> {
  using Functions = llvm::MapVector<StringRef, SmallVector<Operation *>>;

  void runOnOperation() override {
    LocalNames names(getOperation());
    for (auto function : getOperation().getOps<rt::FunctionOp>()) {
      Functions functions;
      const bool isCut = function.getSymName() == "train" || function.getSymName() == "evaluate";
      collect(function.getBody().front(), isCut, functions);
      for (auto &[name, ops] : functions) {
        names.enter(ops);
        for (Operation *op : ops)
          make(*op, names);
      }
    }
  }

  /// The functions of the program, with their operations. A loop of a step that is in none calls several.
  static void collect(Block &block, bool isCut, Functions &functions) {
    for (Operation &op : block) {
      const auto blocks = rt::blocksOf(&op);
      if (isCut && !blocks.empty() && rt::functionOf(&op).empty())
        for (Block *inner : blocks)
          collect(*inner, isCut, functions);
      else if (!rt::isDeclaration(op))
        functions[rt::functionOf(&op)].push_back(&op);
    }
  }

  void make(Operation &op, LocalNames &names) {
    if (auto nest = dyn_cast<rt::FusedOp>(op))
      NestMaker(nest, names).make();
    for (Block *block : rt::blocksOf(&op)) {
      names.open();
      for (Operation &inner : *block)
        make(inner, names);
      names.close();
    }
  }
};
} // namespace
