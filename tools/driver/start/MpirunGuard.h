// Ends mpirun where the command that started it is killed.
#pragma once
#include <filesystem>
#include <sys/types.h>

namespace echelon {

/// A process beside mpirun. It waits until this one is killed; then it gives mpirun, which gets SIGTERM at that moment,
/// four seconds, kills it and its ranks if need be, and removes what is left. The destructor ends it.
class MpirunGuard {
public:
  MpirunGuard(pid_t mpirun, std::filesystem::file_time_type since);
  ~MpirunGuard();
  MpirunGuard(const MpirunGuard &) = delete;

private:
  pid_t process;
};

} // namespace echelon
