// Figures for people, in the unit that suits them.
#pragma once
#include <cstdint>
#include <string>

namespace echelon {

std::string inBytes(int64_t bytes);  ///< "2.45 TB"
std::string inHours(double seconds); ///< "12.5 min": longer times than inTime() is for

} // namespace echelon
