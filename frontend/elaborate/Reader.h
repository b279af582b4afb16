// Reads expressions as what is expected where they are: a tensor, a known number, a size, a truth value, axes.
#pragma once
#include "frontend/ast/Ast.h"
#include "frontend/elaborate/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace echelon::frontend {

class Elaborator;

/// Each function reports anything else, in a message about `what`, and then gives nothing. It is silent about poison,
/// which has been reported.
class Reader {
public:
  explicit Reader(Elaborator &elab) : elab(elab) {}

  /// A tensor of real numbers; an integer tensor or a number is made one.
  std::optional<Val> realTensor(const Expr &e, const char *what);
  std::optional<Val> realTensor(const Val &v, SourceRange range, const char *what);
  /// A tensor of any element; a number or a truth value is made one.
  std::optional<Val> anyTensor(const Val &v, SourceRange range);

  /// A number known when compiling; without `e` nothing, and no error.
  std::optional<Number> known(const Expr *e, const char *what);
  std::optional<int64_t> whole(const Expr &e, const char *what, int64_t low, int64_t high);
  /// One whole number for each of `count` axes of a window: a list, or one number for all; without `e`, `otherwise`.
  std::optional<llvm::SmallVector<int64_t>> numbers(const Expr *e, size_t count, int64_t otherwise, int64_t low,
                                                    const char *what);
  std::optional<bool> flag(const Expr *e, bool otherwise, const char *what);
  /// The size of an axis, or the count of a repeat.
  std::optional<int64_t> size(const Expr &e, const std::string &what);
  /// Whether a size is being worked out.
  bool isInSize() const { return inSize; }

  /// Null after an error.
  const AxisInfo *axis(const Expr &e, const char *what);
  /// `a` or `(a, b)`: axes as declared.
  std::optional<llvm::SmallVector<const AxisInfo *>> axisList(const Expr &e, const char *what);
  /// `over = a`, `(a, b)`, `except(a)`; without `e`, all of `all`.
  std::optional<llvm::SmallVector<mlir::StringAttr>> axes(const Expr *e, llvm::ArrayRef<ech::Axis> all,
                                                          const char *what);

  /// constantLike() (Constants.h) at this place.
  mlir::Value constant(const Val &v, bool integer, SourceRange range);

private:
  /// `except(a, b)`: all of `all` but these.
  std::optional<llvm::SmallVector<mlir::StringAttr>> allBut(const CallExpr &call, llvm::ArrayRef<ech::Axis> all);

  Elaborator &elab;
  bool inSize = false;
};

} // namespace echelon::frontend
