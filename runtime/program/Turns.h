// In which order a stage of a pipeline works through micro batches.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

namespace echelon::runtime {

/// A pass of a stage's part of the model on one micro batch: the forward one; the backward one, or of it what the stage
/// before waits for; what is left of the backward one then, the gradients of weights.
struct Turn {
  enum Pass { Forward, Backward, Weights } pass;
  int64_t micro;

  bool operator==(const Turn &other) const { return pass == other.pass && micro == other.micro; }
};

// The passes of one kind go by the micro batches' order. `stage` counts from 0, of `stages`.

/// All forward passes, then all backward ones (Huang et al., "GPipe", 2019).
inline std::vector<Turn> gpipe(int64_t /*stage*/, int64_t /*stages*/, int64_t micro) {
  std::vector<Turn> turns;
  for (Turn::Pass pass : {Turn::Forward, Turn::Backward})
    for (int64_t m = 0; m < micro; ++m)
      turns.push_back({pass, m});
  return turns;
}

/// One forward, one backward (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
/// Megatron-LM", 2021, section 2.2): a stage begins with as many forward passes as there are stages behind it, then
/// each forward pass is followed by the backward pass of the oldest micro batch that has none. At most `stages - stage`
/// micro batches are between their two passes.
inline std::vector<Turn> one_f_one_b(int64_t stage, int64_t stages, int64_t micro) {
  std::vector<Turn> turns;
  const int64_t ahead = std::min(micro, stages - 1 - stage);
  for (int64_t m = 0; m < ahead; ++m)
    turns.push_back({Turn::Forward, m});
  for (int64_t m = 0; m < micro; ++m) {
    if (m + ahead < micro)
      turns.push_back({Turn::Forward, m + ahead});
    turns.push_back({Turn::Backward, m});
  }
  return turns;
}

/// Gradients of weights where the stage would wait (Qi et al., "Zero Bubble Pipeline Parallelism", 2023, H1): a stage
/// begins with one forward pass more than in one_f_one_b, and puts off the gradients of weights by as many micro
/// batches as there are stages before it. At most min(micro, stages) micro batches are between the first and the last
/// pass.
inline std::vector<Turn> zero_bubble(int64_t stage, int64_t stages, int64_t micro) {
  std::vector<Turn> turns;
  const int64_t ahead = std::min(micro, stages - stage);
  for (int64_t m = 0; m < ahead; ++m)
    turns.push_back({Turn::Forward, m});
  for (int64_t m = 0; m < micro; ++m) {
    turns.push_back({Turn::Backward, m});
    if (m >= stage)
      turns.push_back({Turn::Weights, m - stage});
    if (m + ahead < micro)
      turns.push_back({Turn::Forward, m + ahead});
  }
  for (int64_t m = std::max<int64_t>(0, micro - stage); m < micro; ++m)
    turns.push_back({Turn::Weights, m});
  return turns;
}

struct StageOrder {
  std::string_view name, function; ///< in a spec, in a program
  std::vector<Turn> (*turns)(int64_t stage, int64_t stages, int64_t micro);
};
/// The one that a spec calls so; null: there is none.
inline const StageOrder *stageOrderNamed(std::string_view name) {
  static constexpr StageOrder all[] = {
      {"gpipe", "gpipe", gpipe}, {"1f1b", "one_f_one_b", one_f_one_b}, {"zero_bubble", "zero_bubble", zero_bubble}};
  const auto *at = std::find_if(std::begin(all), std::end(all), [&](const StageOrder &s) { return s.name == name; });
  return at == std::end(all) ? nullptr : at;
}

} // namespace echelon::runtime
