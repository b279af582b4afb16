// What a layout takes at least, from programs of parts of it that many layouts share.
//
// 1. The whole: one rank with the whole batch in one pass. Ranks that share it do no less than their part of it each.
// 2. The part of a rank: tensors split as they are, few samples in a pass, two ranks for samples instead of all, no
//    stages. Its passes and its messages are those of the layout, but for how many ranks share them. Its update is left
//    out.
#pragma once
#include "tools/driver/search/LayoutSpace.h"
#include "tools/driver/search/PartProgram.h"
#include "tools/driver/search/Trials.h"
#include <map>
#include <set>

namespace echelon {

class LayoutBounds {
public:
  /// Which part of a rank a candidate has: several have the same.
  struct Part {
    size_t core = 0;
    int policy = 0, stored = 0;
    int64_t perPass = 0; ///< 0: any number from kLine[0] on, by the line through these two
    bool isOnePass = false, hasSamples = false;
    bool isStaged = false; ///< two stages, for what a pass keeps until its backward pass: all of them are under way

    bool operator<(const Part &other) const {
      return std::tie(core, policy, stored, perPass, isOnePass, hasSamples, isStaged) <
             std::tie(other.core, other.policy, other.stored, other.perPass, other.isOnePass, other.hasSamples,
                      other.isStaged);
    }
  };
  /// What a bound is found by: a part that others have too, which keeps all and sends nothing for samples; the same
  /// with the messages that a pass of one sample sends for them under the candidate's stores; the candidate's own.
  enum class Level { Shared, Sending, Own };

  LayoutBounds(const LayoutSpace &space, int64_t room) : space(space), room(room) {}

  /// Asks for the whole under each policy.
  void ask(Trials &trials);
  /// Bounds of some candidates; parts that nobody has asked for are.
  std::vector<double> tightened(const std::vector<size_t> &some, Level level, Trials &trials);

  double leastSeconds(const LayoutCandidate &candidate) const;
  /// Whether a rank has no room for what it has at least.
  bool isWithoutRoom(const LayoutCandidate &candidate) const;
  double leastBytes(const LayoutCandidate &candidate) const;
  /// What it seems to take: as leastBytes, with its part of what the whole keeps.
  double likelyBytes(const LayoutCandidate &candidate) const;

  Part partOf(const LayoutCandidate &candidate, Level level) const;
  void askPart(const LayoutCandidate &candidate, const Part &part, Trials &trials);
  /// Of a part that was asked for, all of a pass but its messages for samples; nothing: it is refused, or no line.
  std::optional<double> secondsOfPass(const Part &part, int64_t perPass) const;
  /// By the candidate's part, which is known; infinity: there is no room.
  double secondsByPart(const LayoutCandidate &candidate, Level level) const;
  /// Whether shares of a pass take no less than their part of it: where no rates were measured at sizes.
  bool isSmooth() const { return machine.device.curves.empty() && machine.device.grid.empty(); }

  bool isShort = false; ///< of memory

private:
  /// A layout of a part.
  struct Question {
    Part part;
    size_t which = 0;
    PlannedLayout layout;
    planner::Price price;
  };
  /// Seconds of a whole step, and bytes.
  struct Whole {
    double all = 0, repeated = 0;
    int64_t params = 0, gradients = 0, optimizer = 0, activations = 0;
  };
  /// Seconds of messages for samples, of one pass and of what comes after all passes.
  struct Exposed {
    double queued = 0; ///< of a pass: they come one after the other
    double waited = 0; ///< of these, what the device does nothing in
    double after = 0;
  };
  void addWhole(size_t policy, const Trial &asked);
  /// What is to be asked of a part, one or two layouts.
  void addQuestions(const LayoutCandidate &candidate, const Part &part, std::vector<Question> &to) const;
  void ask(std::vector<Question> &questions, Trials &trials);
  /// Null: it is refused, which says nothing of layouts that have the part.
  void addPart(const Question &question, const Trial *asked);
  const PartPass *passOf(const Part &part, int64_t perPass) const;
  Exposed exposedOf(const PartPass &pass, const LayoutCandidate &candidate) const;
  std::optional<PartPass> shared(const LayoutCandidate &candidate) const;
  double secondsOf(const PartPass &pass, const LayoutCandidate &candidate) const;
  double secondsAByte(const planner::Message &message, size_t frame) const;
  std::optional<Part> stagedPartOf(const LayoutCandidate &candidate) const;
  double activationsOf(const PartPass &pass, const LayoutCandidate &candidate) const;
  double keptBytes(const LayoutCandidate &candidate) const;

  const LayoutSpace &space;
  int64_t room;
  planner::Machine machine;
  int64_t perNode = 1;
  double mostOverlap = 0;
  std::vector<Whole> wholes; ///< by policy
  std::vector<size_t> cores; ///< by frame
  std::map<Part, PartPrograms> parts;
  mutable std::map<std::pair<Part, int64_t>, std::optional<PartPass>> passes;
  std::set<Part> uneven;                                                      ///< parts that are no line
  mutable std::map<std::tuple<size_t, int, std::string, bool>, double> rates; ///< seconds a byte
};

} // namespace echelon
