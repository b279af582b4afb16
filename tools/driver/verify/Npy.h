// Reads what a program's --dump wrote.
#pragma once
#include <string>
#include <vector>

namespace echelon {
/// All values of an npy file (version 1, little-endian f4, f8, i4 or b1) as doubles; empty when it cannot be read.
std::vector<double> readNpy(const std::string &path);
} // namespace echelon
