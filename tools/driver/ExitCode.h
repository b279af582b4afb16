// How the command line ends.
#pragma once

namespace echelon {

/// Exit codes of the command line.
enum ExitCode { Fine = 0, SpecWrong = 1, Usage = 2, HostCompilerFailed = 3, RunFailed = 4 };

} // namespace echelon
