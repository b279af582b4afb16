// What operations ask of the axes of their operands. Each check reports what is wrong, with the caret at `range`, and
// is then false.
#pragma once
#include "frontend/elaborate/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace echelon::frontend {

class Elaborator;

/// That the value has these axes; `what` names it in the message.
bool requireAxes(Elaborator &elab, ech::Tensor type, llvm::ArrayRef<mlir::StringAttr> names, SourceRange range,
                 const std::string &what);
/// That an axis of both has one size; `what` names the operation.
bool requireEqualSizes(Elaborator &elab, ech::Tensor a, ech::Tensor b, SourceRange range, const std::string &what);
/// That no axis counts samples, along which `what` cannot run.
bool requireOrder(Elaborator &elab, llvm::ArrayRef<mlir::StringAttr> axes, SourceRange range, const std::string &what);
/// Of operands of an element-wise operation: that the axes of one contain those of the others, unless outer(…) has
/// `lifted` it.
bool requireFit(Elaborator &elab, llvm::ArrayRef<Val> operands, SourceRange range, const std::string &spelling,
                bool lifted);

/// Names as `ech::Build` takes them.
llvm::SmallVector<llvm::StringRef> refs(llvm::ArrayRef<mlir::StringAttr> names);

} // namespace echelon::frontend
