// Blocks of the library, composed of what the other families look at one by one.
#include "test/edges/Rows.h"

#include <algorithm>
#include <numeric>

namespace echelon::edges {

namespace {
constexpr int64_t kEmbed = 8, kHeads = 2, kGroups = 2, kSeq = 4, kKey = 4, kFf = 12, kExperts = 4;

/// x: (positions, from), w: (from, to), as rows.
Reals linear(const Reals &x, int64_t from, const Reals &w, int64_t to, const Reals *bias = nullptr) {
  Reals y;
  for (size_t p = 0; p < x.size() / from; ++p)
    for (int64_t j = 0; j < to; ++j) {
      Reals a(x.begin() + p * from, x.begin() + (p + 1) * from), b;
      for (int64_t i = 0; i < from; ++i)
        b.push_back(w[i * to + j]);
      const Real d = dot(a, b);
      y.push_back(bias ? d + (*bias)[j] : d);
    }
  return y;
}
/// Pairs (i, i + key / 2) of x: (positions, others, key), turned by position * 10000^(-2 i / key). The angle is rounded
/// in its product and in what exp and its operand lose.
Reals rotated(const Reals &x, int64_t others, const std::function<int64_t(size_t)> &place) {
  Reals y(x.size());
  const int64_t half = kKey / 2;
  for (size_t p = 0; p < x.size() / (others * kKey); ++p)
    for (int64_t o = 0; o < others; ++o)
      for (int64_t i = 0; i < half; ++i) {
        const Wide power = i * (-2 * std::log(10000.0L) / kKey), angle = place(p) * std::exp(power);
        const Real turn = Real::result(angle, angle * u * (kFunction + 2 + 2 * std::fabs(power)), {});
        const Real c = cos(turn), s = sin(turn);
        const size_t a = (p * others + o) * kKey + i, b = a + half;
        y[a] = x[a] * c - x[b] * s;
        y[b] = x[a] * s + x[b] * c;
      }
  return y;
}
/// q: (rows, seq, heads, key); k, v: (rows, past, kv, key), kv dividing heads; to (rows, seq, heads, key).
Reals attended(int64_t rows, const Reals &q, const Reals &k, const Reals &v, int64_t heads, int64_t kv, bool causal) {
  Reals y;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < kSeq; ++i)
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t g = h / (heads / kv);
        Reals s;
        std::vector<bool> mask;
        std::vector<Reals> values;
        for (int64_t j = 0; j < kSeq; ++j) {
          const auto a = q.begin() + ((r * kSeq + i) * heads + h) * kKey,
                     b = k.begin() + ((r * kSeq + j) * kv + g) * kKey;
          s.push_back(dot(Reals(a, a + kKey), Reals(b, b + kKey)) * Real(1 / std::sqrt(Wide(kKey))));
          mask.push_back(!causal || j <= i);
          const auto c = v.begin() + ((r * kSeq + j) * kv + g) * kKey;
          values.emplace_back(c, c + kKey);
        }
        for (Real each : attend(s, mask, values))
          y.push_back(each);
      }
  return y;
}
int64_t placeOf(size_t p) { return int64_t(p) % kSeq; }

Reals attentionBlock(Values &v, const Reals &x, const Reals &memory, const std::string &path, bool causal, bool bias,
                     bool rope) {
  auto project = [&](const Reals &from, const char *w, const char *b) {
    return linear(from, kEmbed, v.param(path + "." + w), kHeads * kKey, bias ? &v.param(path + "." + b) : nullptr);
  };
  Reals q = project(x, "wq", "bq"), k = project(memory, "wk", "bk"), values = project(memory, "wv", "bv");
  if (rope)
    q = rotated(q, kHeads, placeOf), k = rotated(k, kHeads, placeOf);
  const Reals a = attended(v.rows, q, k, values, kHeads, kHeads, causal);
  return linear(a, kHeads * kKey, v.param(path + ".wo"), kEmbed, bias ? &v.param(path + ".bo") : nullptr);
}
/// Groups of heads that share keys and values.
Reals groupedBlock(Values &v, const std::string &path, bool causal, bool rope) {
  const int64_t heads = kGroups * kHeads;
  Reals q = linear(v.real("x"), kEmbed, v.param(path + ".wq"), heads * kKey),
        k = linear(v.real("x"), kEmbed, v.param(path + ".wk"), kGroups * kKey),
        values = linear(v.real("x"), kEmbed, v.param(path + ".wv"), kGroups * kKey);
  if (rope)
    q = rotated(q, heads, placeOf), k = rotated(k, kGroups, placeOf);
  return linear(attended(v.rows, q, k, values, heads, kGroups, causal), heads * kKey, v.param(path + ".wo"), kEmbed);
}

/// The mixture of experts: where each position goes, how much of it, and what becomes of it there.
class Mixture {
  static constexpr int64_t kTop = 2;
  Values &v;
  int64_t experts, slots;
  std::vector<Reals> shares;                // of each position
  std::vector<std::vector<int64_t>> chosen; // of each position

public:
  Mixture(Values &v, int64_t experts, int64_t slots) : v(v), experts(experts), slots(slots) {
    const Reals scores = linear(v.real("x"), kEmbed, v.param("m.router"), experts);
    for (int64_t p = 0; p < v.rows * kSeq; ++p) {
      shares.push_back(softmax(Reals(scores.begin() + p * experts, scores.begin() + (p + 1) * experts)));
      std::vector<int64_t> order(experts);
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        const Wide x = shares[p][a].value(), y = shares[p][b].value();
        return x != y ? x > y : a < b;
      });
      chosen.emplace_back(order.begin(), order.begin() + kTop);
    }
  }
  /// What expert e makes of position p.
  Reals expert(int64_t p, int64_t e) const {
    auto part = [&](const char *name) {
      const Reals &all = v.param(name);
      return Reals(all.begin() + e * kEmbed * kFf, all.begin() + (e + 1) * kEmbed * kFf);
    };
    const auto first = v.real("x").begin() + p * kEmbed;
    const Reals x(first, first + kEmbed), a = linear(x, kEmbed, part("m.w1"), kFf),
                                          b = linear(x, kEmbed, part("m.w3"), kFf);
    Reals h;
    for (int64_t i = 0; i < kFf; ++i)
      h.push_back(silu(a[i]) * b[i]);
    return linear(h, kFf, part("m.w2"), kEmbed);
  }
  Reals y() const {
    Reals all;
    std::vector<int64_t> taken(experts);
    for (int64_t p = 0; p < v.rows * kSeq; ++p) {
      if (p % kSeq == 0)
        taken.assign(experts, 0);
      Reals both;
      for (int64_t e : chosen[p])
        both.push_back(shares[p][e]);
      const Real total = sum(both);
      // an expert that has no room left adds 0
      Reals weights(kTop, Real(0));
      std::vector<Reals> made(kEmbed, Reals(kTop, Real(0)));
      for (int64_t c = 0; c < kTop; ++c)
        if (const int64_t e = chosen[p][c]; taken[e]++ < slots) {
          weights[c] = shares[p][e] / total;
          const Reals of = expert(p, e);
          for (int64_t i = 0; i < kEmbed; ++i)
            made[i][c] = of[i];
        }
      for (int64_t i = 0; i < kEmbed; ++i)
        all.push_back(dot(made[i], weights));
    }
    return all;
  }
  /// The mean over samples of 0.01 experts * the sum over experts of how often each is chosen times its mean share.
  Real balance() const {
    Reals samples;
    for (int64_t first = 0; first < v.rows * kSeq; first += kSeq) {
      Reals terms;
      for (int64_t e = 0; e < experts; ++e) {
        Reals of;
        Wide wanted = 0;
        for (int64_t p = first; p < first + kSeq; ++p) {
          of.push_back(shares[p][e]);
          wanted += std::count(chosen[p].begin(), chosen[p].end(), e);
        }
        const Wide often = wanted / kSeq;
        terms.push_back(sum(of) / Real(kSeq) * Real::result(often, 2 * u * often, {}));
      }
      samples.push_back(sum(terms));
    }
    const Wide factor = 0.01L * experts / kTop;
    return sum(samples) / Real(v.rows) * Real::result(factor, factor * 2 * u, {});
  }
};
} // namespace

Family blocks() {
  constexpr int64_t rows = 8;
  Family family{
      "blocks",
      "  axis embed = 8\n  axis head = 2\n  axis group = 2\n  axis key = 4\n  axis seq = 4\n  axis past like seq\n"
      "  axis src = 4\n  axis ff = 12\n  axis to = 6\n  axis expert = 4\n  axis two = 2\n",
      {{"embed", kEmbed},
       {"head", kHeads},
       {"group", kGroups},
       {"key", kKey},
       {"seq", kSeq},
       {"src", kSeq},
       {"ff", kFf},
       {"to", 6},
       {"expert", kExperts},
       {"two", 2}},
      rows,
      {"mesh(dp = 2, tp = 2) { split batch over dp; split head, ff, embed over tp }",
       "mesh(ep = 2) { split expert, two, batch over ep }"},
      {}};
  const int64_t positions = rows * kSeq;
  const Input x{"x", {"seq", "embed"}, edgeRows(positions, kEmbed, 71, 1e9)},
      tame{"x", {"seq", "embed"}, ordinary(positions * kEmbed, 72)},
      memory{"memory", {"src", "embed"}, ordinary(positions * kEmbed, 73)};
  auto add = [&](const std::string &name, const std::string &text, std::vector<Input> inputs,
                 std::vector<std::string> axes,
                 std::function<Reals(Values &)> f) { family.cases.push_back({"b_" + name, text, inputs, axes, f}); };
  const std::vector<std::string> out{"seq", "embed"};
  add("linear", "$y = nn.linear($x, embed, to) as $l", {x}, {"seq", "to"},
      [](Values &v) { return linear(v.real("x"), kEmbed, v.param("l.w"), 6, &v.param("l.b")); });
  add("nobias", "$y = nn.linear($x, embed, to, bias = false) as $l", {x}, {"seq", "to"},
      [](Values &v) { return linear(v.real("x"), kEmbed, v.param("l.w"), 6); });
  for (bool wild : {false, true}) {
    const Input &in = wild ? x : tame;
    const std::string edge = wild ? "edge" : "";
    add("mlp" + edge, "$y = nn.mlp($x, embed, ff) as $m", {in}, out, [](Values &v) {
      Reals h;
      for (Real each : linear(v.real("x"), kEmbed, v.param("m.w1"), kFf, &v.param("m.b1")))
        h.push_back(gelu(each));
      return linear(h, kFf, v.param("m.w2"), kEmbed, &v.param("m.b2"));
    });
    add("swiglu" + edge, "$y = nn.swiglu($x, embed, ff) as $m",
        {wild ? Input{"x", {"seq", "embed"}, edgeRows(positions, kEmbed, 74, 1e6)} : in}, out, [](Values &v) {
          const Reals a = linear(v.real("x"), kEmbed, v.param("m.w1"), kFf),
                      b = linear(v.real("x"), kEmbed, v.param("m.w3"), kFf);
          Reals h;
          for (size_t i = 0; i < a.size(); ++i)
            h.push_back(silu(a[i]) * b[i]);
          return linear(h, kFf, v.param("m.w2"), kEmbed);
        });
    add("attention" + edge, "$y = nn.attention($x, embed, head, key, seq, past) as $a", {in}, out,
        [](Values &v) { return attentionBlock(v, v.real("x"), v.real("x"), "a", false, true, false); });
    add("causal" + edge,
        "$y = nn.attention($x, embed, head, key, seq, past, causal = true, bias = false, rope = true) as $a", {in}, out,
        [](Values &v) { return attentionBlock(v, v.real("x"), v.real("x"), "a", true, false, true); });
    add("cross" + edge, "$y = nn.cross_attention($x, $memory, embed, head, key, src) as $a", {in, memory}, out,
        [](Values &v) { return attentionBlock(v, v.real("x"), v.real("memory"), "a", false, true, false); });
    add("gqa" + edge, "$y = nn.gqa($x, embed, group, head, key, seq, past) as $g", {in}, out,
        [](Values &v) { return groupedBlock(v, "g", true, true); });
  }
  add("crossplain", "$y = nn.cross_attention($x, $memory, embed, head, key, src, bias = false) as $a", {tame, memory},
      out, [](Values &v) { return attentionBlock(v, v.real("x"), v.real("memory"), "a", false, false, false); });
  add("gqaplain", "$y = nn.gqa($x, embed, group, head, key, seq, past, causal = false, rope = false) as $g", {tame},
      out, [](Values &v) { return groupedBlock(v, "g", false, false); });
  std::vector<double> routed = ordinary(positions * kEmbed, 76);
  std::fill_n(routed.begin(), kSeq * kEmbed, 0); // a sample for whose positions no expert is better
  for (int64_t p = 1; p < kSeq; ++p)             // and one whose positions all want the same two
    std::copy_n(routed.begin() + kSeq * kEmbed, kEmbed, routed.begin() + (kSeq + p) * kEmbed);
  // Slots an expert has: fewer than positions, so that of a sample of equal ones all but one go nowhere; some less; and
  // as many as there are positions, where the capacity would be more.
  auto moe = [&](const std::string &name, const std::string &expert, int64_t experts, const std::string &capacity,
                 int64_t slots) {
    family.cases.push_back(
        {"b_moe" + name,
         "$y = nn.moe($x, embed, ff, " + expert + ", seq, top = 2, capacity = " + capacity + ") as $m",
         {{"x", {"seq", "embed"}, routed}},
         out,
         [=](Values &v) { return Mixture(v, experts, slots).y(); }});
    family.cases.back().ownLoss = [=](Values &v) { return Mixture(v, experts, slots).balance(); };
  };
  moe("", "expert", kExperts, "1.25", 3);
  moe("tight", "expert", kExperts, "0.5", 1);
  moe("roomy", "two", 2, "1.25", kSeq);
  add("rotate", "$y = nn.rotate($x, seq, key)", {{"x", {"seq", "key"}, edgeRows(positions, kKey, 75)}}, {"seq", "key"},
      [](Values &v) { return rotated(v.real("x"), 1, placeOf); });
  return family;
}

} // namespace echelon::edges
