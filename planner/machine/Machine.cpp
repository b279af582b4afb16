// How long a kernel takes on a device. Units: seconds, bytes, flop; rates of the data sheet times the part that kernels
// reach. The form is that of a roofline (Williams et al. 2009) with what a kernel's start and end cost.
#include "planner/machine/Machine.h"
#include "planner/machine/Constants.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace echelon::planner {

namespace {
double bytesOf(Precision precision) {
  switch (precision) {
  case Precision::Fp64:
    return 8;
  case Precision::Fp32:
  case Precision::Tf32:
    return 4;
  case Precision::Bf16:
  case Precision::Fp16:
    return 2;
  case Precision::Fp8:
    return 1;
  }
  return 4;
}

/// The name under which a device may tell of a kernel: "reduce_sum" is a "reduce", "rms_normalize" a "normalize".
std::string family(std::string kernel) {
  if (kernel.rfind("rms_", 0) == 0)
    kernel = kernel.substr(4);
  while (!kernelNamed(kernel)) {
    const size_t end = kernel.rfind('_');
    if (end == std::string::npos)
      return "";
    kernel.resize(end);
  }
  return kernel;
}

/// Of a loop or kernel, what its device may tell of it by.
std::string kernelOf(const Work &work) {
  const bool isNest = work.kind == Work::Kind::Loop && work.kernel != "update"; // told of by the user's names
  return isNest ? "loop" : family(work.kernel);
}

template <typename T> const T *found(const std::map<std::string, T> &map, const std::string &key) {
  auto it = map.find(key);
  return it == map.end() ? nullptr : &it->second;
}
} // namespace

double Curve::at(double size) const {
  if (points.empty())
    return 0;
  auto next = std::lower_bound(points.begin(), points.end(), size,
                               [](const auto &point, double wanted) { return point.first < wanted; });
  if (next == points.begin())
    return points.front().second;
  if (next == points.end())
    return points.back().second;
  const auto &[x0, y0] = *(next - 1);
  const auto &[x1, y1] = *next;
  const double along = std::log(size / x0) / std::log(x1 / x0);
  return y0 * std::pow(y1 / y0, along);
}

bool Curve::covers(double size) const {
  return !points.empty() && size >= points.front().first && size <= points.back().first;
}

double Device::peak(Precision precision) const {
  // Each can be done in the ones behind it, and a unit for twice the width does half as much.
  static const std::map<Precision, std::vector<std::pair<Precision, double>>> instead = {
      {Precision::Fp8, {{Precision::Fp8, 1}, {Precision::Bf16, 1}, {Precision::Fp16, 1}, {Precision::Fp32, 1}}},
      {Precision::Bf16, {{Precision::Bf16, 1}, {Precision::Fp16, 1}, {Precision::Tf32, 1}, {Precision::Fp32, 1}}},
      {Precision::Fp16, {{Precision::Fp16, 1}, {Precision::Bf16, 1}, {Precision::Tf32, 1}, {Precision::Fp32, 1}}},
      {Precision::Tf32, {{Precision::Tf32, 1}, {Precision::Fp32, 1}, {Precision::Bf16, 0.5}, {Precision::Fp16, 0.5}}},
      {Precision::Fp32,
       {{Precision::Fp32, 1}, {Precision::Fp64, 1}, {Precision::Bf16, 1.0 / 32}, {Precision::Fp16, 1.0 / 32}}},
      {Precision::Fp64, {{Precision::Fp64, 1}, {Precision::Fp32, 0.5}}},
  };
  for (const auto &[other, part] : instead.at(precision))
    if (auto it = peaks.find(other); it != peaks.end())
      return it->second * part;
  return 0;
}

bool Machine::isOfGpus() const {
  constexpr double kMostBytesOfCore = 100e9, kMostFlopsOfCore = 0.5e12; // no core of any processor comes near these
  double most = 0;
  for (const auto &[precision, rate] : device.peaks)
    most = std::max(most, rate);
  return device.peaks.count(Precision::Tf32) || device.peaks.count(Precision::Fp8) || most > kMostFlopsOfCore ||
         device.bandwidth > kMostBytesOfCore;
}

double Machine::constant(const char *name) const {
  if (const double *said = found(device.costs, name))
    return *said;
  return constantNamed(deviceConstants(), name)->otherwise;
}

double Machine::inputSeconds(double bytes) const { return crowd * bytes * constant("input"); }

double Machine::hostSeconds() const { return constant("host"); }

double Machine::lateSeconds(const Group &group) const {
  return group.ranks < 2 ? 0 : constant("late") * hostSeconds() * std::log2(double(group.ranks));
}

double Machine::usableBytes() const {
  return device.memoryBytes ? std::max(device.memoryBytes * constant("usable") - constant("reserve"), 0.0) : 0;
}

double Machine::efficiencyOf(const std::string &kernel, const char *otherwise, Precision precision) const {
  for (const std::string &name : {kernel, std::string(otherwise)}) {
    if (name.empty())
      continue;
    if (const double *said = found(device.efficiency, name + "." + nameOf(precision)))
      return *said;
    if (const double *said = found(device.efficiency, name))
      return *said;
    if (const Kernel *known = kernelNamed(name); known && known->typical)
      return known->typical;
  }
  return 1;
}

const Curve *Machine::curveOf(const std::string &kernel) const {
  const Curve *own = kernel.empty() ? nullptr : found(device.curves, kernel);
  return own ? own : found(device.curves, "memory");
}

// A memory-bound kernel: bytes x passes / (bandwidth x efficiency). Where rates were measured at sizes (caches), the
// rate is theirs.
double Machine::memorySeconds(const std::string &kernel, double bytes) const {
  constexpr double kBetween = 2; // what was read and written since the operands were, by what the kernel itself moves
  const double *times = found(device.passes, kernel);
  if (!times)
    times = found(device.passes, "memory");
  const double moved = bytes * (times ? *times : 1);
  if (const Curve *curve = curveOf(kernel))
    return moved / curve->at(kBetween * bytes);
  return device.bandwidth ? moved / (device.bandwidth * efficiencyOf(kernel, "memory", Precision::Fp32)) : 0;
}

namespace {
/// The two of an ascending list around a size, and how far it lies from the first to the second, in logarithms: 0 to 1.
struct Between {
  int64_t low = 0, high = 0;
  double along = 0;
};
Between between(const std::vector<int64_t> &sizes, int64_t size) {
  auto next = std::lower_bound(sizes.begin(), sizes.end(), size);
  if (next == sizes.begin())
    return {sizes.front(), sizes.front(), 0};
  if (next == sizes.end())
    return {sizes.back(), sizes.back(), 0};
  const int64_t low = *(next - 1);
  return {low, *next, std::log(double(size) / double(low)) / std::log(double(*next) / double(low))};
}
} // namespace

// What products of such sizes were measured at, in logarithms of all three between the sizes of the grid. In another
// precision than fp32 its rate is to fp32's as the peaks are.
double Machine::gridSeconds(const Work &work) const {
  std::vector<int64_t> rows, columns;
  for (const auto &[size, curve] : device.grid) {
    if (rows.empty() || rows.back() != size.first)
      rows.push_back(size.first);
    columns.push_back(size.second);
  }
  std::sort(columns.begin(), columns.end());
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  const Between m = between(rows, work.m), n = between(columns, work.n);
  double log = 0, weights = 0;
  for (const auto &[row, ofRow] : {std::pair(m.low, 1 - m.along), std::pair(m.high, m.along)})
    for (const auto &[column, ofColumn] : {std::pair(n.low, 1 - n.along), std::pair(n.high, n.along)})
      if (auto curve = device.grid.find({row, column}); curve != device.grid.end() && ofRow * ofColumn > 0) {
        log += ofRow * ofColumn * std::log(curve->second.at(double(work.k)));
        weights += ofRow * ofColumn;
      }
  if (weights <= 0)
    return 0;
  const double flops =
      2.0 * double(work.m) * double(work.n) * double(work.k) * double(std::max<int64_t>(work.batch, 1));
  const double peak = device.peak(work.precision), measured = device.peak(Precision::Fp32);
  return flops / (std::exp(log / weights) * (peak > 0 && measured > 0 ? peak / measured : 1));
}

namespace {
/// What a curve of products, or of convolutions, is by.
double sizeOf(const std::string &kernel, const Work &work) {
  return kernel == "convolution" && work.bytes > 0 ? work.flops / work.bytes : work.flops;
}
} // namespace

// A product (m, k) by (k, n), `batch` of them: 2 m n k batch x (k + k_half) / k / (peak x efficiency); the start and
// end of each tile's sum cost as much as k_half of its length. With `units` multiprocessors the work is that of whole
// tiles, of the shape that is best for it, and where there are fewer tiles than units, some have none. Not faster than
// its operands come from memory.
double Machine::productSeconds(const std::string &kernel, const Work &work) const {
  const double rate = device.peak(work.precision) * efficiencyOf(kernel, "product", work.precision);
  const double units = constant("units"), batch = double(std::max<int64_t>(work.batch, 1));
  const double m = double(work.m), n = double(work.n), k = double(work.k);
  const bool hasShape = work.m > 0 && work.n > 0 && work.k > 0;
  double seconds = 0;
  if (rate > 0 && hasShape) {
    const double inner = k + constant("k_half");
    if (units > 0) {
      static constexpr double kTiles[][2] = {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 64}};
      double least = std::numeric_limits<double>::max();
      for (const auto &[rows, columns] : kTiles) {
        const double tiles = std::ceil(m / rows) * std::ceil(n / columns) * batch;
        least = std::min(least, std::max(tiles, units) * 2 * rows * columns * inner);
      }
      seconds = least / rate;
    } else {
      seconds = 2 * batch * m * n * inner / rate;
    }
    const auto multiple = int64_t(constant("alignment"));
    if (multiple > 1 && (work.m % multiple || work.n % multiple || work.k % multiple))
      seconds *= constant("misaligned");
  } else if (rate > 0) {
    seconds = work.flops / rate;
  }
  if (kernel == "product" && hasShape && !device.grid.empty())
    return gridSeconds(work); // its operands came from where such operands lie
  if (const Curve *curve = found(device.curves, kernel); curve && work.flops > 0)
    return work.flops / curve->at(sizeOf(kernel, work));
  return std::max(seconds, memorySeconds("memory", work.bytes));
}

// Attention in one kernel: its flops at the part of the peak that the kernel reaches, and its operands' bytes. A device
// with passes of attention has no such kernel: two products forward and four backward (the fifth is the forward's
// again, which a written-out attention keeps), of all scores, masked or not, and so many passes over the scores
// (queries m by keys n) in the precision of the arithmetic.
namespace {
/// What a processor's kernel takes the time of where half of the scores count. With few keys a mask saves nothing: that
/// of twelve keys was measured to take as long with it as without. `echelon calibrate` counts likewise.
double computedFlops(const Work &work) {
  constexpr double kFew = 12; // keys
  const double products = work.kind == Work::Kind::AttentionGrad ? 5 : 2;
  const double all = products * 2 * double(work.batch) * double(work.m) * double(work.n) * double(work.k);
  const bool isCausal = work.flops < 0.75 * all;
  return isCausal ? std::max(work.flops, all * std::min(1.0, (1 + kFew / double(work.n)) / 2)) : work.flops;
}
} // namespace

double Machine::attentionSeconds(const Work &work) const {
  const bool isGrad = work.kind == Work::Kind::AttentionGrad;
  const char *kernel = isGrad ? "attention_grad" : "attention";
  const double *passes = found(device.passes, kernel);
  if (passes && *passes > 0 && work.m > 0 && work.n > 0) {
    Work scores = work, mix = work;
    scores.kind = mix.kind = Work::Kind::Product;
    mix.n = work.k;
    mix.k = work.n;
    scores.flops = mix.flops = 2.0 * double(work.m) * double(work.n) * double(work.k) * double(work.batch);
    scores.bytes = mix.bytes = 0;
    const double products = productSeconds("product", scores) + productSeconds("product", mix);
    const double bytes = double(work.batch) * double(work.m) * double(work.n) * bytesOf(work.precision);
    return (isGrad ? 2 : 1) * products + *passes * memorySeconds("memory", bytes);
  }
  if (const Curve *curve = found(device.curves, kernel); curve && work.n > 0)
    return computedFlops(work) / curve->at(double(work.n));
  double efficiency = efficiencyOf(kernel, "", work.precision);
  if (isGrad && !found(device.efficiency, kernel) && found(device.efficiency, "attention"))
    efficiency = 0.8 * efficiencyOf("attention", "", work.precision); // a backward kernel's part of the forward's rate
  const double rate = device.peak(work.precision) * efficiency;
  return (rate > 0 ? work.flops / rate : 0) + memorySeconds("memory", work.bytes);
}

// A framework whose products add nothing makes a gradient first and adds it in a kernel of its own: so many passes over
// the sum.
double Machine::addingSeconds(const Work &work) const {
  const double *passes = found(device.passes, "accumulate");
  return passes && work.added > 0 ? *passes * memorySeconds("memory", work.added) : 0;
}

double Machine::seconds(const Work &work) const { return crowd * secondsAlone(work); }

double Machine::secondsAlone(const Work &work) const {
  double seconds = 0;
  switch (work.kind) {
  case Work::Kind::Product:
    seconds = productSeconds("product", work) + addingSeconds(work);
    break;
  case Work::Kind::Convolution:
    seconds = productSeconds("convolution", work) + addingSeconds(work);
    break;
  case Work::Kind::Attention:
  case Work::Kind::AttentionGrad:
    seconds = attentionSeconds(work);
    break;
  case Work::Kind::Loop:
  case Work::Kind::Kernel: {
    const double rate = device.peak(work.precision);
    seconds = std::max({memorySeconds(kernelOf(work), work.bytes), rate > 0 ? work.flops / rate : 0,
                        work.exponentials * constant("exponential")});
    break;
  }
  }
  return std::max(seconds, constant("launch"));
}

// A product on a grid is covered between the grid's sizes; whatever else has a curve, between its sizes.
bool Machine::isOutside(const Work &work) const {
  const auto isBeyond = [](const Curve *curve, double size) { return curve && !curve->covers(size); };
  switch (work.kind) {
  case Work::Kind::Product: {
    if (device.grid.empty())
      return isBeyond(found(device.curves, "product"), work.flops);
    const auto &[first, last] = std::pair(*device.grid.begin(), *device.grid.rbegin());
    return work.m < first.first.first || work.m > last.first.first || work.n < first.first.second ||
           work.n > last.first.second || !first.second.covers(double(work.k));
  }
  case Work::Kind::Convolution:
    return isBeyond(found(device.curves, "convolution"), sizeOf("convolution", work));
  case Work::Kind::Attention:
  case Work::Kind::AttentionGrad:
    return isBeyond(found(device.curves, work.kind == Work::Kind::Attention ? "attention" : "attention_grad"),
                    double(work.n));
  case Work::Kind::Loop:
  case Work::Kind::Kernel:
    return isBeyond(curveOf(kernelOf(work)), work.bytes);
  }
  return false;
}

} // namespace echelon::planner
