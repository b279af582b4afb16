// echelon verify SPEC: the generated program under the spec's layout and others against the one of one rank.
#include "tools/driver/verify/Verify.h"
#include "tools/echelon/Commands.h"
#include "tools/echelon/Options.h"

#include <memory>

namespace echelon {

void addVerify(CLI::App &app, int &exitCode) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App *command = app.add_subcommand("verify", "the layout (and others) against one rank, tensor by tensor");
  addSpecOptions(command, *options);
  addTargetOption(command, *options);
  command
      ->add_option("--layout", options->layouts,
                   "a layout to try as well, as the spec would have it: \"mesh(dp = 2) { split batch over dp }\", with "
                   "\" in 2 micro batches\" after it where the batch is to be split over time")
      ->take_all()
      ->allow_extra_args(false);
  CLI::Option *layouts = command->add_option("--layouts", options->randomLayouts, "so many random layouts as well (0)")
                             ->check(wholeFrom(0, "layouts"));
  command->add_option("--seed", options->seed, "of the first random layout (0)")->needs(layouts);
  command
      ->add_option("--transport", options->transport,
                   "shm, threads, mpi, tcp, or each: the first three in turn (threads)")
      ->check(CLI::IsMember({"shm", "threads", "mpi", "tcp", "each"}));
  command->add_flag(
      "--in-precision", options->isInPrecision,
      "in the spec's precision, and not in fp64: no result may be farther from fp64 than 4 times one rank's");
  command->footer("Examples:\n  echelon verify spec.ech\n  echelon verify spec.ech --layouts 8 --seed 100\n"
                  "  echelon verify spec.ech --layout \"mesh(tp = 2) { split hidden over tp }\" --transport shm\n"
                  "  echelon verify spec.ech --target cuda-host");
  command->callback([options, &exitCode] { exitCode = verify(*options); });
}

} // namespace echelon
