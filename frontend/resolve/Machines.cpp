#include "frontend/resolve/Machines.h"
#include "frontend/resolve/Arguments.h"
#include <algorithm>

namespace echelon::frontend {

namespace {
class Checker {
public:
  Checker(const Program &program, const File &file, Diagnostics &diagnostics)
      : program(program), file(file), diagnostics(diagnostics) {}

  void check(const Device &d) {
    if (d.memory)
      want(*d.memory, UnitKind::Bytes, "the memory of a device");
    if (d.bandwidth)
      want(*d.bandwidth, UnitKind::BytesPerSecond, "the speed of a device's memory");
    if (!d.memory && !file.broken)
      diagnostics.error(Code::E0119, d.range,
                        "device " + d.name.text + " lacks its memory, as in memory 80 GB at 2039 GB/s");
    static const std::vector<std::string> precisions = {"fp64", "fp32", "tf32", "bf16", "fp16", "fp8"};
    std::map<std::string, const Device::Peak *> seen;
    for (const Device::Peak &peak : d.peaks) {
      if (std::find(precisions.begin(), precisions.end(), peak.precision.text) == precisions.end())
        diagnostics.error(Code::E0407, peak.precision.range,
                          "unknown precision " + quoted(peak.precision.text) + "; known are " + listed(precisions) +
                              didYouMean(peak.precision.text, precisions));
      else if (!seen.emplace(peak.precision.text, &peak).second)
        diagnostics.error(Code::E0402, peak.precision.range, "the peak of " + peak.precision.text + " is given twice");
      want(peak.rate, UnitKind::FlopPerSecond, "a peak");
    }
  }

  void check(const Link &l) { check(l.channel); }

  void check(const Cluster &c) {
    clusterRanks(c, diagnostics);
    if (c.nodes && !isTwice(c.nodes->device, &File::devices) && !program.findDevice(file, c.nodes->device) &&
        !file.mayLack())
      diagnostics.error(Code::E0115, c.nodes->device.range,
                        unknown("device", c.nodes->device, program.deviceNames(file)));
    if (c.link)
      check(*c.link);
    if (c.network)
      check(*c.network);
    for (const Tier &tier : c.tiers)
      check(tier.channel);
    if (c.storage)
      want(*c.storage, UnitKind::BytesPerSecond, "the speed of storage");
    if (c.mtbf)
      want(*c.mtbf, UnitKind::Seconds, "the mean time between failures");
    if (c.price)
      want(*c.price, UnitKind::DollarsPerHour, "the price of a node");
  }

private:
  std::string unknown(const char *what, const Path &path, const std::vector<std::string> &known) {
    std::string hint = didYouMean(path.text(), known);
    if (hint.empty() && known.empty())
      hint = "; import devices brings a catalogue";
    return std::string("no ") + what + " is called " + quoted(path.text()) + hint;
  }

  /// Whether two imports have what the path names, which is told.
  template <typename T> bool isTwice(const Path &path, std::vector<T> File::*list) {
    const std::string twice = program.ambiguity(file, path, list);
    if (!twice.empty())
      diagnostics.error(Code::E0103, path.range, twice);
    return !twice.empty();
  }

  void check(const Channel &c) {
    if (c.named) {
      if (!isTwice(*c.named, &File::links) && !program.findLink(file, *c.named) && !file.mayLack())
        diagnostics.error(Code::E0116, c.named->range, unknown("link", *c.named, program.linkNames(file)));
      return;
    }
    want(c.bandwidth, UnitKind::BytesPerSecond, "the speed of a link");
    want(c.latency, UnitKind::Seconds, "the latency of a link");
  }

  void want(const Quantity &q, UnitKind kind, const char *what) {
    if (q.kind != kind)
      diagnostics.error(Code::E0403, q.range,
                        std::string(what) + " is " + describe(kind) + ", not " + describe(q.kind));
    else if (!(q.value > 0))
      diagnostics.error(Code::E0404, q.range, std::string(what) + " is more than 0");
  }

  const Program &program;
  const File &file;
  Diagnostics &diagnostics;
};
} // namespace

void checkMachines(const Program &program, Diagnostics &diagnostics) {
  for (const auto &file : program.files) {
    Checker checker(program, *file, diagnostics);
    for (const Device &d : file->devices)
      checker.check(d);
    for (const Link &l : file->links)
      checker.check(l);
    for (const Cluster &c : file->clusters)
      checker.check(c);
  }
}

std::optional<int64_t> localRanks(const Path &maker, const std::vector<Argument> &arguments, SourceRange range,
                                  Diagnostics &diagnostics) {
  if (maker.text() != "local") {
    diagnostics.error(Code::E0407, maker.range,
                      "a cluster is made by local(ranks = N), or described in braces; " + quoted(maker.text()) +
                          " is unknown");
    return std::nullopt;
  }
  Arguments args("local", range, arguments, {"ranks"}, diagnostics);
  if (!args.require("ranks"))
    return std::nullopt;
  return args.whole("ranks", {1, 1 << 20, false, false});
}

std::optional<int64_t> clusterRanks(const Cluster &c, Diagnostics &diagnostics) {
  if (c.maker)
    return localRanks(*c.maker, c.arguments, c.range, diagnostics);
  if (!c.nodes) {
    diagnostics.error(Code::E0119, c.range,
                      "cluster " + c.name.text + " lacks its nodes, as in nodes 128 of 8 x a100_80gb");
    return std::nullopt;
  }
  int64_t ranks = 0;
  if (__builtin_mul_overflow(c.nodes->count, c.nodes->devices, &ranks) || ranks > 1 << 20 || ranks < 1) {
    diagnostics.error(Code::E0404, c.range,
                      "cluster " + c.name.text + " has " + plain(double(c.nodes->count) * double(c.nodes->devices)) +
                          " devices; a cluster has between 1 and " + std::to_string(1 << 20));
    return std::nullopt;
  }
  return ranks;
}

} // namespace echelon::frontend
