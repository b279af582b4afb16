// How long a message takes. By the textbooks (Thakur, Rabenseifner, Gropp 2005: alpha, beta): rounds x latency + what
// goes through the busiest link / its rate; by a library's protocols where the link has some.
#include "planner/machine/Constants.h"
#include "planner/machine/Machine.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace echelon::planner {

namespace {
using Kind = Message::Kind;

constexpr double kShort = 16 * 1024; ///< bytes up to which a butterfly's all-reduce doubles instead of halving

double roundsOfTree(int64_t places) { return places < 2 ? 0 : std::ceil(std::log2(double(places))); }

double costOf(const Link &link, const char *name) {
  auto it = link.costs.find(name);
  return it != link.costs.end() ? it->second : constantNamed(linkConstants(), name)->otherwise;
}

/// What was measured of such messages, in the way that the message says: "all_reduce", "all_reduce_ring". Null:
/// nothing.
const Curve *curveOf(const Link &link, const Message &message) {
  const int64_t ranks = message.kind == Kind::Send ? 2 : message.group.ranks;
  const std::string name = nameOf(message.kind) + (message.algorithm.empty() ? "" : "_" + message.algorithm);
  auto it = link.curves.find({name, ranks});
  return it == link.curves.end() || it->second.points.empty() ? nullptr : &it->second;
}
/// Past the largest message the time grows with the bytes.
std::optional<double> measuredSeconds(const Link &link, const Message &message) {
  const Curve *curve = curveOf(link, message);
  if (!curve)
    return std::nullopt;
  return curve->at(message.bytes) * std::max(message.bytes / curve->points.back().first, 1.0);
}

/// What is said of a link's messages that may have curves: whether they have, and this one is of no size between them.
bool isBeyond(const Link &link, const Message &message) {
  if (link.curves.empty())
    return false;
  const Curve *curve = curveOf(link, message);
  return !curve || !curve->covers(message.bytes);
}

double hopOf(const Link &link) { return link.costs.count("hop") ? link.costs.at("hop") : link.latency; }

/// What a ring sends by one rank, of one byte: 2 (n - 1)/n of an all-reduce.
double partOf(Kind kind, double ranks) {
  switch (kind) {
  case Kind::AllReduce:
    return 2 * (ranks - 1) / ranks;
  case Kind::ReduceScatter:
  case Kind::AllGather:
  case Kind::AllToAll:
    return (ranks - 1) / ranks;
  case Kind::Broadcast:
  case Kind::Send:
    return 1;
  }
  return 1;
}

Traffic ring(const Message &message) {
  const double p = double(message.group.ranks);
  Traffic t;
  double rounds = message.kind == Kind::AllReduce ? 2 * (p - 1) : p - 1;
  if (message.kind == Kind::Broadcast) {
    constexpr double kSegment = 64 * 1024;
    rounds = std::ceil(std::max(message.bytes, 1.0) / kSegment) + p - 2;
  }
  const double bytes = partOf(message.kind, p) * message.bytes;
  const bool crosses = message.group.nodes > 1;
  (crosses ? t.roundsBetween : t.rounds) = rounds;
  (crosses ? t.bytesBetween : t.bytes) = bytes;
  if (crosses && message.kind == Kind::AllToAll) // each sends to each
    t.senders = message.group.perNode;
  return t;
}

// Exchanges at distances of powers of two: those at least as far as a node has ranks go between nodes, all ranks at
// once.
std::optional<Traffic> butterfly(const Message &message) {
  const double p = double(message.group.ranks), n = message.bytes;
  const double all = roundsOfTree(message.group.ranks), between = roundsOfTree(message.group.nodes),
               within = all - between;
  const double folded = std::exp2(all) == p ? 0 : 2;
  const double far = 1 - 1 / double(message.group.nodes), near = (1 - 1 / p) - far;
  Traffic t;
  t.senders = message.group.perNode;
  const double times = message.kind == Kind::AllReduce ? 2 : 1;
  switch (message.kind) {
  case Kind::AllReduce:
    if (n <= kShort) {
      t.rounds = within;
      t.roundsBetween = between;
      t.bytes = within * n;
      t.bytesBetween = between * n;
      break;
    }
    [[fallthrough]];
  case Kind::ReduceScatter:
  case Kind::AllGather:
    t.rounds = times * within;
    t.roundsBetween = times * between;
    t.bytes = times * near * n;
    t.bytesBetween = times * far * n;
    break;
  case Kind::AllToAll: // Bruck: half of the rows move on in each round
    t.rounds = within;
    t.roundsBetween = between;
    t.bytes = within * n / 2;
    t.bytesBetween = between * n / 2;
    return t;
  case Kind::Broadcast: // down a tree in halves, then gathered
    t.rounds = 2 * within;
    t.roundsBetween = 2 * between;
    t.bytes = n * near * 2;
    t.bytesBetween = n * far * 2;
    break;
  case Kind::Send:
    return std::nullopt;
  }
  const bool crosses = message.group.nodes > 1;
  (crosses ? t.roundsBetween : t.rounds) += folded;
  if (folded)
    (crosses ? t.bytesBetween : t.bytes) += times * n;
  return t;
}

std::optional<Traffic> tree(const Message &message) {
  const double between = roundsOfTree(message.group.nodes), all = roundsOfTree(message.group.ranks);
  double times = 2; // up, and down
  if (message.kind == Kind::Broadcast)
    times = 1;
  else if (message.kind == Kind::AllToAll || message.kind == Kind::Send)
    return std::nullopt;
  Traffic t;
  t.roundsBetween = times * between;
  t.rounds = times * (all - between);
  t.bytesBetween = t.roundsBetween * message.bytes;
  t.bytes = t.rounds * message.bytes;
  if (message.kind == Kind::AllGather ||
      message.kind == Kind::ReduceScatter) { // one way all, the other each its own rows
    const double p = double(message.group.ranks), far = 1 - 1 / double(message.group.nodes);
    t.bytesBetween = (between + far) * message.bytes;
    t.bytes = (all - between + (1 - 1 / p) - far) * message.bytes;
  }
  return t;
}

std::optional<Traffic> oneToAll(const Message &message) {
  const double p = double(message.group.ranks), inNode = double(message.group.perNode);
  double times = 0; // how often a message goes between the first rank and another one, in messages' bytes
  Traffic t;
  switch (message.kind) {
  case Kind::AllReduce:
    times = 2;
    t.rounds = 2;
    break;
  case Kind::AllGather: // a row from each, then all rows to each
  case Kind::ReduceScatter:
    times = 1 + 1 / p;
    t.rounds = 2;
    break;
  case Kind::Broadcast:
    times = 1;
    t.rounds = 1;
    break;
  case Kind::AllToAll: // all messages together
    times = 1 / p;
    t.rounds = 1;
    t.senders = message.group.perNode;
    break;
  case Kind::Send:
    return std::nullopt;
  }
  t.bytes = times * (inNode - 1) * message.bytes;
  t.bytesBetween = times * (p - inNode) * message.bytes;
  if (message.group.nodes > 1)
    std::swap(t.rounds, t.roundsBetween);
  return t;
}

// Scattered within the nodes, summed between them, each rank its part, gathered within the nodes.
std::optional<Traffic> hierarchical(const Message &message) {
  const Group &group = message.group;
  if (message.kind != Kind::AllReduce || group.nodes < 2 || group.perNode < 2)
    return std::nullopt;
  const double inNode = double(group.perNode), nodes = double(group.nodes);
  Traffic t;
  t.rounds = 2 * (inNode - 1);
  t.bytes = 2 * (inNode - 1) / inNode * message.bytes;
  t.roundsBetween = 2 * (nodes - 1);
  t.bytesBetween = 2 * (nodes - 1) / nodes * message.bytes / inNode;
  t.senders = group.perNode;
  return t;
}
} // namespace

std::optional<Traffic> trafficOf(const Message &message, const std::string &algorithm) {
  if (message.group.ranks < 2 || message.kind == Kind::Send)
    return std::nullopt;
  if (algorithm == "ring")
    return ring(message);
  if (algorithm == "butterfly")
    return butterfly(message);
  if (algorithm == "tree")
    return tree(message);
  if (algorithm == "one_to_all")
    return oneToAll(message);
  if (algorithm == "hierarchical")
    return hierarchical(message);
  return std::nullopt;
}

// The narrowest of the levels that the group spans. Through a node's network go all groups beside this one; a rank
// sends through one lane. Tiers lie above the nodes: a group's nodes in one unit of a tier share its uplink with all
// others there.
double Machine::rateBetween(const Group &group, int64_t senders) const {
  const Link &net = network ? *network : link;
  const double beside = double(std::max<int64_t>(group.beside, 1)), lanes = double(std::max<int64_t>(net.lanes, 1));
  const bool isAlone = group.nodes == nodes && group.perNode == perNode; // nobody else sends
  const double part = costOf(net, isAlone && net.costs.count("rate_alone") ? "rate_alone" : "rate");
  double rate =
      net.bandwidth * part * std::min(1 / beside, std::min(double(std::max<int64_t>(senders, 1)), lanes) / lanes);
  double unit = 1; // nodes of one unit of the level
  const double apart = double(std::max<int64_t>(group.apart, 1));
  for (const Tier &tier : tiers) {
    unit *= double(tier.count);
    if (double(group.nodes) * apart <= unit)
      break;
    const double sharing = beside * std::min(apart, unit); // groups whose nodes lie in the unit
    rate = std::min(rate, tier.link.bandwidth * costOf(tier.link, "rate") / sharing);
  }
  return rate;
}

double Machine::latencyBetween(const Group &group) const {
  double latency = hopOf(network ? *network : link), unit = 1;
  for (const Tier &tier : tiers) {
    unit *= double(tier.count);
    if (double(group.nodes) * double(std::max<int64_t>(group.apart, 1)) <= unit)
      break;
    latency = std::max(latency, hopOf(tier.link));
  }
  return latency;
}

// Where its own ranks are in several nodes, the host waits for their ring, too.
double Machine::besideStages(const Group &group) const {
  const double each = network && group.ranks > 1 ? costOf(*network, "beside_stages") : 0;
  return each > 0 ? each * double(group.ranks) + (group.nodes > 1 ? latencyBetween(group) * double(group.ranks - 1) : 0)
                  : 0;
}

double Machine::overlap(const Group &group) const {
  return costOf(group.nodes > 1 && network ? *network : link, "overlap");
}

// The least of the algorithms, or the one that is said, where the collective has it.
double Machine::textbookSeconds(const Message &message) const {
  const bool isSaid = trafficOf(message, message.algorithm).has_value();
  const double rate = link.bandwidth * costOf(link, "rate");
  double least = std::numeric_limits<double>::infinity();
  for (const char *algorithm : {"ring", "tree", "butterfly", "one_to_all", "hierarchical"}) {
    if (isSaid && message.algorithm != algorithm)
      continue;
    const auto traffic = trafficOf(message, algorithm);
    if (!traffic)
      continue;
    double seconds = traffic->rounds * hopOf(link) + (rate > 0 ? traffic->bytes / rate : 0);
    if (message.group.nodes > 1) {
      const double all = rateBetween(message.group, traffic->senders);
      const double each = std::min(all / double(traffic->senders), rate > 0 ? rate : all);
      seconds += traffic->roundsBetween * std::max(latencyBetween(message.group), hopOf(link)) +
                 (each > 0 ? traffic->bytesBetween / each : 0);
    }
    least = std::min(least, seconds);
  }
  return std::isinf(least) ? 0 : least;
}

const std::vector<Protocol> &Machine::protocolsOf(const Group &group) const {
  return group.nodes > 1 && network && !network->protocols.empty() ? network->protocols : link.protocols;
}

// What no collective is faster than: that of the node, and that of the network.
double Machine::floorSeconds(const Message &message) const {
  const Group &group = message.group;
  const double times = message.kind == Kind::AllReduce ? 1 : 0.5; // a sum has twice the rounds of a gather
  auto of = [&](const Link &way, int64_t places) {
    return places < 2 ? 0 : costOf(way, "floor") + costOf(way, "floor_rank") * double(places - 1) * times;
  };
  return of(link, group.perNode) + (network ? of(*network, group.nodes) : 0);
}

// Of a library that chooses protocol and channels itself: the fastest of its protocols, which send round a ring through
// all lanes that the group's ranks have; an all-reduce between nodes may go through trees instead, whose rounds grow
// with the logarithm.
double Machine::nativeSeconds(const Message &message) const {
  const Group &group = message.group;
  const double n = double(group.ranks), inNode = double(std::max<int64_t>(group.perNode, 1));
  const bool crosses = group.nodes > 1, isSum = message.kind == Kind::AllReduce;
  const double bytes = partOf(message.kind, n) * message.bytes;
  const double steps = (inNode - 1) * (isSum ? 1 : 0.5); // the rounds of a sum are twice those of a gather
  const double wire = crosses ? rateBetween(group, group.perNode) : std::numeric_limits<double>::infinity();
  const std::string &way = message.algorithm; // "ring", "tree", "nvls"; empty: the fastest
  double hops = 0;
  if (crosses && isSum)
    hops = way == "ring" ? 2 * (n - 1) : way == "tree" ? 4 * std::log2(n) : std::min(2 * (n - 1), 4 * std::log2(n));
  else if (crosses)
    hops = n - 1;
  hops *= crosses ? latencyBetween(group) : 0;
  double least = std::numeric_limits<double>::infinity();
  for (const Protocol &protocol : protocolsOf(group)) {
    if (protocol.limit > 0 && message.bytes / n > protocol.limit)
      continue;
    if (protocol.sumsInSwitch && (!isSum || crosses))
      continue;
    if ((!way.empty() && (way == "nvls") != protocol.sumsInSwitch) ||
        (!message.protocol.empty() && message.protocol != protocol.name))
      continue;
    const double few = message.kind == Kind::Broadcast ? 0 : protocol.few; // a copy goes one way, however many ranks
    const double inside = inNode / (inNode + few) * protocol.rate * link.bandwidth;
    const double moved = protocol.sumsInSwitch ? (n + 1) / n * message.bytes : bytes;
    double sending = inNode > 1 ? moved / inside : 0;
    if (crosses) {
      // Every node passes on what a ring passes on; of an all-to-all, what its ranks have for other nodes.
      const double out = message.kind == Kind::AllToAll ? message.bytes * (n - inNode) / n * inNode : moved;
      sending = std::max(sending, out / (wire * protocol.network));
    }
    least = std::min(least, protocol.start + protocol.rank * steps + hops + sending);
  }
  if (std::isinf(least) && message.protocol.empty())
    return textbookSeconds(message);
  return std::max(floorSeconds(message) + hops, least); // of a protocol that does not take it: infinite
}

namespace {
/// How many bytes a library sends of a sum for each byte that the program has it send: it may sum in two bytes what the
/// program sums in four, or give to all ranks what the program scatters.
double timesOfSum(const Link &link, const Message &message) {
  if (message.kind != Kind::AllReduce && message.kind != Kind::ReduceScatter)
    return 1;
  if (!message.isOfUpdate)
    return costOf(link, "sum");
  return costOf(link, message.kind == Kind::AllReduce ? "gradient_sum" : "gradient_scatter");
}
} // namespace

double Machine::seconds(const Message &asProgrammed) const {
  Message message = asProgrammed;
  message.bytes *= timesOfSum(link, message);
  const Group &group = message.group;
  if (group.ranks < 2 || message.bytes <= 0)
    return 0;
  const bool isOfNodes = network && group.nodes == group.ranks; // one rank in each
  if (group.nodes < 2 || isOfNodes)
    if (const auto seconds = measuredSeconds(isOfNodes ? *network : link, message))
      return *seconds;
  if (message.kind == Kind::Send) {
    const bool crosses = group.nodes > 1;
    const double rate = crosses ? rateBetween(group, 1) : link.bandwidth * costOf(link, "rate");
    return constant("send_calls") * hostSeconds() + (crosses ? latencyBetween(group) : hopOf(link)) +
           (rate > 0 ? message.bytes / rate : 0);
  }
  // a library has rings, and trees for sums between nodes; else, of no textbook, or none is said, what it likes
  const std::string &way = message.algorithm;
  const bool isLibrarys =
      way == "ring" || (way == "tree" && message.kind == Kind::AllReduce) || !trafficOf(message, way);
  return isLibrarys && !protocolsOf(group).empty() ? nativeSeconds(message)
                                                   : std::max(floorSeconds(message), textbookSeconds(message));
}

bool Machine::isOutside(const Message &message) const {
  if (message.group.ranks < 2 || message.bytes <= 0)
    return false;
  const bool isOfNodes = network && message.group.nodes == message.group.ranks;
  return isBeyond(isOfNodes ? *network : link, message);
}

} // namespace echelon::planner
