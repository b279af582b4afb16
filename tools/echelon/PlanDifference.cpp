// Messages are the same where op, mesh axes, phase, algorithm and bytes are: lines of the spec, which reasons name, may
// have moved.
#include "tools/echelon/PlanDifference.h"

#include "frontend/Diagnostics.h"
#include "passes/cost/ProgramCost.h"
#include "tools/driver/compile/Units.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <vector>

using nlohmann::ordered_json;

namespace echelon {

namespace {

ordered_json pairOf(const ordered_json &a, const ordered_json &b, const char *key) { return {a.at(key), b.at(key)}; }

/// By name, in the order of the first plan and then of the second; 0 where one has none.
ordered_json pairsOf(const ordered_json &a, const ordered_json &b) {
  ordered_json made = ordered_json::object();
  for (const auto &[name, value] : a.items())
    made[name] = {value, b.value(name, ordered_json(0))};
  for (const auto &[name, value] : b.items())
    if (!made.contains(name))
      made[name] = {0, value};
  return made;
}

struct Messages {
  std::string op, axis, phase, algorithm;
  int64_t bytes = 0;
  int64_t counts[2] = {0, 0};
  double seconds[2] = {0, 0};

  auto key() const { return std::tie(op, axis, phase, algorithm, bytes); }
};

std::vector<Messages> messagesOf(const ordered_json &a, const ordered_json &b) {
  std::vector<Messages> all;
  size_t which = 0;
  for (const ordered_json *plan : {&a, &b}) {
    for (const ordered_json &one : plan->at("collectives")) {
      Messages made{one.at("op"), one.at("axis"), one.at("phase"), one.at("algorithm"), one.at("bytes"), {}, {}};
      auto at = std::find_if(all.begin(), all.end(), [&](const Messages &known) { return known.key() == made.key(); });
      if (at == all.end())
        at = all.insert(at, made);
      const auto count = one.at("count").get<int64_t>();
      at->counts[which] += count;
      at->seconds[which] += double(count) * one.at("time_s").get<double>();
    }
    ++which;
  }
  return all;
}

/// Two columns and what the second has more.
class Table {
public:
  using Print = std::function<std::string(double)>;
  explicit Table(llvm::raw_ostream &os) : os(os) {}

  void row(llvm::StringRef name, double a, double b, const Print &print) {
    const double more = b - a;
    const auto shown = [&](double value) { return value == 0 ? "-" : print(value); };
    os << llvm::left_justify(name, 44) << llvm::right_justify(shown(a), 12) << llvm::right_justify(shown(b), 12)
       << llvm::right_justify(more == 0 ? "=" : (more > 0 ? "+" : "-") + print(std::abs(more)), 13);
    if (more != 0 && a != 0)
      os << llvm::format("  %+.1f %%", 100 * more / a);
    os << "\n";
  }
  /// Of pairs those that differ by more than so much.
  void differing(const ordered_json &pairs, double least, const Print &print) {
    std::vector<std::pair<std::string, std::pair<double, double>>> rows;
    for (const auto &[name, pair] : pairs.items())
      if (std::abs(pair[1].get<double>() - pair[0].get<double>()) > least)
        rows.push_back({name, {pair[0], pair[1]}});
    auto apart = [](const auto &r) { return std::abs(r.second.second - r.second.first); };
    std::stable_sort(rows.begin(), rows.end(), [&](const auto &x, const auto &y) { return apart(x) > apart(y); });
    for (const auto &[name, pair] : rows)
      row("  " + name, pair.first, pair.second, print);
  }

private:
  llvm::raw_ostream &os;
};
} // namespace

ordered_json differenceJson(const NamedPlan &a, const NamedPlan &b) {
  const ordered_json &one = a.plan, &other = b.plan;
  ordered_json messages = ordered_json::array();
  for (const Messages &m : messagesOf(one, other))
    if (m.counts[0] != m.counts[1] || std::abs(m.seconds[1] - m.seconds[0]) > 1e-9 * m.seconds[0])
      messages.push_back({{"op", m.op},
                          {"axis", m.axis},
                          {"phase", m.phase},
                          {"algorithm", m.algorithm},
                          {"bytes", m.bytes},
                          {"count", {m.counts[0], m.counts[1]}},
                          {"time_s", {m.seconds[0], m.seconds[1]}}});
  ordered_json made = {{"specs", {frontend::printable(a.spec), frontend::printable(b.spec)}},
                       {"train", pairOf(one, other, "train")}};
  for (const char *key : {"step_time_s", "tokens_per_s", "samples_per_s", "mfu", "bubble_fraction", "fits"})
    made[key] = pairOf(one, other, key);
  made["time"] = pairsOf(one.at("time"), other.at("time"));
  made["memory_bytes"] = pairsOf(one.at("memory_bytes"), other.at("memory_bytes"));
  made["collectives"] = messages;
  return made;
}

std::string differenceText(const ordered_json &difference) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto number = [&](const char *key, size_t i) { return difference.at(key)[i].get<double>(); };
  for (const size_t i : {0, 1})
    os << "AB"[i] << ": " << difference.at("specs")[i].get<std::string>() << ", train "
       << difference.at("train")[i].get<std::string>() << "\n";
  Table table(os);
  const auto bytes = [](double value) { return inBytes(std::llround(value)); };
  const double step = std::max(number("step_time_s", 0), number("step_time_s", 1));
  os << llvm::left_justify("", 44) << llvm::right_justify("A", 12) << llvm::right_justify("B", 12)
     << llvm::right_justify("B - A", 13) << "\n";
  table.row("step", number("step_time_s", 0), number("step_time_s", 1), inTime);
  constexpr double kOfNoWeight = 0.0005; // part of a step that is not told
  table.differing(difference.at("time"), kOfNoWeight * step, inTime);
  const ordered_json &memory = difference.at("memory_bytes");
  table.row("memory per rank", memory.at("total")[0], memory.at("total")[1], bytes);
  ordered_json parts = memory;
  parts.erase("total");
  table.differing(parts, 0, bytes);
  const ordered_json &messages = difference.at("collectives");
  os << "communication per step" << (messages.empty() ? ": the same\n" : "\n");
  for (const ordered_json &m : messages) {
    std::string name;
    llvm::raw_string_ostream(name) << "  " << m.at("op").get<std::string>() << " over "
                                   << m.at("axis").get<std::string>() << ", " << inBytes(m.at("bytes").get<int64_t>())
                                   << ", " << m.at("phase").get<std::string>();
    const ordered_json &counts = m.at("count"), &seconds = m.at("time_s");
    if (counts[0] != counts[1])
      table.row(name, counts[0], counts[1], [](double n) { return std::to_string(std::llround(n)) + " x"; });
    else
      table.row(name, seconds[0], seconds[1], inTime);
  }
  for (const size_t i : {0, 1})
    if (difference.at("fits")[i] == false)
      os << "AB"[i] << " does not fit a device\n";
  return text;
}

} // namespace echelon
