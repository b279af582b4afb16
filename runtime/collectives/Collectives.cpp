#include "runtime/collectives/Collectives.h"

#include "runtime/collectives/Plans.h"
#include "runtime/launch/Fail.h"

#include <cstring>
#include <exception>

namespace echelon::runtime {

const char *nameOf(Algorithm algorithm) {
  switch (algorithm) {
  case Algorithm::automatic:
    return "automatic";
  case Algorithm::direct:
    return "direct";
  case Algorithm::ring:
    return "ring";
  case Algorithm::butterfly:
    return "butterfly";
  case Algorithm::tree:
    return "tree";
  case Algorithm::one_to_all:
    return "one_to_all";
  case Algorithm::native:
    return "native";
  case Algorithm::bf16_summands:
    return "bf16_summands";
  case Algorithm::fp16_summands:
    return "fp16_summands";
  }
  return "algorithm";
}

Parts Parts::rows(int places, int64_t count) {
  Parts parts;
  for (int part = 0; part <= places; ++part)
    parts.begins.push_back(part * count);
  return parts;
}
Parts Parts::even(int places, int64_t count) {
  Parts parts;
  for (int part = 0; part <= places; ++part)
    parts.begins.push_back(count / places * part + std::min<int64_t>(part, count % places));
  return parts;
}

static bool plan(Schedule &schedule, Algorithm algorithm) {
  switch (schedule.call.kind) {
  case Collective::Barrier:
    return planBarrier(schedule, algorithm);
  case Collective::Broadcast:
    return planBroadcast(schedule, algorithm);
  case Collective::Scatter:
    return planScatter(schedule, algorithm);
  case Collective::Gather:
    return planGather(schedule, algorithm);
  case Collective::AllGather:
    return planAllGather(schedule, algorithm);
  case Collective::Reduce:
    return planReduce(schedule, algorithm);
  case Collective::AllReduce:
    return planAllReduce(schedule, algorithm);
  case Collective::ReduceScatter:
    return planReduceScatter(schedule, algorithm);
  case Collective::AllToAll:
    return planAllToAll(schedule, algorithm);
  }
  return false;
}

static std::string inWords(const CollectiveCall &call, Algorithm algorithm) {
  std::string text = std::string(nameOf(call.kind)) + " with " + nameOf(algorithm);
  return *call.label ? text + " (" + call.label + ")" : text;
}

// Whether the transport itself does the call; ends the run if it is asked for what it has not.
static bool isOwn(const Transport &transport, const CollectiveCall &call, Algorithm algorithm) {
  if (algorithm == Algorithm::automatic)
    return true;
  if (algorithm != Algorithm::direct && algorithm != Algorithm::native)
    return false;
  if ((algorithm == Algorithm::direct) != transport.isDirect())
    fail(inWords(call, algorithm) + " is not possible over " + transport.name() + ", which has " +
         (transport.isDirect() ? "direct" : "native") + ", ring, butterfly, tree and one_to_all");
  return true;
}

static void checkRoot(const Group &group, const CollectiveCall &call) {
  if (call.root < 0 || call.root >= group.size())
    fail("the root of " + std::string(nameOf(call.kind)) + " is place " + std::to_string(call.root) +
         " in a group of " + std::to_string(group.size()));
}

std::unique_ptr<Schedule> scheduleOf(Transport &transport, const Group &group, const CollectiveCall &call,
                                     Algorithm algorithm) {
  auto rounds = std::make_unique<Schedule>(transport, group, call);
  if (!plan(*rounds, algorithm))
    fail(inWords(call, algorithm) + ": there is no such algorithm");
  return rounds;
}

void runCollective(Transport &transport, const Group &group, const CollectiveCall &call, Algorithm algorithm) {
  checkRoot(group, call);
  if (isOwn(transport, call, algorithm) || group.size() == 1)
    transport.runCollective(group, call);
  else
    scheduleOf(transport, group, call, algorithm)->finish();
}

Ticket startCollective(Transport &transport, const Group &group, const CollectiveCall &call, Algorithm algorithm) {
  checkRoot(group, call);
  if (isOwn(transport, call, algorithm) || group.size() == 1)
    return Ticket(transport, transport.startCollective(group, call));
  transport.setPlace(doing(call.kind), call.label);
  auto rounds = scheduleOf(transport, group, call, algorithm);
  if (!rounds->advance())
    rounds->runInBackground();
  return Ticket(transport, std::move(rounds));
}

// ---- tickets ----

Ticket::Ticket() = default;
Ticket::Ticket(Transport &transport, Request request) : transport(&transport), request(request) {}
Ticket::Ticket(Transport &transport, std::unique_ptr<Schedule> schedule)
    : transport(&transport), schedule(std::move(schedule)) {}

Ticket::Ticket(Ticket &&other) noexcept
    : transport(other.transport), request(other.request), schedule(std::move(other.schedule)) {
  other.request = 0;
}

Ticket &Ticket::operator=(Ticket &&other) {
  wait();
  transport = other.transport;
  request = other.request;
  schedule = std::move(other.schedule);
  other.request = 0;
  return *this;
}

Ticket::~Ticket() noexcept(false) {
  if (std::uncaught_exceptions() == 0) // a rank that stops waits for nobody
    wait();
}

bool Ticket::test() {
  if (schedule) {
    if (!schedule->advance())
      return false;
    schedule.reset();
  } else if (request) {
    if (!transport->test(request))
      return false;
    request = 0;
  }
  return true;
}

void Ticket::wait() {
  if (schedule) {
    schedule->finish();
    schedule.reset();
  } else if (request) {
    Request waited = request;
    request = 0;
    transport->wait(waited);
  }
}

} // namespace echelon::runtime
