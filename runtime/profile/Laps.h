// Where the time of one rank goes: a lap ends after each operation, and what passed since the last one is that
// operation's. So every moment of a step is some operation's, and a measurement costs one reading of a counter.
#pragma once

#include "runtime/profile/Trace.h"
#include "runtime/transport/Ticks.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace echelon::runtime {

class Laps {
public:
  struct Sum {
    uint64_t ticks = 0, waited = 0;
    int64_t calls = 0;
  };

  /// `waited` counts the ticks that this rank has waited for others; it grows while laps run.
  Laps(size_t entries, const uint64_t &waited) : sums(entries), waited(waited) {}

  /// Discards the time so far.
  void start() {
    lastWaited = waited;
    last = seen = ticks();
  }
  /// What passed since the last lap is this entry's.
  void lap(size_t entry) {
    const uint64_t now = ticks();
    Sum &sum = sums[entry];
    sum.ticks += now - last;
    sum.waited += waited - lastWaited;
    ++sum.calls;
    lastWaited = waited;
    last = now;
    if (trace)
      trace->add(entry, seen, now);
    seen = now;
  }
  /// Of what passed since the last lap, so many ticks are this entry's: a device has measured them.
  void add(size_t entry, uint64_t ofDevice) {
    sums[entry].ticks += ofDevice;
    ++sums[entry].calls;
    last += ofDevice;
  }
  /// What the host did meanwhile, up to here; it counts for nothing but the trace.
  void mark(size_t entry) {
    const uint64_t now = ticks();
    if (trace)
      trace->add(entry, seen, now);
    seen = now;
  }
  /// From here on laps are spans of a trace, too; null: no longer. What a device has measured its timer adds.
  void traceTo(Trace *newTrace) { trace = newTrace; }
  Trace *traced() const { return trace; }
  /// Forgets all.
  void clear() { sums.assign(sums.size(), Sum()); }
  const std::vector<Sum> &all() const { return sums; }

private:
  std::vector<Sum> sums;
  const uint64_t &waited;
  uint64_t last = 0, lastWaited = 0;
  uint64_t seen = 0; // when the last lap ended, whatever a device has measured since
  Trace *trace = nullptr;
};

} // namespace echelon::runtime
