// One function of the language on inputs at its edges, with the value and the derivatives that it should have.
#pragma once
#include "test/edges/Real.h"

#include <functional>
#include <map>

namespace echelon::edges {

enum class Kind { Real, Int, Bool };

/// An input of the model. `values`: sample by sample, taken around until there are `rows` of them.
struct Input {
  std::string name;
  std::vector<std::string> axes; // but the batch
  std::vector<double> values;
  Kind kind = Kind::Real;
  std::string below = ""; // of an int: its axis
};

/// What the reference of a case reads: inputs by name, (rows, axes...) with the last axis fastest, and parameters by
/// path within the case.
class Values {
public:
  std::map<std::string, Reals> reals;                  // inputs
  std::map<std::string, std::vector<double>> others;   // ints and truth values
  std::map<std::string, std::vector<double>> starts;   // of parameters
  std::map<std::string, std::vector<double>> measured; // what the program gave, for what is random
  std::map<std::string, Reals> used;                   // parameters
  std::map<std::string, int64_t> sizes;                // of axes
  int64_t rows = 0;
  bool training = true;

  const Reals &real(const std::string &name) const { return reals.at(name); }
  const std::vector<double> &other(const std::string &name) const { return others.at(name); }
  const Reals &param(const std::string &path);
};

/// A row of a case: `text` are statements that make `$y` out of `$NAME`, `$` standing for the case's own prefix.
struct Case {
  std::string name;
  std::string text;
  std::vector<Input> inputs;
  std::vector<std::string> axes; // of $y, but the batch
  std::function<Reals(Values &)> reference;
  bool isPerSample = true;                         // $y has the batch
  bool hasDerivative = true;                       // it is real, and its values and slopes are finite
  bool isEvaluated = false;                        // also in evaluation
  std::function<Real(Values &)> ownLoss = nullptr; // that a block adds to the model's
};

/// Cases that one program computes.
struct Family {
  std::string name;
  std::string axes; // lines of the model
  std::map<std::string, int64_t> sizes;
  int64_t rows;
  std::vector<std::string> layouts; // besides one rank
  std::vector<Case> cases;
};

std::vector<Family> allFamilies();
/// Functions and blocks that no case calls, and arguments that none gives.
std::vector<std::string> notCovered(const std::vector<Family> &families);
Family elementwise(bool finite);
Family reductions();
Family softmaxes();
Family contractions();
Family places();
Family windows();
Family attentions();
Family norms();
Family blocks();
Family longSums();

//===- data ------------------------------------------------------------------------------------------------------===//

/// Rows of n numbers at the edges: offsets from 1e4 to 1e8 with deviations of 1 and 1e-3, sizes from 1e-30 to 1e30,
/// constant rows, ties, subnormals, zeros of both signs. `largest`: no number is beyond it.
std::vector<double> edgeRows(int64_t rows, int64_t n, unsigned seed, double largest = 1e30);
/// Ordinary numbers: normal times `scale`, rounded to fp32.
std::vector<double> ordinary(int64_t count, unsigned seed, double scale = 1, double offset = 0);
std::vector<double> integers(int64_t count, int64_t below, unsigned seed);
/// The rows `first` of a list repeated, each number rounded to fp32.
std::vector<double> asFloats(std::vector<double> values);

} // namespace echelon::edges
