// Whether one spec means the same everywhere: the interpreter on one rank, every rank of the laid-out step on numbers,
// the compiled program; and under a sync policy, the program of one rank that works for all workers.
#pragma once
#include "test/composition/RandomSpec.h"
#include "tools/driver/compile/Compilation.h"
#include "tools/driver/verify/Trace.h"
#include <map>
#include <string>

namespace echelon::test {

struct Verdict {
  enum Kind {
    Equal,
    Refused,   ///< the layout, by a diagnostic
    Unsettled, ///< results lie at a tie of a comparison, a packing or a rounding, are beyond what fp16 has, or grow:
               ///< the last digit turns them
    Different ///< or anything else that should not be
  } kind = Equal;
  std::string why;
  double error = 0;
};

/// How often operations, functions and conversions occurred.
using Counts = std::map<std::string, int64_t>;

class Reference;

struct Proof {
  std::string folder;                // for the spec and its data
  bool compiled = false;             // also the program; under a sync policy it is so in any case
  std::string transport = "threads"; // of the program
  Machine machine = Machine::Cpu;    // that it is for, where what it says is built for that one

  /// Adds to `counts` what the laid-out step holds, and its clauses, where it is equal.
  Verdict check(const RandomSpec &spec, Counts &counts) const;

private:
  std::string train(const CompileOptions &options, const RandomSpec &spec, const std::string &over, Trace &trace) const;
  Verdict checkPolicy(const RandomSpec &spec, const Compilation &many) const;
  Verdict checkProgram(const RandomSpec &spec, mlir::ModuleOp one, const std::string &path) const;
  std::string out() const { return folder + "/out"; }
};

/// What a laid-out module has.
void count(mlir::ModuleOp module, Counts &counts);
/// What must occur: every operation of the dialect, every element-wise function, every kind of message, every change of
/// hold.
std::vector<std::string> expectedOperations();

} // namespace echelon::test
