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
  int64_t chunk = 0;  ///< which of the stage's chunks of iterations, where it has several
  int64_t buffer = 0; ///< where it leaves what it sends: each in turn, of the passes of this kind
  int64_t slot = 0;   ///< where the stage keeps what later passes of this micro batch through this chunk read

  bool operator==(const Turn &other) const {
    return pass == other.pass && micro == other.micro && chunk == other.chunk;
  }
};

/// Gives each turn its buffer, of so many, and its slot: that of the first pass is the lowest free one, and the last
/// pass frees it. So there are as many as are in use at once.
inline std::vector<Turn> withSlots(std::vector<Turn> turns, int64_t buffers = 1) {
  int64_t passes[3] = {0, 0, 0};
  const bool hasWeights = std::any_of(turns.begin(), turns.end(), [](Turn turn) { return turn.pass == Turn::Weights; });
  std::vector<const Turn *> slots; // who has one
  for (Turn &turn : turns) {
    turn.buffer = passes[turn.pass]++ % buffers;
    auto at = std::find_if(slots.begin(), slots.end(), [&](const Turn *user) {
      return turn.pass == Turn::Forward ? !user : user && user->micro == turn.micro && user->chunk == turn.chunk;
    });
    turn.slot = at - slots.begin();
    if (at == slots.end())
      slots.push_back(&turn);
    else
      *at = turn.pass == Turn::Forward ? &turn : turn.pass == Turn::Backward && hasWeights ? *at : nullptr;
  }
  return turns;
}

// The passes of one kind go by the micro batches' order. `stage` counts from 0, of `stages`; each has `chunks` chunks
// of iterations, one unless the order is for several.

/// All forward passes, then all backward ones (Huang et al., "GPipe", 2019).
inline std::vector<Turn> gpipe(int64_t /*stage*/, int64_t /*stages*/, int64_t micro, int64_t /*chunks*/ = 1) {
  std::vector<Turn> turns;
  for (Turn::Pass pass : {Turn::Forward, Turn::Backward})
    for (int64_t m = 0; m < micro; ++m)
      turns.push_back({pass, m});
  return withSlots(turns);
}

/// One forward, one backward (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
/// Megatron-LM", 2021, section 2.2): a stage begins with as many forward passes as there are stages behind it, then
/// each forward pass is followed by the backward pass of the oldest micro batch that has none. At most `stages - stage`
/// micro batches are between their two passes.
inline std::vector<Turn> one_f_one_b(int64_t stage, int64_t stages, int64_t micro, int64_t /*chunks*/ = 1) {
  std::vector<Turn> turns;
  const int64_t ahead = std::min(micro, stages - 1 - stage);
  for (int64_t m = 0; m < ahead; ++m)
    turns.push_back({Turn::Forward, m});
  for (int64_t m = 0; m < micro; ++m) {
    if (m + ahead < micro)
      turns.push_back({Turn::Forward, m + ahead});
    turns.push_back({Turn::Backward, m});
  }
  return withSlots(turns);
}

/// The same with several chunks on each stage (Narayanan et al., 2021, section 2.3): chunk c of stage r is followed by
/// chunk c of stage r + 1, and behind the last stage by chunk c + 1 of the first. Micro batches go through in rounds of
/// `stages` or more, nearly equally long, so that any number of them does; a round goes through all chunks. A stage
/// begins with as many forward passes as let all behind it begin, then backward passes follow forward ones.
///
/// The last stage sends the first one micro batches for its next chunk while that still takes new ones, as many as the
/// round is longer than the row of stages: so many buffers of those that it sends from are full then.
inline std::vector<Turn> interleaved(int64_t stage, int64_t stages, int64_t micro, int64_t chunks) {
  const int64_t rounds = std::max<int64_t>(1, micro / stages), all = chunks * micro;
  auto begin = [&](int64_t round) { return (micro * round + rounds - 1) / rounds; }; // the longer ones first
  const int64_t buffers = std::max<int64_t>(2, begin(1) - stages + 1);
  std::vector<Turn> forward, backward, turns;
  for (int64_t round = 0; round < rounds; ++round)
    for (int64_t c = 0; c < chunks; ++c)
      for (int64_t m = begin(round); m < begin(round + 1); ++m) {
        forward.push_back({Turn::Forward, m, c});
        backward.push_back({Turn::Backward, m, chunks - 1 - c});
      }
  const int64_t ahead = std::min(all, 2 * (stages - 1 - stage) + (chunks - 1) * begin(1));
  for (int64_t i = 0; i < all + ahead; ++i) {
    if (i < all)
      turns.push_back(forward[size_t(i)]);
    if (i >= ahead)
      turns.push_back(backward[size_t(i - ahead)]);
  }
  return withSlots(turns, buffers);
}

/// Gradients of weights where the stage would wait (Qi et al., "Zero Bubble Pipeline Parallelism", 2023, H1): a stage
/// begins with one forward pass more than in one_f_one_b, and puts off the gradients of weights by as many micro
/// batches as there are stages before it. At most min(micro, stages) micro batches are between the first and the last
/// pass.
inline std::vector<Turn> zero_bubble(int64_t stage, int64_t stages, int64_t micro, int64_t /*chunks*/ = 1) {
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
  return withSlots(turns);
}

struct StageOrder {
  std::string_view name, function; ///< in a spec, in a program
  std::vector<Turn> (*turns)(int64_t stage, int64_t stages, int64_t micro, int64_t chunks);

  /// How many slots a stage has at most, and from how many buffers one sends.
  struct Places {
    int64_t slots = 0, buffers = 0;
  };
  Places places(int64_t stages, int64_t micro, int64_t chunks) const {
    Places most;
    for (int64_t stage = 0; stage < stages; ++stage)
      for (const Turn &turn : turns(stage, stages, micro, chunks)) {
        most.slots = std::max(most.slots, turn.slot + 1);
        most.buffers = std::max(most.buffers, turn.buffer + 1);
      }
    return most;
  }
};
/// The one that a spec calls so; null: there is none.
inline const StageOrder *stageOrderNamed(std::string_view name) {
  static constexpr StageOrder all[] = {{"gpipe", "gpipe", gpipe},
                                       {"1f1b", "one_f_one_b", one_f_one_b},
                                       {"interleaved", "interleaved", interleaved},
                                       {"zero_bubble", "zero_bubble", zero_bubble}};
  const auto *at = std::find_if(std::begin(all), std::end(all), [&](const StageOrder &s) { return s.name == name; });
  return at == std::end(all) ? nullptr : at;
}

} // namespace echelon::runtime
