// The sources, one function each; DataSource.cpp picks by kind. Each returns null with `error` set where it cannot
// open.
#pragma once

#include "runtime/data/DataSource.h"

namespace echelon::runtime {

/// Where a file's samples have not the shape of the input that they fill: how to mend it, "; …".
std::string otherShape(const std::vector<int64_t> &file, const std::vector<int64_t> &input);

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
/// Whether an integer that a source gives may be this input's: below its bound, or where it has none, an int32_t. Where
/// not, says so.
bool checkBelow(const InputShape &input, int64_t value, const std::string &where, DataError &error, int inputIndex);

} // namespace echelon::runtime
