// One rank, interpreted: what every layout and program of a spec is compared with.
#pragma once
#include "test/composition/RandomSpec.h"
#include "test/interpret/Interpret.h"
#include "tools/driver/verify/Trace.h"

namespace echelon::test {

/// Writes an input's files, NAME.npy and NAME.held.npy.
void writeData(const RandomSpec &spec, const std::string &folder);

/// How numbers are kept.
struct Arithmetic {
  enum Kind {
    Rounded, ///< as the types say, and all else as in fp64
    Exact,   ///< nothing is rounded
    /// What is rounded is moved by as much as that may do, other results by `noise` of their size (Parker, Monte Carlo
    /// Arithmetic, 1997): how far results lie apart says how well they are known.
    Noisy,
    Jittered ///< rounded, and results are moved by `noise`: what changes then lies at a tie
  } kind = Rounded;
  double noise = 0;
  uint64_t seed = 0;
};

/// What a loss scale, or steps that are skipped, made of a run.
struct Course {
  std::vector<bool> skipped;
  std::vector<double> scales; // of the loss
};

class Reference {
public:
  Reference(mlir::ModuleOp module, const RandomSpec &spec, Arithmetic arithmetic = {});
  ~Reference();

  /// Inputs: `count` samples from `first` on (taken around), or what a program dumped in this folder.
  void feed(bool held, int64_t first, int64_t count, const std::string &dumped = "");
  /// The step without what comes of it: values stay.
  Trace::Step onlyStep(int64_t step);
  /// Steps and evaluations as the spec has them, on what a program read. `course`: that of another arithmetic, or empty
  /// and then filled.
  void train(const std::string &dumped, Course &course);

  interpret::Machine &machine() { return *machineOf; }
  mlir::ModuleOp module;
  Trace trace;

private:
  void run(const char *name);
  interpret::Array start(ech::VariableOp variable);
  std::map<std::string, double> reports(ech::StepOp step, const interpret::Results &results);
  Trace::Step row(const interpret::Results &results);
  bool trainStep(int64_t step, Course &course);
  bool evaluate();

  const RandomSpec &spec;
  std::unique_ptr<interpret::Machine> machineOf;
};

/// Whether all losses and the norm are.
bool isFinite(const Trace::Step &row);

} // namespace echelon::test
