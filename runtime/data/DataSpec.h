// A `data` clause as data: what the compiler fills, what the program opens.
#pragma once

#include "runtime/program/Layout.h"

#include <cstdint>
#include <string>
#include <vector>

namespace echelon::runtime {

/// A transform of `with …`. kind: "flip"; "crop" (args: pad); "normalize" (args: mean, std each either one number or
/// one per place of the axis: mean values first, then as many std values). It acts along `axes` on all inputs that have
/// any of them, or on those named. Without axes: on the picture that mnist and cifar10 give; normalize by one mean on
/// the only input of floats.
struct TransformSpec {
  std::string kind;
  std::vector<double> args;
  std::vector<std::string> axes = {};
  std::vector<std::string> inputs = {};
};

/// A source. kind and what it uses:
///   text (paths: 1) · tokens (paths: any number, one stream; args: {16, 32 or 64 bits}, or none: as the files show) ·
///   next_token (children: 1, args: {holdout as a fraction, 0 unless told}) ·
///   mnist (paths: 1 folder) · cifar10 (paths: 1 folder) · npy (paths: one per input) · csv (paths: any number, read
///   one after the other; columns: the names of those that fill the inputs, in that order, or none: the first file's;
///   args: {1} where a file has no others) · synthetic (name: "tokens" or "sorted_digits")
/// Relative paths start at the folder given to openData.
struct DataSpec {
  std::string kind;
  std::vector<std::string> paths = {};
  std::string name = {};
  std::vector<double> args = {};
  std::vector<DataSpec> children = {};
  std::vector<TransformSpec> transforms = {};
  std::vector<std::string> columns = {};
};

/// What a model's input takes of one sample: its axes but the batch, in declared order.
struct InputShape {
  std::string name;
  std::vector<int64_t> dims;
  ElementType type = ElementType::Float32;
  int64_t below = 0;                  // for `int below A`: A's size; 0 where there is no bound
  std::vector<std::string> axes = {}; // the names of `dims`
  std::string belowAxis = {};         // A, where the compiler asks
};

} // namespace echelon::runtime
