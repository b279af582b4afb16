// Options that several commands share.
#pragma once
#include "tools/driver/compile/Compilation.h"
#include <CLI/CLI.hpp>
#include <charconv>

namespace echelon {

/// SPEC, --train, --set.
inline void addSpecOptions(CLI::App *command, CompileOptions &options) {
  command->add_option("SPEC", options.spec, "the spec, NAME.ech")->required();
  command->add_option("--train", options.train, "the train block to take (the first unless told)")
      ->check(CLI::Validator(
          [](const std::string &name) { return name.empty() ? std::string("takes a name") : std::string(); }, "NAME"));
  command->add_option("--set", options.settings, "path=value: one value of the train block, as optimize.lr=3e-4")
      ->take_all()
      ->allow_extra_args(false);
}

/// Whether all of the text is a decimal number, as the program reads it.
template <typename Number> bool isNumber(const std::string &text, Number &value) {
  const char *end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  return read.ec == std::errc() && read.ptr == end;
}

/// A whole number of `what`, not below `least`.
template <typename Number> CLI::Validator wholeFrom(Number least, const char *what) {
  return {[least, what](const std::string &text) {
            Number value = 0;
            return isNumber(text, value) && value >= least
                       ? std::string()
                       : "takes a number of " + std::string(what) + " from " + std::to_string(least) + ", not " +
                             frontend::quoted(text);
          },
          "N"};
}

/// `--target`.
inline void addTargetOption(CLI::App *command, CompileOptions &options) {
  command
      ->add_option_function<std::string>(
          "--target",
          [&options](const std::string &name) {
            options.machine = name == "cuda" ? Machine::Cuda : name == "cuda-host" ? Machine::CudaHost : Machine::Cpu;
          },
          "cpu, cuda (a GPU), or cuda-host (the same program, on a GPU that the host emulates)")
      ->check(CLI::IsMember({"cpu", "cuda", "cuda-host"}));
}

/// `--ranks 1`: one rank, whatever the layout.
inline void addRanksOption(CLI::App *command, CompileOptions &options) {
  command
      ->add_option_function<int64_t>(
          "--ranks",
          [&options](int64_t ranks) {
            if (ranks != 1)
              throw CLI::ValidationError("--ranks", "only 1 can be asked for; the spec's layout says how many else");
            options.oneRank = true;
          },
          "1: train on one rank, whatever the layout")
      ->type_name("1");
}

/// `--profile`.
inline CLI::Option *addProfileOption(CLI::App *command, CompileOptions &options) {
  return command->add_flag("--profile", options.profile,
                           "the program measures its steps and prints, operation by operation, where their time went "
                           "and how near it is to what this machine can do");
}

} // namespace echelon
