// Attention, fused and written out: wholly masked queries, biases of -1e9, scores that share an offset.
#include "test/edges/Rows.h"

namespace echelon::edges {

namespace {
constexpr int64_t kHeads = 2, kSeq = 6, kPast = 6, kKey = 4;

/// y[r, h, i, e]; `allowed` and `bias` (which may be null) by row, query, past.
Reals attended(int64_t rows, const Reals &q, const Reals &k, const Reals &v, Wide scale, int64_t past,
               const std::function<bool(int64_t, int64_t, int64_t)> &allowed, const Reals *bias, int64_t heads = kHeads,
               int64_t seq = kSeq) {
  Reals y;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < seq; ++i) {
        Reals s;
        std::vector<bool> mask;
        for (int64_t j = 0; j < past; ++j) {
          Reals a, b;
          for (int64_t e = 0; e < kKey; ++e) {
            a.push_back(q[((r * heads + h) * seq + i) * kKey + e]);
            b.push_back(k[((r * heads + h) * past + j) * kKey + e]);
          }
          Real score = dot(a, b) * Real(scale);
          if (bias)
            score = score + (*bias)[(r * seq + i) * past + j];
          s.push_back(score);
          mask.push_back(allowed(r, i, j));
        }
        std::vector<Reals> values;
        for (int64_t j = 0; j < past; ++j)
          values.emplace_back(v.begin() + ((r * heads + h) * past + j) * kKey,
                              v.begin() + ((r * heads + h) * past + j + 1) * kKey);
        for (Real each : attend(s, mask, values))
          y.push_back(each);
      }
  return y;
}
const auto all = [](int64_t, int64_t, int64_t) { return true; };
const auto causal = [](int64_t, int64_t i, int64_t j) { return j <= i; };
} // namespace

Family attentions() {
  constexpr int64_t rows = 8, long_ = 150;
  Family family{"attention",
                "  axis head = 2\n  axis seq = 6\n  axis past like seq\n  axis key = 4\n  axis far = 150\n",
                {{"head", kHeads}, {"seq", kSeq}, {"past", kPast}, {"key", kKey}, {"far", long_}},
                rows,
                {"mesh(dp = 2, tp = 2) { split head over dp; split seq over tp }"},
                {}};
  const int64_t count = rows * kHeads * kSeq * kKey;
  const Input q{"q", {"head", "seq", "key"}, ordinary(count, 61)}, k{"k", {"head", "past", "key"}, ordinary(count, 62)},
      v{"v", {"head", "past", "key"}, edgeRows(rows * kHeads * kPast, kKey, 63, 1e9)},
      tame{"v", {"head", "past", "key"}, ordinary(count, 67)}, still{"q", {"head", "seq", "key"}, {0}},
      mask{"m", {"seq", "past"}, edgeMasks(rows * kSeq, kPast), Kind::Bool};
  std::vector<double> far, low;
  for (int64_t i = 0; i < rows * kSeq * kPast; ++i) {
    const double offset[] = {1e8, -1e8, 1e6, 1e4, 0, 16777216, -3e7, 1e9};
    far.push_back(offset[i / kPast % 8] +
                  64 * double(i * i % 3) * (std::fabs(offset[i / kPast % 8]) > 1e7 ? 1 : 1.0 / 64));
    low.push_back(i * i % 5 < 2 ? -1e9 : 0);
  }
  auto add = [&](const std::string &name, const std::string &text, std::vector<Input> inputs,
                 std::function<Reals(Values &)> f) {
    family.cases.push_back({"a_" + name, text, inputs, {"head", "seq", "key"}, f});
  };
  auto plain = [](Values &v, Wide scale, auto allowed, const char *bias) {
    return attended(v.rows, v.real("q"), v.real("k"), v.real("v"), scale, kPast, allowed,
                    bias ? &v.real(bias) : nullptr);
  };
  add("fused", "$y = attention($q, $k, $v, over = past, key = key)", {q, k, v},
      [=](Values &v) { return plain(v, 0.5L, all, nullptr); });
  add("causal", "$y = attention($q, $k, $v, over = past, key = key, causal = true, query = seq)", {q, k, v},
      [=](Values &v) { return plain(v, 0.5L, causal, nullptr); });
  add("mask", "$y = attention($q, $k, $v, over = past, key = key, mask = $m)", {q, k, v, mask}, [=](Values &v) {
    return plain(
        v, 0.5L, [&](int64_t r, int64_t i, int64_t j) { return v.other("m")[(r * kSeq + i) * kPast + j] != 0; },
        nullptr);
  });
  add("bias", "$y = attention($q, $k, $v, over = past, key = key, bias = $b, scale = 1)",
      {q, k, tame, {"b", {"seq", "past"}, ordinary(rows * kSeq * kPast, 64)}},
      [=](Values &v) { return plain(v, 1, all, "b"); });
  add("low", "$y = attention($q, $k, $v, over = past, key = key, bias = $b)", {q, k, tame, {"b", {"seq", "past"}, low}},
      [=](Values &v) { return plain(v, 0.5L, all, "b"); });
  add("offset", "$y = attention($q, $k, $v, over = past, key = key, bias = $b)",
      {still, k, tame, {"b", {"seq", "past"}, far}}, [=](Values &v) { return plain(v, 0.5L, all, "b"); });
  add("steep", "$y = attention($q, $k, $v, over = past, key = key, scale = 100)", {q, k, tame},
      [=](Values &v) { return plain(v, 100, all, nullptr); });
  // written out, in the forms that are recognised and in some that are not
  add("written", "$y = dot(softmax(dot($q, $k, over = key) * 0.5, over = past), $v, over = past)", {q, k, tame},
      [=](Values &v) { return plain(v, 0.5L, all, nullptr); });
  add("writtencausal",
      "$y = dot(softmax(where(index(seq) >= index(past), dot($q, $k, over = key) * 0.5, -1e9), over = past), $v, over "
      "= past)",
      {q, k, tame}, [=](Values &v) { return plain(v, 0.5L, causal, nullptr); });
  add("writtenmask", "$y = dot(softmax(dot($q, $k, over = key) * 0.5, over = past, where = $m), $v, over = past)",
      {q, k, v, mask}, [=](Values &v) {
        return plain(
            v, 0.5L, [&](int64_t r, int64_t i, int64_t j) { return v.other("m")[(r * kSeq + i) * kPast + j] != 0; },
            nullptr);
      });
  add("writtenoffset", "$y = dot(softmax(dot($q, $k, over = key) * 0.5 + $b, over = past), $v, over = past)",
      {still, k, tame, {"b", {"seq", "past"}, far}}, [=](Values &v) { return plain(v, 0.5L, all, "b"); });
  family.cases.push_back(
      {"a_far",
       "$y = attention($q, $k, $v, over = far, key = key)",
       {q,
        {"k", {"head", "far", "key"}, ordinary(rows * kHeads * long_ * kKey, 65, 3)},
        {"v", {"head", "far", "key"}, ordinary(rows * kHeads * long_ * kKey, 66, 1, 1e4)}},
       {"head", "seq", "key"},
       [=](Values &v) { return attended(v.rows, v.real("q"), v.real("k"), v.real("v"), 0.5L, long_, all, nullptr); }});
  return family;
}

} // namespace echelon::edges
