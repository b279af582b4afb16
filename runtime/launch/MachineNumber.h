// Which machine this is.
#pragma once

#include <cstdint>

namespace echelon::runtime {

/// The same for all processes of a machine, however many names it goes by, and another on another machine.
uint64_t machineNumber();

} // namespace echelon::runtime
