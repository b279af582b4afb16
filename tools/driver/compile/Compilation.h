// One spec on its way through the stages; every command stops where it has what it wants.
#pragma once
#include "frontend/Parse.h"
#include "frontend/elaborate/Elaborate.h"
#include "frontend/resolve/RunSettings.h"
#include "mlir/IR/MLIRContext.h"
#include "passes/Passes.h"
#include "runtime/data/DataSource.h"
#include "llvm/ADT/StringSet.h"
#include <memory>
#include <string>
#include <vector>

namespace echelon {

struct LayoutChoice;

/// What a program is compiled for: this machine's CPU; a GPU; a GPU as the host emulates it.
enum class Machine { Cpu, Cuda, CudaHost };

/// What the command line says about a compilation.
struct CompileOptions {
  std::string spec;
  std::string train;                 // `--train NAME`; empty: the only one, or the first
  std::vector<std::string> settings; // `--set path=value`
  bool oneRank = false;              // `--ranks 1`: whatever the layout
  bool keepGradients = false;        // gradients are kept as stored tensors `gradient.PATH`
  bool profile = false;              // the program tells at its end where the time of a step went
  bool allowNotBuilt = false;        // `check`: notes instead of errors
  std::string dumpStages;            // folder for the IR after each pass; empty: none

  Machine machine = Machine::Cpu;
  bool ofCluster = false; // `plan` without --target: for a GPU where the spec's cluster is of GPUs
  PipelineOptions pipeline;
  std::string machineFile; // `--machine FILE`: this machine as it was measured; empty: where calibrate keeps it
  int64_t nodeRanks = 0;   // ranks of a machine; 0: as the spec's cluster says

  // reduced runs of `verify`
  bool doublePrecision = false;
  std::vector<std::pair<std::string, frontend::Number>> modelArguments;
  int64_t batch = 0;         // 0: as the spec says
  bool wholeBatch = false;   // no micro batches
  std::string layout;        // instead of the spec's, in the language; empty: as the spec says
  int64_t microBatches = 0;  // 0: as the spec says
  bool trainingOnly = false; // no evaluation
  bool warns = true;         // else errors alone are told
  bool anyMemory = false;    // even if it is more than a device has
  bool keepsAll = false;     // whatever `recompute` says
  bool needsNoData = false;  // files of the data that are not there are told, and not missed
  std::optional<frontend::RecomputeSettings> recompute; // instead of the spec's clause
  /// One rank that works for several workers, one after the other, as a layout has them.
  struct Workers {
    int64_t all = 1, ofHop = 1;
    int64_t microBatches = 1;       // of each of them
    std::vector<std::string> exact; // parameters whose gradients that layout does not compress
  };
  std::optional<Workers> workers;
  int64_t fixedLossScale = 0;    // in place of a dynamic one; 0: as the spec says
  bool drawsArrivals = false;    // under a sync policy, where they are real: `verify` compares what all know beforehand
  bool leavesLayoutOpen = false; // `layout auto` stays as it is: a search tries one after the other
  std::shared_ptr<const LayoutChoice> chosen; // what a search took; null: there was none yet
  int64_t policyWorkers = 0;                  // of a sync policy, on one rank; 0: as the layout has them
  bool everyStep = false;                     // whatever `sync` says: what a policy is compared with
};

struct RecomputeChoice;
struct SnapshotChoice;

/// The axes that tensors of an elaborated model have: one that is declared may be in none.
llvm::StringSet<> axesOfTensors(mlir::ModuleOp module);

class Compilation {
public:
  explicit Compilation(CompileOptions options);
  ~Compilation();

  // Each stage does those before it. False: errors are in `diagnostics`.
  bool parse();     ///< text to syntax tree, settings applied
  bool resolve();   ///< the train block resolved
  bool elaborate(); ///< the model in the ech dialect, with the attributes that passes read; data checked
  bool lower(Stage until);
  bool emit(std::string &text); ///< the generated program

  /// `check`: everything that can be told about the spec in one go. Every train block (or the one asked for) and every
  /// model that could be read is gone into, whatever is wrong elsewhere.
  void check();

  /// What the model, once elaborated, computes otherwise where the batch is split into micro batches, each with its
  /// place: statistics of one micro batch, on all ranks (`local`). Empty: nothing.
  std::vector<std::string> perMicroBatch() const;
  /// What this run computes otherwise than one device would.
  std::vector<std::string> otherMathematics() const;
  /// Of a module that is lowered: the workers whose gradients are compressed. Nothing where none are.
  std::optional<CompileOptions::Workers> workers() const;

  /// Whether a file that is to be written is one that this spec is made of or trains on; says so on standard error.
  bool wouldOverwrite(const std::string &file) const;
  /// Looks for what was measured of this machine; nothing is fine, and so is `typical`. False: `why` says what is wrong
  /// with the file.
  bool findMachine(std::string &why);
  /// Prints what was found, and returns whether there were errors.
  bool printDiagnostics() const;
  std::string firstError() const; ///< what it says; empty: there is none

  CompileOptions options; // its machine is settled by resolve()
  frontend::SourceManager sources;
  frontend::Diagnostics diagnostics;
  std::unique_ptr<frontend::Program> program;
  const frontend::Train *train = nullptr;
  frontend::RunSettings settings;
  std::unique_ptr<frontend::Program> here; ///< what was measured of this machine; null: nothing
  std::string hereFile;                    ///< where it stands
  frontend::ModelFacts facts;
  std::vector<std::string> missingData; ///< files that are not there, as the spec writes them; with needsNoData
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::shared_ptr<const RecomputeChoice> recomputeChoice; // of `recompute auto`, once elaborated; else null
  std::shared_ptr<const SnapshotChoice> snapshotChoice;   // of `checkpoint auto`, once arenas are planned; else null

private:
  Target target() const { return options.machine == Machine::Cpu ? Target::Cpu : Target::Gpu; }
  bool chooseTrain();
  bool resolveBlock();       ///< settings, as the options want it; false: errors
  bool elaborateModel();     ///< module and facts; false: errors
  bool takeLayout();         ///< that which is chosen where the spec leaves it open; false: errors
  void refuseCombinations(); ///< clauses that do not go together yet
  void checkLayoutAxes();    ///< that the axes of `split` lines are there
  void warnOfUnseenMetrics();
  void checkAlgorithms(); ///< of collectives, where NCCL does them
  void reportNotBuilt(size_t from = 0);
  void checkTrain(const frontend::Train &block, bool wholeText); ///< wholeText: all of it and its imports was read
  void checkModel(const frontend::Model &model);
  void openContext(); ///< what passes say becomes a diagnostic
  frontend::SourceRange rangeOf(mlir::Location location) const;
  // Annotate.cpp
  std::string mathematicsOfModel();
  void annotate(); ///< module attributes from the plan
  void annotateLayout(mlir::Builder &builder);
  void annotateRecompute(mlir::Builder &builder);
  void annotateLinks();
  mlir::LocationAttr locationOf(const frontend::SourceRange &at) const;
  // DataChecks.cpp
  bool checkData(); ///< files, shapes, types, values; the steps of `epochs`
  bool isWithout(const runtime::DataSpec &spec, frontend::SourceRange range);
  void checkFiles(); ///< files alone, where the model's inputs are not known
  std::string openSource(const runtime::DataSpec &spec, frontend::SourceRange range, runtime::DataDescription &found);
  bool checkEvaluations(const runtime::DataDescription &training);
  bool setLength(int64_t trainSize);
  bool checkUntil();    ///< evaluations have the metric of `until`
  bool checkPatterns(); ///< every parameter has an optimize line, every pattern a parameter
  // MemoryFit.cpp
  bool checkMemory(); ///< that a device holds what a rank takes
  std::vector<std::string> storeLines() const;
  std::string whatFits() const; ///< the nearest layout that it would hold, for a message
  int64_t memoryLimit() const;  ///< bytes that a rank may take; 0: any
  void chooseRecompute();       ///< RecomputeChoice.cpp: what `recompute auto` comes to
  void placeSnapshots();        ///< SnapshotChoice.cpp: how often `checkpoint auto` writes one
  std::string folder() const;
};

} // namespace echelon
