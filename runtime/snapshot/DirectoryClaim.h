// One checkpoint directory, one run: two that write the same names would leave snapshots that are half of each.
#pragma once

#include <string>

namespace echelon::runtime {

/// Holds a directory for this process and those that it forks, until they have ended, however they end. On file systems
/// without locks it holds nothing.
class DirectoryClaim {
public:
  DirectoryClaim() = default;
  DirectoryClaim(const DirectoryClaim &) = delete;
  ~DirectoryClaim();

  /// Makes the directory where it is missing, and removes what a run that died while it saved has left. Returns what is
  /// wrong, or an empty string. A run that is just ending has half a second to do so.
  std::string take(const std::string &directory);
  /// Removes what was being written when it ended, in the directory that is held.
  void removeUnfinished();

private:
  int descriptor = -1;
  std::string held;
};

/// Where a snapshot is written before it gets its name (which is `name`).
std::string unfinishedName(const std::string &name);

} // namespace echelon::runtime
