// How long a machine takes for what a rank has to do: by formula only, from a device's data sheet and how much of it
// kernels reach, the host's time for a call, and what messages cost on each link.
#pragma once
#include "planner/machine/Work.h"
#include <map>
#include <optional>

namespace echelon::planner {

/// What computes. Rates are of the data sheet; efficiencies say what part of them kernels reach.
struct Device {
  std::string name;
  double memoryBytes = 0;
  double bandwidth = 0;               ///< bytes/s of its memory
  std::map<Precision, double> peaks;  ///< flop/s
  std::map<std::string, double> efficiency; ///< by kernel: "product", "memory", "attention", "attention_grad", …
  std::map<std::string, double> costs;      ///< further constants of the response, by name, in SI units: "host" seconds a call
};

/// A link within a node or a node's network, each way and per device (of a network: per node, all lanes together).
struct Link {
  std::string name;
  double bandwidth = 0; ///< bytes/s
  double latency = 0;   ///< seconds
  std::map<std::string, double> costs; ///< of its protocols, by name, in SI units or parts of the bandwidth
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
  Link link;                ///< within a node
  std::optional<Link> network; ///< between nodes
  std::vector<Tier> tiers;  ///< further levels above nodes, from the lowest
  double storage = 0;       ///< bytes/s; 0: not said
  double mtbf = 0;          ///< seconds a node; 0: not said
  double price = 0;         ///< dollars an hour and node; 0: not said

  int64_t ranks() const { return nodes * perNode; }
  double seconds(const Work &work) const;       ///< on the device, without the host's call
  double seconds(const Message &message) const; ///< nothing else under way
  double hostSeconds() const;                   ///< that the host takes to issue one call
};

} // namespace echelon::planner
