// Loops of a kernel, and the index that they are made of.
#pragma once
#include "codegen/Printer.h"
#include "ir/rt/Rt.h"
#include "llvm/ADT/StringExtras.h"

namespace echelon::codegen::cuda {
using Axes = llvm::SmallVector<ech::Axis>;

/// Whether these are the loops of a rule, which is a kernel for rows of any length.
inline bool isRow(mlir::ArrayAttr sizes) {
  if (sizes.size() != 1)
    return false;
  auto axes = llvm::cast<rt::SizeAttr>(sizes[0]).getAxes();
  return axes.size() == 1 && axes[0].size == rt::kAnyLength;
}

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
  std::string index(llvm::StringRef otherwise) const { return names.size() == 1 ? names[0] : otherwise.str(); }
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
  void declare(llvm::StringRef index, size_t loops) const {
    if (loops == 0 || (loops == 1 && index == names[0]))
      return;
    llvm::SmallVector<std::string> parts;
    for (size_t i = 0; i < loops; ++i) {
      std::string text = index.str();
      if (i + 1 < loops) {
        const std::string inner = product(i + 1, loops);
        text += " / " + (llvm::StringRef(inner).contains(' ') ? "(" + inner + ")" : inner);
      }
      if (i > 0) {
        const std::string own = product(i, i + 1);
        text += " % " + (llvm::StringRef(own).contains(' ') ? "(" + own + ")" : own);
      }
      parts.push_back(names[i] + " = " + text);
    }
    printer.line("const int64_t " + llvm::join(parts, ", ") + ";");
  }

  llvm::SmallVector<std::string> names;
  llvm::SmallVector<Axes> sizes;

private:
  Printer &printer;
};

} // namespace echelon::codegen::cuda
