// Whether one spec means the same everywhere: the interpreter on one rank, every rank of the laid-out step on numbers,
// the compiled program.
#pragma once
#include "test/composition/RandomSpec.h"
#include "tools/driver/verify/Trace.h"
#include <map>
#include <string>

namespace echelon::test {

struct Verdict {
  enum Kind {
    Equal,
    Refused,  ///< the layout, by a diagnostic
    Different ///< or anything else that should not be
  } kind = Equal;
  std::string why;
  double error = 0;
};

/// How often operations, functions and conversions occurred.
using Counts = std::map<std::string, int64_t>;

struct Proof {
  std::string folder;                // for the spec and its data
  bool compiled = false;             // also the program, three steps
  std::string transport = "threads"; // of the program

  /// Adds to `counts` what the laid-out step holds, where it is equal.
  Verdict check(const RandomSpec &spec, Counts &counts) const;

private:
  std::string train(const RandomSpec &spec, const std::string &path, const std::string &out, Trace &trace) const;
};

/// What must occur: every operation of the dialect, every element-wise function, every kind of message, every change of
/// hold.
std::vector<std::string> expectedCounts();

} // namespace echelon::test
