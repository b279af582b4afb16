// The command line of a generated program.
#pragma once

#include "runtime/program/Program.h"

#include <string>

namespace echelon::runtime {

struct Options {
  int64_t steps = 0; // stop after this step; 0: where the spec says
  bool resume = false;
  std::string log;          // file of JSON lines
  std::string out;          // relative checkpoint directories start here; empty: at the spec's folder
  std::string folder;       // relative data paths start here
  std::string dump;         // folder for start values, batches and masks
  bool dumpState = false;   // and stored tensors after each step
  std::string evaluateFrom; // evaluate this snapshot instead of training
  std::string transport = "shm";
  double deadlineSeconds = 10;
  int threads = 1;
  bool help = false, version = false, plan = false;
};

/// Reads argv into `options`; returns what is wrong with it, or an empty string.
std::string parseOptions(const Program &program, int argc, char **argv, Options &options);

/// The text of --help.
std::string helpText(const Program &program, const std::string &executable);

} // namespace echelon::runtime
