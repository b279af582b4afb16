#include "codegen/cuda/Kernels.h"
#include "codegen/Scalars.h"
#include "codegen/Text.h"
#include "passes/LocalNames.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

namespace {
using Axes = SmallVector<ech::Axis>;

/// Loops of a kernel, summed ones or the others, and the one index that they are made of.
class Positions {
public:
  Positions(rt::KernelOp kernel, bool areSummed, Printer &printer) : printer(printer) {
    for (auto [i, size] : llvm::enumerate(kernel.getSizes().getAsRange<rt::SizeAttr>()))
      if (kernel.getSummed()[i] == areSummed) {
        names.push_back(nameOf(kernel.getBody().getArgument(i)));
        sizes.push_back(Axes(size.getAxes()));
      }
  }
  bool empty() const { return names.empty(); }
  /// The index itself, where one loop is all that there is.
  std::string index(StringRef otherwise) const { return names.size() == 1 ? names[0] : otherwise.str(); }
  std::string count() const { return product(0, sizes.size()); }
  /// The sizes of loops [from, to).
  std::string product(size_t from, size_t to) const {
    Axes all;
    for (size_t i = from; i < to; ++i)
      llvm::append_range(all, sizes[i]);
    return printer.size(all);
  }
  int64_t number() const {
    int64_t product = 1;
    for (const Axes &axes : sizes)
      for (const ech::Axis &axis : axes)
        product *= axis.size;
    return product;
  }
  /// `const int64_t i = at / seq, j = at % seq;` of the first `loops` ones.
  void declare(StringRef index, size_t loops) const {
    if (loops == 0 || (loops == 1 && index == names[0]))
      return;
    SmallVector<std::string> parts;
    for (size_t i = 0; i < loops; ++i) {
      std::string text = index.str();
      if (i + 1 < loops) {
        const std::string inner = product(i + 1, loops);
        text += " / " + (StringRef(inner).contains(' ') ? "(" + inner + ")" : inner);
      }
      if (i > 0) {
        const std::string own = product(i, i + 1);
        text += " % " + (StringRef(own).contains(' ') ? "(" + own + ")" : own);
      }
      parts.push_back(names[i] + " = " + text);
    }
    printer.line("const int64_t " + llvm::join(parts, ", ") + ";");
  }

  SmallVector<std::string> names;
  SmallVector<Axes> sizes;

private:
  Printer &printer;
};

class KernelPrinter : ScalarPrinter {
public:
  KernelPrinter(rt::KernelOp kernel, const Cuda &cuda, Printer &printer)
      : ScalarPrinter(printer), kernel(kernel), cuda(cuda), kept(kernel, false, printer),
        summed(kernel, true, printer) {}
  void print();

private:
  using ScalarPrinter::spell;
  Expression number(Value value) override;
  SmallVector<std::string> parameters();
  void elements();
  void rows();
  void columns();
  void declareSums(bool byColumns);
  void points();
  /// What the threads have added up, in one of them.
  void finishSums(StringRef function, StringRef condition);
  /// Of several sums into one buffer each has its own.
  std::string sumName(rt::SumOp sum) {
    int number = 0;
    for (auto other : kernel.getBody().getOps<rt::SumOp>()) {
      number += other.getBuffer() == sum.getBuffer();
      if (other == sum)
        break;
    }
    return nameOf(sum.getBuffer()) + "_sum" + (number > 1 ? "_" + std::to_string(number) : "");
  }
  static std::string sumType(rt::SumOp sum) {
    return sum.getWide() ? "double" : rt::storedAs(rt::buffer(sum.getBuffer()).getElement()).str();
  }
  static std::string partsOf(rt::SumOp sum) { return sum.getWide() ? "wide_parts" : "parts"; }
  /// What the pass calls an index: the last names but one and the last.
  std::string indexName(unsigned fromEnd) {
    auto names = kernel->getAttrOfType<ArrayAttr>(rt::kName);
    return cast<StringAttr>(names[names.size() - fromEnd]).str();
  }
  std::string at() { return indexName(2); }
  std::string row() { return indexName(1); }

  rt::KernelOp kernel;
  const Cuda &cuda;
  Positions kept, summed;
};

Expression KernelPrinter::number(Value value) {
  auto argument = cast<BlockArgument>(value);
  Value given = kernel.operandOf(argument);
  if (Cuda::isOfStep(given))
    return {("now->" + cuda.nameOf(given.getDefiningOp<rt::NumberOp>())).str(), 9};
  if (isa<BlockArgument>(given) && !given.getType().isIndex()) // a rule is given where its numbers are
    return {nameOf(value) + "[0]", 9};
  return {nameOf(value), 9};
}

/// The types and names of what a kernel is given, in the order of its launch.
SmallVector<std::string> KernelPrinter::parameters() {
  SmallVector<std::string> all;
  DenseSet<Value> written;
  for (Operation &op : kernel.getBody().front()) {
    if (auto store = dyn_cast<rt::StoreOp>(op))
      written.insert(store.getBuffer());
    if (auto sum = dyn_cast<rt::SumOp>(op))
      written.insert(sum.getBuffer());
  }
  bool readsNumbers = false;
  for (BlockArgument argument : kernel.getBody().getArguments().drop_front(kernel.getSizes().size())) {
    Value given = kernel.operandOf(argument);
    const std::string name = nameOf(argument);
    if (auto buffer = dyn_cast<rt::Buffer>(argument.getType()))
      all.push_back((written.contains(argument) ? "" : "const ") + rt::storedAs(buffer.getElement()).str() + " *" +
                    name);
    else if (Cuda::isOfStep(given))
      readsNumbers = true;
    else if (isa<BlockArgument>(given) && !given.getType().isIndex())
      all.push_back("const " + rt::storedAs(given.getType()).str() + " *" + name);
    else
      all.push_back((given.getType().isIndex() ? "int64_t " : "double ") + name);
  }
  for (const Axes &axes : kept.sizes)
    if (axes.size() == 1 && axes[0].size == rt::kAnyLength)
      all.push_back("int64_t " + printer.size(axes));
  if (readsNumbers)
    all.push_back("const Numbers *now");
  if (kernel.getGuarded())
    all.push_back("const Health *health");
  return all;
}

void KernelPrinter::print() {
  SmallVector<Operation *> sources{kernel};
  auto nest = kernel->getParentOfType<rt::FusedOp>();
  for (Operation &inner : nest.getBody().front().without_terminator())
    sources.push_back(&inner);
  printer.from(sources, [&] {
    printer.open(filled(("__global__ void " + kernel.getName() + "(").str(), parameters(), ") {", 0));
    if (kernel.getGuarded()) {
      printer.line("if (health->isBroken)");
      printer.line("  return;");
    }
    if (!kernel.sums())
      elements();
    else if (kernel.sumsInnermost())
      rows();
    else
      columns();
    printer.close();
  });
}

/// What the kernel does at one point.
void KernelPrinter::points() {
  for (Operation &op : kernel.getBody().front()) {
    if (auto store = dyn_cast<rt::StoreOp>(op))
      spell(store);
    else if (auto sum = dyn_cast<rt::SumOp>(op))
      printer.assign(sumName(sum), "+=", expression(sum.getValue()).text);
    else
      declare(&op);
  }
}

void KernelPrinter::elements() {
  if (kept.empty()) {
    printer.line("if (gpu::element() > 0)");
    printer.line("  return;");
  } else {
    const std::string index = kept.index(at());
    printer.line("const int64_t " + index + " = gpu::element();");
    printer.line("if (" + index + " >= " + kept.count() + ")");
    printer.line("  return;");
    kept.declare(index, kept.names.size());
  }
  points();
}

void KernelPrinter::declareSums(bool byColumns) {
  for (bool wide : {false, true})
    for (auto sum : kernel.getBody().getOps<rt::SumOp>())
      if (static_cast<bool>(sum.getWide()) == wide) {
        printer.line("__shared__ " + sumType(sum) + " " + partsOf(sum) + "[" + (byColumns ? "1024" : "32") + "];");
        break;
      }
}

void KernelPrinter::finishSums(StringRef function, StringRef condition) {
  for (auto sum : kernel.getBody().getOps<rt::SumOp>())
    printer.line(sumName(sum) + " = " + function + "(" + sumName(sum) + ", " + partsOf(sum) + ");");
  printer.open("if (" + condition + ") {");
  for (auto sum : kernel.getBody().getOps<rt::SumOp>()) {
    std::string value = sumName(sum);
    if (sum.getWide())
      value = ("static_cast<" + rt::storedAs(rt::buffer(sum.getBuffer()).getElement()) + ">(" + value + ")").str();
    printer.assign(place(sum.getBuffer(), sum.getIndices(), sum.getStrides()), sum.getAdds() ? "+=" : "=", value);
  }
  printer.close();
}

void KernelPrinter::rows() {
  declareSums(false);
  if (!kept.empty()) {
    const std::string index = kept.index(row());
    printer.line("const int64_t " + index + " = blockIdx.x;");
    kept.declare(index, kept.names.size());
  }
  for (auto sum : kernel.getBody().getOps<rt::SumOp>())
    printer.line(sumType(sum) + " " + sumName(sum) + " = 0;");
  const std::string index = summed.index(at());
  printer.open("for (int64_t " + index + " = threadIdx.x; " + index + " < " + summed.count() + "; " + index +
               " += blockDim.x) {");
  summed.declare(index, summed.names.size());
  points();
  printer.close();
  finishSums("gpu::block_sum", "threadIdx.x == 0");
}

void KernelPrinter::columns() {
  declareSums(true);
  const size_t last = kept.names.size() - 1;
  const std::string column = kept.names[last], columns = kept.product(last, last + 1);
  if (last == 0) {
    printer.line("const int64_t " + column + " = gpu::column();");
  } else {
    printer.line("const int64_t " + column + " = gpu::column(" + columns + "), " + row() + " = gpu::row_of_columns(" +
                 columns + ");");
    // the loops outside of the columns
    Positions outside = kept;
    outside.names.pop_back();
    outside.sizes.pop_back();
    if (outside.names.size() == 1)
      printer.line("const int64_t " + outside.names[0] + " = " + row() + ";");
    else
      outside.declare(row(), outside.names.size());
  }
  for (auto sum : kernel.getBody().getOps<rt::SumOp>())
    printer.line(sumType(sum) + " " + sumName(sum) + " = 0;");
  printer.open("if (" + column + " < " + columns + ") {");
  const std::string index = summed.index(at());
  printer.open("for (int64_t " + index + " = gpu::warp(); " + index + " < " + summed.count() + "; " + index +
               " += gpu::warps()) {");
  summed.declare(index, summed.names.size());
  points();
  printer.close();
  printer.close();
  finishSums("gpu::column_sum", "gpu::warp() == 0 && " + column + " < " + columns);
}

/// How far the elements of a buffer reach from its first.
std::string extentOf(Value value, Printer &printer) {
  rt::Buffer type = rt::buffer(value);
  return type.isDense() ? printer.size(type.getAxes()) : std::to_string(type.extent());
}

/// As many threads as a row has work for.
int64_t threadsFor(int64_t terms) { return terms <= 128 ? 32 : terms <= 512 ? 128 : terms <= 8192 ? 256 : 1024; }

std::string shapeOf(rt::KernelOp kernel, StringRef length, Printer &printer) {
  Positions kept(kernel, false, printer), summed(kernel, true, printer);
  if (!kernel.sums())
    return kept.empty() ? "cover(1, 32)" : "cover(" + (length.empty() ? kept.count() : length.str()) + ")";
  if (kernel.sumsInnermost())
    return "cover_blocks(" + (kept.empty() ? "1" : kept.count()) + ", " + std::to_string(threadsFor(summed.number())) +
           ")";
  const size_t last = kept.names.size() - 1;
  return "cover_columns(" + (last ? kept.product(0, last) : "1") + ", " + kept.product(last, last + 1) + ", " +
         summed.count() + ")";
}
} // namespace

void cuda::printKernel(rt::KernelOp kernel, const Cuda &cuda, Printer &printer) {
  KernelPrinter(kernel, cuda, printer).print();
}

void cuda::printLaunch(Operation *at, rt::KernelOp kernel, ValueRange given, const Cuda &cuda, Printer &printer) {
  DenseSet<Value> written, read;
  for (Operation &op : kernel.getBody().front()) {
    if (auto store = dyn_cast<rt::StoreOp>(op)) {
      written.insert(store.getBuffer());
      if (store.getAdds())
        read.insert(store.getBuffer());
    } else if (auto sum = dyn_cast<rt::SumOp>(op)) {
      written.insert(sum.getBuffer());
      if (sum.getAdds())
        read.insert(sum.getBuffer());
    } else if (auto load = dyn_cast<rt::LoadOp>(op)) {
      read.insert(load.getBuffer());
    }
  }
  SmallVector<std::string> arguments;
  std::string length; // of the rows that a rule is given
  bool readsNumbers = false;
  for (auto [argument, value] :
       llvm::zip(kernel.getBody().getArguments().drop_front(kernel.getSizes().size()), given)) {
    if (isa<rt::Buffer>(argument.getType())) {
      const char *use = !written.contains(argument) ? "in" : read.contains(argument) ? "inout" : "out";
      const std::string extent = extentOf(value, printer);
      arguments.push_back(std::string(use) + "(" + printer.name(value) + ", " + extent + ")");
      if (rt::buffer(argument).getAxes().size() == 1 && rt::buffer(argument).getAxes()[0].size == rt::kAnyLength)
        length = extent;
    } else if (Cuda::isOfStep(kernel.operandOf(argument))) {
      readsNumbers = true;
    } else if (isa<rt::Buffer>(value.getType())) {
      arguments.push_back("in(" + printer.name(value) + ", 1)");
    } else if (Cuda::isOfStep(value)) {
      printer.begin("const Numbers *now = r.numbers<Numbers>();");
      arguments.push_back(("in(&now->" + cuda.nameOf(value.getDefiningOp<rt::NumberOp>()) + ", 1)").str());
    } else {
      arguments.push_back(printer.name(value));
    }
  }
  if (!length.empty())
    arguments.push_back(length);
  if (readsNumbers) {
    printer.begin("const Numbers *now = r.numbers<Numbers>();");
    arguments.push_back("in(now, 1)");
  }
  if (kernel.getGuarded())
    arguments.push_back("in(r.health(), 1)");
  SmallVector<std::string> all{quoted(kernel.getName()), kernel.getName().str(), shapeOf(kernel, length, printer), "r"};
  llvm::append_range(all, arguments);
  printer.call(at, "launch", all);
}
