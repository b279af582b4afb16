// How a train block is resolved: one function a clause, all writing into one RunSettings.
#pragma once
#include "frontend/resolve/Arguments.h"
#include "frontend/resolve/RunSettings.h"

namespace echelon::frontend {

class TrainResolver {
public:
  TrainResolver(const Program &program, const Train &train, Diagnostics &diagnostics, bool oneRank)
      : program(program), train(train), diagnostics(diagnostics), oneRank(oneRank) {
    settings.train = &train;
    settings.name = train.name.text;
  }
  RunSettings run();

private:
  // RunSettings.cpp
  void checkOnce();
  void checkRequired();
  void take(const ModelClause &, const Clause &);
  void take(const OnClause &, const Clause &);
  void takeCluster(const Cluster &cluster);
  void takeDevices(const Cluster *cluster); // null: this machine's
  void takeDefaultCluster();
  void take(const BatchClause &, const Clause &);
  void take(const LengthClause &, const Clause &);
  void take(const UntilClause &, const Clause &);
  void take(const EvaluateClause &, const Clause &);
  void take(const SeedClause &, const Clause &);
  void take(const CheckpointClause &, const Clause &);
  // Data.cpp
  void take(const DataClause &, const Clause &);
  std::optional<runtime::DataSpec> source(const CallExpr &call, size_t inputs, bool wrapped);
  bool paths(const CallExpr &call, size_t most, runtime::DataSpec &spec);
  bool columns(const Argument &a, runtime::DataSpec &spec);
  bool tokens(const CallExpr &call, runtime::DataSpec &spec);
  bool nextToken(const CallExpr &call, size_t inputs, runtime::DataSpec &spec);
  bool synthetic(const CallExpr &call, runtime::DataSpec &spec);
  void mixture(const CallExpr &call, size_t inputs, const std::string &kind);
  bool actsOn(const Arguments &args, const std::vector<Path> &inputs, runtime::TransformSpec &t);
  bool actsAlong(const Method &method, runtime::TransformSpec &t);
  std::optional<runtime::TransformSpec> transform(const Method &method, const std::vector<Path> &inputs);
  void normalizeEvaluations();
  // Optimize.cpp
  void take(const OptimizeClause &, const Clause &);
  void take(const AverageClause &, const Clause &);
  std::optional<Schedule> schedule(const Expr &rate);
  void checkSchedules();
  // Layout.cpp
  void take(const LayoutClause &, const Clause &);
  void split(const SplitClause &);
  void parts(const SplitClause &, MeshAxisSettings &);
  void list(const MeshAxisSettings::Entry &, MeshAxisSettings &);
  void store(const StoreClause &);
  void offload(const OffloadClause &);
  void collective(const CollectiveClause &);
  void finishLayout();
  std::vector<MeshAxisSettings *> meshAxes(const std::vector<Ident> &over);
  std::string batchAxis() const;
  // Sync.cpp
  void take(const SyncClause &, const Clause &);
  bool takeWorkers(const SyncClause &, const Clause &, SyncSettings &sync);
  void takeDelay(Arguments &args, SyncSettings &sync);
  void takeLocal(Arguments &args, SyncSettings &sync);
  void checkMeetings();
  // Precision.cpp
  void take(const PrecisionClause &, const Clause &);
  bool takeScale(const PrecisionClause::Item &);
  bool takePart(const PrecisionClause::Item &, const std::string &compute);
  // Mathematics.cpp: what changes the mathematics
  void take(const CompressClause &, const Clause &);
  std::vector<std::string> hopOf(const std::vector<Ident> &over, const Clause &);
  std::vector<std::string> hopOfPolicy(const CompressClause &, const Clause &);
  void take(const AdaptClause &, const Clause &);
  void take(const FreezeClause &, const Clause &);
  void take(const QuantizeClause &, const Clause &);
  void take(const PruneClause &, const Clause &);
  // Resources.cpp: memory, faults, files, search
  void take(const RecomputeClause &, const Clause &);
  void take(const ExportClause &, const Clause &);
  void needCheckpoint(const std::string &what, SourceRange range);
  void take(const RestartClause &, const Clause &);
  void take(const ElasticClause &, const Clause &);
  void take(const OnNanClause &, const Clause &);
  void take(const StartClause &, const Clause &);
  void take(const SearchClause &, const Clause &);
  void take(const GoalClause &, const Clause &);

  Diagnostic &error(Code code, SourceRange range, std::string message) {
    return diagnostics.error(code, range, std::move(message));
  }
  void notBuilt(SourceRange range, std::string what, std::string instead = "leave it out") {
    settings.notBuilt.push_back({range, std::move(what), std::move(instead)});
  }
  /// Reports a word that is none of `known`; true when it is one.
  bool oneOf(const Ident &word, const std::vector<std::string> &known, const std::string &what,
             Code code = Code::E0407);
  void wantKind(const Quantity &q, UnitKind kind, const std::string &what);
  void atLeastOne(const Count &count, const std::string &what);

  const Program &program;
  const Train &train;
  Diagnostics &diagnostics;
  bool oneRank;
  RunSettings settings;
  bool hasLayout = false, wrongMeshAxis = false;
  bool meshTooLarge = false; // which is told; whether the batch divides over it is not
  bool layoutOpen = false;   // parts of it are left to the compiler, or could not be read
  SourceRange clipRange;
};

} // namespace echelon::frontend
