// Whether tests of kernels miss what is taken out of the kernels and their launches: host/Cuts.h has the sites.
#pragma once
#include <string>

namespace echelon::cuda {

/// Takes out each site that a test of a kernel reaches (every `every`-th of those with `part` in their name), one at a
/// time, and runs tests that reach it until one fails. Prints how many were named, by what, and which were not. 0: all
/// that matter were.
int runMutants(int every, const std::string &part);

} // namespace echelon::cuda
