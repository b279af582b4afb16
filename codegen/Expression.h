// C++ text of element-wise functions.
#pragma once
#include "mlir/IR/Types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace echelon::codegen {

/// Text with the strength of its outermost operator, as in C++: 9 a name or call, 6 unary, 5 `* /`, 4 `+ -`,
/// 3 comparisons, 2 `&&`, 1 `||`, 0 `?:`.
struct Expression {
  std::string text;
  int strength = 9;
  std::string within(int least) const { return strength >= least ? text : "(" + text + ")"; }
};

/// `function` is the name of an ech.function; `result` and `operandTypes` are scalar types.
Expression apply(llvm::StringRef function, llvm::ArrayRef<Expression> operands, llvm::ArrayRef<mlir::Type> operandTypes,
                 mlir::Type result);

/// A number as C++ text of the given type: "0.1f", "-1", "INFINITY".
std::string literal(double value, mlir::Type type);

} // namespace echelon::codegen
