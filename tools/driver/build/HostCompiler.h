// From generated C++ to an executable: the host compiler, called without a shell.
#pragma once
#include "tools/driver/compile/Compilation.h"
#include <string>
#include <vector>

namespace echelon {

/// What the compiler is called with to build `source` into `executable`: $CXX or the compiler that built Echelon, the
/// flags of the runtime and those of $CXXFLAGS, the runtime library. For a GPU nvcc; for one that the host emulates the
/// host compiler, against CUDA's headers.
std::vector<std::string> hostCommand(const std::string &source, const std::string &executable, Machine machine);

/// What this build of Echelon lacks to make such programs; empty: nothing.
std::string whatLacks(Machine machine);
/// What a program's text is called after its name.
const char *sourceEnding(Machine machine);

/// Compiles; returns the exit status as runProgram does (ChildProcess.h). `log`: what was said.
int compileHost(const std::string &source, const std::string &executable, Machine machine, std::string &log);

} // namespace echelon
