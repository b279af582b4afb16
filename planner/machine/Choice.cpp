// The ways that a message may take are timed one after the other; the machine's figures say which there are.
#include "planner/machine/Choice.h"
#include <algorithm>
#include <cmath>

namespace echelon::planner {

namespace {
using Kind = Message::Kind;

constexpr double kClearly = 0.95; ///< of the time of what would be done otherwise
const char *const kAlgorithms[] = {"ring", "tree", "butterfly", "one_to_all"};

/// The link that all of a group's messages go through, where there is one such: within a node, or from node to node.
const Link *onlyLink(const Machine &machine, const Group &group) {
  if (group.nodes < 2)
    return &machine.link;
  return machine.network && group.nodes == group.ranks ? &*machine.network : nullptr;
}

void add(std::vector<Way> &ways, const Machine &machine, Message message, Way way) {
  message.algorithm = way.algorithm;
  message.protocol = way.protocol;
  way.seconds = machine.seconds(message);
  if (std::isfinite(way.seconds) && way.seconds > 0) // 0: nothing is said of the link
    ways.push_back(std::move(way));
}

/// What was measured: the transport's own way, and algorithms one by one.
std::vector<Way> measuredWays(const Machine &machine, const Message &message) {
  std::vector<Way> ways;
  const Link *link = onlyLink(machine, message.group);
  const auto isMeasured = [&](const std::string &name) {
    const auto curve = link->curves.find({name, message.group.ranks});
    return curve != link->curves.end() && !curve->second.points.empty();
  };
  const std::string kind = nameOf(message.kind);
  if (!link || !isMeasured(kind))
    return ways;
  add(ways, machine, message, {Way::Measured, "", "", 0, 0});
  for (const char *algorithm : kAlgorithms)
    if (isMeasured(kind + "_" + algorithm))
      add(ways, machine, message, {Way::Measured, algorithm, "", 0, 0});
  return ways;
}

/// A library's: each protocol round a ring, sums between nodes through trees, too, and within one in the switch.
std::vector<Way> waysOfLibrary(const Machine &machine, const Message &message, const std::vector<Protocol> &protocols) {
  std::vector<Way> ways;
  const bool isSum = message.kind == Kind::AllReduce, crosses = message.group.nodes > 1;
  if (message.kind == Kind::AllToAll) // by sends and receives
    return ways;
  for (const Protocol &protocol : protocols) {
    if (protocol.sumsInSwitch) {
      if (isSum && !crosses)
        add(ways, machine, message, {Way::Library, "nvls", protocol.name, protocol.channels, 0});
      continue;
    }
    add(ways, machine, message, {Way::Library, "ring", protocol.name, protocol.channels, 0});
    if (isSum && crosses)
      add(ways, machine, message, {Way::Library, "tree", protocol.name, protocol.channels, 0});
  }
  return ways;
}
} // namespace

std::vector<Way> waysOf(const Machine &machine, const Message &message) {
  if (machine.isTypical || !message.algorithm.empty() || message.group.ranks < 2 || message.kind == Kind::Send ||
      message.bytes <= 0)
    return {};
  std::vector<Way> ways = measuredWays(machine, message);
  const auto &protocols = machine.protocolsOf(message.group);
  if (ways.empty() && !protocols.empty())
    ways = waysOfLibrary(machine, message, protocols);
  else if (ways.empty() && message.group.nodes > 1 && machine.network)
    for (const char *algorithm : kAlgorithms)
      if (trafficOf(message, algorithm))
        add(ways, machine, message, {Way::Textbook, algorithm, "", 0, 0});
  if (ways.size() < 2)
    return {};
  // measurements that lie far apart tell less
  const double clearly = std::min(kClearly, std::max(1 - machine.spread / 2, 0.0));
  const auto rank = [&](const Way &way) { return way.algorithm.empty() ? way.seconds * clearly : way.seconds; };
  std::stable_sort(ways.begin(), ways.end(), [&](const Way &a, const Way &b) { return rank(a) < rank(b); });
  return ways;
}

std::string nameOf(const Way &way) {
  if (way.algorithm.empty())
    return "automatic";
  return way.protocol.empty() ? way.algorithm : way.algorithm + " " + way.protocol;
}

std::optional<Bucket> bucketOf(const Machine &machine, const Message &message, const Values &values) {
  if (machine.isTypical || values.count < 1 || message.group.ranks < 2 || message.bytes <= 0 || values.otherwise <= 0)
    return std::nullopt;
  const double last = values.comeAtOnce ? 0 : machine.overlap(message.group); // all but the last run beside compute
  const auto timeOf = [&](double bytes) {
    const double count = std::clamp(std::ceil(message.bytes / bytes), 1.0, double(values.count));
    Message one = message;
    one.bytes = message.bytes / count;
    const std::vector<Way> ways = waysOf(machine, one);
    return (count + last) * (ways.empty() ? machine.seconds(one) : ways.front().seconds);
  };
  Bucket best{values.otherwise, timeOf(values.otherwise), timeOf(values.otherwise)};
  const double usual = best.seconds * kClearly;
  for (double bytes = 1e6; bytes < 2 * message.bytes; bytes *= 2)
    if (const double seconds = timeOf(bytes); seconds < usual && seconds <= best.seconds) // of equal ones the largest
      best = {bytes, seconds, best.secondsOtherwise};
  return best;
}

} // namespace echelon::planner
