// What a layout takes at least, from programs of parts of it that many layouts share.
//
// 1. The whole: one rank with the whole batch in one pass. Ranks that share it do no less than their part of it each.
// 2. The part of a rank: as many samples in a pass as a rank of the layout has, tensors split as they are, two ranks
//    for samples instead of all, no stages. Its passes, its messages and its update are those of the layout, but for
//    how many ranks share them.
#pragma once
#include "tools/driver/search/LayoutSpace.h"
#include "tools/driver/search/Trial.h"
#include <map>

namespace echelon {

class LayoutBounds {
public:
  /// Which part of a rank a candidate has: several have the same.
  struct Part {
    size_t core = 0;
    int policy = 0, stored = 0;
    int64_t perPass = 1;
    bool isOnePass = false, hasSamples = false;

    bool operator<(const Part &other) const {
      return std::tie(core, policy, stored, perPass, isOnePass, hasSamples) <
             std::tie(other.core, other.policy, other.stored, other.perPass, other.isOnePass, other.hasSamples);
    }
  };

  LayoutBounds(const LayoutSpace &space, int64_t room) : space(space), room(room) {}

  /// What the whole takes under a policy, as a trial was told.
  void addWhole(const Trial &asked);
  void forgetWholes() { wholes.clear(); } ///< one of them does not compile
  /// Numbers the cores of frames, once all wholes are known.
  void prepare();

  double leastSeconds(const LayoutCandidate &candidate) const;
  /// Whether a rank has no room for what it has at least.
  bool isWithoutRoom(const LayoutCandidate &candidate) const;
  double leastBytes(const LayoutCandidate &candidate) const;

  Part partOf(const LayoutCandidate &candidate) const;
  PlannedLayout layoutOfPart(const LayoutCandidate &candidate) const;
  bool knows(const Part &part) const { return parts.count(part) != 0; }
  /// Null: it is refused, which says nothing of layouts that have it.
  void addPart(const Part &part, const Trial *asked);
  /// By the candidate's part, which is known; infinity: there is no room.
  double secondsByPart(const LayoutCandidate &candidate) const;

  bool isShort = false; ///< of memory

private:
  /// Seconds of a whole step, and bytes.
  struct Whole {
    double all = 0, repeated = 0;
    int64_t params = 0, gradients = 0, optimizer = 0, activations = 0;
  };
  /// A message over the ranks that samples are split over.
  struct Sent {
    planner::Message message;
    double times = 1;
    bool isInPass = false, isStarted = false;
  };
  /// Seconds of a pass, and of what comes after all passes.
  struct Pass {
    double forward = 0, backward = 0; ///< within repeats
    double first = 0, last = 0;       ///< before and behind them, and between the forward and the backward ones
    double update = 0;
    std::vector<Sent> sent;
    bool isWhole = false; ///< what is within repeats is not known: all of it is `backward`
    int64_t activations = 0;

    double repeated() const { return forward + backward; }
    double all() const { return repeated() + first + last; }
  };
  /// Seconds of messages for samples, of one pass and of what comes after all passes.
  struct Exposed {
    double queued = 0; ///< of a pass: they come one after the other
    double waited = 0; ///< of these, what the device does nothing in
    double after = 0;
  };
  class Reader;

  Exposed exposedOf(const Pass &pass, const LayoutCandidate &candidate) const;
  double secondsABytes(const planner::Message &message, size_t frame) const;
  double keptBytes(const LayoutCandidate &candidate) const;
  int64_t passesUnderWay(const LayoutFrame &frame, const LayoutCandidate &candidate) const;

  const LayoutSpace &space;
  int64_t room;
  planner::Machine machine;
  int64_t perNode = 1;
  double mostOverlap = 0;
  std::vector<Whole> wholes; ///< by policy
  std::vector<size_t> cores; ///< by frame
  std::map<Part, std::optional<Pass>> parts;
  mutable std::map<std::tuple<size_t, int, std::string, bool>, double> rates; ///< seconds a byte
};

} // namespace echelon
