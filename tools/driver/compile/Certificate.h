// What has been proven of a program: `echelon build --certify`.
#pragma once
#include "tools/driver/compile/Compilation.h"
#include "tools/driver/verify/Verify.h"

namespace echelon {

/// JSON. Of a module that is lowered; `text`: the program made of it; `verified`: where it was asked for.
std::string certificateOf(const Compilation &compilation, const std::string &text,
                          const std::optional<Verified> &verified);

} // namespace echelon
