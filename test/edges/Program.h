// A family as a program: written, built, run over its ranks, and compared with its references.
#pragma once
#include "test/edges/Case.h"

#include <nlohmann/json.hpp>

#include <ostream>

namespace echelon::edges {

struct Tally {
  int64_t compared = 0, wrong = 0;
  int64_t loose = 0; // compared, and the bound is more than a tenth of the value: nothing is said about it
  Wide worst = 0;    // the largest error in bounds
};

/// Runs a family under one layout (empty: one rank), in `folder`. What is wrong is printed.
Tally check(const Family &given, const std::string &layout, const std::string &folder, const std::string &transport,
            std::ostream &out, bool shows);

//===- its steps -------------------------------------------------------------------------------------------------===//

int64_t product(const Family &family, const std::vector<std::string> &axes);
/// "$x" as this case's own.
std::string own(const Case &c, std::string text);
/// The element of an input, its values taken around.
double valueOf(const Input &input, int64_t i);
/// Weights of $y's elements in the loss: of both signs, of size 1, and exact.
double weightOf(int64_t i);

/// Writes the inputs into `folder`; the text of the spec.
std::string writeSpec(const Family &family, const std::string &folder);

/// What is left of a run.
struct Ran {
  std::string trouble; // empty: it ran
  std::string dump;
  nlohmann::json step, evaluation;
};

/// Compares what a case gave with its reference; `factor` times the bounds.
void compare(const Family &family, const Case &c, const Ran &ran, Wide factor, const std::string &where, bool shows,
             Tally &tally, std::ostream &out);

} // namespace echelon::edges
