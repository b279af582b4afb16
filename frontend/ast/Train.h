// Train blocks: how a model is trained. One struct a clause, as written; frontend/resolve/RunSettings.h is what they
// come to.
#pragma once
#include "frontend/ast/Model.h"
#include <variant>

namespace echelon::frontend {

/// `64`, `8 * 64`, `2^16`: worked out already.
struct Count {
  int64_t value = 0;
  SourceRange range;
  bool known = true; // false: it is no count, which is reported; then it stands for 1
};

/// `*.gamma`, `layer.*.wq`
struct Pattern {
  std::string text;
  SourceRange range;
};

/// `model GPT(layers = 4)`
struct ModelClause {
  Path model;
  std::vector<Argument> arguments;
};

/// `on here`, `on local(ranks = 2)`
struct OnClause {
  Path cluster;
  bool hasArguments = false;
  std::vector<Argument> arguments;
};

/// `data SOURCE -> inputs with TRANSFORMS`; sources nest as calls do.
struct DataClause {
  ExprPtr source; // a CallExpr
  std::vector<Path> inputs;
  std::vector<Method> transforms;
};

struct BatchClause {
  Count size;
  std::optional<Count> micro;
};

struct LengthClause {
  enum Unit { Steps, Epochs, Samples } unit = Steps;
  Count count;
};

/// `until accuracy > 93%`
struct UntilClause {
  ExprPtr condition;
};

/// `optimize adamw(…) on (PATTERNS)`
struct OptimizeClause {
  Method method;
  std::vector<Pattern> patterns; // empty: all
};

/// `average ema(0.999)`
struct AverageClause {
  Method method;
};

/// `evaluate [NAME on SOURCE] every N steps [on M batches]`
struct EvaluateClause {
  std::optional<Ident> name;
  ExprPtr source; // or null
  Count every;
  std::optional<Count> batches;
};

struct SeedClause {
  Count seed;
};

/// `split encoder then decoder over pp with 1f1b as (7, 8)`
struct SplitClause {
  SourceRange range;
  std::vector<std::vector<Ident>> axes; // `a, b` is {{a}, {b}}; `a then b` is {{a, b}}
  std::vector<Ident> over;
  std::vector<Method> with; // 1f1b, zigzag, padding, …
  enum Parts { Even, Balanced, Given } parts = Even;
  std::vector<Count> counts; // for Given
  SourceRange partsRange;
};

/// `store optimizer, gradients over dp`
struct StoreClause {
  SourceRange range;
  std::vector<Ident> what;
  std::vector<Ident> over;
};

/// `offload optimizer to host`, `to "DIR"`
struct OffloadClause {
  SourceRange range;
  std::vector<Ident> what;
  std::optional<Ident> place;
  std::optional<std::string> folder;
  SourceRange placeRange;
};

/// `collective all_reduce over dp with ring`
struct CollectiveClause {
  SourceRange range;
  Ident what;
  std::vector<Ident> over;
  Method with;
};

struct MeshAxis {
  Ident name;
  std::optional<Count> size; // none: auto
  SourceRange range;
};

using LayoutStatement = std::variant<SplitClause, StoreClause, OffloadClause, CollectiveClause>;

struct LayoutClause {
  bool isAuto = false;
  std::vector<MeshAxis> mesh;
  SourceRange meshRange; // `auto`, or `mesh(…)`
  std::vector<LayoutStatement> statements;
};

/// `sync every step`, `sync k_sync(4) over dp`
struct SyncClause {
  bool everyStep = false;
  std::optional<Method> method;
  std::vector<Ident> over;
};

/// `precision bf16`, `precision compute bf16, params fp32, reduce fp32, keep (norm) fp32, scale dynamic`
struct PrecisionClause {
  struct Item {
    enum What { All, Compute, Params, Reduce, Keep, Scale } what = All;
    std::vector<Pattern> kept;    // Keep
    Ident word;                   // the precision; for Scale `dynamic`, or empty
    std::optional<double> factor; // Scale
    SourceRange range;
  };
  std::vector<Item> items;
};

/// `compress gradients over dp with topk(1%) feedback`
struct CompressClause {
  Ident what;
  std::vector<Ident> over;
  Method with;
  bool feedback = false;
};

struct RecomputeClause {
  enum Policy { None, Full, Every, Keep, Auto } policy = None;
  std::optional<Count> every;
  std::optional<Ident> axis; // `every 2 layer`
  std::vector<Path> keep;
  std::optional<Quantity> within;
};

struct CheckpointClause {
  bool isAuto = false;
  std::optional<Count> steps;
  std::optional<Quantity> period; // Seconds
  std::optional<std::string> folder;
  SourceRange folderRange;
  std::optional<Count> keep;
};

/// A name outside and the places in the model that it stands for.
struct Mapping {
  std::string outside;
  SourceRange outsideRange;
  std::vector<std::vector<Ident>> axes; // `[embed, (three, head, key)]`
  std::vector<Path> inside;
  SourceRange range;
};

/// `export "model.safetensors" map { … }`
struct ExportClause {
  std::string file;
  SourceRange fileRange;
  std::vector<Mapping> map;
};

/// `restart up to 3 times`
struct RestartClause {
  Count times;
};

/// `elastic dp from 2 to 8`
struct ElasticClause {
  Ident axis;
  Count from, to;
};

/// `on nan skip up to 10`, `on nan roll back`, `on nan stop`
struct OnNanClause {
  enum Action { Skip, RollBack, Stop } action = Stop;
  std::optional<Count> upTo;
};

/// `adapt lora(rank = 8, alpha = 16) on (PATTERNS)`
struct AdaptClause {
  Method method;
  std::vector<Pattern> patterns;
};

struct FreezeClause {
  std::vector<Pattern> patterns;
};

struct QuantizeClause {
  struct Item {
    Ident what, type;
    std::optional<Ident> per;
    bool symmetric = true;
    SourceRange range;
  };
  std::vector<Item> items;
  std::optional<Count> fromStep;
};

/// `prune magnitude(sparsity = 90%, rounds = 10, retrain = 100) on (PATTERNS)`
struct PruneClause {
  Method method;
  std::vector<Pattern> patterns;
};

/// `start from "model.safetensors" map { … } new (PATTERNS) skip (PATTERNS)`
struct StartClause {
  std::string file;
  SourceRange fileRange;
  std::vector<Mapping> map;
  std::vector<Pattern> fresh, skip;
};

/// `search optimize.lr in log(1e-4 .. 1e-2), model.width in (128, 256) with asha(trials = 16)`
struct SearchClause {
  struct Item {
    Path path;
    std::optional<Method> scale;  // log(1e-4 .. 1e-2)
    std::vector<Argument> values; // (128, 256)
    SourceRange range;
  };
  std::vector<Item> items;
  std::optional<Method> with;
};

/// `minimize eval_loss`, `maximize accuracy`
struct GoalClause {
  bool maximize = false;
  Path what;
};

struct Clause {
  using What =
      std::variant<ModelClause, OnClause, DataClause, BatchClause, LengthClause, UntilClause, OptimizeClause,
                   AverageClause, EvaluateClause, SeedClause, LayoutClause, SyncClause, PrecisionClause, CompressClause,
                   RecomputeClause, CheckpointClause, ExportClause, RestartClause, ElasticClause, OnNanClause,
                   AdaptClause, FreezeClause, QuantizeClause, PruneClause, StartClause, SearchClause, GoalClause>;
  What what;
  Ident word;        // the word that begins the clause
  SourceRange range; // from that word to the clause's last token
};

struct Train {
  Ident name;
  std::vector<Clause> clauses;
  SourceRange range, end; // the head, the closing brace
  bool broken = false;    // a clause could not be read
};

} // namespace echelon::frontend
