#include "frontend/resolve/Machines.h"
#include "frontend/resolve/Arguments.h"
#include "planner/machine/Constants.h"
#include "planner/machine/Machine.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

namespace echelon::frontend {

namespace {
using planner::Constant;

template <typename T> std::vector<std::string> namesOf(const std::vector<T> &list) {
  std::vector<std::string> names;
  for (const T &each : list)
    names.push_back(each.name);
  return names;
}

class Checker {
public:
  Checker(const Program &program, const File &file, Diagnostics &diagnostics)
      : program(program), file(file), diagnostics(diagnostics) {}

  void check(const Device &d) {
    if (d.memory)
      want(*d.memory, UnitKind::Bytes, "the memory of a device");
    if (d.bandwidth)
      want(*d.bandwidth, UnitKind::BytesPerSecond, "the speed of a device's memory");
    std::set<std::string> seen;
    for (const Device::Peak &peak : d.peaks) {
      if (isPrecision(peak.precision) && !seen.insert(peak.precision.text).second)
        diagnostics.error(Code::E0402, peak.precision.range, "the peak of " + peak.precision.text + " is given twice");
      want(peak.rate, UnitKind::FlopPerSecond, "a peak");
    }
    seen.clear();
    for (const Setting &setting : d.efficiency) {
      if (setting.name.text == "accumulate")
        diagnostics.error(Code::E0407, setting.name.range,
                          "accumulate has passes alone, of the speed that memory reaches");
      else if (isKernel(setting.name, false) && (!setting.precision || isPrecision(*setting.precision)))
        once(seen, setting, "the efficiency of ");
      wantPart(setting.value, 0.001, "an efficiency");
    }
    seen.clear();
    for (const Setting &setting : d.passes) {
      if (isKernel(setting.name, true))
        once(seen, setting, "how many passes there are of ");
      if (setting.value.kind != UnitKind::None)
        want(setting.value, UnitKind::None, "how often a kernel moves its bytes");
      else if (setting.value.value < (mayBeNone(setting.name) ? 0 : 0.01) || !(setting.value.value <= 1000))
        diagnostics.error(Code::E0404, setting.value.range,
                          "a kernel moves its bytes between 0.01 and 1000 times" +
                              std::string(mayBeNone(setting.name) ? "; 0 says that it is part of another kernel" : ""));
    }
    check(d.response, planner::deviceConstants(), "a device's response");
    for (const Curve &curve : d.curves)
      check(curve, true);
    if (d.measured)
      check(*d.measured);
  }

  /// What a device has once all is there that it takes from others.
  void checkWhole(const Device &d) {
    if (!d.memory && !d.base && !file.broken)
      diagnostics.error(Code::E0119, d.range,
                        "device " + d.name.text + " lacks its memory, as in memory 80 GB at 2039 GB/s");
  }

  void check(const Link &l) {
    check(l.channel);
    if (l.speed)
      check(*l.speed);
    check(l.response, planner::linkConstants(), "a link's response");
    std::set<std::string> seen;
    for (const Protocol &protocol : l.protocols) {
      if (!seen.insert(protocol.name.text).second)
        diagnostics.error(Code::E0402, protocol.name.range,
                          "protocol " + protocol.name.text + " is given twice in link " + l.name.text);
      check(protocol.settings, planner::protocolConstants(), "a protocol");
      for (const Setting &setting : protocol.settings)
        if (setting.name.text == "channels" && setting.value.value != std::floor(setting.value.value))
          diagnostics.error(Code::E0404, setting.value.range, "channels are counted: a whole number");
    }
    for (const Curve &curve : l.curves)
      check(curve, false);
    if (l.measured)
      check(*l.measured);
  }

  void check(const Cluster &c) {
    clusterRanks(c, diagnostics);
    if (c.nodes)
      isKnownDevice(c.nodes->device);
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

  bool isKnownDevice(const Path &path) {
    if (isTwice(path, &File::devices))
      return false;
    const bool isKnown = program.findDevice(file, path);
    if (!isKnown && !file.mayLack())
      diagnostics.error(Code::E0115, path.range, unknown("device", path, program.deviceNames(file)));
    return isKnown;
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

  bool isPrecision(const Ident &word) {
    static const std::vector<std::string> precisions = {"fp64", "fp32", "tf32", "bf16", "fp16", "fp8"};
    const bool isKnown = std::find(precisions.begin(), precisions.end(), word.text) != precisions.end();
    if (!isKnown)
      diagnostics.error(Code::E0407, word.range,
                        "unknown precision " + quoted(word.text) + "; known are " + listed(precisions) +
                            didYouMean(word.text, precisions));
    return isKnown;
  }

  static bool mayBeNone(const Ident &kernel) {
    return kernel.text.rfind("attention", 0) == 0 || kernel.text == "accumulate";
  }

  bool isKernel(const Ident &word, bool ofPasses) {
    const planner::Kernel *kernel = planner::kernelNamed(word.text);
    if (kernel && (kernel->hasPasses || !ofPasses))
      return true;
    if (kernel) {
      diagnostics.error(Code::E0407, word.range,
                        word.text + " has no passes: arithmetic bounds it; say its efficiency instead");
      return false;
    }
    const std::vector<std::string> known = namesOf(planner::kernels());
    const std::string hint = didYouMean(word.text, known);
    diagnostics.error(Code::E0407, word.range,
                      "no kernel is called " + quoted(word.text) +
                          (hint.empty() ? "; known are " + listed(known) : hint));
    return false;
  }

  void once(std::set<std::string> &seen, const Setting &setting, const std::string &what) {
    const std::string name = setting.name.text + (setting.precision ? " in " + setting.precision->text : "");
    if (!seen.insert(name).second)
      diagnostics.error(Code::E0402, setting.name.range, what + name + " is given twice");
  }

  void check(const std::vector<Setting> &settings, const std::vector<Constant> &known, const std::string &where) {
    std::set<std::string> seen;
    for (const Setting &setting : settings) {
      const Constant *constant = planner::constantNamed(known, setting.name.text);
      if (!constant) {
        const std::string hint = didYouMean(setting.name.text, namesOf(known));
        diagnostics.error(Code::E0407, setting.name.range,
                          where + " has no " + quoted(setting.name.text) +
                              (hint.empty() ? "; it has " + listed(namesOf(known)) : hint));
        continue;
      }
      once(seen, setting, "");
      check(setting.value, *constant);
    }
  }

  void check(const Quantity &q, const Constant &constant) {
    const std::string what = std::string(constant.name) + ", " + constant.what + ",";
    switch (constant.unit) {
    case planner::Unit::Part:
      return wantPart(q, constant.least, what);
    case planner::Unit::Seconds:
      return wantAtLeast(q, UnitKind::Seconds, constant, what);
    case planner::Unit::Bytes:
      return wantAtLeast(q, UnitKind::Bytes, constant, what);
    case planner::Unit::Number:
      return wantAtLeast(q, UnitKind::None, constant, what);
    }
  }

  void wantAtLeast(const Quantity &q, UnitKind kind, const Constant &constant, const std::string &what) {
    if (q.kind != kind)
      diagnostics.error(Code::E0403, q.range, what + " is " + describe(kind) + ", not " + describe(q.kind));
    else if (!(q.value >= constant.least) || !(q.value <= constant.most))
      diagnostics.error(Code::E0404, q.range,
                        what + " is " +
                            (std::isinf(constant.most)
                                 ? "at least " + plain(constant.least)
                                 : "between " + plain(constant.least) + " and " + plain(constant.most)));
  }

  void wantPart(const Quantity &q, double least, const std::string &what) {
    if (q.kind != UnitKind::None && q.kind != UnitKind::Fraction)
      diagnostics.error(Code::E0403, q.range,
                        what + " is " + describe(UnitKind::Fraction) + ", not " + describe(q.kind));
    else if (!(q.value >= least) || !(q.value <= 1))
      diagnostics.error(Code::E0404, q.range,
                        what + (least > 0 ? " is between 0.001 and 1" : " is between 0 and 1") + ", as in 0.8 or 80%");
  }

  /// "all_reduce_ring": of a collective that there is by such an algorithm.
  static bool isOfAlgorithm(const std::string &curve) {
    using Kind = planner::Message::Kind;
    planner::Message message;
    message.group = {2, 1, 2};
    for (Kind kind : {Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll, Kind::Broadcast})
      for (const char *algorithm : {"ring", "tree", "butterfly", "one_to_all"}) {
        message.kind = kind;
        if (curve == std::string(nameOf(kind)) + "_" + algorithm)
          return planner::trafficOf(message, algorithm).has_value();
      }
    return false;
  }

  /// Of a device a rate by size; of a link the time that a message takes, by its bytes and ranks.
  void check(const Curve &curve, bool ofDevice) {
    static const std::vector<std::string> ofDevices = [] {
      std::vector<std::string> names = {"memory", "product", "product_MxN"};
      for (const planner::Kernel &kernel : planner::kernels())
        if (kernel.name != std::string("accumulate") &&
            std::find(names.begin(), names.end(), kernel.name) == names.end())
          names.push_back(kernel.name);
      return names;
    }();
    static const std::vector<std::string> ofLinks = {"all_reduce", "reduce_scatter", "all_gather",
                                                     "all_to_all", "broadcast",      "send"};
    const std::vector<std::string> &known = ofDevice ? ofDevices : ofLinks;
    const std::string &name = curve.name.text;
    const bool isGrid = ofDevice && gridSizes(name).has_value();
    if (!isGrid && (ofDevice || !isOfAlgorithm(name)) &&
        (name == "product_MxN" || std::find(known.begin(), known.end(), name) == known.end())) {
      diagnostics.error(Code::E0407, curve.name.range,
                        "a curve of a " + std::string(ofDevice ? "device" : "link") + " is one of " +
                            listed(known, "or") + ", not " + quoted(name) +
                            (ofDevice ? "" : "; of one algorithm alone, as all_reduce_ring"));
      return;
    }
    if (!ofDevice && curve.ranks < 2)
      diagnostics.error(Code::E0407, curve.name.range,
                        "a curve of a link says over how many ranks it was measured, 2 or more, as in curve " + name +
                            " over 4 = 1 MiB at 40 us");
    const bool byOperations = name == "product", byIntensity = name == "convolution",
               byKeys = name == "attention" || name == "attention_grad",
               isOfArithmetic = byOperations || byIntensity || byKeys || isGrid;
    double last = 0;
    for (const Curve::Point &point : curve.points) {
      want(point.size, isOfArithmetic ? UnitKind::None : UnitKind::Bytes,
           byOperations  ? "the size of a product, in operations,"
           : isGrid      ? "the inner length of a product, in elements,"
           : byIntensity ? "the size of a convolution, in operations for each byte,"
           : byKeys      ? "the length of attention, in keys,"
                         : "a size");
      want(point.value,
           !ofDevice        ? UnitKind::Seconds
           : isOfArithmetic ? UnitKind::FlopPerSecond
                            : UnitKind::BytesPerSecond,
           ofDevice ? "what was measured" : "the time of a message");
      if (point.size.known && !(point.size.value > last))
        diagnostics.error(Code::E0404, point.size.range, "the sizes of a curve ascend");
      last = std::max(last, point.size.value);
    }
  }

  void check(const Measurement &m) {
    bool isDate = m.date.size() == 10;
    for (size_t i = 0; isDate && i < m.date.size(); ++i)
      isDate = i == 4 || i == 7 ? m.date[i] == '-' : std::isdigit(static_cast<unsigned char>(m.date[i]));
    if (!isDate)
      diagnostics.error(Code::E0404, m.dateRange, "a date is written \"2026-11-29\", year, month and day");
    check(m.settings, planner::measurementConstants(), "a measurement");
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

/// Adds what `list` does not say of the same name; a kernel that is said of all precisions takes none from `base`.
void inherit(std::vector<Setting> &list, const std::vector<Setting> &base) {
  const size_t own = list.size();
  for (const Setting &setting : base) {
    auto isSame = [&](const Setting &other) {
      return other.name.text == setting.name.text &&
             (!other.precision || (setting.precision && other.precision->text == setting.precision->text));
    };
    if (std::none_of(list.begin(), list.begin() + long(own), isSame))
      list.push_back(setting);
  }
}

void inherit(std::vector<Curve> &list, const std::vector<Curve> &base) {
  const size_t own = list.size();
  for (const Curve &curve : base)
    if (std::none_of(list.begin(), list.begin() + long(own), [&](const Curve &other) {
          return other.name.text == curve.name.text && other.ranks == curve.ranks;
        }))
      list.push_back(curve);
}

void inherit(std::vector<Protocol> &list, const std::vector<Protocol> &base) {
  const size_t own = list.size();
  for (const Protocol &protocol : base) {
    auto last = list.begin() + long(own);
    auto same =
        std::find_if(list.begin(), last, [&](const Protocol &other) { return other.name.text == protocol.name.text; });
    if (same == last)
      list.push_back(protocol);
    else
      inherit(same->settings, protocol.settings);
  }
}

const Device *baseOf(const Program &program, const Device &device) {
  return device.base ? program.findDevice(*program.file(device.name.range.file), *device.base) : nullptr;
}
const Link *baseOf(const Program &program, const Link &link) {
  return link.channel.named ? program.findLink(*program.file(link.name.range.file), *link.channel.named) : nullptr;
}

/// What it comes from, the nearest first. Of a cycle, which is told, each once.
template <typename T> std::vector<const T *> basesOf(const Program &program, const T &first) {
  std::vector<const T *> bases;
  std::set<const T *> seen = {&first};
  for (const T *base = baseOf(program, first); base && seen.insert(base).second; base = baseOf(program, *base))
    bases.push_back(base);
  return bases;
}

/// Fills in the figures of the data sheet that devices and links take from others, each once, the others first. What
/// they say of their response may be long, and is looked up where it is asked for.
class Inheritance {
public:
  Inheritance(Program &program, Diagnostics &diagnostics) : program(program), diagnostics(diagnostics) {}

  void run() {
    for (auto &file : program.files) {
      for (Link &link : file->links)
        complete(link, &File::links);
      for (Device &device : file->devices)
        complete(device, &File::devices);
    }
  }

private:
  static const Path &pathOf(const Device &device) { return *device.base; }
  static const Path &pathOf(const Link &link) { return *link.channel.named; }

  static void take(Device &device, const Device *base) {
    if (!base)
      return;
    if (!device.memory) {
      device.memory = base->memory;
      device.bandwidth = base->bandwidth;
    }
    const size_t own = device.peaks.size();
    for (const Device::Peak &peak : base->peaks)
      if (std::none_of(device.peaks.begin(), device.peaks.begin() + long(own),
                       [&](const Device::Peak &other) { return other.precision.text == peak.precision.text; }))
        device.peaks.push_back(peak);
  }
  static void take(Link &link, const Link *base) {
    if (!link.speed && base)
      link.speed = base->speed;
    else if (!link.speed && !link.channel.named)
      link.speed = link.channel;
  }

  // A chain of others may be as long as a file: walked without recursion.
  template <typename T> void complete(T &first, std::vector<T> File::*list) {
    std::vector<T *> chain;
    std::set<const T *> seen;
    for (T *at = &first; at && !done.count(at);) {
      if (!seen.insert(at).second) {
        const T &last = *chain.back();
        diagnostics.error(Code::E0123, pathOf(last).range,
                          last.name.text + " comes from itself" + (&last == at ? "" : ", by way of " + at->name.text) +
                              "; one of them has figures of its own");
        done.insert(chain.begin(), chain.end());
        return;
      }
      chain.push_back(at);
      const T *base = baseOf(program, *at);
      at = base ? mutableOf(*base, list) : nullptr;
    }
    for (auto it = chain.rbegin(); it != chain.rend(); ++it)
      take(**it, baseOf(program, **it));
    done.insert(chain.begin(), chain.end());
  }

  template <typename T> T *mutableOf(const T &wanted, std::vector<T> File::*list) {
    for (auto &file : program.files)
      if (file->id == wanted.name.range.file)
        return ((*file).*list).data() + (&wanted - ((*file).*list).data());
    return nullptr;
  }

  Program &program;
  Diagnostics &diagnostics;
  std::set<const void *> done;
};
} // namespace

void checkMachines(Program &program, Diagnostics &diagnostics) {
  for (const auto &file : program.files) {
    Checker checker(program, *file, diagnostics);
    for (const Device &d : file->devices) {
      checker.check(d);
      if (d.base)
        checker.isKnownDevice(*d.base);
    }
    for (const Link &l : file->links)
      checker.check(l);
    for (const Cluster &c : file->clusters)
      checker.check(c);
  }
  Inheritance(program, diagnostics).run();
  for (const auto &file : program.files)
    for (const Device &d : file->devices)
      Checker(program, *file, diagnostics).checkWhole(d);
}

Device wholeDevice(const Program &program, const Device &device) {
  Device whole = device;
  for (const Device *base : basesOf(program, device)) {
    inherit(whole.efficiency, base->efficiency);
    inherit(whole.passes, base->passes);
    inherit(whole.response, base->response);
    inherit(whole.curves, base->curves);
  }
  return whole;
}

Link wholeLink(const Program &program, const Link &link) {
  Link whole = link;
  for (const Link *base : basesOf(program, link)) {
    inherit(whole.response, base->response);
    inherit(whole.protocols, base->protocols);
    inherit(whole.curves, base->curves);
  }
  return whole;
}

std::optional<std::pair<int64_t, int64_t>> gridSizes(const std::string &curve) {
  long long rows = 0, columns = 0;
  int end = 0;
  if (std::sscanf(curve.c_str(), "product_%9lldx%9lld%n", &rows, &columns, &end) != 2 || size_t(end) != curve.size() ||
      rows < 1 || columns < 1)
    return std::nullopt;
  return std::pair<int64_t, int64_t>(rows, columns);
}

double usableBytes(const Device &whole) {
  double part = 1, reserve = 0;
  for (const Setting &setting : whole.response) {
    if (setting.name.text == "usable")
      part = setting.value.value;
    if (setting.name.text == "reserve")
      reserve = setting.value.value;
  }
  return whole.memory ? std::max(whole.memory->value * part - reserve, 0.0) : 0;
}

const Device *catalogued(const Program &program, const Device &device) {
  auto isOfLibrary = [&](const Device *at) { return program.file(at->name.range.file)->isLibrary; };
  if (isOfLibrary(&device))
    return &device;
  const auto bases = basesOf(program, device);
  auto found = std::find_if(bases.begin(), bases.end(), isOfLibrary);
  return found == bases.end() ? nullptr : *found;
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
