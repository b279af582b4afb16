// From what was measured on a machine to the text that describes it: device, link and cluster, in the language.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace echelon::planner {

/// Times of repeated rounds, by figure and its sizes.
class Measurements {
public:
  /// Takes a line `NAME SIZE… SECONDS`, measured with so many ranks at once. False: it is none.
  bool add(const std::string &line, int64_t ranks);

  /// The median of the rounds, seconds; 0: it was not measured.
  double seconds(const std::string &name, int64_t ranks, const std::vector<int64_t> &sizes) const;
  /// Sizes that a figure was measured in, ascending.
  std::vector<std::vector<int64_t>> sizesOf(const std::string &name, int64_t ranks) const;
  /// Numbers of ranks that a figure was measured with, ascending.
  std::vector<int64_t> ranksOf(const std::string &name) const;
  /// How far the rounds of a figure lie apart, from the fastest to the slowest, as a part of their median: the median
  /// over all figures with at least two.
  double spread() const;
  bool empty() const { return figures.empty(); }

private:
  using Key = std::pair<std::string, int64_t>;
  std::map<Key, std::map<std::vector<int64_t>, std::vector<double>>> figures;
};

/// What else the text says.
struct Measured {
  std::string date, place, transport;
  int64_t ranks = 1;      ///< that kernels were measured with, each on a core
  double memoryBytes = 0; ///< of the machine
  double load = 0;        ///< other processes that wanted to run meanwhile
};

/// `device core_here`, `link TRANSPORT_here`, `cluster here`. Kernels must have been measured.
std::string machineText(const Measurements &measurements, const Measured &measured);

} // namespace echelon::planner
