// What can be said of how a machine responds, beside the figures of its data sheet: every name, once.
#pragma once
#include <string>
#include <vector>

namespace echelon::planner {

enum class Unit { Number, Part, Seconds, Bytes };

/// A constant of a device, a link or a protocol.
struct Constant {
  const char *name;
  Unit unit;
  double otherwise;   ///< where nothing is said
  double least, most; ///< of what may be said
  const char *what;
};

const std::vector<Constant> &deviceConstants();
const std::vector<Constant> &linkConstants();
const std::vector<Constant> &protocolConstants();
const std::vector<Constant> &measurementConstants();
/// Null: there is none.
const Constant *constantNamed(const std::vector<Constant> &list, const std::string &name);

/// A kernel that a device's efficiency and passes may be told of.
struct Kernel {
  const char *name;
  double typical; ///< efficiency where nothing is said; 0: that of `memory`
  bool hasPasses; ///< its bytes may be moved several times
};
const std::vector<Kernel> &kernels();
const Kernel *kernelNamed(const std::string &name);

} // namespace echelon::planner
