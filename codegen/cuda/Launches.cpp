// How programs launch kernels: the shape of the grid, and what each argument is touched as.
#include "codegen/Text.h"
#include "codegen/cuda/Kernels.h"
#include "codegen/cuda/Positions.h"
#include "ir/rt/Offload.h"
#include "ir/rt/Together.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;
using cuda::Positions;

namespace {
/// How far the elements of a buffer reach from its first.
std::string extentOf(Value value, Printer &printer) {
  rt::Buffer type = rt::buffer(value);
  return type.isDense() ? printer.size(type.getAxes()) : std::to_string(type.extent());
}

/// As many threads as a row has work for.
int64_t threadsFor(int64_t terms) { return terms <= 128 ? 32 : terms <= 512 ? 128 : terms <= 8192 ? 256 : 1024; }

std::string shapeOf(rt::KernelOp kernel, Printer &printer) {
  Positions kept(kernel, false, printer), summed(kernel, true, printer);
  if (!kernel.sums())
    return kept.empty() ? "cover(1, 32)"
                        : "cover(" + kept.count() +
                              (rt::packOf(kernel) > 1 ? " / " + std::to_string(rt::packOf(kernel)) : "") + ")";
  if (kernel.sumsInnermost())
    return "cover_blocks(" + (kept.empty() ? "1" : kept.count()) + ", " + std::to_string(threadsFor(summed.number())) +
           ")";
  const size_t last = kept.names.size() - 1;
  return "cover_columns(" + (last ? kept.product(0, last) : "1") + ", " + kept.product(last, last + 1) + ", " +
         summed.count() + ")";
}

/// What a kernel does with each of its buffers: "in", "out" or "inout".
class Uses {
public:
  explicit Uses(rt::KernelOp kernel) {
    for (Operation &op : kernel.getBody().front()) {
      if (auto store = dyn_cast<rt::StoreOp>(op))
        write(store);
      else if (auto sum = dyn_cast<rt::SumOp>(op))
        write(sum);
      else if (auto load = dyn_cast<rt::LoadOp>(op))
        read.insert(load.getBuffer());
    }
  }
  std::string of(Value buffer) const {
    return !written.contains(buffer) ? "in" : read.contains(buffer) ? "inout" : "out";
  }

private:
  template <typename Op> void write(Op op) {
    written.insert(op.getBuffer());
    if (op.getAdds())
      read.insert(op.getBuffer());
  }
  DenseSet<Value> written, read;
};

/// The arguments of a launch but for the rows of a rule; `given` stands for the kernel's operands, in their order.
SmallVector<std::string> argumentsOf(rt::KernelOp kernel, ValueRange given, const Cuda &cuda, Printer &printer) {
  const Uses uses(kernel);
  const bool isRule = cuda::isRow(kernel.getSizes());
  SmallVector<std::string> arguments;
  bool readsNumbers = false;
  for (auto [argument, value] :
       llvm::zip(kernel.getBody().getArguments().drop_front(kernel.getSizes().size()), given)) {
    if (isa<rt::Buffer>(argument.getType())) {
      if (!isRule)
        arguments.push_back(uses.of(argument) + "(" + printer.name(value) + ", " + extentOf(value, printer) + ")");
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
  if (readsNumbers) {
    printer.begin("const Numbers *now = r.numbers<Numbers>();");
    arguments.push_back("in(now, 1)");
  }
  if (kernel.getGuarded())
    arguments.push_back("in(r.health(), 1)");
  return arguments;
}

using Parts = SmallVector<std::string>;

/// `head(before…, {list…}, after…);`, each part of the list on a line of its own: `{a, b}`. Lines break as they do in a
/// function, outside of loops.
void printCall(StringRef head, ArrayRef<std::string> before, ArrayRef<Parts> list, ArrayRef<std::string> after,
               Printer &printer) {
  constexpr size_t column = 2;
  auto line = [&](StringRef head, ArrayRef<std::string> parts, StringRef end, size_t indent) {
    printer.line(StringRef(filled(head, parts, end, column + indent)).drop_front(column));
  };
  const size_t inside = head.size() + 1;
  line((head + "(").str(), before, ",", 0);
  for (auto [i, parts] : llvm::enumerate(list)) {
    const bool isLast = i + 1 == list.size();
    line(i == 0 ? "{{" : "{", parts, !isLast ? "}," : after.empty() ? "}});" : "}},", i == 0 ? inside : inside + 1);
  }
  if (!after.empty())
    line("", after, ");", inside);
}

/// The one kernel of a rule.
rt::KernelOp kernelOf(rt::FunctionOp rule) {
  auto nest = *rule.getBody().getOps<rt::FusedOp>().begin();
  return *nest.getLoops().getOps<rt::KernelOp>().begin();
}

/// What a rule's kernel is given where it is invoked: its operands are arguments of the rule. The length of the rule's
/// rows is none of what it is invoked on.
SmallVector<Value> givenTo(rt::KernelOp kernel, rt::InvokeOp call) {
  SmallVector<Value> given;
  for (Value operand : kernel.getOperands()) {
    size_t at = 0;
    for (Value argument : call.function().getBody().getArguments()) {
      if (argument == operand)
        break;
      at += !argument.getType().isIndex();
    }
    given.push_back(call.getOperands()[at]);
  }
  return given;
}
} // namespace

void cuda::printLaunch(Operation *at, rt::KernelOp kernel, const Cuda &cuda, Printer &printer) {
  SmallVector<std::string> all{quoted(kernel.getName()), kernel.getName().str(), shapeOf(kernel, printer), "r"};
  llvm::append_range(all, argumentsOf(kernel, kernel.getOperands(), cuda, printer));
  printer.call(at, "launch", all);
}

void cuda::printUpdate(ArrayRef<rt::InvokeOp> calls, const Cuda &cuda, Printer &printer) {
  rt::InvokeOp first = calls.front();
  rt::KernelOp kernel = kernelOf(first.function());
  SmallVector<Parts> tensors;
  SmallVector<Operation *> sources;
  for (rt::InvokeOp call : calls) {
    sources.push_back(call);
    Parts &tensor = tensors.emplace_back();
    std::string length;
    for (auto [operand, value] : llvm::zip(kernel.getOperands(), givenTo(kernel, call)))
      if (isa<rt::Buffer>(operand.getType())) {
        tensor.push_back(printer.name(value));
        length = extentOf(value, printer);
      }
    tensor.push_back(length);
  }
  const SmallVector<std::string> after = argumentsOf(kernel, givenTo(kernel, first), cuda, printer);
  const bool isInPieces = llvm::any_of(calls, [](rt::InvokeOp call) { return call->hasAttr(rt::kOffloadedRows); });
  printer.from(sources, [&] {
    printCall(isInPieces ? "launch_in_pieces" : "launch_each", {quoted(kernel.getName()), kernel.getName().str(), "r"},
              tensors, after, printer);
  });
}

void cuda::printSquares(ArrayRef<rt::AddSquaresOp> all, Printer &printer) {
  SmallVector<Parts> tensors;
  SmallVector<Operation *> sources;
  for (rt::AddSquaresOp one : all) {
    sources.push_back(one);
    tensors.push_back({quoted(*one.getParameter()), printer.name(one.getX()), extentOf(one.getX(), printer)});
    auto weights = llvm::map_to_vector(one.getWeights(), [&](Value v) { return printer.name(v); });
    if (!weights.empty())
      tensors.back().push_back(llvm::join(weights, " * "));
  }
  rt::AddSquaresOp first = all.front();
  const std::string type = rt::storedAs(rt::buffer(first.getX()).getElement()).str(),
                    sum = printer.name(first.getSum());
  printer.from(sources, [&] { printCall("add_squares<" + type + ">", {"r", sum}, tensors, {}, printer); });
}
