// The softmax pattern of attention, as models write it out.
#pragma once
#include "ir/ech/Ech.h"
#include <optional>
#include <string>

namespace echelon::ech {

/// What an ech.attention takes, found in the pattern.
struct AttentionPattern {
  mlir::Value q, k, v, mask, bias;
  mlir::StringAttr query, past, key;
  double scale = 1;
  bool causal = false;
};

/// The pattern that ends in this product; nothing where it is not of the fused form.
std::optional<AttentionPattern> matchAttention(DotOp dot);

/// Of a product that weighs values by a softmax of products of queries and keys, and is not of the fused form: what
/// that form does not allow, as in "its weights are read elsewhere, too". Nothing of other products: keys and values
/// are of samples, and what gates experts has weights of the model instead of keys.
std::optional<std::string> whyNoAttention(DotOp dot, llvm::StringRef batchAxis);

} // namespace echelon::ech
