// A train block, resolved: every clause checked and turned into numbers and names. What later stages read.
#pragma once
#include "frontend/Diagnostics.h"
#include "frontend/ast/Ast.h"
#include "runtime/data/DataSpec.h"

#include <algorithm>
#include <map>
#include <optional>

namespace echelon::frontend {

/// One mesh axis with the axes of its `split` lines, top to bottom.
struct MeshAxisSettings {
  struct Entry {
    std::string axis;
    bool padded = false, zigzag = false;
    SourceRange range;           // the axis's name in its split line
    bool follows = false;        // `then`: the repeat comes behind that of the entry before, in one row of stages
    std::vector<int64_t> counts; // of an axis of a repeat: of iterations, one a chunk; none where all have equally many
  };
  std::string name;
  int64_t size = 1;
  std::vector<Entry> list;
  std::map<std::string, SourceRange> stored; // of "optimizer", "gradients", "params" what is cut over it, by which line
  std::string schedule;        // of a pipeline: "gpipe", "1f1b"; empty where no axis of a repeat is split over it
  int64_t chunks = 1;          // of iterations that each stage has
  std::vector<int64_t> counts; // `as (7, 8, 8, 7)`: of iterations of all repeats, one a chunk
  bool balanced = false;       // `as balanced`: the compiler finds them
  SourceRange parts;           // `as …`; not valid where the line does not say it
  SourceRange scheduleRange;   // `with 1f1b`; not valid where the line does not say it
  SourceRange ring;            // `with ring`: keys and values of attention go round; not valid where no line says it
  SourceRange range;
};

/// `collective all_reduce over dp with ring`
struct CollectiveSettings {
  std::string kind;              // all_reduce, all_gather, reduce_scatter, all_to_all, broadcast
  std::vector<std::string> over; // mesh axes, in mesh order
  std::string algorithm;         // ring, tree, butterfly, one_to_all, native
  SourceRange range;
};

/// lr as a function of the step: see Fine print, "Optimizers".
struct Schedule {
  enum Kind { Constant, Cosine, Linear, Wsd, StepsAt } kind = Constant;
  double peak = 0, floor = 0;
  int64_t warmup = 0;
  int64_t decaySteps = 0;                  // wsd: length of the last part
  std::vector<int64_t> drops;              // steps_at
  double by = 0.1;                         // steps_at: factor of each drop
  SourceRange range, endRange, dropsRange; // of the schedule, of `warmup` (else the schedule), of `drops`
};

struct OptimizerLine {
  std::string rule;  // sgd, adam, adamw, lamb
  Schedule schedule; // scale_lr already applied
  double decay = 0;
  std::vector<std::pair<std::string, double>> numbers; // further ones of the rule, by name; true is 1
  std::vector<Pattern> patterns;                       // empty: every parameter
  SourceRange range;
};

struct EvaluationSettings {
  std::string name;                        // empty: the held-out part of `data`
  std::optional<runtime::DataSpec> source; // of `evaluate NAME on SOURCE`
  int64_t everySteps = 0, batches = 0;     // batches 0: all
  SourceRange range;
};

/// `until METRIC > VALUE`
struct UntilSettings {
  std::string metric;
  std::string comparison; // ">", ">=", "<", "<="
  double value = 0;
  SourceRange range, metricRange; // the clause, the metric's name

  std::string text() const;
};

/// `sync k_async(4, staleness = 8) over dp`
struct SyncSettings {
  std::string policy; // "k_sync", "k_batch_sync", "k_async" (`async` is that of 1), "k_batch_async", "local"
  int64_t k = 1;
  int64_t workers = 1;
  std::vector<std::string> over;    // the workers' mesh axes, outermost first
  std::optional<int64_t> staleness; // most
  bool damps = false;
  std::string delay;                // of drawn arrivals: "exponential", "shifted", "each"; empty: they are real
  std::vector<double> delayNumbers; // its arguments
  int64_t every = 0;                // local: steps from one meeting to the next
  std::string outer;                // local: "sgd", "nesterov"; empty: plain averaging
  double rate = 1, momentum = 0;    // of the outer optimizer
  SourceRange range;

  /// Instead of real ones, where there are none or they are to be known beforehand.
  void drawArrivals() {
    delay = "exponential";
    delayNumbers = {1};
  }
  bool isLocal() const { return policy == "local"; }
  bool isAsync() const { return policy == "k_async" || policy == "k_batch_async"; }
  bool isBatch() const { return policy == "k_batch_sync" || policy == "k_batch_async"; }
  std::string text() const; // "k_async(4, staleness = 8) over dp"
};

/// What of a precision is not fp32; each is empty where it is.
struct PrecisionSettings {
  std::string compute;       // what products take: "tf32", "bf16", "fp16", "fp8"
  std::string params;        // what an update is rounded to: "bf16", "fp16"
  std::string reduce;        // what sums over ranks travel in: "bf16", "fp16"
  std::vector<Pattern> keep; // parameters whose products take fp32
};

/// `compress gradients over dp with topk(1%) feedback`
struct CompressSettings {
  std::string kind;              // "fp16", "int8", "onebit", "topk", "randomk", "powersgd"
  std::vector<std::string> over; // mesh axes that split the batch, outermost first
  double amount = 0;             // the share of topk and randomk, the rank of powersgd
  bool feedback = false;
  bool ofDeltas = false; // what workers of `local` meet with, not gradients
  SourceRange range;

  std::string method() const; // "topk(1%)", as the clause has it
};

/// `offload optimizer to host`, `offload optimizer, params to "DIR"`
struct OffloadSettings {
  std::string directory; // empty: to host
  SourceRange range;
  bool params = false; // those of repeats, too
};

/// `recompute every 2 layer`
struct RecomputeSettings {
  std::string policy; // "full", "every", "keep", "auto" until it is chosen; empty: repeats keep all that is read
  int64_t every = 0;  // iterations of a group
  std::string axis;   // that they are counted along
  std::vector<Path> keep;
  double within = 0; // `auto within 70 GB`: bytes of a rank; 0: what its device has
  SourceRange range;

  std::string text() const; // as the clause has it
};

/// Something of the language that is not built yet, where it stands.
struct NotBuilt {
  SourceRange range;
  std::string what;    // "recompute auto", "split with interleaved": how a message names it
  std::string instead; // what to write for now

  std::string message() const { return what + " is not built yet; " + instead; }
};

struct RunSettings {
  const Train *train = nullptr;
  std::string name;
  const Model *model = nullptr; // resolved
  const std::vector<Argument> *modelArguments = nullptr;
  SourceRange modelRange;
  int64_t clusterRanks = 1; // what `on` offers; 0: it is wrong, which is reported
  int64_t nodeRanks = 0;    // of these, on one machine; 0: all
  int64_t deviceBytes = 0;  // memory of one of its devices; 0: not said
  std::string deviceName;
  const Cluster *cluster = nullptr;   // of a clause `on` or called `here`; null: this machine
  const Device *device = nullptr;     // its devices, where they are known
  SourceRange onRange;                // the clause `on`, else the train block's name
  std::vector<MeshAxisSettings> mesh; // outermost first; at least one axis
  std::vector<CollectiveSettings> collectives;
  std::optional<OffloadSettings> offload;
  bool layoutBuilt = true;                // nothing in the layout waits to be built
  SourceRange layoutRange, batchRange, dataRange, lengthRange;
  int64_t batch = 0, microBatches = 1; // samples a step over all ranks; passes a step
  int64_t steps = 0;                   // 0 where `epochs`, see lengthEpochs, and where `until` stands alone
  int64_t lengthSamples = 0, lengthEpochs = 0;
  std::optional<UntilSettings> until;
  runtime::DataSpec data;
  std::vector<SourceRange> transformRanges;                // of data.transforms
  std::vector<std::pair<std::string, SourceRange>> inputs; // `-> image, label`
  std::vector<OptimizerLine> optimizers;
  std::optional<double> clip;
  std::optional<SyncSettings> sync; // none: every step
  std::optional<CompressSettings> compress;
  std::optional<double> averageDecay; // of `average ema(d)`
  std::vector<EvaluationSettings> evaluations;
  uint64_t seed = 0;
  bool doublePrecision = false; // precision fp64
  PrecisionSettings precision;
  RecomputeSettings recompute;
  struct {
    int64_t start = 0; // 0: there is none
    bool isDynamic = false;
  } lossScale;
  struct {
    bool isAuto = false; // then the program says how often, once a step is costed
    int64_t everySteps = 0, keep = 0;
    double everySeconds = 0;
    std::string directory; // empty: no snapshots
  } checkpoint;
  int64_t restarts = 0; // `restart up to N times`
  struct {
    OnNanClause::Action action = OnNanClause::Stop;
    int64_t times = 0; // steps in a row that are skipped; how often the run rolls back to one snapshot
  } onNan;
  std::vector<NotBuilt> notBuilt;

  /// Samples that one worker takes at a time: the batch, where all work together.
  int64_t miniBatch() const { return sync ? batch / sync->workers : batch; }
  /// Samples whose gradients make one step.
  int64_t samplesAStep() const { return sync ? sync->k * miniBatch() : batch; }
  bool isWorkerAxis(const std::string &meshAxis) const {
    return sync && std::find(sync->over.begin(), sync->over.end(), meshAxis) != sync->over.end();
  }
  bool hasLength() const { return steps || lengthSamples || lengthEpochs; }
  /// What all nodes that the mesh takes cost in an hour; 0: the cluster says no price.
  double dollarsPerHour() const;
  int64_t ranks() const {
    int64_t n = 1;
    for (const MeshAxisSettings &axis : mesh)
      n *= axis.size;
    return n;
  }
  /// Over how many ranks the batch is split.
  int64_t batchRanks(const std::string &batchAxis) const {
    int64_t n = 1;
    for (const MeshAxisSettings &axis : mesh)
      for (const MeshAxisSettings::Entry &entry : axis.list)
        if (entry.axis == batchAxis)
          n *= axis.size;
    return n;
  }
};

/// Resolves a train block. Everything wrong is reported; what is returned is whole only without errors.
/// `oneRank`: for one rank, whatever the layout (`--ranks 1`): without a mesh, with as many micro
/// batches as the layout has; where those do not divide the batch, with as many as one rank has.
RunSettings resolveTrain(const Program &program, const Train &train, Diagnostics &diagnostics, bool oneRank = false);

/// The checks that need the run's steps: that schedules and drops lie within them, that places in the data's stream can
/// be counted. Where the length is `epochs`, once the data's size is known.
void checkLength(const RunSettings &settings, Diagnostics &diagnostics);

/// The checks that need the model's axes: every listed axis exists (nearest name otherwise). Sizes: all axes of the
/// model by name; `repeats` are the axes of repeats, whose split makes a pipeline.
void checkAxes(RunSettings &settings, const std::map<std::string, int64_t> &sizes, const std::set<std::string> &repeats,
               Diagnostics &diagnostics);

} // namespace echelon::frontend
