// The executable of a spec: from the build cache, or built now.
#pragma once
#include "tools/driver/compile/Compilation.h"

#include <functional>

namespace echelon {

/// Path of the executable; built unless the cache has it. Empty: it could not be built, everything has been printed,
/// and `exitCode` says why. The compilation has at least been parsed, its train block resolved. `refuse`, asked before
/// anything is built, says why the plan does not go with the command, or reports what is wrong with the spec for it.
std::string executableOf(Compilation &compilation, int &exitCode, const std::function<std::string()> &refuse = nullptr);

/// Generated text to `path`.cpp and from there to an executable at `path`; says on standard error that the host
/// compiler runs, and what it says when it fails. `keptIn`: where the program is found from then on; empty: at `path`.
bool buildExecutable(const std::string &text, const std::string &path, Machine machine, int &exitCode,
                     const std::string &keptIn = "");
} // namespace echelon
