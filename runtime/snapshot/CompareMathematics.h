// Where what a snapshot's model computes differs from what a program computes.
#pragma once

#include <string>
#include <vector>

namespace echelon::runtime {

struct ModelDifference {
  enum Kind {
    Number,    // a number is another: a weight, a chance, an epsilon
    Site,      // random values are drawn from another stream
    Structure, // another operation, other operands
  } kind;
  std::vector<std::string> then, now; // lines of the spec where it differs; Number and Site: one each, or none where
                                      // the operation is not there, as a dropout of 0
  std::string from, to;               // Number and Site: the number, the stream
  std::string what;                   // Number and Site: of which operation, where that says something
};

/// Empty where both compute the same. Of what differs only the place is listed where it begins to differ, not all that
/// comes from it. A text that cannot be read differs: `then` or `now` says why.
std::vector<ModelDifference> compareMathematics(const std::string &then, const std::string &now);

} // namespace echelon::runtime
