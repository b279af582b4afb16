// What has to hold of one rank's program, whatever the others do.
#pragma once
#include "passes/prove/Program.h"

namespace echelon::prove {

/// What other functions do between the operations of this one, where workers arrive in real time.
struct Between {
  std::vector<Range> reads, writes;
  bool leaves = false; ///< the step may be left there
};

/// - What a message writes is not touched, what it reads not written, from its start until the rank has waited for it.
/// - Each message is waited for, once, after it is started.
/// - A buffer is read where all of its bytes are still its own, since it was last written: memory is planned right.
Verdict checkAlone(const Program &program, const Between &between = {});

} // namespace echelon::prove
