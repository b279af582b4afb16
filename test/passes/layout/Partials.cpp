#include "test/passes/layout/Partials.h"

#include "ir/ech/Build.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

using namespace mlir;
using namespace echelon;
using namespace echelon::test;
using dist::Combination;
using dist::Partial;

namespace {
std::vector<Array> zeros(ValueRange results) {
  std::vector<Array> arrays;
  for (Value v : results)
    arrays.emplace_back(ech::tensor(v));
  return arrays;
}

Space spaceOf(const Array &x) {
  Space space;
  space.add(x.type);
  return space;
}

/// Where `x` has the element of `space` at a position of an axis that the space lacks.
int64_t inPart(Space &space, const Array &x, StringRef axis, int64_t position) {
  return space.in(x) + position * x.stride(axis);
}

void crossEntropy(dist::PartialOp op, ArrayRef<Array> in, const std::vector<char> &held, std::vector<Array> &out) {
  const Array &x = in[0], &shift = in[1], &labels = in[2];
  const StringRef over = ech::strings(op.getAlong())[0];
  const bool hasTarget = out.size() == 3;
  Space space = spaceOf(x);
  space.each([&] {
    if (!held[space.in(x)])
      return;
    const double centred = x.data[space.in(x)] - shift.data[space.in(shift)];
    const double label = labels.data[space.in(labels)];
    out[0].data[space.in(out[0])] += std::exp(centred);
    if (hasTarget)
      out[2].data[space.in(out[2])] += label;
    if (hasTarget || label == space.at(over))
      out[1].data[space.in(out[1])] += (hasTarget ? label : 1) * centred;
  });
}

void largest(dist::PartialOp op, const Array &x, const std::vector<char> &held, Array &out) {
  const StringRef over = ech::strings(op.getAlong())[0], part = out.type.getAxes()[0].name;
  std::set<int64_t> seen;
  std::fill_n(out.data.begin(), out.data.size() / 2,
              -std::numeric_limits<double>::infinity()); // holds nothing: below all
  Space space = spaceOf(x);
  space.each([&] {
    if (!held[space.in(x)])
      return;
    double &value = out.data[inPart(space, out, part, 0)], &place = out.data[inPart(space, out, part, 1)];
    const double here = x.data[space.in(x)], at = space.at(over);
    const bool isFirst = seen.insert(space.in(out)).second;
    if (isFirst || here > value || (here == value && at < place)) {
      value = here;
      place = at;
    }
  });
}

void moments(const Array &x, const std::vector<char> &held, Array &out) {
  const StringRef moment = out.type.getAxes().back().name;
  Space space = spaceOf(x);
  auto at = [&](int64_t i) -> double & { return out.data[inPart(space, out, moment, i)]; };
  space.each([&] { // one after the other (Welford)
    if (!held[space.in(x)])
      return;
    const double v = x.data[space.in(x)], before = v - at(1);
    at(0) += 1;
    at(1) += before / at(0);
    at(2) += before * (v - at(1));
  });
}

/// The moments of the union, in rank order: count, mean, sum of squares about it.
struct Moments {
  double count = 0, mean = 0, squares = 0;
  void add(double n, double m, double s) {
    if (n == 0)
      return;
    const double d = m - mean;
    squares += s + d * d * count * n / (count + n);
    mean += d * n / (count + n);
    count += n;
  }
};
Moments momentsOf(Space &space, const Array &all) {
  const StringRef rank = all.type.getAxes().front().name, moment = all.type.getAxes().back().name;
  Moments sum;
  for (int64_t r = 0; r < all.type.getAxes().front().size; ++r) {
    auto at = [&](int64_t i) { return all.data[inPart(space, all, rank, r) + i * all.stride(moment)]; };
    sum.add(at(0), at(1), at(2));
  }
  return sum;
}
double rstdOf(double variance) { return 1 / std::sqrt(variance + 1e-5); }

/// Along the axes: of all elements, whoever holds them.
double totalOf(const Array &x, ArrayAttr along) {
  double total = 1;
  for (StringRef axis : ech::strings(along))
    total *= x.type.sizeOf(axis);
  return total;
}
} // namespace

std::vector<Array> echelon::test::partialOf(dist::PartialOp op, ArrayRef<Array> in,
                                            function_ref<const std::vector<char> &(unsigned)> held,
                                            function_ref<bool(unsigned)> counts) {
  std::vector<Array> out = zeros(op.getResults());
  auto add = [&](const Array &x, const std::vector<char> &mine, function_ref<void(Space &)> visit) {
    Space space = spaceOf(x);
    space.each([&] {
      if (mine[space.in(x)])
        visit(space);
    });
  };
  const Array &x = in[0];
  switch (op.getKind()) {
  case Partial::SumOfExp:
    add(x, held(0),
        [&](Space &s) { out[0].data[s.in(out[0])] += std::exp(x.data[s.in(x)] - in[1].data[s.in(in[1])]); });
    break;
  case Partial::Maximum: {
    std::fill(out[0].data.begin(), out[0].data.end(), -INFINITY);
    add(x, held(0), [&](Space &s) {
      double &largest = out[0].data[s.in(out[0])];
      largest = std::max(largest, x.data[s.in(x)]);
    });
    break;
  }
  case Partial::CrossEntropy:
    crossEntropy(op, in, held(0), out);
    break;
  case Partial::Largest:
    largest(op, x, held(0), out[0]);
    break;
  case Partial::Moments:
    moments(x, held(0), out[0]);
    break;
  case Partial::Squares:
    add(x, held(0), [&](Space &s) { out[0].data[s.in(out[0])] += x.data[s.in(x)] * x.data[s.in(x)]; });
    break;
  case Partial::NormSums:
  case Partial::RmsSums: {
    const StringRef part = out[0].type.getAxes().back().name;
    const bool isRms = op.getKind() == Partial::RmsSums;
    add(x, held(0), [&](Space &s) {
      const double dy = x.data[s.in(x)], y = in[1].data[s.in(in[1])];
      if (!isRms)
        out[0].data[inPart(s, out[0], part, 0)] += dy;
      out[0].data[inPart(s, out[0], part, isRms ? 0 : 1)] += dy * y;
    });
    break;
  }
  case Partial::AllSquares:
    for (unsigned i = 0; i < in.size(); ++i)
      if (counts(i))
        add(in[i], held(i), [&](Space &s) { out[0].data[0] += in[i].data[s.in(in[i])] * in[i].data[s.in(in[i])]; });
    break;
  }
  return out;
}

std::vector<Array> echelon::test::combined(dist::CombineOp op, ArrayRef<Array> in) {
  std::vector<Array> out = zeros(op.getResults());
  auto each = [&](const Array &like, function_ref<void(Space &)> visit) {
    Space space = spaceOf(like);
    space.each([&] { visit(space); });
  };
  auto of = [](Space &s, const Array &x) { return x.data[s.in(x)]; };
  auto put = [&](Space &s, unsigned i, double v) { out[i].data[s.in(out[i])] = v; };
  switch (op.getKind()) {
  case Combination::Softmax:
    each(out[0], [&](Space &s) { put(s, 0, std::exp(of(s, in[0]) - of(s, in[1])) / of(s, in[2])); });
    break;
  case Combination::LogSumExp:
    each(out[0], [&](Space &s) {
      put(s, 0, of(s, in[0]) + std::log(of(s, in[1])));
      put(s, 1, of(s, in[0]));
      put(s, 2, std::log(of(s, in[1])));
    });
    break;
  case Combination::CrossEntropy:
    each(out[0], [&](Space &s) {
      const double logSum = std::log(of(s, in[0])), mass = in.size() == 3 ? of(s, in[2]) : 1;
      put(s, 0, mass * logSum - of(s, in[1]));
      put(s, 1, logSum);
    });
    break;
  case Combination::ArgMax:
    each(out[0], [&](Space &s) {
      const Array &all = in[0];
      const StringRef rank = all.type.getAxes()[0].name, part = all.type.getAxes()[1].name;
      double value = 0, place = 0;
      for (int64_t r = 0; r < all.type.getAxes()[0].size; ++r) {
        const int64_t at = inPart(s, all, rank, r);
        if (r == 0 || all.data[at] > value || (all.data[at] == value && all.data[at + all.stride(part)] < place)) {
          value = all.data[at];
          place = all.data[at + all.stride(part)];
        }
      }
      put(s, 0, place);
    });
    break;
  case Combination::Normalize:
  case Combination::Statistics: {
    const bool hasY = op.getKind() == Combination::Normalize;
    const Array &all = in.back();
    each(out[hasY], [&](Space &s) {
      const Moments m = momentsOf(s, all);
      const double variance = m.squares / m.count;
      put(s, hasY, rstdOf(variance));
      put(s, hasY + 1, m.mean);
      put(s, hasY + 2, variance);
      put(s, hasY + 3, 0); // the mean is not rounded here
    });
    if (hasY)
      each(out[0], [&](Space &s) { put(s, 0, (of(s, in[0]) - of(s, out[2])) * of(s, out[1])); });
    break;
  }
  case Combination::RmsNormalize: {
    const double total = totalOf(in[0], op.getAlong());
    each(out[1], [&](Space &s) { put(s, 1, rstdOf(of(s, in[1]) / total)); });
    each(out[0], [&](Space &s) { put(s, 0, of(s, in[0]) * of(s, out[1])); });
    break;
  }
  case Combination::NormalizeGrad:
  case Combination::RmsGrad: {
    const double total = totalOf(in[1], op.getAlong());
    const StringRef part = in[3].type.getAxes().back().name;
    const bool isRms = op.getKind() == Combination::RmsGrad;
    each(out[0], [&](Space &s) {
      auto sum = [&](int64_t i) { return in[3].data[inPart(s, in[3], part, i)] / total; };
      put(s, 0, of(s, in[2]) * (of(s, in[0]) - (isRms ? 0 : sum(0)) - of(s, in[1]) * sum(isRms ? 0 : 1)));
    });
    break;
  }
  case Combination::Root:
    out[0].data[0] = std::sqrt(in[0].data[0]);
    break;
  }
  return out;
}
