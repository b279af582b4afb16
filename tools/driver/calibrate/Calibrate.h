// `echelon calibrate`: this machine measured, as a machine file.
#pragma once
#include <cstdint>
#include <string>

namespace echelon {

struct CalibrateOptions {
  int64_t ranks = 0; ///< at once; 0: as many as this process may use cores
  std::string transport = "shm";
  bool quick = false;
  std::string file; ///< empty: where `plan` looks for it
};

/// Builds the program that measures, runs it, writes the file. Returns an exit code of the command line.
int calibrate(const CalibrateOptions &options);

/// Where this machine's figures are kept and looked for: $ECHELON_MACHINE, else machine.ech in the cache folder. Empty:
/// there is no such folder. "typical" is no file: typical figures are wanted.
std::string machineFile();
inline constexpr const char *kTypical = "typical";

} // namespace echelon
