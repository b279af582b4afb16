#include "test/edges/Real.h"

#include <algorithm>
#include <cfloat>
#include <limits>

namespace echelon::edges {

namespace {
struct Node {
  Wide value, error;
  size_t edges, end;
  Wide slope = 0, slopeError = 0, slopeSize = 0; // the last: of all contributions
  int64_t contributions = 0;
};
struct Link {
  int from;
  Wide slope, error, ofSizes;
};
std::vector<Node> nodes;
std::vector<Link> links;
} // namespace

//===- the tape --------------------------------------------------------------------------------------------------===//

Real::Real(Wide value) : at(nodes.size()) { nodes.push_back({value, 0, links.size(), links.size()}); }
Wide Real::value() const { return nodes[at].value; }
Wide Real::error() const { return nodes[at].error; }
Wide Real::slope() const { return nodes[at].slope; }
Wide Real::slopeError() const {
  const Node &n = nodes[at]; // contributions are added up in any order
  return n.slopeError + (n.contributions > 1 ? (n.contributions - 1) * u * n.slopeSize : 0);
}

Real Real::result(Wide value, Wide error, const std::vector<Edge> &edges) {
  const size_t first = links.size();
  for (const Edge &e : edges)
    if (e.slope != 0 || e.error != 0 || e.ofSizes != 0)
      links.push_back({e.from.at, e.slope, e.error, e.ofSizes});
  if (magnitude(value) > Wide(FLT_MAX) * (1 + u)) // as the operation's own result in fp32
    value = std::copysign(kInfinity, value);
  nodes.push_back({value, std::isfinite(value) ? error + kTiny : 0, first, links.size()});
  Real r;
  r.at = int(nodes.size()) - 1;
  return r;
}

void forget() {
  nodes.clear();
  links.clear();
}

void derive(const Reals &values, const std::vector<double> &weights) {
  for (Node &n : nodes)
    n.slope = n.slopeError = n.slopeSize = 0, n.contributions = 0;
  for (size_t i = 0; i < values.size(); ++i)
    nodes[values[i].place()].slope += weights[i];
  for (size_t k = nodes.size(); k-- > 0;) {
    const Node &n = nodes[k];
    const Wide error = n.slopeError + (n.contributions > 1 ? (n.contributions - 1) * u * n.slopeSize : 0);
    if (n.slope == 0 && error == 0 && n.slopeSize == 0)
      continue;
    for (size_t e = n.edges; e < n.end; ++e) {
      Node &to = nodes[links[e].from];
      const Wide product = n.slope == 0 || links[e].slope == 0 ? 0 : n.slope * links[e].slope;
      to.slope += product;
      to.slopeError += times(error, links[e].slope) + times(links[e].error, n.slope) +
                       times(links[e].ofSizes, n.slopeSize) + u * magnitude(product) + kTiny;
      to.slopeSize += magnitude(product);
      ++to.contributions;
    }
  }
}

//===- arithmetic ------------------------------------------------------------------------------------------------===//

/// What rounding a sum or difference loses: of operands without errors that is known.
static Wide rounding(Real a, Real b, Wide v) {
  const bool exact = a.error() <= kTiny && b.error() <= kTiny && std::isfinite(v);
  return exact ? magnitude(v - Wide(float(v))) : u * magnitude(v);
}
Real operator+(Real a, Real b) {
  const Wide v = a.value() + b.value();
  return Real::result(v, a.error() + b.error() + rounding(a, b, v), {{a, 1, 0}, {b, 1, 0}});
}
Real operator-(Real a) { return Real::result(-a.value(), a.error(), {{a, -1, 0}}); }
Real operator-(Real a, Real b) {
  const Wide v = a.value() - b.value();
  return Real::result(v, a.error() + b.error() + rounding(a, b, v), {{a, 1, 0}, {b, -1, 0}});
}
Real operator*(Real a, Real b) {
  const Wide v = a.value() * b.value();
  return Real::result(v, times(a.error(), b.value()) + times(b.error(), a.value()) + u * magnitude(v),
                      {{a, b.value(), b.error()}, {b, a.value(), a.error()}});
}
Real operator/(Real a, Real b) {
  const Wide v = a.value() / b.value(), r = 1 / b.value(), relative = magnitude(b.error() * r);
  const Wide e = magnitude(a.error() * r) + magnitude(v) * (relative + u);
  return Real::result(
      v, e, // the derivative in b is -v / b of the rounded v
      {{a, r, magnitude(r) * (relative + u)}, {b, -v * r, magnitude(v * r) * (relative + 2 * u) + magnitude(e * r)}});
}
Real apply(Real a, Wide value, Wide slope, Wide curvature, Wide roundings, Wide absolute, Wide slopeRoundings,
           Wide slopeAbsolute) {
  return Real::result(
      value, times(a.error(), slope) + roundings * u * magnitude(value) + absolute,
      {{a, slope, times(a.error(), curvature) + slopeRoundings * u * magnitude(slope) + slopeAbsolute}});
}

} // namespace echelon::edges
