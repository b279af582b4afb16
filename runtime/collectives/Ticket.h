// A collective that has been started and not yet waited for.
#pragma once

#include "runtime/transport/Transport.h"

#include <memory>

namespace echelon::runtime {

class Schedule;

/// Holds what a started collective needs until wait(). Movable; an empty ticket is done. The buffers given to the start
/// belong to the collective until wait() returns. A ticket that still runs when it is destroyed is waited for.
class Ticket {
public:
  Ticket();
  Ticket(Transport &transport, Request request);
  Ticket(Transport &transport, std::unique_ptr<Schedule> schedule);
  Ticket(Ticket &&other) noexcept;
  Ticket &operator=(Ticket &&other);
  ~Ticket() noexcept(false);

  /// Moves the collective on as far as it goes without waiting; true when it is complete.
  bool test();
  /// Returns when the collective is complete, here; the deadline names who did not come.
  void wait();

private:
  Transport *transport = nullptr;
  Request request = 0;
  std::unique_ptr<Schedule> schedule;
};

inline void wait(Ticket &ticket) { ticket.wait(); }
/// Of all iterations of a loop.
template <size_t count> void wait(Ticket (&tickets)[count]) {
  for (Ticket &ticket : tickets)
    ticket.wait();
}

} // namespace echelon::runtime
