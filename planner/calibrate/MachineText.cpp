#include "planner/calibrate/MachineText.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <sstream>

namespace echelon::planner {

namespace {
double medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  if (std::string(text).find('e') != std::string::npos) // four digits, written out
    std::snprintf(text, sizeof(text), "%.0f", value);
  return text;
}
std::string bytesText(int64_t bytes) {
  if (bytes % (1 << 20) == 0)
    return std::to_string(bytes >> 20) + " MiB";
  if (bytes % (1 << 10) == 0)
    return std::to_string(bytes >> 10) + " KiB";
  return std::to_string(bytes) + " B";
}
std::string secondsText(double seconds) {
  if (seconds >= 1e-3)
    return number(seconds * 1e3) + " ms";
  return seconds >= 1e-6 ? number(seconds * 1e6) + " us" : number(seconds * 1e9) + " ns";
}
std::string flopsText(double rate) { return number(rate / 1e9) + " GFLOP/s"; }
std::string rateText(double rate) { return number(rate / 1e9) + " GB/s"; }

using Points = std::vector<std::pair<std::string, std::string>>; ///< size, value
std::string curve(const std::string &name, const Points &points) {
  std::string text = "  curve " + name + " = ";
  for (size_t i = 0; i < points.size(); ++i)
    text += (i ? ", " : "") + points[i].first + " at " + points[i].second;
  return points.empty() ? "" : text + "\n";
}

/// Rates by the bytes that are moved.
Points byBytes(const Measurements &measurements, const std::string &name, int64_t ranks) {
  Points points;
  for (const auto &sizes : measurements.sizesOf(name, ranks))
    points.push_back({bytesText(sizes[0]), rateText(double(sizes[0]) / measurements.seconds(name, ranks, sizes))});
  return points;
}

/// Convolutions by operations for each byte: the geometric mean of their rate forward and of both derivatives.
Points ofConvolutions(const Measurements &measurements, int64_t ranks) {
  std::map<int64_t, std::vector<double>> logs; // by tenths of operations a byte
  for (const auto &s : measurements.sizesOf("convolution", ranks))
    logs[10 * s[0] / s[1]].push_back(std::log(double(s[0]) / measurements.seconds("convolution", ranks, s)));
  Points points;
  for (const auto &[tenths, all] : logs) {
    double sum = 0;
    for (double log : all)
      sum += log;
    points.push_back({number(double(tenths) / 10), flopsText(std::exp(sum / double(all.size())))});
  }
  return points;
}

/// Products by their inner length, a curve for each pair of rows and columns; the highest rate of all is kept.
std::string grid(const Measurements &measurements, int64_t ranks, double &highest) {
  std::map<std::pair<int64_t, int64_t>, Points> curves;
  for (const auto &s : measurements.sizesOf("product", ranks)) {
    const double rate = 2.0 * double(s[0]) * double(s[1]) * double(s[2]) / measurements.seconds("product", ranks, s);
    highest = std::max(highest, rate);
    curves[{s[0], s[1]}].push_back({std::to_string(s[2]), flopsText(rate)});
  }
  std::string text;
  for (const auto &[size, points] : curves)
    text += curve("product_" + std::to_string(size.first) + "x" + std::to_string(size.second), points);
  return text;
}
} // namespace

bool Measurements::add(const std::string &line, int64_t ranks) {
  std::istringstream words(line);
  std::string name, word;
  if (!(words >> name))
    return false;
  std::vector<std::string> all;
  while (words >> word)
    all.push_back(word);
  if (all.empty())
    return false;
  std::vector<int64_t> sizes;
  char *end = nullptr;
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    sizes.push_back(std::strtoll(all[i].c_str(), &end, 10));
    if (*end || sizes.back() <= 0)
      return false;
  }
  const double seconds = std::strtod(all.back().c_str(), &end);
  if (*end || !(seconds > 0) || std::isinf(seconds))
    return false;
  figures[{name, ranks}][sizes].push_back(seconds);
  return true;
}

double Measurements::seconds(const std::string &name, int64_t ranks, const std::vector<int64_t> &sizes) const {
  const auto known = figures.find({name, ranks});
  if (known == figures.end())
    return 0;
  const auto times = known->second.find(sizes);
  return times == known->second.end() ? 0 : medianOf(times->second);
}

std::vector<std::vector<int64_t>> Measurements::sizesOf(const std::string &name, int64_t ranks) const {
  std::vector<std::vector<int64_t>> sizes;
  if (const auto known = figures.find({name, ranks}); known != figures.end())
    for (const auto &[size, times] : known->second)
      sizes.push_back(size);
  return sizes;
}

std::vector<int64_t> Measurements::ranksOf(const std::string &name) const {
  std::vector<int64_t> ranks;
  for (const auto &[key, times] : figures)
    if (key.first == name)
      ranks.push_back(key.second);
  return ranks;
}

double Measurements::spread() const {
  std::vector<double> all;
  for (const auto &[key, bySize] : figures)
    for (const auto &[size, times] : bySize)
      if (times.size() > 1) {
        const auto [least, most] = std::minmax_element(times.begin(), times.end());
        all.push_back((*most - *least) / medianOf(times));
      }
  return medianOf(all);
}

std::string machineText(const Measurements &m, const Measured &measured) {
  const int64_t ranks = measured.ranks;
  const std::string stamp = "  measured \"" + measured.date + "\" on \"" + measured.place + "\", load " +
                            number(std::round(measured.load * 10) / 10) + ", spread " +
                            number(std::min(std::round(m.spread() * 1000) / 10, 100.0)) + "%\n";
  double highest = 0;
  const std::string products = grid(m, ranks, highest);
  const double peak = std::max(m.seconds("peak", ranks, {}), highest); // a rate, of all that are measured the one
  const auto memory = m.sizesOf("memory", ranks);
  const double far = memory.empty() ? 0 : double(memory.back()[0]) / m.seconds("memory", ranks, memory.back());

  std::string text = "# This machine, with " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks at once, each") +
                     " on a core: written by echelon calibrate.\n";
  text += "device core_here {\n  memory " + number(measured.memoryBytes / double(ranks) / 1e9) + " GB at " +
          rateText(far) + "\n  peak fp32 " + flopsText(peak) + ", fp64 " + flopsText(peak / 2) + "\n";
  text += "  efficiency product " + number(highest / peak) + ", memory 1\n";
  text += "  response host " + secondsText(m.seconds("call", ranks, {}));
  if (const auto sizes = m.sizesOf("exponential", ranks); !sizes.empty())
    text += ", exponential " + secondsText(m.seconds("exponential", ranks, sizes[0]) / double(sizes[0][0]));
  if (const auto sizes = m.sizesOf("input", ranks); !sizes.empty())
    text += ", input " + secondsText(m.seconds("input", ranks, sizes[0]) / double(sizes[0][0]));
  text += "\n";
  for (const char *name : {"memory", "update"})
    for (int64_t n : m.ranksOf(name))
      text += curve(name + std::string(" over ") + std::to_string(n), byBytes(m, name, n));
  for (const char *name :
       {"softmax", "logsumexp", "cross_entropy", "normalize", "normalize_grad", "reduce", "pool", "channel_statistics"})
    text += curve(name, byBytes(m, name, ranks));
  for (const char *name : {"attention", "attention_grad"}) {
    Points points;
    for (const auto &s : m.sizesOf(name, ranks))
      points.push_back({std::to_string(s[0]), flopsText(double(s[1]) / m.seconds(name, ranks, s))});
    text += curve(name, points);
  }
  text += curve("convolution", ofConvolutions(m, ranks)) + products + stamp + "}\n";

  std::set<int64_t> over;
  const std::vector<std::string> collectives = {"all_reduce", "reduce_scatter", "all_gather",
                                                "all_to_all", "broadcast",      "send"};
  for (const std::string &name : collectives)
    for (int64_t n : m.ranksOf(name))
      over.insert(n);
  std::vector<std::string> ways; // each by itself, then by one algorithm after the other
  for (const std::string &name : collectives)
    for (const char *algorithm : {"", "_ring", "_tree", "_butterfly", "_one_to_all"})
      ways.push_back(name + algorithm);
  const std::string link = measured.transport + "_here";
  if (!over.empty()) {
    const std::string first = m.ranksOf("send").empty() ? "broadcast" : "send";
    const int64_t fewest = m.ranksOf(first).front();
    const auto sizes = m.sizesOf(first, fewest);
    text += "\n# The cores that compute also move what is sent: nothing of a message runs beside.\nlink " + link +
            " = " + rateText(double(sizes.back()[0]) / m.seconds(first, fewest, sizes.back())) + ", " +
            secondsText(m.seconds(first, fewest, sizes.front())) + " {\n  response overlap 0\n";
    for (int64_t n : over)
      for (const std::string &name : ways) {
        Points points;
        for (const auto &s : m.sizesOf(name, n))
          points.push_back({bytesText(s[0]), secondsText(m.seconds(name, n, s))});
        text += curve(name + " over " + std::to_string(n), points);
      }
    text += stamp + "}\n";
  }
  text += "\ncluster here {\n  nodes 1 of " + std::to_string(ranks) + " x core_here\n" +
          (over.empty() ? "" : "  link " + link + "\n") + "}\n";
  return text;
}

} // namespace echelon::planner
