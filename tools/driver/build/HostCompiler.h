// From generated C++ to an executable: the host compiler, called without a shell.
#pragma once
#include <string>
#include <vector>

namespace echelon {

/// What the host compiler is called with to build `source` into `executable`: $CXX or the compiler that built Echelon,
/// the flags of the runtime and those of $CXXFLAGS, the runtime library.
std::vector<std::string> hostCommand(const std::string &source, const std::string &executable);

/// Compiles; returns the exit status as runProgram does (ChildProcess.h). `log`: what was said.
int compileHost(const std::string &source, const std::string &executable, std::string &log);

} // namespace echelon
