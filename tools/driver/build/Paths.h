// Where things are: what generated programs are compiled with, and the build cache.
#pragma once
#include <string>
#include <vector>

namespace echelon {

/// The folder that holds `runtime/Runtime.h`.
std::string includeFolder();
/// The static library that generated programs link.
std::string runtimeLibrary();

/// A text that changes whenever the runtime library or a header of the runtime is written.
std::string runtimeStamp();

/// Size and time of a file: another one whenever it is written again.
std::string fileStamp(const std::string &file);

/// $ECHELON_CACHE, else $XDG_CACHE_HOME/echelon, else ~/.cache/echelon; made when it is not there. Empty: cannot be
/// made.
std::string cacheFolder();

/// 32 hexadecimal digits of the BLAKE3 hash over all parts, each with its length.
std::string hashOf(const std::vector<std::string> &parts);

/// The spec's name without folder and ending: `mlp_mnist` of `a/mlp_mnist.ech`; only letters, digits, `_` and `-`.
std::string stemOf(const std::string &path);

} // namespace echelon
