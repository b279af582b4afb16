#include "codegen/cuda/Kernels.h"
#include "codegen/Scalars.h"
#include "codegen/cuda/Positions.h"
#include "ir/rt/Together.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;
using cuda::Positions;

namespace {
class KernelPrinter : ScalarPrinter {
public:
  KernelPrinter(rt::KernelOp kernel, const Cuda &cuda, Printer &printer)
      : ScalarPrinter(printer), kernel(kernel), cuda(cuda), kept(kernel, false, printer),
        summed(kernel, true, printer) {}
  void print();

private:
  using ScalarPrinter::spell;
  Expression number(Value value) override;
  std::string place(Value buffer, ValueRange indices, ArrayRef<int64_t> strides) override;
  std::string position(Value value) override;
  SmallVector<std::string> parameters();
  void elements();
  void packs();
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
  /// What the pass calls an index, or a pack: names after those of the block arguments.
  std::string extraName(size_t i) {
    auto names = kernel->getAttrOfType<ArrayAttr>(rt::kName);
    return cast<StringAttr>(names[kernel.getBody().getNumArguments() + i]).str();
  }
  std::string at() { return extraName(0); }
  std::string row() { return extraName(1); }
  std::string inPack() { return extraName(2); }
  std::string packName(Value buffer) {
    return extraName(3 + cast<BlockArgument>(buffer).getArgNumber() - kernel.getSizes().size());
  }
  std::string pack() { return std::to_string(rt::packOf(kernel)); }
  bool hasPack() { return rt::packOf(kernel) > 1; }
  bool isPacked(ValueRange indices) { return hasPack() && rt::walksInnermost(kernel, indices); }
  /// Where a pack begins in memory, and in a row of any length how many elements are left of it.
  std::string packAt(Value buffer, ValueRange indices, ArrayRef<int64_t> strides) {
    return printer.name(buffer) + " + " + index(buffer, indices, strides);
  }
  std::string restOfRow() { return isRule() ? ", " + kept.count() + " - " + kept.names[0] : ""; }
  bool isRule() { return cuda::isRow(kernel.getSizes()); }

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

/// An element of the pack that the thread has, where the innermost loop walks the buffer.
std::string KernelPrinter::place(Value buffer, ValueRange indices, ArrayRef<int64_t> strides) {
  return isPacked(indices) ? packName(buffer) + "[" + inPack() + "]" : ScalarPrinter::place(buffer, indices, strides);
}

std::string KernelPrinter::position(Value value) {
  const std::string name = variableName(value);
  return isPacked(value) ? name + " + " + inPack() : name;
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
  std::string rows; // of a tensor, where the kernel is given many
  for (BlockArgument argument : kernel.getBody().getArguments().drop_front(kernel.getSizes().size())) {
    Value given = kernel.operandOf(argument);
    const std::string name = nameOf(argument);
    if (auto buffer = dyn_cast<rt::Buffer>(argument.getType())) {
      const std::string type = (written.contains(argument) ? "" : "const ") + rt::storedAs(buffer.getElement()).str();
      if (isRule())
        rows += ", " + type;
      else
        all.push_back(type + " *" + name);
    } else if (Cuda::isOfStep(given))
      readsNumbers = true;
    else if (isa<BlockArgument>(given) && !given.getType().isIndex())
      all.push_back("const " + rt::storedAs(given.getType()).str() + " *" + name);
    else
      all.push_back((given.getType().isIndex() ? "int64_t " : "double ") + name);
  }
  if (isRule())
    all.insert(all.begin(), "const Tensors<" + std::to_string(rt::packOf(kernel)) + rows + "> tensors");
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
  } else if (isRule()) {
    SmallVector<std::string> names;
    for (BlockArgument argument : kernel.getBody().getArguments())
      if (isa<rt::Buffer>(argument.getType()))
        names.push_back(nameOf(argument));
    printer.line("const auto [" + llvm::join(names, ", ") + ", " + kept.count() + ", " + kept.names[0] +
                 "] = tensors.of_thread();");
  } else {
    printer.line("const int64_t " + kept.index(at()) + " = gpu::element()" + (hasPack() ? " * " + pack() : "") + ";");
  }
  if (!kept.empty()) {
    const std::string index = kept.index(at());
    printer.line("if (" + index + " >= " + kept.count() + ")");
    printer.line("  return;");
    kept.declare(index, kept.names.size());
  }
  hasPack() ? packs() : points();
}

/// Loads packs, does what the kernel does at each of their points, and stores packs.
void KernelPrinter::packs() {
  SmallVector<rt::StoreOp> stores; // the first to each buffer
  DenseSet<Value> loaded, stored;
  for (auto store : kernel.getBody().getOps<rt::StoreOp>())
    if (stored.insert(store.getBuffer()).second)
      stores.push_back(store);
  auto load = [&](auto op) {
    if (!isPacked(op.getIndices()) || !loaded.insert(op.getBuffer()).second)
      return;
    printer.assign((stored.contains(op.getBuffer()) ? "auto " : "const auto ") + packName(op.getBuffer()), "=",
                   "gpu::load<" + pack() + ">(" + packAt(op.getBuffer(), op.getIndices(), op.getStrides()) +
                       restOfRow() + ")");
  };
  for (Operation &op : kernel.getBody().front())
    if (auto read = dyn_cast<rt::LoadOp>(op))
      load(read);
    else if (auto store = dyn_cast<rt::StoreOp>(op); store && store.getAdds())
      load(store);
  for (rt::StoreOp store : stores)
    if (!loaded.contains(store.getBuffer()))
      printer.line("gpu::Pack<" + rt::storedAs(rt::buffer(store.getBuffer()).getElement()) + ", " + pack() + "> " +
                   packName(store.getBuffer()) + ";");
  printer.open("UNROLL for (int " + inPack() + " = 0; " + inPack() + " < " + pack() + "; ++" + inPack() + ") {");
  points();
  printer.close();
  for (rt::StoreOp store : stores)
    printer.line("gpu::store(" + packAt(store.getBuffer(), store.getIndices(), store.getStrides()) + ", " +
                 packName(store.getBuffer()) + restOfRow() + ");");
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
} // namespace

void cuda::printKernel(rt::KernelOp kernel, const Cuda &cuda, Printer &printer) {
  KernelPrinter(kernel, cuda, printer).print();
}
