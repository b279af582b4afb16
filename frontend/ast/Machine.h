// Devices, links and clusters: what a run runs on.
#pragma once
#include "frontend/ast/Model.h"

namespace echelon::frontend {

/// `device a100_80gb { memory 80 GB at 2039 GB/s; peak fp32 19.5 TFLOP/s, … }`
struct Device {
  struct Peak {
    Ident precision;
    Quantity rate; // FlopPerSecond
  };
  Ident name;
  std::optional<Quantity> memory;    // Bytes
  std::optional<Quantity> bandwidth; // BytesPerSecond
  std::vector<Peak> peaks;
  SourceRange range;
};

/// `8 x 200 Gb/s, 5 us`, or the name of a link.
struct Channel {
  std::optional<Path> named;
  int64_t lanes = 1;
  Quantity bandwidth; // of one lane, BytesPerSecond, each way
  Quantity latency;   // Seconds
  SourceRange range;
};

struct Link {
  Ident name;
  Channel channel;
  SourceRange range;
};

/// `tier pod = 4 over 100 Gb/s, 50 us`
struct Tier {
  Ident name;
  int64_t count = 0; // of the level below
  Channel channel;
  SourceRange range;
};

struct Cluster {
  Ident name;
  // `cluster here = local(ranks = 4)`
  std::optional<Path> maker;
  std::vector<Argument> arguments;
  // `cluster c { … }`
  struct Nodes {
    int64_t count = 0, devices = 0;
    Path device;
    SourceRange range;
  };
  std::optional<Nodes> nodes;
  std::optional<Channel> link, network;
  std::vector<Tier> tiers;
  std::optional<Quantity> storage, mtbf, price;
  SourceRange range;
};

} // namespace echelon::frontend
