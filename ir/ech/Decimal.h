// Numbers as text: in programs, snapshots, messages.
#pragma once
#include <string>

namespace echelon {

/// The shortest decimal that reads as this number.
std::string shortestDecimal(double value);

} // namespace echelon
