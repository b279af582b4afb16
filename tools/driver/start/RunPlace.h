// Whether a run has its ranks where its spec says: on this machine, or on those of --hosts.
#pragma once
#include "tools/driver/compile/Compilation.h"

namespace echelon {

/// Reports, at the clause `on`, a described cluster that the machines at hand are not, with what a trial here would
/// take. `hosts`: a file of machines, or empty; `others`: a batch system may have machines, and nobody says how many.
void refuseElsewhere(Compilation &compilation, const std::string &hosts, bool others);

} // namespace echelon
