// In which order a stage of a pipeline works through micro batches.
#pragma once
#include <cstdint>
#include <vector>

namespace echelon::runtime {

/// The forward or the backward pass of a stage's part of the model on one micro batch.
struct Turn {
  bool isForward;
  int64_t micro;

  bool operator==(const Turn &other) const { return isForward == other.isForward && micro == other.micro; }
};

/// One forward, one backward (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
/// Megatron-LM", 2021, section 2.2): a stage begins with as many forward passes as there are stages behind it, then each
/// forward pass is followed by the backward pass of the oldest micro batch that has none. At most `stages - stage` micro
/// batches are between their two passes. Forward passes alone and backward passes alone go by the micro batches' order.
std::vector<Turn> one_f_one_b(int64_t stage, int64_t stages, int64_t micro);

} // namespace echelon::runtime
