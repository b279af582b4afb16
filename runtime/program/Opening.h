// The lines with which a run begins: what trains, on what, and where it is kept.
#pragma once

#include "runtime/program/Train.h"

#include <string>
#include <vector>

namespace echelon::runtime {

/// "1,234,567".
std::string grouped(int64_t number);

/// Two lines, each in parts between which it may be broken. The run goes from step `first` to `last`.
std::vector<std::vector<std::string>> openingLines(const Program &program, const Prepared &prepared, int64_t first,
                                                   int64_t last, const std::string &transport);

/// What a run that ends before its time says after "stopped after step 12".
std::string whatIsLost(const Program &program);

} // namespace echelon::runtime
