#include "frontend/resolve/MachineOf.h"
#include "tools/driver/calibrate/Calibrate.h"
#include "tools/driver/compile/Compilation.h"

#include <filesystem>

namespace echelon {

bool Compilation::findMachine(std::string &why) {
  const bool isSaid = !options.machineFile.empty();
  hereFile = isSaid ? options.machineFile : machineFile();
  if (hereFile == kTypical || hereFile.empty())
    return true;
  const char *variable = std::getenv("ECHELON_MACHINE");
  const bool isWanted = isSaid || (variable && *variable);
  if (std::error_code none; !isWanted && !std::filesystem::exists(hereFile, none))
    return true;
  here = frontend::readMachine(hereFile, why);
  return here != nullptr;
}

} // namespace echelon
