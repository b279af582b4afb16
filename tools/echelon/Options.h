// Options that several commands share.
#pragma once
#include "tools/echelon/Compilation.h"
#include <CLI/CLI.hpp>

namespace echelon {

/// SPEC, --train, --set.
inline void addSpecOptions(CLI::App *command, CompileOptions &options) {
  command->add_option("SPEC", options.spec, "the spec, NAME.ech")->required();
  command->add_option("--train", options.train, "the train block to take (the first unless told)");
  command->add_option("--set", options.settings, "path=value: one value of the train block, as optimize.lr=3e-4")
      ->take_all()
      ->allow_extra_args(false);
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

} // namespace echelon
