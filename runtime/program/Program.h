// The description of a program: everything that the training loop, the snapshots and the logs need to know, as plain
// data that a generated program fills once.
#pragma once

#include "runtime/collectives/Collectives.h"
#include "runtime/data/DataSpec.h"
#include "runtime/program/Layout.h"
#include "runtime/random/Philox.h"
#include "runtime/sync/Arrivals.h"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace echelon::runtime {

class Device;
class Rank;

/// Start values; over the whole logical tensor, independent of its layout.
struct Init {
  enum Kind { Zeros, Ones, Constant, Normal, Uniform } kind = Zeros;
  double a = 0; // Constant: the value · Normal: standard deviation · Uniform: lowest
  double b = 0; // Uniform: highest (excluded)
};

/// A tensor that lives across steps: in the state arena, and in snapshots under its path.
struct Stored {
  enum Kind { Param, State, Optimizer, Average } kind;
  std::string path;              // "layer.attn.wq", "optimizer.m.layer.attn.wq", "average.layer.attn.wq"
  std::vector<std::string> axes; // names in declared order: the order of the random index and of snapshots
  Layout layout;                 // the same axes in storage order
  ElementType type;
  Init init;
  int64_t offset;           // bytes in the state arena
  bool isOfWorkers = false; // the first axis is that of workers, of which each rank has its own
};

/// Axes that are one row of positions (the first one slowest) under other names.
struct Renamed {
  std::vector<std::string> from, to;
};

/// One place in the input arena where an input is wanted: the whole global batch, as the rank holds it. Micro batches
/// are the batch axis under two names, (micro, batch).
struct InputPlace {
  Layout layout; // of the whole batch; axes are named as the input's, or as `renamed` says
  ElementType type;
  int64_t offset; // bytes in the input arena
  std::vector<Renamed> renamed = {};
};

struct Input {
  std::string name;
  int output;                    // which of the data source's outputs it takes
  std::vector<std::string> axes; // names in declared order, the batch axis among them
  std::vector<int64_t> sizes;    // logical; the batch axis: the global batch
  ElementType type;
  int64_t below; // `int below A`: A's size; otherwise 0
  std::vector<InputPlace> places;
};

/// A number that the program reports each step or evaluation with Rank::report(index in Program::scalars, value).
/// Values are those of the whole batch (or held-out set), equal on all ranks.
struct Scalar {
  enum Kind {
    Loss,      // the unnamed loss, else the sum of all; logged as loss, in evaluations as eval_loss
    NamedLoss, // logged by name; the sum of several losses is total_loss
    Metric,    // logged by name, in evaluations
    Norm,      // gradient norm before clipping; logged as grad_norm
  } kind;
  std::string name;
};

/// A random statement of the model (dropout, survive, random), so that --dump can write what it drew: the whole logical
/// tensor, computed again. `axes` are the statement's in declared order, the repeats it is in first, the batch with
/// its global size.
struct RandomDraw {
  std::string path; // the key is Rank::randomKey(path_hash(path))
  std::vector<int64_t> sizes;
  Distribution kind;
  double a, b;                        // as in fill_random; for Keep b is taken as 1
  std::vector<double> aPerIndex = {}; // where a differs along the first axes (repeats): one each
};

/// `collective KIND over … with ALGORITHM` of a program for GPUs, whose library hears of it before the first one.
struct CollectiveChoice {
  Collective kind;
  int group; // of Program::groups
  Algorithm algorithm;
};

/// What the compiler chose of the ways that the library of a program for GPUs has: a row of the library's tuner.
struct TunerRow {
  Collective kind;
  int group;             // of Program::groups
  const char *algorithm; // "ring", "tree", "nvls"; "any": the library's own choice
  const char *protocol;  // "ll", "ll128", "simple"; empty: the best that it has of the algorithm
  int channels;          // 0: as many as it likes
  int64_t most;          // bytes of the whole message up to which the row holds; 0: any number. Rows of a group ascend
};

struct Evaluation {
  std::string name; // empty, or NAME of `evaluate NAME on SOURCE`
  DataSpec data =
      {}; // empty kind: the held-out part of the training data; else that source's, the whole where it has none
  int64_t everySteps = 0; // and after the last step; 0: only then
  int64_t batches = 0;    // `on M batches`; 0: all of it
};

struct Checkpoint {
  int64_t everySteps = 0;  // 0: not by steps
  double everySeconds = 0; // 0: not by time
  std::string directory;   // empty: no snapshots; relative ones start at the spec's folder, or at --out
  int64_t keep = 0;        // newest snapshots kept; 0: all
};

/// `until METRIC > VALUE`: the run ends after the first evaluation that fulfils it.
struct Until {
  enum Comparison { Above, AtLeast, Below, AtMost };
  std::string metric; // empty: no such clause. A scalar's name, or eval_loss
  Comparison comparison = Above;
  double value = 0;
  std::string evaluation;    // name of the one that is looked at
  double dollarsPerHour = 0; // of all nodes; 0: no price is known

  bool isMetBy(double measured) const;
  std::string text() const; // "accuracy > 0.93"
};

/// What is done about a training step whose loss or gradients are not finite.
struct OnNan {
  enum Action { Stop, Skip, RollBack } action = Stop;
  int64_t times = 0; // Skip: steps in a row · RollBack: to one snapshot
};

/// What the derivative of a loss starts from; gradients are divided by it.
struct LossScale {
  int64_t start = 0; // 0: there is none, and it starts from 1
  bool isDynamic = false;
};

/// What a run is, kept in its snapshots: "model" (runtime/snapshot/Mathematics.h), "data", "seed", "optimizer" and
/// "layout" (lines "name: value"). What a run that goes on must share: runtime/snapshot/Agreement.h.
struct Fingerprint {
  std::string category;
  std::string text;
};

/// One operation of the step, in a program that is to be profiled.
struct ProfiledOp {
  const char *op;        // what it is and on what: "gemm h [batch=32, hidden=128]"
  const char *line;      // of the spec: "mlp.ech:15"
  const char *kind;      // it is summed up under
  int64_t flops, bytes;  // that one call needs: what its time is held against
  int group = -1;        // of a collective: an index into Program::groups
  double predicted = -1; // seconds of one call, by Program::prediction; negative: nobody says
};

/// What a step is to take by what is known of a machine, in a program that is to be profiled.
struct Prediction {
  std::string machine; // whose figures these are, for people; empty: there are none
  double step = 0;     // seconds
  double data = -1;    // of these, until the batch is in its place; negative: nobody says
};

/// Where a run took its place in its own history: after `step` steps and `samples` samples. The optimizer's moments
/// have been updated as often as if they had started at zero after `momentsFrom` steps, each followed by an update, the
/// averages of parameters as if after `averagesFrom`: both count a skipped step.
struct Course {
  int64_t step = 0, samples = 0, momentsFrom = 0, averagesFrom = 0;
  int64_t lossScale = 0; // 0: where the program's starts
  int64_t goodSteps = 0; // in a row, under this loss scale
  Tickets tickets;       // under a sync policy

  /// After a step, where the loss scale is dynamic.
  void adaptLossScale(bool isGood, bool hasOverflowed);
  /// Samples seen before a step (from 0), of `batch` a step: its place in the stream of the data.
  int64_t samplesBefore(int64_t step_, int64_t batch) const { return samples + (step_ - step) * batch; }
};

/// What of the state arena is offloaded: moments and averages, its end. They lie in a file (runtime/program/Offload.h),
/// or in the host's memory, from a device (runtime/cuda/Offload.h).
struct Offload {
  std::string directory; // in which the file is made; empty: there is none
  int64_t from = 0, bytes = 0;
  int64_t resident = 0; // of these, bytes that are in the host's memory at a time
  int64_t piece = 0;    // bytes of each of the two pieces that a device has

  explicit operator bool() const { return bytes > 0; }
  bool isInFile() const { return bytes > 0 && !directory.empty(); }
};

/// An InputPlace of a program that is being described: its shape, as layoutOf reads it.
struct PlaceOfInput {
  std::string shape;
  int64_t offset;
  std::vector<Renamed> renamed = {};
};

/// The layout that a text tells: "layer=4 head=6:8/tp key=32 flat/dp" has the axes layer, head and key in storage order
/// with their logical sizes; head is split over tp, and has 8 in storage over all ranks; what is left is cut flat over
/// dp. Several mesh axes stand one after the other, the slowest first: "ff=512/tp/dp".
Layout layoutOf(const std::vector<MeshAxis> &mesh, const std::string &shape);

struct Program {
  std::string name;   // of the train block
  std::string model;  // it trains
  std::string spec;   // path of the spec, for messages
  std::string folder; // where relative paths of the spec start; --folder overrides it
  std::vector<MeshAxis> mesh;
  std::string batchAxis = "batch";
  uint64_t seed = 0;
  int64_t batch = 1; // samples a step, over all ranks and micro batches
  int64_t steps = 0; // the run's length and the schedule's horizon; 0: none (until)
  std::vector<Stored> stored;
  std::vector<Input> inputs;
  DataSpec data;
  int64_t stateBytes = 0, inputBytes = 0, workBytes = 0; // arenas of one rank
  Offload offload;
  std::vector<std::vector<int>> groups; // each a list of mesh axes (indices): the ranks that differ in these only
  std::vector<int> rows; // of groups, those whose ranks send to the next one and the one before: stages of a pipeline
  std::vector<CollectiveChoice> choices; // of GPUs
  std::vector<TunerRow> tuner;           // of GPUs
  std::vector<Scalar> scalars;
  std::vector<RandomDraw> draws;
  std::string partialFunctions; // of the model, inf or nan of some finite numbers: "log (mlp.ech:14), …"
  std::vector<Evaluation> evaluations;
  Checkpoint checkpoint;
  int restarts = 0; // `restart up to N times`: from the newest snapshot, when a rank died or was given up
  Until until;
  OnNan onNan;
  LossScale lossScale;
  SyncPolicy sync;
  std::vector<Fingerprint> fingerprints;
  std::vector<ProfiledOp> profiled; // the step calls Rank::lap after each; empty: it does not
  Prediction prediction;            // of `profiled`
  std::string plan;                 // text for --plan
  std::string version;              // of the compiler
  Course course;                    // set where the run goes on from a snapshot

  /// Samples that one worker takes at a time; without a sync policy the batch.
  int64_t miniBatch() const { return batch / sync.workers; }
  /// Whether ranks wait for what others compute: else all compute alike, and come to a message together.
  bool takesTurns() const { return !rows.empty(); }
  /// Samples whose gradients make a step.
  int64_t samplesAStep() const { return sync ? sync.k * miniBatch() : batch; }

  /// Describes a stored tensor; `shape` as layoutOf reads it, axes in declared order. After `mesh` and `sync` are told.
  void store(Stored::Kind kind, const std::string &path, const std::string &shape, Init init, int64_t offset,
             ElementType type = ElementType::Float32);
  /// What the optimizer of each worker keeps, where they train by themselves: `shape` with an axis of workers before
  /// it.
  void storeOfWorkers(const std::string &path, const std::string &shape, Init init, int64_t offset,
                      ElementType type = ElementType::Float32);
  /// What the optimizer keeps of each parameter so far, "optimizer.NAME.PATH": zeros of its shape, `bytes` after it.
  void storeMoments(const std::string &name, int64_t bytes);
  /// The averages of the parameters so far, likewise; @start fills them.
  void storeAverages(int64_t bytes);
  /// Describes an input; `shape` is the global batch's.
  void take(const std::string &name, int output, const std::string &shape, ElementType type, int64_t below,
            const std::vector<PlaceOfInput> &places);

  /// Opens what a rank computes on, where that is not the host's memory.
  std::unique_ptr<Device> (*device)(Rank &) = nullptr;

  /// Fills stored tensors whose start values are computed, averages among them; called after the Inits, in training
  /// alone. May be null.
  void (*start)(Rank &) = nullptr;
  /// One training step on the inputs already loaded. When a loss or the norm is not finite it returns before anything
  /// is updated.
  /// Under a sync policy: the gradients of one worker's mini-batch, at its copies; nothing is updated.
  void (*step)(Rank &, double lr) = nullptr;
  /// Under a sync policy. What the worker has made joins what is handed in (null where one of a worker makes an
  /// update); the update of what all workers have handed in, as `step` otherwise; the worker's copies become the newest
  /// parameters (null where all compute at these).
  void (*handIn)(Rank &) = nullptr;
  void (*update)(Rank &, double lr) = nullptr;
  void (*readNewest)(Rank &) = nullptr;
  /// Where workers train by themselves: what all go on with is made of what they have; the worker takes it (null where
  /// it has it). `readNewest` then keeps what they have at first.
  void (*meet)(Rank &) = nullptr;
  void (*takeMet)(Rank &) = nullptr;
  /// Evaluation: begin, then batch for each batch of the held-out set, then end, which reports.
  void (*evaluateBegin)(Rank &) = nullptr;
  void (*evaluateBatch)(Rank &) = nullptr;
  void (*evaluateEnd)(Rank &) = nullptr;
  /// Parameters and their averages change places, so that an evaluation reads these; called again after it, but where
  /// `restore` brings the parameters back. Null where there are no averages.
  void (*exchange)(Rank &) = nullptr;
  void (*restore)(Rank &) = nullptr;
  /// The learning rate of a step (from 0).
  double (*learningRate)(int64_t step) = nullptr;
};

/// The main function of a generated program: reads the options (--help lists them), launches the ranks, trains or
/// evaluates. Returns 0 fine, 2 usage, 4 the run failed.
int run_program(const Program &program, int argc, char **argv);

} // namespace echelon::runtime
