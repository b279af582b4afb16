// What `plan` says of a step when, as trace events: the JSON format of Chrome, which Perfetto (ui.perfetto.dev) opens;
// rows, names and units are those of a run's (runtime/profile/Trace.h).
//
// A stage of a pipeline, else any rank, is a process of the trace, and has these rows:
//
//   0      the step
//   1      the host, where it issues calls ahead of a device
//   2      the device, or what computes: calls, what they wait for, bubbles
//   3 + q  a queue of messages: those over the same mesh axes, or to one other stage
#pragma once
#include "tools/driver/compile/StepCost.h"
#include <iosfwd>

namespace echelon {

void printTrace(const StepCost &cost, const StepRecord &told, std::ostream &os);

} // namespace echelon
