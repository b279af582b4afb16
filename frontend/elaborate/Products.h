// Values as sums of products, for what asks which parameters a contraction multiplies.
#pragma once
#include "frontend/elaborate/Origins.h"
#include <optional>
#include <vector>

namespace echelon::frontend {

// Beyond these a value counts as one factor, so that no model takes long.
constexpr size_t maxTerms = 32, maxFactors = 12;

struct Factor {
  mlir::Value value;
  Origin::Kind kind = Origin::Data;
  AxisSet axes;                                                  // of the factor, as it is in the product
  llvm::SmallVector<std::pair<mlir::StringAttr, AxisSet>> along; // Parameters: each, and the axes that it varies along
  bool isAdded = false;                                          // to values of samples: a bias
  bool isOuter = false;                                          // added along axes that those values lack: a place
};
/// Where along an axis a part of a concatenation lies.
struct Extent {
  mlir::StringAttr axis;
  int64_t first, end;
};
/// A product.
struct Term {
  llvm::SmallVector<Factor, 4> factors;
  llvm::SmallVector<mlir::StringAttr> squared; // parameters in which the product is not linear
  llvm::SmallVector<Extent, 1> extents;        // it is 0 elsewhere
};
/// Their sum.
using Terms = std::vector<Term>;

/// The product of two terms; none where one is 0 wherever the other is not.
std::optional<Term> multiplied(const Term &x, const Term &y);

/// Adds to `result` what a sum that has a parameter along axes of its own, one of `second`, comes to in a product with
/// samples in `first`: (x - w)^2, for one, has x * w in it.
void cross(const Terms &first, const Terms &second, Terms &result);

/// A term of an operand as it is in a result of `op`.
void carry(Term &term, mlir::Operation *op, mlir::OpOperand &operand, mlir::Value result);

/// What is left of a term that is summed along `axes`.
void sumAway(Term &term, const AxisSet &axes);

} // namespace echelon::frontend
