// What takes values from places, and puts derivatives back there; and what chance leaves out.
#include "test/edges/Rows.h"

namespace echelon::edges {

Family places() {
  constexpr int64_t rows = 24, n = 8;
  Family family{"places",
                "  axis n = 8\n  axis other = 8\n  axis m = 6\n  axis a = 2\n  axis b = ceil(7 / 2)\n  axis two = 2\n  "
                "axis kept = 4\n",
                {{"n", n}, {"other", n}, {"m", 6}, {"a", 2}, {"b", 4}, {"two", 2}, {"kept", 4}},
                rows,
                {"mesh(dp = 2, tp = 2) { split batch over dp; split n over tp }"},
                {}};
  const Input x{"x", {"n"}, edgeRows(rows, n, 41)};
  auto add = [&](const std::string &name, const std::string &text, std::vector<Input> inputs,
                 std::vector<std::string> axes, std::function<Reals(Row &)> f) {
    family.cases.push_back({"p_" + name, text, inputs, axes, rowwise(f)});
  };
  auto same = [](Real v) { return Real::result(v.value(), v.error(), {{v, 1, 0}}); };
  auto all = [=](Row &r) {
    Reals y;
    for (Real v : r.real["x"])
      y.push_back(same(v));
    return y;
  };
  const Input at{"i", {"m"}, integers(rows * 6, n, 42), Kind::Int, "n"};
  add("gather", "$y = $x[n = $i]", {x, at}, {"m"}, [=](Row &r) {
    Reals y;
    for (double i : r.other["i"])
      y.push_back(same(r.real["x"][size_t(i)]));
    return y;
  });
  family.cases.push_back({"p_table",
                          "param $w[n, two] ~ normal(1)\n$y = $w[n = $i] * $z",
                          {at, {"z", {"m"}, edgeRows(rows, 6, 43, 1e9)}},
                          {"m", "two"},
                          [](Values &v) {
                            Reals y;
                            for (size_t k = 0; k < v.other("i").size(); ++k)
                              for (int t = 0; t < 2; ++t)
                                y.push_back(v.param("w")[size_t(v.other("i")[k]) * 2 + t] * v.real("z")[k]);
                            return y;
                          }});
  add("pick", "$y = $x[n = 3]", {x}, {}, [=](Row &r) { return Reals{same(r.real["x"][3])}; });
  add("slice", "$y = $x[n = 2..6][n -> kept]", {x}, {"kept"}, [=](Row &r) {
    Reals y;
    for (int i = 2; i < 6; ++i)
      y.push_back(same(r.real["x"][i]));
    return y;
  });
  add("rename", "$y = $x[n -> other]", {x}, {"other"}, all);
  add("split", "$y = $x[n -> (a, b)]", {x}, {"a", "b"}, all);
  add("merge", "$y = $x[n -> (a, b)][(b, a) -> other]", {x}, {"other"}, [=](Row &r) {
    Reals y;
    for (int b = 0; b < 4; ++b)
      for (int a = 0; a < 2; ++a)
        y.push_back(same(r.real["x"][a * 4 + b]));
    return y;
  });
  add("expand", "$y = $x[+ two]", {x}, {"n", "two"}, [=](Row &r) {
    Reals y;
    for (Real v : r.real["x"])
      y.push_back(same(v)), y.push_back(same(v));
    return y;
  });
  add("concat", "$y = concat($x[n = 4..8], $x[n = 0..4], over = n)", {x}, {"n"}, [=](Row &r) {
    Reals y;
    for (int i = 0; i < 8; ++i)
      y.push_back(same(r.real["x"][(i + 4) % 8]));
    return y;
  });
  add("index", "$y = $x * index(n)", {x}, {"n"}, [](Row &r) {
    Reals y;
    for (int i = 0; i < 8; ++i)
      y.push_back(r.real["x"][i] * Real(i));
    return y;
  });
  // chance: what is left was measured, and that it is scaled is checked; of zeros nothing could be said
  std::vector<double> some = x.values;
  for (double &v : some)
    v = v == 0 ? 1 : v;
  auto chance = [](Real scale, Real inEvaluation) {
    return [=](Values &v) {
      const Wide training = scale.value(), held = inEvaluation.value();
      Reals y;
      for (size_t i = 0; i < v.real("x").size(); ++i) {
        const Real each = v.real("x")[i];
        const Wide s = !v.training ? held : v.measured.at("y")[i] != 0 ? training : 0;
        y.push_back(Real::result(each.value() * s, (each.error() + 2 * u * std::fabs(each.value())) * s,
                                 {{each, s, 2 * u * s}}));
      }
      return y;
    };
  };
  for (auto &[name, text, scale, held] : {std::tuple("dropout", "$y = dropout($x, 0.25)", 1 / 0.75L, 1.0L),
                                          {"survive", "$y = survive($x, 0.75)", 1.0L, 0.75L}}) {
    const Wide s = scale, h = held;
    Case c{std::string("p_") + name, text, {{"x", {"n"}, some}}, {"n"}, [=](Values &v) {
             return chance(Real(s), Real(h))(v);
           }};
    c.isEvaluated = true;
    family.cases.push_back(c);
  }
  return family;
}

} // namespace echelon::edges
