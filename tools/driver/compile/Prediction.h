// What a profile of a program holds its times against.
#pragma once
#include "tools/driver/compile/Compilation.h"

namespace echelon {

/// Tells each operation of a lowered module what it takes by the figures of the machine that it runs on, where there
/// are any: of the spec's cluster, or of this machine as it was measured.
void predictCalls(Compilation &compilation);

} // namespace echelon
