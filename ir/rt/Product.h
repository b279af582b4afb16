// Which product of matrices an operation is: what a machine's time for it depends on beside arithmetic and traffic.
#pragma once
#include "ir/rt/Rt.h"

namespace echelon::rt {

/// Products of (m, k) by (k, n) matrices, `batch` of them. Of attention, that which makes scores of queries and keys: k
/// is the size of a key.
struct Product {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  mlir::Type factors; ///< the type of their elements; null: the operation multiplies no matrices
};

/// Of a convolution, the type alone.
Product productOf(mlir::Operation *op);

} // namespace echelon::rt
