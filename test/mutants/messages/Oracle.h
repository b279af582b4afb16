// Executes programs on values, in a random order of events: what the proof says of them without executing is held
// against it.
#pragma once
#include "passes/prove/Program.h"
#include <random>

namespace echelon::test {

using Random = std::mt19937_64;

/// A buffer of the work arena that lies elsewhere than it should: [begin, end) moved by so many bytes.
struct Moved {
  int64_t begin = 0, end = 0, by = 0;
  std::string onto; ///< "x onto y"
};

/// Programs of all ranks, each a party of its own.
struct Ranks {
  std::string name;
  std::vector<prove::Program> programs;
  prove::Channels channels;
  Moved moved = {};
};

/// The pieces between all places where some buffer begins or ends: bytes that are always touched together.
class Pieces {
public:
  void add(const std::vector<prove::Program> &programs);
  /// A buffer that is moved consists of the same pieces in both places.
  void repeat(const Moved &moved);
  void number();
  std::pair<size_t, size_t> of(const prove::Range &range) const; ///< [first, last)
  size_t size() const { return edges.size(); }
  /// Whether a piece outlives the step.
  bool isState(size_t piece) const { return state[piece]; }

private:
  std::vector<bool> state;
  std::map<std::pair<int, int64_t>, size_t> edges; // by arena, byte
};

/// What ranks have stored and reported at the end. Nothing: they hang, differ over a message, or lose one. A message
/// may read its buffers when it is started or when all have come, writes when all have come, and what it writes is
/// unknown until then. `leaveAt`: the place of those where all leave the step; -1: none.
std::optional<std::vector<uint64_t>> execute(const Ranks &ranks, const Pieces &pieces, uint64_t seed, int leaveAt = -1);

} // namespace echelon::test
