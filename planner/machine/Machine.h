// How long a machine takes for what a rank has to do: by formula only, from a device's data sheet and how much of it
// kernels reach, the host's time for a call, and what messages cost on each link.
#pragma once
#include "planner/machine/Work.h"
#include <map>
#include <optional>
#include <utility>

namespace echelon::planner {

/// What was measured at sizes, both ascending and positive. Between them it is interpolated in logarithms, beyond them
/// it stays as it is at the end.
struct Curve {
  std::vector<std::pair<double, double>> points; ///< size, rate
  double at(double size) const;
  bool covers(double size) const; ///< from the least to the largest
};

/// What computes. Rates are of the data sheet; efficiencies say what part of them kernels reach.
struct Device {
  std::string name;
  double memoryBytes = 0;
  double bandwidth = 0;              ///< bytes/s of its memory
  std::map<Precision, double> peaks; ///< flop/s
  std::map<std::string, double>
      efficiency;                       ///< by kernel: "product", "memory", …; "product.fp32": of that precision alone
  std::map<std::string, double> passes; ///< by kernel: how often it moves the bytes that it must move
  std::map<std::string, double> costs;  ///< further constants of the response, by name, in SI units: Constants.h
  std::map<std::string, Curve> curves;  ///< of what was measured: "memory" by bytes, "product" by flops; rates
  std::map<std::pair<int64_t, int64_t>, Curve> grid; ///< of products (m, k) by (k, n): flop/s by k, for some m and n

  /// Flop/s of a precision by the data sheet; where it says none, of one that the arithmetic can be done in. 0: none.
  double peak(Precision precision) const;
};

/// A way in which a library sends, of the many that it chooses from: what it takes at least, and which part of the
/// link's rate it reaches.
struct Protocol {
  std::string name;
  double start = 0;          ///< seconds
  double rank = 0;           ///< seconds more for each rank after the first
  double rate = 1;           ///< part of the link's rate
  double few = 0;            ///< x in n / (n + x): what few ranks lose of the rate
  double network = 1;        ///< part of what else goes through the network that it reaches there
  double limit = 0;          ///< most bytes a rank; 0: any number
  int64_t channels = 0;      ///< that the library is to send through; 0: as many as it likes
  bool sumsInSwitch = false; ///< what is summed goes to the switch once and comes back once
};

/// A link within a node or a node's network, each way and per device (of a network: per node, all lanes together).
struct Link {
  std::string name;
  double bandwidth = 0;                ///< bytes/s, all lanes together
  double latency = 0;                  ///< seconds
  int64_t lanes = 1;                   ///< a rank sends through one of them at a time
  std::map<std::string, double> costs; ///< by name, in SI units or parts of the bandwidth: Constants.h
  std::map<std::pair<std::string, int64_t>, Curve> curves; ///< of what was measured, by collective and ranks: seconds
  std::vector<Protocol> protocols;                         ///< none: messages take the textbooks' rounds
};

struct Tier {
  std::string name;
  int64_t count = 0; ///< of the level below
  Link link;
};

/// A cluster: nodes of devices, and what lies between them.
struct Machine {
  std::string name;
  Device device;
  int64_t nodes = 1, perNode = 1;
  Link link;                         ///< within a node
  std::optional<Link> network;       ///< between nodes
  std::vector<Tier> tiers;           ///< further levels above nodes, from the lowest
  double storage = 0;                ///< bytes/s; 0: not said
  double mtbf = 0;                   ///< seconds a node; 0: not said
  double price = 0;                  ///< dollars an hour and node; 0: not said
  std::vector<std::string> measured; ///< "2026-11-29 on NAME": when and on what its curves were measured
  double spread = 0;                 ///< how far measurements lay apart, as a part of them
  bool isTypical = false;            ///< its figures are of no machine in particular: nobody described this one
  double crowd = 1;                  ///< ranks that take turns on a device: where there are more than cores

  int64_t ranks() const { return nodes * perNode; }
  /// Whether its devices are GPUs: they compute in tf32 or fp8, or faster than any core.
  bool isOfGpus() const;
  double seconds(const Work &work) const;       ///< on the device, without the host's call
  double seconds(const Message &message) const; ///< nothing else under way
  double inputSeconds(double bytes) const;      ///< until so much of a batch is in place
  double hostSeconds() const;                   ///< that the host takes to issue one call
  double lateSeconds(const Group &group) const; ///< that a message waits until the last rank of its group is there
  /// What the host waits with a message of values, where stages of a pipeline send to each other between nodes.
  double besideStages(const Group &group) const;
  double overlap(const Group &group) const; ///< part of a started message that runs beside compute: 0 to 1
  double usableBytes() const;               ///< of a device's memory, for tensors; 0: not said
  /// In which a library sends messages of a group; none: there is no such library.
  const std::vector<Protocol> &protocolsOf(const Group &group) const;
  /// Whether its device's or link's figures were measured, but none in the size of this, or between the sizes around
  /// it.
  bool isOutside(const Work &work) const;
  bool isOutside(const Message &message) const;

private:
  double constant(const char *name) const;
  double efficiencyOf(const std::string &kernel, const char *otherwise, Precision precision) const;
  const Curve *curveOf(const std::string &kernel) const; ///< of memory where the kernel has none; null: neither
  double memorySeconds(const std::string &kernel, double bytes) const;
  double gridSeconds(const Work &work) const;
  double secondsAlone(const Work &work) const;
  double productSeconds(const std::string &kernel, const Work &work) const;
  double addingSeconds(const Work &work) const;
  double attentionSeconds(const Work &work) const;
  double textbookSeconds(const Message &message) const;
  double nativeSeconds(const Message &message) const;
  double floorSeconds(const Message &message) const;
  /// Bytes/s between two levels, where `senders` ranks of the group in each node send at once: all of them together.
  double rateBetween(const Group &group, int64_t senders) const;
  double latencyBetween(const Group &group) const;
};

/// How often ranks wait for each other, and what goes through the link of the rank that has most to do, within a node
/// and between nodes.
struct Traffic {
  double rounds = 0, bytes = 0;               ///< within
  double roundsBetween = 0, bytesBetween = 0; ///< between nodes
  int64_t senders = 1;                        ///< ranks of a node that send out of it at the same time
};

/// Of a textbook algorithm: ring, tree, butterfly, one_to_all, hierarchical. Nothing: the collective has no such one.
std::optional<Traffic> trafficOf(const Message &message, const std::string &algorithm);

} // namespace echelon::planner
