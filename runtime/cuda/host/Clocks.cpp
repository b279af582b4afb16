#include "runtime/cuda/host/Clocks.h"
#include "runtime/cuda/host/Emulation.h"
#include "runtime/cuda/host/Memory.h"
#include "runtime/cuda/host/Streams.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace echelon::cuda {

namespace host {
namespace {

constexpr int kPrinted = 10; // a race in a loop comes back in each round
constexpr int kExitCode = 5;

struct Races {
  int count = 0;
  std::string last;

  Races() {
    std::atexit([] {
      if (const int count = racesFound()) {
        std::fflush(stdout);
        std::fprintf(stderr, "%d race%s\n", count, count == 1 ? "" : "s");
        _exit(kExitCode);
      }
    });
  }
};
Races &races() {
  static Races &all = *new Races; // threads may still run when destructors of globals do
  return all;
}

bool isOver(const Stamp &stamp, const Clock &now) {
  const auto stream = static_cast<size_t>(stamp.stream);
  return stream < now.size() && now[stream] >= stamp.number;
}

bool overlap(const Range &a, const Range &b) { return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes; }
bool contains(const Range &outer, const Range &inner) {
  return outer.begin <= inner.begin && inner.begin + inner.bytes <= outer.begin + outer.bytes;
}

void reportRace(const Access &later, const Access &earlier) {
  const auto verb = [](const Access &access) { return access.range.writes ? "writes" : "reads"; };
  races().last = "race: '" + later.what + "' (stream " + later.stream + ") " + verb(later) + " what '" + earlier.what +
                 "' (stream " + earlier.stream + ") " + verb(earlier) + "; no event orders them";
  if (races().count++ < kPrinted)
    std::fprintf(stderr, "%s\n", races().last.c_str());
}

/// The allocation that holds the whole range.
Allocation &allocationFor(const std::string &what, const Range &range) {
  Allocation *allocation = allocationOf(range.begin);
  if (!allocation)
    stop("'" + what + "' is given memory that is not the device's");
  const char *end = allocation->data + allocation->bytes;
  if (range.bytes > static_cast<size_t>(end - range.begin))
    stop("'" + what + "' declares " + std::to_string(range.bytes - static_cast<size_t>(end - range.begin)) +
         " bytes past the end of its memory");
  return *allocation;
}

void compare(const Access &later, const Clock &clock, const History &history) {
  for (const Access &earlier : history)
    if (overlap(earlier.range, later.range) && (later.range.writes || earlier.range.writes) &&
        !isOver(earlier.stamp, clock))
      reportRace(later, earlier);
}

/// Drops what the new access makes superfluous: an earlier one on some of its bytes that is over, unless it wrote and
/// the new one reads. Whatever races with such an access races with the new one, too.
void forgetCovered(const Access &later, const Clock &clock, History &history) {
  const auto isCovered = [&](const Access &earlier) {
    return contains(later.range, earlier.range) && (later.range.writes || !earlier.range.writes) &&
           isOver(earlier.stamp, clock);
  };
  history.erase(std::remove_if(history.begin(), history.end(), isCovered), history.end());
}

} // namespace

void join(Clock &into, const Clock &from) {
  if (into.size() < from.size())
    into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i)
    into[i] = std::max(into[i], from[i]);
}

void checkAccesses(const std::string &what, const std::string &stream, Stamp stamp, const Clock &clock,
                   const std::vector<Range> &touches) {
  std::vector<std::pair<Allocation *, Access>> accesses;
  for (const Range &range : touches)
    if (range.bytes > 0)
      accesses.emplace_back(&allocationFor(what, range), Access{range, stamp, what, stream});
  for (auto &[allocation, access] : accesses) {
    compare(access, clock, allocation->history);
    forgetCovered(access, clock, allocation->history);
  }
  // Only now, since a task does not race with itself.
  for (auto &[allocation, access] : accesses)
    allocation->history.push_back(std::move(access));
}

} // namespace host

int racesFound() {
  const host::Guard guard;
  return host::races().count;
}
std::string lastRace() {
  const host::Guard guard;
  return host::races().last;
}
void forgetRaces() {
  const host::Guard guard;
  host::races().count = 0;
  host::races().last.clear();
}

} // namespace echelon::cuda
