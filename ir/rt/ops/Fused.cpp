// rt.fused: which loops, and what stands at which depth of them.
//
// 1. Axes of size 1 vanish; neighbouring axes that every buffer walks in one stride become one loop.
// 2. Each value stands at the depth of the innermost loop that it depends on, so what is constant along a row is
//    computed once a row.
// 3. A sum over innermost loops goes through a local variable, in any order along the innermost one; a sum over outer
//    ones adds to the output in place. A long sum of floats is added up in blocks, and the blocks in double (of rows:
//    LongSum), so that its error does not grow with its length.
#include "ir/rt/Rt.h"
#include "ir/rt/ops/Expression.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace echelon::rt;
using echelon::ech::Axis;

LogicalResult FusedOp::verifyRegions() {
  if (getAxes().size() != getSizes().size())
    return emitOpError() << "has one size an axis";
  Block &body = getBody().front();
  if (body.getNumArguments() != getInputs().size() + getNumbers().size())
    return emitOpError() << "has one block argument for each buffer it reads and each number";
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield || yield.getValues().size() != getOutputs().size() || getModes().size() != getOutputs().size())
    return emitOpError() << "yields one value, and has one mode, for each output";
  for (Value v : llvm::concat<Value>(llvm::to_vector(getInputs()), llvm::to_vector(getOutputs())))
    for (const ech::Axis &a : buffer(v).getAxes()) {
      auto at = llvm::find_if(llvm::enumerate(getAxes()), [&](auto e) { return e.value() == a.name; });
      if (a.size != 1 && (at == llvm::enumerate(getAxes()).end() || getSizes()[(*at).index()] != a.size))
        return emitOpError() << "walks the axis " << a.name << " of its buffers at its size";
    }
  for (auto along : body.getOps<AlongOp>())
    if (!ech::has(getAxes(), along.getAxis()))
      return along.emitOpError() << "asks for the position along " << along.getAxis()
                                 << ", which the nest does not walk";
  for (Attribute mode : getModes())
    if (StringRef m = cast<StringAttr>(mode).getValue(); m != "store" && m != "sum" && m != "add")
      return emitOpError() << "stores, sums or adds, not '" << m << "'";
  return success();
}

SmallVector<Value> FusedOp::reads() {
  SmallVector<Value> values(getInputs());
  for (auto [mode, out] : llvm::zip(getModes(), getOutputs()))
    if (cast<StringAttr>(mode).getValue() == "add")
      values.push_back(out);
  return values;
}
SmallVector<Value> FusedOp::writes() { return SmallVector<Value>(getOutputs()); }

// Elementwise outputs with the strides of an input are written where that input was just read.
bool FusedOp::mayShare(Value written, Value read) {
  if (buffer(written) != buffer(read))
    return false;
  for (auto [mode, out] : llvm::zip(getModes(), getOutputs()))
    if (out == written && cast<StringAttr>(mode).getValue() != "store")
      return false;
  int64_t space = 1;
  for (int64_t size : getSizes())
    space *= size;
  return buffer(written).count() == space; // each element is visited once
}

namespace {
/// "q" of "act.q[l]".
std::string ownName(StringRef text) {
  text = text.take_until([](char c) { return c == '['; });
  return text.substr(text.rfind('.') + 1).str();
}

/// A stride as text: by the names of the axes inside of it.
std::string strideText(Value v, int64_t stride, Writer &writer) {
  auto axes = axesWithin(v, stride);
  return axes ? writer.size(*axes) : std::to_string(stride);
}

struct Loop {
  std::string name;
  int64_t size;
  SmallVector<Axis> axes; // that it walks, slowest first
};

constexpr int64_t kSumBlock = 256; // floats, as in the runtime's sums

class Nest {
public:
  Nest(FusedOp op, Writer &writer) : op(op), writer(writer), body(op.getBody().front()) {}
  void emit();

private:
  void findLoops();
  void findLevels();
  void findNames();
  int levelOf(ArrayRef<int64_t> strides) const;
  std::string place(Value buffer, ArrayRef<int64_t> strides);
  std::string bound(const Loop &loop) { return writer.size(loop.axes); }
  std::string place(size_t access, Value buffer) { return place(buffer, strides[access]); }
  /// What a value is assigned to: a place, or the variable that is declared so.
  std::string target(size_t output) {
    Value out = op.getOutputs()[output];
    std::string text = place(op.getInputs().size() + output, out);
    return writer.isVariable(out) ? ("const " + storedAs(buffer(out).getElement()) + " " + text).str() : text;
  }
  Expression expression(Value value);
  void declareAt(int level);
  void nameOverwritten(int level);
  void nameInvariant(int level);
  bool isUsedBelow(Value value, int level);
  std::string innermostPragma();
  void emitInnermost(int level);
  void emitLevel(int level);
  void finishLevel(int level);
  bool mode(size_t output, StringRef name) { return cast<StringAttr>(op.getModes()[output]).getValue() == name; }
  ArrayRef<int64_t> stridesOut(size_t output) { return strides[op.getInputs().size() + output]; }
  /// Whether the output is a sum over loops; whether over the innermost, so that a local variable can hold it.
  bool isSum(size_t output) { return !mode(output, "store") && llvm::is_contained(stridesOut(output), 0); }
  int depthOfUse(size_t output) { return isSum(output) ? int(loops.size()) : depth[output]; }
  bool isInner(size_t output) { return isSum(output) && depth[output] < int(loops.size()); }
  /// Whether a local variable of floats would be added to more often than a block is long.
  bool isLong(size_t output) {
    int64_t terms = 1;
    for (const Loop &loop : ArrayRef(loops).drop_front(depth[output]))
      terms *= loop.size;
    return isInner(output) && terms > kSumBlock && buffer(op.getOutputs()[output]).getElement().isF32();
  }
  /// The loops before the first that the place of an output depends on: each of their iterations adds a row to it.
  size_t rowLoops(size_t output) {
    ArrayRef<int64_t> s = stridesOut(output);
    return llvm::find_if(s, [](int64_t stride) { return stride != 0; }) - s.begin();
  }
  /// Whether more is added to a place of floats, row after row, than a block is long.
  bool isLongOverRows(size_t output) {
    Value out = op.getOutputs()[output];
    return isSum(output) && terms(output, 0, depth[output]) > kSumBlock && rowLoops(output) > 0 && depth[output] > 0 &&
           buffer(out).getElement().isF32() && buffer(out).isDense();
  }
  /// How many values are added to one place over the loops [from, to).
  int64_t terms(size_t output, size_t from, size_t to) {
    int64_t product = 1;
    for (size_t l = from; l < to; ++l)
      product *= stridesOut(output)[l] == 0 ? loops[l].size : 1;
    return product;
  }
  /// The variable that the innermost loop adds to.
  const std::string &added(size_t output) { return isLong(output) ? blocks[output] : sums[output]; }

  FusedOp op;
  Writer &writer;
  Block &body;
  SmallVector<Loop> loops;
  SmallVector<SmallVector<int64_t>> strides; // of inputs, then outputs, one a loop
  SmallVector<int> depth;                    // of outputs: loops that their place depends on (the innermost + 1)
  llvm::StringMap<int> loopOf;               // of axes that positions are asked of
  DenseMap<Value, int> level;
  DenseMap<Value, std::string> names; // of values held in variables, and of loads
  SmallVector<std::string> sums;      // local variables of inner sums
  SmallVector<std::string> blocks;    // of one block of a long one
  SmallVector<std::string> totals;    // LongSums
};

void Nest::findLoops() {
  SmallVector<Value> buffers(op.getInputs());
  llvm::append_range(buffers, op.getOutputs());
  strides.resize(buffers.size());
  llvm::SmallDenseSet<StringRef> indexed;
  for (Operation &inner : body)
    if (auto along = dyn_cast<AlongOp>(inner))
      indexed.insert(along.getAxis());
  bool lastIndexed = false;
  for (auto [axis, size] : llvm::zip(op.getAxes(), op.getSizes())) {
    StringRef name = cast<StringAttr>(axis).getValue();
    bool isIndexed = indexed.contains(name);
    if (size == 1) {
      if (isIndexed)
        loopOf[name] = -1;
      continue;
    }
    Axis walked{cast<StringAttr>(axis), size};
    SmallVector<int64_t> here = llvm::map_to_vector(buffers, [&](Value v) { return buffer(v).strideOf(name); });
    bool joins = !loops.empty() && !isIndexed && !lastIndexed;
    for (size_t b = 0; joins && b < buffers.size(); ++b)
      joins = strides[b].back() == here[b] * size;
    if (joins) {
      loops.back().size *= size;
      loops.back().name = "";
      loops.back().axes.push_back(walked);
      for (size_t b = 0; b < buffers.size(); ++b)
        strides[b].back() = here[b];
    } else {
      loops.push_back({size == kAnyLength ? "" : name.str(), size, {walked}});
      for (size_t b = 0; b < buffers.size(); ++b)
        strides[b].push_back(here[b]);
    }
    if (isIndexed)
      loopOf[name] = loops.size() - 1;
    lastIndexed = isIndexed;
  }
  for (Loop &loop : loops)
    loop.name = writer.fresh(loop.name);
  for (size_t o = 0; o < op.getOutputs().size(); ++o)
    depth.push_back(levelOf(strides[op.getInputs().size() + o]));
}

int Nest::levelOf(ArrayRef<int64_t> s) const {
  for (size_t i = s.size(); i-- > 0;)
    if (s[i] != 0)
      return i + 1;
  return 0;
}

void Nest::findLevels() {
  for (size_t i = 0; i < op.getInputs().size(); ++i)
    level[body.getArgument(i)] = levelOf(strides[i]);
  for (size_t i = 0; i < op.getNumbers().size(); ++i)
    level[body.getArgument(op.getInputs().size() + i)] = 0;
  for (Operation &inner : body.without_terminator()) {
    int at = 0;
    if (auto along = dyn_cast<AlongOp>(inner))
      at = loopOf.lookup(along.getAxis()) + 1;
    else
      for (Value v : inner.getOperands())
        if (!isa<IndexType>(v.getType()))
          at = std::max(at, level.lookup(v));
    level[inner.getResult(0)] = at;
  }
}

std::string Nest::place(Value buffer, ArrayRef<int64_t> s) {
  std::string index;
  for (auto [loop, stride] : llvm::zip(loops, s))
    if (stride != 0)
      index +=
          (index.empty() ? "" : " + ") + loop.name + (stride == 1 ? "" : " * " + strideText(buffer, stride, writer));
  return index.empty() ? writer.element(buffer) : writer.name(buffer) + "[" + index + "]";
}

Expression Nest::expression(Value value) {
  if (auto known = names.find(value); known != names.end())
    return {known->second, 9};
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    size_t i = argument.getArgNumber();
    if (i < op.getInputs().size()) {
      std::string text = place(i, op.getInputs()[i]);
      return value.getType().isInteger(1) ? Expression{text + " != 0", 3} : Expression{text, 9};
    }
    Value number = op.getNumbers()[i - op.getInputs().size()];
    std::string text = writer.name(number);
    if (number.getType() == value.getType())
      return {text, 9};
    return {("static_cast<" + storedAs(value.getType()) + ">(" + text + ")").str(), 9};
  }
  Operation *inner = value.getDefiningOp();
  if (auto constant = dyn_cast<LiteralOp>(inner)) {
    double number = constant.getValue().convertToDouble();
    return {literal(number, value.getType()), number < 0 ? 6 : 9};
  }
  if (auto along = dyn_cast<AlongOp>(inner)) {
    int loop = loopOf.lookup(along.getAxis());
    std::string text = loop < 0 ? "0" : loops[loop].name;
    if (along.getOffset())
      text = loop < 0 ? writer.name(along.getOffset()) : writer.name(along.getOffset()) + " + " + text;
    return {"static_cast<int32_t>(" + text + ")", 9};
  }
  auto compute = cast<ComputeOp>(inner);
  auto operands = llvm::map_to_vector(compute.getOperands(), [&](Value v) { return expression(v); });
  return apply(compute.getFunction(), operands, llvm::to_vector(compute.getOperandTypes()), value.getType());
}

/// Declares as variables the values of a level that are used more than once, that a deeper level uses, or that would
/// make too long a line.
void Nest::declareAt(int at) {
  nameOverwritten(at);
  nameInvariant(at);
  for (Operation &inner : body.without_terminator()) {
    Value value = inner.getResult(0);
    if (level.lookup(value) != at || isa<LiteralOp>(inner) || value.use_empty())
      continue;
    bool deeper = isUsedBelow(value, at); // it would be computed once an iteration
    Expression text = expression(value);
    bool several = !value.hasOneUse();
    bool onlyStored = !several && isa<YieldOp>(*value.getUsers().begin());
    if (!several && !deeper && (onlyStored || text.text.size() <= 72))
      continue;
    std::string name = writer.local(nameOf(inner.getLoc()).empty() ? "e" : nameOf(inner.getLoc()));
    StringRef type = value.getType().isInteger(1) ? "bool" : storedAs(value.getType());
    writer.assign(("const " + type + " " + name).str(), "=", text.text);
    names[value] = name;
  }
}

/// What the host compiler may assume of the innermost loop: sums in local variables are added up in any order.
std::string Nest::innermostPragma() {
  std::string names;
  for (size_t o = 0; o < sums.size(); ++o)
    if (isInner(o))
      names += (names.empty() ? "" : ", ") + added(o);
  return names.empty() ? "#pragma GCC ivdep" : "#pragma omp simd reduction(+ : " + names + ")";
}

void Nest::emitLevel(int at) {
  auto yield = cast<YieldOp>(body.getTerminator());
  size_t inputs = op.getInputs().size();
  declareAt(at);
  for (auto [o, out] : llvm::enumerate(op.getOutputs()))
    if (isInner(o) && depth[o] == at) {
      sums[o] = writer.local(ownName(writer.name(out)) + "_sum");
      StringRef type = isLong(o) ? "double" : storedAs(buffer(out).getElement());
      writer.line((type + " " + sums[o] + " = 0;").str());
    }
  if (at < int(loops.size())) {
    // stores that lie at this depth come before the loops inside
    for (auto [o, out] : llvm::enumerate(op.getOutputs()))
      if (!isSum(o) && depth[o] == at)
        writer.assign(target(o), mode(o, "add") ? "+=" : "=", expression(yield.getValues()[o]).text);
    if (at + 1 == int(loops.size())) {
      emitInnermost(at);
    } else {
      const Loop &loop = loops[at];
      writer.open("for (int64_t " + loop.name + " = 0; " + loop.name + " < " + bound(loop) + "; ++" + loop.name +
                  ") {");
      emitLevel(at + 1);
      for (size_t o = 0; o < totals.size(); ++o)
        if (!totals[o].empty() && int(rowLoops(o)) == at + 1)
          writer.line(totals[o] + ".row();");
      writer.close();
    }
  } else {
    for (auto [o, out] : llvm::enumerate(op.getOutputs())) {
      std::string value = expression(yield.getValues()[o]).text;
      if (isInner(o))
        writer.assign(added(o), "+=", value);
      else if (isSum(o))
        writer.assign(place(inputs + o, out), "+=", value);
      else if (depth[o] == at)
        writer.assign(target(o), mode(o, "add") ? "+=" : "=", value);
    }
  }
  finishLevel(at);
}

/// The innermost loop; where it is longer than a block of a long sum, block by block.
void Nest::emitInnermost(int at) {
  const Loop &loop = loops[at];
  SmallVector<size_t> longs;
  for (size_t o = 0; o < op.getOutputs().size(); ++o)
    if (isLong(o))
      longs.push_back(o);
  const std::string block = llvm::Twine(kSumBlock).str(), size = bound(loop);
  const bool cut = !longs.empty() && loop.size > kSumBlock;
  std::string first = "0", end = size;
  if (cut) {
    first = writer.fresh(loop.name + "_first");
    end = first + " + " + block;
    writer.open("for (int64_t " + first + " = 0; " + first + " < " + size + "; " + first + " += " + block + ") {");
    if (loop.size % kSumBlock) {
      const std::string last = writer.fresh(loop.name + "_end");
      writer.line("const int64_t " + last + " = std::min<int64_t>(" + end + ", " + size + ");");
      end = last;
    }
  }
  for (size_t o : longs) {
    blocks[o] = writer.local("block");
    writer.line("float " + blocks[o] + " = 0;");
  }
  writer.line(innermostPragma());
  writer.open("for (int64_t " + loop.name + " = " + first + "; " + loop.name + " < " + end + "; ++" + loop.name +
              ") {");
  emitLevel(at + 1);
  writer.close();
  for (size_t o : longs)
    writer.assign(sums[o], "+=", blocks[o]);
  if (cut)
    writer.close();
}

/// After the loops inside depth `at`: what their sums came to.
void Nest::finishLevel(int at) {
  for (auto [o, out] : llvm::enumerate(op.getOutputs()))
    if (isInner(o) && depth[o] == at) {
      bool outer = llvm::is_contained(stridesOut(o).take_front(at), 0);
      writer.assign(target(o), outer || mode(o, "add") ? "+=" : "=",
                    isLong(o) ? "static_cast<float>(" + sums[o] + ")" : sums[o]);
    }
}

/// What lies where an output does is read before any output is written there: with several outputs, the load of one
/// expression could otherwise see what the statement before has stored.
void Nest::nameOverwritten(int at) {
  if (op.getOutputs().size() < 2)
    return;
  for (size_t i = 0; i < op.getInputs().size(); ++i) {
    Value in = op.getInputs()[i];
    BlockArgument argument = body.getArgument(i);
    if (level.lookup(argument) != at || names.count(argument) || argument.use_empty() ||
        llvm::none_of(op.getOutputs(), [&](Value out) { return overlap(in, out); }))
      continue;
    StringRef type = argument.getType().isInteger(1) ? "bool" : storedAs(argument.getType());
    std::string name = writer.local(ownName(writer.name(in)) + "_before");
    writer.assign(("const " + type + " " + name).str(), "=", expression(argument).text);
    names[argument] = name;
  }
}

/// What is loaded for a loop inside, and stays the same there, is loaded before it: the host compiler cannot know that
/// no store of the loop changes it, and may give up on vectors.
void Nest::nameInvariant(int at) {
  for (size_t i = 0; i < op.getInputs().size() && at < int(loops.size()); ++i) {
    BlockArgument argument = body.getArgument(i);
    if (level.lookup(argument) != at || names.count(argument) || !isUsedBelow(argument, at) ||
        writer.isVariable(op.getInputs()[i]))
      continue;
    StringRef type = argument.getType().isInteger(1) ? "bool" : storedAs(argument.getType());
    std::string name =
        writer.local(ownName(writer.name(op.getInputs()[i])) + "_" + (at ? loops[at - 1].name : "value"));
    writer.assign(("const " + type + " " + name).str(), "=", expression(argument).text);
    names[argument] = name;
  }
}

bool Nest::isUsedBelow(Value value, int at) {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    if (isa<YieldOp>(use.getOwner()))
      return depthOfUse(use.getOperandNumber()) > at;
    return level.lookup(use.getOwner()->getResult(0)) > at;
  });
}

void Nest::emit() {
  for (Value v : op.getNumbers())
    writer.name(v);
  for (Operation &inner : body)
    if (auto along = dyn_cast<AlongOp>(inner))
      if (along.getOffset())
        writer.name(along.getOffset());
  for (Value v : llvm::concat<Value>(llvm::to_vector(op.getInputs()), llvm::to_vector(op.getOutputs())))
    writer.name(v);
  findLoops();
  findLevels();
  sums.resize(op.getOutputs().size());
  blocks.resize(op.getOutputs().size());
  totals.resize(op.getOutputs().size());
  SmallVector<Operation *> inside{op};
  for (Operation &inner : body.without_terminator())
    inside.push_back(&inner);
  writer.sources(inside);
  // sums over outer loops start from zero
  for (auto [o, out] : llvm::enumerate(op.getOutputs())) {
    ArrayRef<int64_t> s = stridesOut(o);
    if (isLongOverRows(o)) {
      totals[o] = writer.local(ownName(writer.name(out)) + "_sum");
      const int64_t values = terms(o, rowLoops(o), depth[o]);
      const std::string further = mode(o, "add") ? ", " + std::to_string(values) + ", LongSum::FromPlace"
                                  : values == 1  ? ""
                                                 : ", " + std::to_string(values);
      writer.line("LongSum " + totals[o] + "(" + writer.name(out) + ", " + writer.size(buffer(out).getAxes()) +
                  further + ");");
    } else if (isSum(o) && mode(o, "sum") && llvm::is_contained(s.take_front(depth[o]), 0)) {
      std::string zero = literal(0, buffer(out).getElement());
      writer.line("fill(" + writer.name(out) + ", " + writer.size(buffer(out).getAxes()) + ", " + zero + ");");
    }
  }
  emitLevel(0);
  for (const std::string &total : totals)
    if (!total.empty())
      writer.line(total + ".finish();");
}
} // namespace

void FusedOp::emit(Writer &writer) { Nest(*this, writer).emit(); }
