// Folders in which programs are built before they have their place in the cache.
#pragma once
#include <string>

namespace echelon {

/// A new folder under the cache folder, named build-… and locked, so that all know that it is somebody's. It goes with
/// the object, or where a signal ends what runProgram runs; what a killed process left goes when another makes one.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;

  /// Empty where it could not be made, and when it has another name.
  const std::string &path() const { return folder; }
  /// Gives it this name; where that is taken nothing changes.
  void rename(const std::string &place);
  /// Gives it the name of what is there, which goes with the object; at once, where the file system can exchange names.
  void replace(const std::string &place);

  /// Those of this process, which is about to end.
  static void removeAll();

private:
  void giveUp();

  std::string folder;
  int lock = -1;
};

} // namespace echelon
