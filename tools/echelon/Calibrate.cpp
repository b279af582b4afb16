// echelon calibrate: what this machine does in a second, measured.
#include "tools/driver/calibrate/Calibrate.h"
#include "tools/echelon/Commands.h"
#include "tools/echelon/Options.h"

#include <memory>

namespace echelon {

void addCalibrate(CLI::App &app, int &exitCode) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App *command = app.add_subcommand(
      "calibrate", "measure this machine's cores, memory and messages, for plan; about two and a half minutes");
  command->add_option("--ranks", options->ranks, "ranks that compute at once (as many as there are cores)")
      ->check(wholeFrom<int64_t>(1, "ranks"));
  command->add_option("--transport", options->transport, "shm (the default), threads or mpi")
      ->check(CLI::IsMember({"shm", "threads", "mpi"}));
  command->add_flag("--quick", options->quick, "coarser, in 20 seconds");
  command->add_option("-o", options->file,
                      "the file to write, FILE.ech; else where plan looks: $ECHELON_MACHINE, or machine.ech in the "
                      "build cache");
  command->footer("Examples:\n  echelon calibrate\n  echelon calibrate --quick -o here.ech");
  command->callback([options, &exitCode] { exitCode = calibrate(*options); });
}

} // namespace echelon
