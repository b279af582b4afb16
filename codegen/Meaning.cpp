// Operations are numbered as they come, so that names and places do not count.
#include "codegen/Meaning.h"

#include "ir/ech/Ech.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace echelon;

std::string codegen::meaningOf(ModuleOp module) {
  StringRef batch = ech::batchAxisOf(module);
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::DenseMap<Value, size_t> numbers;
  auto define = [&](Value value) {
    numbers.try_emplace(value, numbers.size());
    if (auto type = dyn_cast<ech::Tensor>(value.getType())) {
      for (const ech::Axis &axis : type.getAxes())
        os << " " << axis.name.getValue() << "=" << (axis.name == batch ? 0 : axis.size);
      os << " " << type.getElement();
    }
    os << ";";
  };
  for (auto step : module.getOps<ech::StepOp>()) {
    if (step.getSymName() != "train")
      continue;
    step->walk<WalkOrder::PreOrder>([&](Operation *op) {
      os << op->getName().getStringRef() << " ";
      // A mean over the batch counts its samples; the batch is no part of what a model computes.
      if (auto count = dyn_cast<ech::CountOp>(op))
        for (auto [axis, size] : llvm::zip(count.getOver().getAsRange<StringAttr>(), count.getSizes()))
          os << axis << "=" << (axis == batch ? 0 : size) << " ";
      else
        os << op->getAttrDictionary();
      for (Value operand : op->getOperands())
        os << " %" << numbers.lookup(operand);
      for (Value result : op->getResults())
        define(result);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (Value argument : block.getArguments())
            define(argument);
      os << "\n";
    });
  }
  llvm::BLAKE3 hasher;
  hasher.update(text);
  auto digest = hasher.final<8>();
  return std::to_string(llvm::support::endian::read64le(digest.data())); // in digits: a numeral as all that varies
}
