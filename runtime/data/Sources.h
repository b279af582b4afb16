// The sources, one function each; DataSource.cpp picks by kind. Each returns null with `error` set where it cannot
// open.
#pragma once

#include "runtime/data/DataSource.h"

namespace echelon::runtime {

/// Where a file's samples have not the shape of the input that they fill: how to mend it, "; …".
std::string otherShape(const std::vector<int64_t> &file, const InputShape &input);

/// Whether an input of fp32 has infinity where the file has this number.
bool isBeyond(const InputShape &input, double value);

struct OpenRequest {
  const DataSpec &spec;
  const std::vector<InputShape> &inputs;
  uint64_t seed;
  std::string folder;
  bool load; // false: only what describe() needs
};

/// text("path"), tokens("x.bin"): consecutive windows of the input's length; next_token(SOURCE, holdout): windows and,
/// one further, their labels.
std::unique_ptr<DataSource> openTokens(const OpenRequest &request, DataError &error);
/// mnist(dir): idx files. Output 0: pixels / 255 [rows, columns]; output 1: label.
std::unique_ptr<DataSource> openMnist(const OpenRequest &request, DataError &error);
/// cifar10(dir): binary batches. Output 0: pixels / 255 [3, 32, 32]; output 1: label.
std::unique_ptr<DataSource> openCifar10(const OpenRequest &request, DataError &error);
/// npy("x.npy", …): one array per input, samples along its first axis.
std::unique_ptr<DataSource> openNpy(const OpenRequest &request, DataError &error);
/// csv("x.csv", …): one header line, then a sample a line; columns fill the inputs from left to right.
std::unique_ptr<DataSource> openCsv(const OpenRequest &request, DataError &error);
/// synthetic(tokens), synthetic(sorted_digits).
std::unique_ptr<DataSource> openSynthetic(const OpenRequest &request, DataError &error);

/// "[28, 28]"; a scalar is "[]".
std::string dimsText(const std::vector<int64_t> &dims);
/// How many numbers there are; of a scalar one.
int64_t countOf(const std::vector<int64_t> &dims);

/// The integers that a source gives for an input, seen one by one: whether each is below the input's bound, or where it
/// has none, an int32_t; and where not, how they all lie.
class Bounds {
public:
  explicit Bounds(const InputShape &input) : input(input) {}
  /// Whether it is the first that lies outside; the caller remembers where it stands.
  bool see(int64_t value) {
    low = value < low ? value : low;
    high = value > high ? value : high;
    if (input.below ? value >= 0 && value < input.below : value == int32_t(value))
      return false;
    if (outside) {
      several |= value != first;
      return false;
    }
    outside = true;
    first = value;
    return true;
  }
  bool kept() const { return !outside; }
  /// "… is 10, label is int below 10, from 0 to 9; …", `where` being the place of the first outside.
  std::string text(const std::string &where) const;
  /// The same for labels: a number that looks like a mark of what counts nothing (-100, 255) is told how it is kept out
  /// of a loss.
  std::string textOfLabels(const std::string &where) const;

private:
  const InputShape &input;
  int64_t low = std::numeric_limits<int64_t>::max(), high = std::numeric_limits<int64_t>::min(), first = 0;
  bool outside = false, several = false; // outside: numbers, and of more than one value
};

} // namespace echelon::runtime
