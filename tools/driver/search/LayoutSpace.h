// The layouts that a spec leaves open: meshes of all ranks, what their axes split, micro batches, what is stored in
// cuts, the order of stages, recomputation.
#pragma once
#include "tools/driver/compile/Compilation.h"
#include "tools/driver/search/LayoutChoice.h"

namespace echelon {

/// A mesh and what it splits; stores and order of stages come with each candidate.
struct LayoutFrame {
  std::vector<frontend::MeshAxisSettings> mesh;
  int64_t samples = 1, tensor = 1, stages = 1, context = 1; ///< over how many ranks each is split
  double params = 1;           ///< part of the parameters that a rank has, where they are not stored in cuts
  int64_t iterations = 0;      ///< that stages share out
  int stageAxis = -1;          ///< place of the mesh axis of stages
  std::string core;            ///< what splits other than samples and stages
  std::vector<int> sampleAxes; ///< of those that split samples

  /// Whether stages have unequally many iterations.
  bool isUneven() const { return stages > 1 && mesh[size_t(stageAxis)].parts.valid(); }
  /// The part of all iterations that the stage with most of them has at least.
  double most() const;
};

struct LayoutCandidate {
  size_t frame = 0;
  int64_t perPass = 1; ///< samples of a rank
  int64_t passes = 1;  ///< micro batches
  int stored = 0;      ///< of optimizer, gradients and params: so many are stored over the mesh axes of samples
  int64_t chunks = 1;  ///< of a stage's iterations
  const char *schedule = "";
  int policy = 0;   ///< place among the policies of recomputation, where the spec leaves it open
  size_t group = 0; ///< of those that differ in samples of a pass, stores, recomputation and order of mesh axes alone

  bool isZeroBubble() const { return llvm::StringRef(schedule) == "zero_bubble"; }
  /// The part of a pass that a pipeline of stages with equally many iterations waits, at its beginning and at its end.
  double waits(const LayoutFrame &in) const { return double(in.stages - 1) / double(in.stages * chunks); }
};

/// What a spec may say beside a layout that is left open, and what could be open instead.
enum class Pinned { MicroBatch, Recompute, Store, Sizes };

class LayoutSpace {
public:
  /// The frames, of a compilation that is elaborated. None: `why` says which statement is at fault.
  LayoutSpace(const Compilation &model, int64_t ranks, std::set<Pinned> relaxed = {});
  /// All candidates. `policies` of recomputation, from what keeps most to what keeps least; empty: as the spec says.
  void enumerate(std::vector<frontend::RecomputeSettings> policies);

  PlannedLayout layoutOf(const LayoutCandidate &candidate) const;

  /// What the spec says of this, as it has it.
  std::vector<std::pair<Pinned, std::string>> pinned() const;

  std::vector<LayoutFrame> frames;
  std::vector<LayoutCandidate> candidates;
  std::map<std::string, size_t> groups; ///< of candidates, by what they have in common
  std::vector<frontend::RecomputeSettings> policies;
  bool isRecomputeOpen = false; ///< `recompute` is not said, or auto
  bool isRecomputeAuto = false;
  bool hasRepeats = false; ///< else there is nothing to recompute
  std::string why;         ///< there is no candidate

private:
  enum class Role { Said, Samples, Tensor, Stages, Context };
  /// A mesh axis before it has a size.
  struct Slot {
    frontend::MeshAxisSettings axis; ///< as far as the spec says it; size 0: open
    Role role = Role::Said;
    size_t list = 0; ///< of tensor axes, of repeats
  };

  // LayoutAxes.cpp
  void findAxes();
  void findLists(const std::vector<std::string> &names, const std::vector<std::string> &data);
  void findRing();
  void addWhole();
  void addPartial();
  void addRoles(std::vector<Slot> slots, size_t from);
  void addSizes(const std::vector<Slot> &slots, bool keepsOnes);
  void addFrame(const std::vector<Slot> &slots, const std::vector<int64_t> &sizes, bool keepsOnes);
  bool fill(LayoutFrame &frame, frontend::MeshAxisSettings &axis, const Slot &slot) const;
  double paramsOf(const LayoutFrame &frame) const;
  void addCandidates(size_t frame);
  void tellWhy();
  frontend::MeshAxisSettings::Entry entry(const std::string &axis, bool follows = false) const;

  bool isRelaxed(Pinned what) const { return relaxed.count(what) != 0; }

  const Compilation &model;
  std::set<Pinned> relaxed; ///< as if the spec did not say it
  const frontend::LayoutClause *clause = nullptr;
  int64_t ranks, batch;
  frontend::SourceRange place; ///< of the clause
  int64_t saidPerPass = 0;     ///< `in micro batches of`; 0: open
  bool saysStore = false;
  std::map<std::string, int64_t> sizes;                            ///< of axes that may be split
  std::vector<std::vector<std::string>> lists;                     ///< of axes for a tensor-parallel mesh axis
  std::vector<std::vector<std::string>> rows;                      ///< of repeats, one behind the other
  std::map<std::string, int64_t> iterations;                       ///< of repeats
  std::optional<std::pair<std::string, std::string>> ring;         ///< queries and keys of attention
  std::vector<std::pair<std::vector<std::string>, double>> params; ///< axes and bytes of each
  std::set<std::string> seen;                                      ///< frames, as text
};

} // namespace echelon
