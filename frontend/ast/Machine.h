// Devices, links and clusters: what a run runs on.
#pragma once
#include "frontend/ast/Model.h"

namespace echelon::frontend {

/// `host 70 us`, `product 0.83`, `product fp32 0.7`: a figure by its name.
struct Setting {
  Ident name;
  std::optional<Ident> precision; // of an efficiency that is for this one alone
  Quantity value;
};

/// `curve memory = 32 KiB at 60 GB/s, 256 MiB at 12 GB/s`: what was measured at sizes.
struct Curve {
  struct Point {
    Quantity size, value;
  };
  Ident name;
  int64_t ranks = 0; // `over 4`; 0: not said
  std::vector<Point> points;
  SourceRange range;
};

/// `measured "2026-11-29" on "NAME", load 0.4, spread 3%`
struct Measurement {
  std::string date, place;
  std::vector<Setting> settings;
  SourceRange dateRange, range;
};

/// `device a100_80gb { memory 80 GB at 2039 GB/s; peak fp32 19.5 TFLOP/s, … }`
struct Device {
  struct Peak {
    Ident precision;
    Quantity rate; // FlopPerSecond
  };
  Ident name;
  std::optional<Path> base; // `= a100_80gb`: it is that one, but for what is said here
  std::optional<Quantity> memory;    // Bytes
  std::optional<Quantity> bandwidth; // BytesPerSecond
  std::vector<Peak> peaks;
  std::vector<Setting> efficiency, passes, response;
  std::vector<Curve> curves;
  std::optional<Measurement> measured;
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

/// `protocol simple start 37.9 us, rate 0.83`
struct Protocol {
  Ident name;
  std::vector<Setting> settings;
  SourceRange range;
};

/// `link nvlink3_nccl = nvlink3 { response floor 20 us; protocol … }`
struct Link {
  Ident name;
  Channel channel;              // of its own, or the link that it is but for what is said in braces
  std::optional<Channel> speed; // `at 4 x 100 Gb/s, 5 us`
  std::vector<Setting> response;
  std::vector<Protocol> protocols;
  std::vector<Curve> curves;
  std::optional<Measurement> measured;
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
