// Only what is not as usual is written.
#include "passes/cost/Links.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace echelon;

namespace {
class Writer {
public:
  explicit Writer(MLIRContext *context) : b(context) {}

  Attribute of(const planner::Link &link) {
    SmallVector<NamedAttribute> all;
    add(all, "bandwidth", link.bandwidth);
    add(all, "latency", link.latency);
    add(all, "lanes", link.lanes, 1);
    SmallVector<NamedAttribute> costs;
    for (const auto &[name, value] : link.costs)
      costs.push_back(b.getNamedAttr(name, b.getF64FloatAttr(value)));
    if (!costs.empty())
      all.push_back(b.getNamedAttr("costs", b.getDictionaryAttr(costs)));
    SmallVector<Attribute> curves, protocols;
    for (const auto &[key, curve] : link.curves)
      curves.push_back(of(key.first, key.second, curve));
    for (const planner::Protocol &protocol : link.protocols)
      protocols.push_back(of(protocol));
    if (!curves.empty())
      all.push_back(b.getNamedAttr("curves", b.getArrayAttr(curves)));
    if (!protocols.empty())
      all.push_back(b.getNamedAttr("protocols", b.getArrayAttr(protocols)));
    return b.getDictionaryAttr(all);
  }

  Attribute of(const planner::Machine &machine) {
    SmallVector<NamedAttribute> all;
    add(all, "nodes", machine.nodes, 1);
    add(all, "per_node", machine.perNode, 0);
    add(all, "spread", machine.spread);
    all.push_back(b.getNamedAttr("link", of(machine.link)));
    if (machine.network)
      all.push_back(b.getNamedAttr("network", of(*machine.network)));
    SmallVector<Attribute> tiers;
    for (const planner::Tier &tier : machine.tiers)
      tiers.push_back(b.getDictionaryAttr(
          {b.getNamedAttr("count", b.getI64IntegerAttr(tier.count)), b.getNamedAttr("link", of(tier.link))}));
    if (!tiers.empty())
      all.push_back(b.getNamedAttr("tiers", b.getArrayAttr(tiers)));
    return b.getDictionaryAttr(all);
  }

private:
  void add(SmallVectorImpl<NamedAttribute> &to, StringRef name, double value, double usual = 0) {
    if (value != usual)
      to.push_back(b.getNamedAttr(name, b.getF64FloatAttr(value)));
  }
  void add(SmallVectorImpl<NamedAttribute> &to, StringRef name, int64_t value, int64_t usual) {
    if (value != usual)
      to.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(value)));
  }
  Attribute of(StringRef name, int64_t ranks, const planner::Curve &curve) {
    SmallVector<double> bytes, seconds;
    for (const auto &[size, value] : curve.points) {
      bytes.push_back(size);
      seconds.push_back(value);
    }
    return b.getDictionaryAttr({b.getNamedAttr("name", b.getStringAttr(name)),
                                b.getNamedAttr("ranks", b.getI64IntegerAttr(ranks)),
                                b.getNamedAttr("bytes", b.getDenseF64ArrayAttr(bytes)),
                                b.getNamedAttr("seconds", b.getDenseF64ArrayAttr(seconds))});
  }
  Attribute of(const planner::Protocol &protocol) {
    SmallVector<NamedAttribute> all{b.getNamedAttr("name", b.getStringAttr(protocol.name))};
    add(all, "start", protocol.start);
    add(all, "rank", protocol.rank);
    add(all, "rate", protocol.rate, 1.0);
    add(all, "few", protocol.few);
    add(all, "network", protocol.network, 1.0);
    add(all, "limit", protocol.limit);
    add(all, "channels", protocol.channels, 0);
    if (protocol.sumsInSwitch)
      all.push_back(b.getNamedAttr("in_switch", b.getUnitAttr()));
    return b.getDictionaryAttr(all);
  }

  Builder b;
};

double number(DictionaryAttr from, StringRef name, double usual = 0) {
  auto value = from.getAs<FloatAttr>(name);
  return value ? value.getValueAsDouble() : usual;
}
int64_t whole(DictionaryAttr from, StringRef name, int64_t usual) {
  auto value = from.getAs<IntegerAttr>(name);
  return value ? value.getInt() : usual;
}
std::string text(DictionaryAttr from, StringRef name) {
  auto value = from.getAs<StringAttr>(name);
  return value ? value.str() : "";
}
template <typename Visit> void forEach(DictionaryAttr from, StringRef name, Visit visit) {
  if (auto list = from.getAs<ArrayAttr>(name))
    for (auto each : list.getAsRange<DictionaryAttr>())
      visit(each);
}

planner::Protocol protocolOf(DictionaryAttr from) {
  planner::Protocol made;
  made.name = text(from, "name");
  made.start = number(from, "start");
  made.rank = number(from, "rank");
  made.rate = number(from, "rate", 1);
  made.few = number(from, "few");
  made.network = number(from, "network", 1);
  made.limit = number(from, "limit");
  made.channels = whole(from, "channels", 0);
  made.sumsInSwitch = from.contains("in_switch");
  return made;
}
planner::Link linkOf(DictionaryAttr from) {
  planner::Link made;
  made.bandwidth = number(from, "bandwidth");
  made.latency = number(from, "latency");
  made.lanes = whole(from, "lanes", 1);
  if (auto costs = from.getAs<DictionaryAttr>("costs"))
    for (NamedAttribute cost : costs)
      if (auto value = dyn_cast<FloatAttr>(cost.getValue()))
        made.costs.emplace(cost.getName().str(), value.getValueAsDouble());
  forEach(from, "curves", [&](DictionaryAttr each) {
    auto bytes = each.getAs<DenseF64ArrayAttr>("bytes"), seconds = each.getAs<DenseF64ArrayAttr>("seconds");
    planner::Curve curve;
    if (bytes && seconds)
      for (auto [size, value] : llvm::zip(bytes.asArrayRef(), seconds.asArrayRef()))
        curve.points.push_back({size, value});
    made.curves.emplace(std::pair(text(each, "name"), whole(each, "ranks", 2)), std::move(curve));
  });
  forEach(from, "protocols", [&](DictionaryAttr each) { made.protocols.push_back(protocolOf(each)); });
  return made;
}
} // namespace

void echelon::setLinks(ModuleOp module, const planner::Machine &machine) {
  module->setAttr(kLinks, Writer(module.getContext()).of(machine));
}

std::optional<planner::Machine> echelon::linksOf(ModuleOp module) {
  auto from = module->getAttrOfType<DictionaryAttr>(kLinks);
  if (!from)
    return std::nullopt;
  planner::Machine made;
  made.nodes = whole(from, "nodes", 1);
  made.perNode = whole(from, "per_node", 1);
  made.spread = number(from, "spread");
  if (auto link = from.getAs<DictionaryAttr>("link"))
    made.link = linkOf(link);
  if (auto network = from.getAs<DictionaryAttr>("network"))
    made.network = linkOf(network);
  forEach(from, "tiers", [&](DictionaryAttr tier) {
    auto link = tier.getAs<DictionaryAttr>("link");
    made.tiers.push_back({"", whole(tier, "count", 1), link ? linkOf(link) : planner::Link()});
  });
  return made;
}
