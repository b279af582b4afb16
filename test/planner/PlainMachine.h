// A machine by which steps can be reckoned by hand.
#pragma once
#include "planner/machine/Machine.h"

namespace echelon::planner {

/// A device of 1 flop/s and links of 1 byte/s.
inline Machine plainMachine(double hostSeconds = 0) {
  Machine machine;
  machine.perNode = 8;
  machine.device.peaks[Precision::Fp32] = 1;
  machine.device.bandwidth = 1e30;
  machine.device.efficiency = {{"product", 1}, {"memory", 1}};
  machine.device.costs["host"] = hostSeconds;
  machine.link.bandwidth = 1;
  machine.link.latency = 0;
  machine.network = machine.link;
  return machine;
}

} // namespace echelon::planner
